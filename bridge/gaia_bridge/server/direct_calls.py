"""Direct calls on the side of the client: which requests of which clients are passed on directly, and their answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Protocol

from gaia_bridge.calls.call_log import KEPT, CallRecord, is_wanted, leave
from gaia_bridge.calls.direct_call import DirectCall, DirectRoute, OffersDirect
from gaia_bridge.protocol.messages import encoded_result
from gaia_bridge.protocol.meta import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY
from gaia_bridge.server.backlog import Backlog
from gaia_bridge.server.call_log import client_of, number_of
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.connection import Connection
from gaia_bridge.text.json_types import JSON

_REQUEST: Final = frozenset({"jsonrpc", "id", "method", "params"})
_PARAMS: Final = frozenset({"name", "arguments"})
_ENVELOPE: Final = frozenset((PROTOCOL_VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY))
_NOTHING: Final[Mapping[str, Any]] = {}
_GRAIN: Final = 0.01
"""Seconds by which a look at slow calls may be early."""
DIRECT: Final = "gaia_bridge.direct"
"""The key of the `DirectClient` among the facts about a head, for requests with the same head."""
ADMITTED: Final = "gaia_bridge.admitted"
"""The key of a function among these facts that returns whether the guard still admits that head."""
TAKES_OVER: Final = "gaia_bridge.takes_over"
"""The name of an ASGI extension of our listener: the `DirectCall` that this request takes over."""


def is_bare(envelope: Mapping[str, Any]) -> bool:
    """Return whether a `_meta` of 2026-07-28 has no fields but those that every request has."""
    return envelope.keys() <= _ENVELOPE


class DirectPlace(Protocol):
    """The place where one client is answered."""

    def send_direct(self, body: bytes, client: DirectClient) -> None:
        """Send the answer to a direct call."""
        ...

    def begin_ordinary(self, call: DirectCall) -> None:
        """Take the ordinary way with the request of a direct call."""
        ...


class DirectCalls:
    """The direct calls of one endpoint.

    Args:
        most: Bytes of an answer that every client takes as it is.
        patience: Seconds after which a call becomes an ordinary one.
        stamp: Returns the `_meta` of results for clients of 2026-07-28.
    """

    def __init__(
        self, catalog: Catalog, backlog: Backlog, most: int, patience: float, stamp: Callable[[], JSON]
    ) -> None:
        self._catalog = catalog
        self.backlog = backlog
        self.most = most
        self._patience = patience
        self.stamp = stamp
        self.routes: dict[str, DirectRoute | None] = {}
        """The ways to tools by their public names, as far as they were looked up."""
        self.in_flight: dict[DirectCall, None] = {}
        """The direct calls that are not answered yet, the oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    def forget_routes(self) -> None:
        """Look up the ways to tools again: the offer has changed."""
        self.routes.clear()

    def route(self, name: str) -> DirectRoute | None:
        """Look up the way to a tool; `None` if its calls cannot be direct."""
        target = self._catalog.listed_tool(name)
        route = None
        if target is not None and isinstance(target[0], OffersDirect):
            route = target[0].direct_tool(target[1])
        self.routes[name] = route
        return route

    def watch(self) -> None:
        """See to it that slow calls become ordinary ones."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._patience, self._look)

    def _look(self) -> None:
        self._timer = None
        due = time.monotonic() - self._patience + _GRAIN
        for call in [*self.in_flight]:
            if call.began > due:
                wait = call.began - due
                self._timer = asyncio.get_running_loop().call_later(wait, self._look)
                return
            call.make_ordinary()


class DirectClient:
    """One client, or one kind of request of a client whose requests stand alone. A `DirectOrigin`.

    Args:
        address: The client's address, if its requests stand alone; see `ClientRequest.principal`.
        meta: The `_meta` that the requests have, exactly.
        name: The tool that is called, if the requests can call no other.
    """

    def __init__(
        self,
        calls: DirectCalls,
        connection: Connection,
        *,
        modern: bool,
        address: str | None = None,
        meta: Mapping[str, Any] = _NOTHING,
        name: str | None = None,
    ) -> None:
        self._calls = calls
        self.connection = connection
        self.modern = modern
        self._address = address
        self.meta = meta
        self._name = name
        self.principal: Hashable = connection if address is None else address
        self._logged: tuple[str, int] | None = None

    @property
    def client(self) -> Hashable:
        """See `ClientRequest.client`."""
        return self.connection if self._address is None else object()

    @property
    def owner(self) -> Hashable:
        """See `DirectOrigin.owner`."""
        return object() if self.connection.is_shared else self.client

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """See `ClientRequest.client_capabilities`."""
        if not self.modern:
            return self.connection.client_capabilities
        return self.meta.get(CLIENT_CAPABILITIES_KEY, _NOTHING)

    @property
    def log_level(self) -> str | None:
        """See `ClientRequest.log_level`."""
        return None if self.modern else self.connection.log_level

    def enter(self) -> bool:
        """Count a call on the connection; return whether that is possible."""
        return True

    def leave(self) -> None:
        """Stop counting a call on the connection."""

    def begin(self, message: Any, size: int, place: DirectPlace) -> DirectCall | None:
        """Pass on a request directly, if it is plain and nothing stands in the way; else return `None`.

        Args:
            message: The JSON value that came, of so many bytes.
        """
        if type(message) is not dict or message.keys() != _REQUEST or message["method"] != "tools/call":
            return None
        params, number = message["params"], message["id"]
        if type(params) is not dict or message["jsonrpc"] != "2.0" or type(number) not in (int, str):
            return None
        if self.modern:
            if len(params) != 3 or params.get("_meta") != self.meta:
                return None
        elif params.keys() != _PARAMS:
            return None
        name, arguments = params.get("name"), params.get("arguments")
        if type(name) is not str or type(arguments) is not dict or self._name not in (None, name):
            return None
        calls = self._calls
        route = calls.routes[name] if name in calls.routes else calls.route(name)
        received = self.connection.received
        if route is None or number in received or not calls.backlog.begin_direct(self.principal, ("tools/call", name)):
            return None
        if not self.enter():
            calls.backlog.end_direct(self.principal)
            return None
        call = DirectCall(self, route, message, size, place, time.monotonic())
        if not route.begin(call, arguments):
            calls.backlog.end_direct(self.principal)
            self.leave()
            return None
        received.begin(number, call)
        if not calls.in_flight:
            calls.watch()
        calls.in_flight[call] = None
        return call

    def answer(self, call: DirectCall, result: JSON) -> bool:
        """Answer with a plain result, unless that is larger than some clients take."""
        calls = self._calls
        if self.modern:
            result = {"resultType": "complete", **result, "_meta": calls.stamp()}
        body = encoded_result(call.id, result)
        if len(body) > calls.most:
            return False
        self.release(call)
        name = call.message["params"]["name"]
        calls.backlog.note(("tools/call", name), len(body))
        if is_wanted():
            if self._logged is None:
                info = self.meta.get(CLIENT_INFO_KEY, _NOTHING) if self.modern else self.connection.client_info
                self._logged = client_of(info), number_of(self.connection)
            seconds = time.monotonic() - call.began
            who, number = self._logged
            leave(
                CallRecord(
                    who, number, "tools/call", name[:KEPT], call.route.source, "ok", seconds, call.size, len(body)
                )
            )
        call.place.send_direct(body, self)
        return True

    def make_ordinary(self, call: DirectCall) -> None:
        """Take the ordinary way with the request."""
        call.place.begin_ordinary(call)

    def release(self, call: DirectCall) -> None:
        """Stop counting the call."""
        calls = self._calls
        calls.in_flight.pop(call, None)
        self.connection.received.end(call.id, call)
        calls.backlog.end_direct(self.principal)
        self.leave()
