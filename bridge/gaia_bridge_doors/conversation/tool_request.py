"""The tools that an agent has in one turn beside its own, and the client of their calls.

That client is a chat, which gives arguments and gets a result, and cannot be asked anything.
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
    """Tools of this bridge that a request wants to lend to the agent."""

    param: str
    """The place in the request."""
    label: str
    """The name of an agent or server, or `EVERYTHING`."""
    names: frozenset[str] | None
    """The names of the tools; `None` for all."""


class RequestedTools(Struct, frozen=True):
    """The tools of a request."""

    client: tuple[JSON, ...] = ()
    """Functions that the client runs, in OpenAI's shape."""
    borrowings: tuple[Borrowing, ...] = ()
    """Tools that the bridge runs."""
    names_at: tuple[str, ...] = ()
    """The places in the request of the names of the client's functions."""
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Namespace and name of the functions in a namespace, by the names for the agent."""


class ChatClient:
    """A user of lent tools: one session of an agent, or one turn without a session.

    Args:
        key: The client's identity.
        address: The client's address, if only that can identify its next turn.
    """

    def __init__(self, key: Hashable, address: str | None = None) -> None:
        self.key = key
        self.address = address
        self.turns = 0
        """The number of turns that use it now."""
        self.cancel_departure: Callable[[], None] | None = None
        """Cancels its planned departure."""
        self._callbacks: list[Callable[[], None]] = []

    @property
    def has_callbacks(self) -> bool:
        """Whether a function is to be called when the client leaves."""
        return bool(self._callbacks)

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Register `callback` to be called once when the client leaves."""
        self._callbacks.append(callback)

    def leave(self) -> None:
        """Call all registered functions."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class ChatClients:
    """The present clients, and sessions as long as they are not idle. Only on the event loop.

    Args:
        idle: Seconds without a turn after which a session counts as ended.
    """

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._sessions: dict[Hashable, ChatClient] = {}

    @contextmanager
    def using(self, agent: str, session_id: str | None, address: str) -> Generator[ChatClient]:
        """Yield the client of one turn.

        Args:
            agent: The agent of the turn.
            session_id: The session, if the turn belongs to one.
            address: The client's address.
        """
        key = ("chat", agent, object() if session_id is None else session_id)
        client = self._sessions.get(key) or ChatClient(key, address if session_id is None else None)
        if session_id is not None:
            self._sessions[key] = client
        client.turns += 1
        if client.cancel_departure is not None:
            client.cancel_departure()
        try:
            yield client
        finally:
            client.turns -= 1
            if client.turns == 0:
                if session_id is not None and client.has_callbacks:
                    client.cancel_departure = LoopHandle().call_later(self._idle, lambda: self._leave(client))
                else:
                    self._leave(client)

    def _leave(self, client: ChatClient) -> None:
        self._sessions.pop(client.key, None)
        client.leave()


class ToolRequest(OwnRequest):
    """One call of a lent tool. A chat has no place for progress and log messages, and cannot be asked anything.

    Args:
        client: The client of the call.
        name: The agent's name of the tool.
        arguments: The arguments of the call.
    """

    def __init__(self, client: ChatClient, name: str, arguments: JSON) -> None:
        super().__init__(client.key)
        self._client = client
        self.address = client.address
        self.params = {"name": name, "arguments": arguments}

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """Register `callback` to be called when the session was idle for long, or the turn ended."""
        self._client.on_leave(callback)
        return True
