"""Direct calls on the side of the client: which requests of which clients are passed on directly, and their answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Mapping
from typing import Any, Final, Protocol

from gaia_bridge.calls.call_log import KEPT, CallRecord, is_wanted, leave
from gaia_bridge.calls.direct_call import DirectCall, DirectRoute, OffersDirect
from gaia_bridge.constants import KIB
from gaia_bridge.protocol.messages import encoded_read_result
from gaia_bridge.protocol.meta import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY
from gaia_bridge.server.backlog import Backlog
from gaia_bridge.server.call_log import client_of, number_of
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.client_results import ClientResults
from gaia_bridge.server.connection import ClientConnection
from gaia_bridge.text.json_types import JSON, is_object

_METHOD: Final = "tools/call"
_MEMBERS: Final = 4
"""Members of a plain request: its version, id, method and parameters."""
_ENVELOPE: Final = frozenset((PROTOCOL_VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY))
_NOTHING: Final[Mapping[str, Any]] = {}
REQUEST_BYTES: Final = 16 * KIB
"""Bytes of a request after which the next ones are passed on directly, at most: its `_meta` is kept."""
_BYTES: Final = 64 * KIB
"""Bytes of an answer that is written at once, at most: the loop does nothing else meanwhile."""
_MOST_ODD: Final = 3
"""Results in a row that are not plain after which a tool's calls are ordinary: to look at them twice costs more."""
_GRAIN: Final = 0.01
"""Seconds by which a look at slow calls may be early."""


def is_bare(envelope: Mapping[str, Any]) -> bool:
    """Return whether a `_meta` of 2026-07-28 has no fields but those that every request has."""
    return envelope.keys() <= _ENVELOPE


class DirectPlace(Protocol):
    """The place where one client is answered."""

    @property
    def can_answer(self) -> bool:
        """Whether the client has read what was written before."""
        ...

    def send_direct(self, body: bytes, client: DirectClient) -> None:
        """Send the answer to a direct call."""
        ...

    def begin_ordinary(self, call: DirectCall) -> None:
        """Take the ordinary way with the request of a direct call."""
        ...


class DirectCalls:
    """The direct calls of one endpoint.

    Args:
        patience: Seconds after which a call becomes an ordinary one.
    """

    def __init__(self, catalog: Catalog, backlog: Backlog, results: ClientResults, patience: float) -> None:
        self._catalog = catalog
        self.backlog = backlog
        self.results = results
        self._patience = patience
        self.routes: dict[str, DirectRoute | None] = {}
        """The ways to tools by their public names, as far as they were looked up."""
        self.offer = object()
        """Another object for each offer."""
        self.odd: dict[str, int] = {}
        """The results in a row of each tool that were not plain."""
        self.in_flight: dict[DirectCall, DirectCall] = {}
        """The direct calls that are not answered yet, the oldest first."""
        self.timer: asyncio.TimerHandle | None = None

    def forget_routes(self) -> None:
        """Look up the ways to tools again: the offer has changed."""
        self.offer = object()
        self.routes.clear()
        self.odd.clear()

    def route(self, name: str) -> DirectRoute | None:
        """Look up the way to a tool; `None` if its calls cannot be direct."""
        target = self._catalog.listed_tool(name)
        if target is None:
            return None  # not remembered: a client can make up names without end
        source, own = target
        route = source.direct_tool(own) if isinstance(source, OffersDirect) else None
        if route is not None and route.deadline < self._patience:
            route = None  # the deadline of an ordinary call is watched from the beginning
        self.routes[name] = route
        return route

    def note_odd(self, name: str) -> None:
        """Note a result that was not plain. After several, calls of the tool are ordinary until the offer changes."""
        self.odd[name] = self.odd.get(name, 0) + 1
        if self.odd[name] >= _MOST_ODD:
            self.routes[name] = None

    def watch(self) -> None:
        """See to it that slow calls become ordinary ones. Called while there is no timer."""
        self.timer = asyncio.get_running_loop().call_later(self._patience, self._look)

    def _look(self) -> None:
        self.timer = None
        due = time.monotonic() - self._patience + _GRAIN
        for call in [*self.in_flight]:
            if call.began > due:
                wait = call.began - due
                self.timer = asyncio.get_running_loop().call_later(wait, self._look)
                return
            call.make_ordinary()


