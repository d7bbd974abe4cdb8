"""Messages of a server while direct calls are in flight, and direct calls that are given up."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from gaia_bridge.calls.deadlines import Deadline
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.calls.in_flight import Waiter
from gaia_bridge.client import ClientDelegate
from gaia_bridge.client.json_rpc_peer import JsonRpcPeer, open_peer
from gaia_bridge.client.transport import Link, Receiver
from gaia_bridge.contract import Source
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON

pytestmark = pytest.mark.anyio

CHANGED: JSON = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


class Line:
    """A link that sends everything, and gets no answers."""

    last_words = ""

    def __init__(self) -> None:
        self.sent: list[JSON] = []
        self.abandoned: list[int] = []

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        raise AssertionError("only direct calls are made")

    async def notify(self, message: JSON) -> None:
        self.sent.append(message)

    def agree(self, revision: str) -> None:
        pass

    def begin(self, message: JSON, waiter: Waiter, headers: Mapping[str, str] | None) -> bool:
        self.sent.append(message)
        return True

    def abandon(self, number: int) -> None:
        self.abandoned.append(number)

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        yield self


class Sides:
    """The side of the client and that of the server: they only note which calls become ordinary ones."""

    modern = False
    principal: Hashable = None
    client: Hashable = None
    meta: Mapping[str, Any] = {}
    client_capabilities: Mapping[str, Any] = {}
    log_level = None
    deadline = 60.0

    def __init__(self) -> None:
        self.target = cast("Source", None), "work"
        self.ordinary: list[DirectCall] = []

    def make_ordinary(self, call: DirectCall) -> None:
        self.ordinary.append(call)

    def answer(self, call: DirectCall, result: JSON) -> bool:
        return True

    def begin(self, call: DirectCall, arguments: JSON) -> bool:
        return True

    def plain_result(self, response: JSON) -> JSON | None:
        return None

    def answered(self, call: DirectCall, now: float) -> None:
        pass

    def release(self, call: DirectCall) -> None:
        pass

    def abandon(self, call: DirectCall) -> None:
        pass


class Place:
    """A peer, and calls of one client on it."""

    def __init__(self, peer: JsonRpcPeer, line: Line) -> None:
        self.peer = peer
        self.line = line
        self.sides = Sides()
        self.told: list[str] = []
        peer.on_notification = lambda method, params, during: self.told.append(method)

    def begin(self) -> DirectCall | None:
        params: JSON = {"name": "work", "arguments": {}}
        message: JSON = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        sides: Any = self.sides
        call = DirectCall(sides, sides, message, 100, None, time.monotonic())
        return call if self.peer.begin(call, params, {}, Deadline(60, 60), None) else None


@asynccontextmanager
async def placed() -> AsyncGenerator[Place]:
    line = Line()
    async with open_peer(line, ClientDelegate(), UpstreamLimits()) as peer:
        yield Place(peer, line)


async def test_a_message_is_kept_until_no_direct_call_can_be_the_one_that_it_belongs_to() -> None:
    async with placed() as place:
        calls = [place.begin(), place.begin()]
        place.peer.message(CHANGED, None)
        assert place.told == []
        assert place.sides.ordinary == calls
        for call in calls:
            assert call is not None
            assert place.told == []
            place.peer.abandon(call)
        assert place.told == [CHANGED["method"]]
        assert place.line.abandoned == [call.number for call in calls if call is not None]


async def test_no_call_is_direct_while_a_message_waits_for_others() -> None:
    async with placed() as place:
        call = place.begin()
        assert call is not None
        place.peer.message(CHANGED, None)
        assert place.begin() is None
        place.peer.abandon(call)
        assert place.begin() is not None
