"""What is owed to a client on lines: an answer to each request, and nothing to one that it cancelled."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
import pytest

from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.protocol.json_types import JSON
from gaia_bridge.server.transports.lines import LineClient
from tests.support.bridges import PATIENCE, one_tool, running_bridge

pytestmark = pytest.mark.anyio

HELLO: JSON = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
CANCEL: JSON = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}


def request(number: int, method: str, **params: Any) -> JSON:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class Lines:
    """A client on lines, and what it was sent."""

    def __init__(self) -> None:
        self.client: LineClient
        self.said: list[Any] = []
        self.working = threading.Event()

    async def write(self, line: bytes) -> None:
        self.said.append(json.loads(line))

    async def take(self, *messages: Any) -> None:
        """Send messages; nothing else happens in between."""
        for message in messages:
            await self.client.take(json.dumps(message).encode())

    def work(self, _arguments: JSON) -> str:
        self.working.set()
        context = get_request_context()
        context.wait_cancelled(PATIENCE)
        return "cancelled" if context.cancelled else "not cancelled"


@asynccontextmanager
async def connected() -> AsyncGenerator[Lines]:
    lines = Lines()
    async with running_bridge(one_tool(lines.work)) as running:
        lines.client = LineClient(running.endpoint(), lines.write, 10)
        await lines.take(request(0, "initialize", **HELLO))
        lines.said.clear()
        yield lines
        lines.client.close()


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_request_that_was_cancelled_is_owed_nothing(begun: bool, times: int) -> None:
    async with connected() as lines:
        await lines.take(request(7, "tools/call", name="work"), *([] if begun else [CANCEL] * times))
        if begun:
            assert await anyio.to_thread.run_sync(lines.working.wait, PATIENCE)
            await lines.take(*[CANCEL] * times)
        await lines.client.none_left()
        assert lines.said == []
        await lines.take(request(7, "ping"))
        await lines.client.none_left()
        assert lines.said == [{"jsonrpc": "2.0", "id": 7, "result": {}}]


async def test_a_batch_is_answered_without_what_it_cancels_itself() -> None:
    async with connected() as lines:
        await lines.take([request(7, "tools/call", name="work"), CANCEL, request(8, "ping")])
        await lines.client.none_left()
        assert lines.said == [[{"jsonrpc": "2.0", "id": 8, "result": {}}]]


async def test_a_cancellation_of_nothing_in_particular_cancels_nothing() -> None:
    async with connected() as lines:
        unfit: list[Any] = [None, True, 1.5, {}]
        for named in unfit:
            await lines.take({**request(7, "tools/list"), "id": str(named)}, {**CANCEL, "params": {"requestId": named}})
        await lines.client.none_left()
        assert {answer["id"] for answer in lines.said} == {"None", "True", "1.5", "{}"}
