"""Clients of HTTP+SSE, of which each has one stream: whoever leaves it is done nothing more for."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from gaia_bridge.server.transports.http_exchange import HttpExchange
from gaia_bridge.server.transports.sse import SseEndpoint
from gaia_bridge.settings import HttpLimits
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


class Client:
    """A client that opens its stream, reads where to post to, and then reads no more until it leaves.

    Args:
        transport: What it speaks with.
    """

    def __init__(self, transport: SseEndpoint) -> None:
        self._transport = transport
        self._left = anyio.Event()
        self._query = b""
        self._can_post = anyio.Event()

    async def listen(self) -> None:
        await self._transport.stream(HttpExchange(scope("GET"), self._receive, self._send))

    async def post(self, message: JSON) -> None:
        async def sent(_message: Any) -> None: ...

        await self._can_post.wait()
        exchange = HttpExchange(scope("POST", self._query), self._receive, sent, message)
        await self._transport.message(exchange)

    def leave(self) -> None:
        self._left.set()

    async def _receive(self) -> Any:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        body: bytes = message.get("body", b"")
        if b"session_id=" in body:
            address = body.partition(b"data: ")[2].partition(b"\r\n")[0].decode()
            self._query = urlsplit(address).query.encode()
            self._can_post.set()
        elif self._query:
            await anyio.sleep_forever()


def scope(method: str, query: bytes = b"") -> Any:
    return {"type": "http", "method": method, "headers": [], "query_string": query, "path": "/"}


def answering() -> list[str]:
    """Requests that are worked on, or whose answers wait to be read."""
    names = [str(task.get_coro()) for task in asyncio.all_tasks()]
    return [name for name in names if "Dispatcher" in name]


@pytest.fixture
def uncollected() -> Generator[None]:
    """Nothing is left to the garbage collector, which may not run for long."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
async def test_answers_to_a_client_that_left_without_reading_them_wait_no_longer() -> None:
    with anyio.fail_after(PATIENCE):
        async with running_bridge(one_tool(lambda _: "done")) as running:
            transport = SseEndpoint(running.endpoint(), "/messages/", HttpLimits(stream_messages=1))
            client = Client(transport)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.listen)
                for number in range(5):
                    await client.post({"jsonrpc": "2.0", "id": number, "method": "ping"})
                await anyio.wait_all_tasks_blocked()
                assert answering()
                client.leave()
            await anyio.wait_all_tasks_blocked()
            assert not answering()