class DirectClient:
    """A session or a stream; for clients without either, the requests with one head. A `DirectOrigin`.

    Args:
        address: The client's address, if its requests stand alone; see `ClientRequest.principal`.
        meta: The `_meta` that the requests have, exactly.
        name: The tool that is called, if the requests can call no other.
    """

    method = _METHOD
    input_responses = _NOTHING
    request_state: str | None = None
    is_relayed = False  # requests that a bridge or an agent sends for its clients are never direct

    def __init__(
        self,
        calls: DirectCalls,
        connection: ClientConnection,
        *,
        modern: bool,
        address: str | None = None,
        meta: Mapping[str, Any] = _NOTHING,
        name: str | None = None,
    ) -> None:
        self._calls = calls
        self.connection = connection
        self.modern = modern
        self.address = address
        self.meta = meta
        self._name = name
        self._received = connection.received.in_flight
        self.principal: Hashable = connection if address is None else address
        self._most = min(calls.results.given_whole(self.client_info), _BYTES)
        self._parameters = 3 if modern else 2
        self._logged: tuple[str, int] | None = None

    @property
    def client(self) -> Hashable:
        """See `ClientRequest.client`."""
        return self.connection if self.address is None else object()

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """See `ClientRequest.client_capabilities`."""
        if not self.modern:
            return self.connection.client_capabilities
        declared: Mapping[str, Any] = self.meta.get(CLIENT_CAPABILITIES_KEY, _NOTHING)
        return declared

    @property
    def client_info(self) -> Mapping[str, Any]:
        """See `ClientRequest.client_info`."""
        return self.meta.get(CLIENT_INFO_KEY, _NOTHING) if self.modern else self.connection.client_info

    @property
    def session_key(self) -> str | None:
        """See `ClientRequest.session_key`."""
        return self.connection.key if self.address is None else None

    @property
    def client_folder(self) -> str | None:
        """See `ClientRequest.client_folder`."""
        return self.connection.client_folder

    @property
    def log_level(self) -> str | None:
        """See `ClientRequest.log_level`."""
        return None if self.modern else self.connection.log_level

    def enter(self) -> bool:
        """Count a call on the connection; return whether that is possible."""
        return True

    def leave(self, now: float) -> None:
        """Stop counting a call on the connection, at that time of `time.monotonic`."""

    def begin(self, message: Any, size: int, place: DirectPlace) -> DirectCall | None:
        """Pass on a request directly, if it is plain and nothing stands in the way; else return `None`.

        Args:
            message: The JSON value that came, of so many bytes.
        """
        try:
            number, params = message["id"], message["params"]
            name: object = params["name"]
            arguments: object = params["arguments"]
            is_plain = message["method"] == _METHOD and message["jsonrpc"] == "2.0" and len(message) == _MEMBERS
            if not is_plain or len(params) != self._parameters or (self.modern and params["_meta"] != self.meta):
                return None
        except (KeyError, TypeError, IndexError):
            return None
        if type(number) not in (int, str) or type(name) is not str or not is_object(arguments):
            return None
        calls = self._calls
        route = calls.routes[name] if name in calls.routes else calls.route(name)
        if route is None or number in self._received or self._name not in (None, name):
            return None
        call = DirectCall(self, route, message, size, place, time.monotonic())
        if not calls.backlog.begin_direct(self.principal, call):
            return None
        if not self.enter():
            calls.backlog.end_direct(self.principal, call)
            return None
        if not route.begin(call, arguments):
            calls.backlog.end_direct(self.principal, call)
            self.leave(call.began)
            return None
        self._received[number] = calls.in_flight[call] = call
        if calls.timer is None:
            calls.watch()
        return call

    def answer(self, call: DirectCall, result: JSON) -> bool:
        """Answer with a plain result, unless that is larger than some clients take."""
        calls = self._calls
        if not call.place.can_answer:
            return False
        if self.modern:
            result = {"resultType": "complete", **result, "_meta": calls.results.stamp()}
        try:
            body = encoded_read_result(call.id, result)
        except (TypeError, ValueError, RecursionError):  # a value of the source that JSON does not have as it is
            return False
        if (size := len(body)) > self._most:
            return False
        name, now = call.target[1], time.monotonic()
        del calls.in_flight[call], self._received[call.id]
        if name in calls.odd:
            del calls.odd[name]
        calls.backlog.end_direct(self.principal, call, size)
        self.leave(now)
        call.route.answered(call, now)
        if is_wanted():
            if self._logged is None:
                self._logged = client_of(self.client_info), number_of(self.connection)
            who, number = self._logged
            source, seconds = call.route.target[0].name, now - call.began
            leave(CallRecord(who, number, _METHOD, name[:KEPT], source, "ok", seconds, call.size, size))
        call.place.send_direct(body, self)
        return True

    def make_ordinary(self, call: DirectCall) -> None:
        """Take the ordinary way with the request. The tool takes it from the beginning after some odd results."""
        if call.response is not None:
            self._calls.note_odd(call.target[1])
        call.place.begin_ordinary(call)

    def release(self, call: DirectCall) -> None:
        """Stop counting the call: an ordinary call counts instead."""
        calls = self._calls
        calls.in_flight.pop(call, None)
        self.connection.received.end(call.id, call)
        calls.backlog.end_direct(self.principal, call)
        self.leave(time.monotonic())
