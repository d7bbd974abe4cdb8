"""The tools that an agent has in one turn beside its own, and the client of their calls.

That client is a chat, which gives arguments and takes a result, and cannot be asked anything.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field

from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.runtime.agent_runner import LoopHandle
from gaia_bridge.text.json_types import JSON

EVERYTHING: Final = "*"
"""The label that stands for all agents and servers of the bridge."""


class Borrowing(Struct, frozen=True):
    """Tools of this bridge that a request wants the agent to have."""

    param: str
    """Where the request says so."""
    label: str
    """The name of an agent or server, or `EVERYTHING`."""
    names: frozenset[str] | None
    """Which of its tools; `None` for all."""


class RequestedTools(Struct, frozen=True):
    """The tools of a request."""

    client: tuple[JSON, ...] = ()
    """Run by the client, in OpenAI's shape."""
    borrowings: tuple[Borrowing, ...] = ()
    """Run by the bridge."""
    names_at: tuple[str, ...] = ()
    """Where the request has the names of those that the client runs."""
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """For functions in a namespace, by the names that the agent knows: the namespace, and the name in it."""


class ChatClient:
    """Who uses lent tools: one session of an agent, or one turn without a session.

    Args:
        key: Who that is.
        address: Where it is, if that is all by which its next turn can be known.
    """

    def __init__(self, key: Hashable, address: str | None = None) -> None:
        self.key = key
        self.address = address
        self.turns = 0
        """How many use it right now."""
        self.call_off: Callable[[], None] | None = None
        """Calls off its leaving."""
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_known(self) -> bool:
        """Whether somebody wants to hear that it leaves."""
        return bool(self._callbacks)

    def when_it_leaves(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once when it leaves."""
        self._callbacks.append(callback)

    def leave(self) -> None:
        """Tell everybody who wants to know."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class ChatClients:
    """Those that are here, and sessions for as long as they are not idle. Only on the event loop.

    Args:
        idle: Seconds without a turn after which a session is taken to have ended.
    """

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._sessions: dict[Hashable, ChatClient] = {}

    @contextmanager
    def using(self, agent: str, session_id: str | None, address: str) -> Generator[ChatClient]:
        """The client of one turn.

        Args:
            agent: Whose turn it is.
            session_id: The session, if the turn belongs to one.
            address: Where the client is.
        """
        key = ("chat", agent, object() if session_id is None else session_id)
        client = self._sessions.get(key) or ChatClient(key, address if session_id is None else None)
        if session_id is not None:
            self._sessions[key] = client
        client.turns += 1
        if client.call_off is not None:
            client.call_off()
        try:
            yield client
        finally:
            client.turns -= 1
            if client.turns == 0:
                if session_id is not None and client.is_known:
                    client.call_off = LoopHandle().call_later(self._idle, lambda: self._leave(client))
                else:
                    self._leave(client)

    def _leave(self, client: ChatClient) -> None:
        self._sessions.pop(client.key, None)
        client.leave()


class ToolRequest(OwnRequest):
    """One call of a lent tool. A chat has no place for progress and log messages, and cannot be asked anything.

    Args:
        client: On whose behalf.
        name: The tool, as the agent knows it.
        arguments: What it is called with.
    """

    def __init__(self, client: ChatClient, name: str, arguments: JSON) -> None:
        super().__init__(client.key)
        self._client = client
        self.address = client.address
        self.params = {"name": name, "arguments": arguments}

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """Have `callback` called when the session was idle for long, or the turn ended."""
        self._client.when_it_leaves(callback)
        return True
