"""The agents of this process by name, and their uses of each other: one agent becomes the server of another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gaia_bridge.contract import AgentLike


class UsedInCircleError(ValueError):
    """An agent was to use itself, perhaps by way of others."""

    def __init__(self, name: str, itself: bool) -> None:
        reason = "it would use itself" if itself else "that agent uses this one already"
        super().__init__(
            f"agent {name!r} cannot be used here: {reason}, and each would publish the other's tools again"
        )


class LocalAgents:
    """The agents of a process by name, and which of them use which. Safe to be used in any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._agents: dict[str, list[AgentLike]] = {}
        self._waiting: dict[str, list[threading.Thread]] = {}
        self._joining: list[threading.Thread] = []
        self._uses: list[tuple[object, object]] = []

    def add(self, name: str, agent: AgentLike) -> Callable[[], None]:
        """Publish an agent under a name; return an idempotent function that takes the agent away again."""
        with self._lock:
            self._agents.setdefault(name, []).append(agent)
            for thread in self._waiting.pop(name, []):
                self._join(thread)

        def remove() -> None:
            with self._lock:
                others = [other for other in self._agents.pop(name, []) if other is not agent]
                if others:
                    self._agents[name] = others

        return remove

    def get(self, name: str) -> AgentLike | None:
        """Return the agent of that name, or `None`; the latest where several bridges of this process have one."""
        with self._lock:
            return self._agents.get(name, [None])[-1]

    def when_there(self, name: str, join: Callable[[], None]) -> None:
        """Call `join` once, in a thread of its own, when an agent of that name is published; at once if one is."""
        thread = threading.Thread(target=join, name=f"joins {name}", daemon=True)
        with self._lock:
            if name in self._agents:
                self._join(thread)
            else:
                self._waiting.setdefault(name, []).append(thread)

    def settle(self, seconds: float) -> None:
        """Wait until the started functions of `when_there` have ended, so many seconds at most. Blocks."""
        until = time.monotonic() + seconds
        with self._lock:
            joining = list(self._joining)
        for thread in joining:
            thread.join(max(0.0, until - time.monotonic()))

    def _join(self, thread: threading.Thread) -> None:
        self._joining = [other for other in self._joining if other.is_alive()]
        self._joining.append(thread)
        thread.start()

    def missing(self, name: str) -> str:
        """Return why there is no agent of that name; the text continues a sentence."""
        with self._lock:
            published = ", ".join(sorted(self._agents)) or "none"
        return f"there is no agent {name!r} in this process; published are: {published}"

    def use(self, user: object, name: str, used: object) -> Callable[[], None]:
        """Record that one agent uses another; return an idempotent function that ends the use.

        Raises:
            UsedInCircleError: The other is the same, or uses the first, perhaps by way of others.
        """
        with self._lock:
            if used is user or self._leads_to(used, user):
                raise UsedInCircleError(name, used is user)
            edge = (user, used)
            self._uses.append(edge)

        def stop() -> None:
            with self._lock:
                self._uses = [other for other in self._uses if other is not edge]

        return stop

    def _leads_to(self, start: object, end: object) -> bool:
        reached = [start]
        for agent in reached:
            for user, used in self._uses:
                if user is agent and not any(used is other for other in reached):
                    reached.append(used)
        return any(agent is end for agent in reached)


LOCAL_AGENTS = LocalAgents()
