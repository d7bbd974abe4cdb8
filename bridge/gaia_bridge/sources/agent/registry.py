"""The agents of this process by name, and which of them use which: how one agent becomes the server of another."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gaia_bridge.contract import AgentLike

__all__ = ["LOCAL_AGENTS", "LocalAgents", "UsedInCircleError"]


class UsedInCircleError(ValueError):
    """An agent was to use itself, perhaps by way of others.

    Args:
        name: What the agent to be used is called.
        itself: Whether it is the very one that was to use it.
    """

    def __init__(self, name: str, itself: bool) -> None:
        reason = "it would use itself" if itself else "that agent uses this one already"
        super().__init__(
            f"agent {name!r} cannot be used here: {reason}, and each would publish the other's tools again"
        )


class LocalAgents:
    """Names and uses. Safe to be used in any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._agents: dict[str, list[AgentLike]] = {}
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._uses: list[tuple[object, object]] = []

    def add(self, name: str, agent: AgentLike) -> Callable[[], None]:
        """An agent is published under a name; returns an idempotent function that says that it no longer is."""
        with self._lock:
            self._agents.setdefault(name, []).append(agent)
            waiting = self._waiting.pop(name, [])
        for tell in waiting:
            tell()

        def remove() -> None:
            with self._lock:
                others = [other for other in self._agents.pop(name, []) if other is not agent]
                if others:
                    self._agents[name] = others

        return remove

    def get(self, name: str) -> AgentLike | None:
        """The agent of that name, the latest where several bridges of this process have one."""
        with self._lock:
            return self._agents.get(name, [None])[-1]

    def when_there(self, name: str, tell: Callable[[], None]) -> None:
        """Call `tell` once, when an agent of that name is there; at once if it is. It must neither block nor raise."""
        with self._lock:
            if name not in self._agents:
                self._waiting.setdefault(name, []).append(tell)
                return
        tell()

    def missing(self, name: str) -> str:
        """Why there is no agent of that name; continues a sentence."""
        with self._lock:
            known = ", ".join(sorted(self._agents)) or "none"
        return f"there is no agent {name!r} in this process; published are: {known}"

    def use(self, user: object, name: str, used: object) -> Callable[[], None]:
        """One agent uses another; returns an idempotent function that says that it no longer does.

        Args:
            user: The one.
            name: What the other is called.
            used: The other.

        Raises:
            UsedInCircleError: The other is the same, or uses the one.
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
"""Of this process."""
