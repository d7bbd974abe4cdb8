from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message

from gaia_bridge.server.transports.http_exchange import HttpExchange
from gaia_bridge.server.transports.scope_keys import DISCONNECT

pytestmark = pytest.mark.anyio

SCOPE: dict[str, Any] = {"type": "http", "method": "POST", "headers": []}


async def nowhere(message: Message) -> None:
    raise AssertionError("nothing is answered")


class Client:
    """A client whose leaving is told by `receive`."""

    def __init__(self) -> None:
        self.leaves = asyncio.Event()
        self.is_asked = False

    async def receive(self) -> Message:
        if not self.is_asked:
            self.is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.leaves.wait()
        return {"type": "http.disconnect"}


async def test_under_our_listener_nothing_waits_for_a_client_to_leave() -> None:
    client, told, departure = Client(), list[str](), asyncio.get_running_loop().create_future()
    exchange = HttpExchange(SCOPE | {"extensions": {DISCONNECT: departure}}, client.receive, nowhere)
    exchange.when_gone(lambda: told.append("kept"))
    exchange.when_gone(lambda: told.append("removed"))()
    await asyncio.sleep(0)
    assert not client.is_asked
    departure.set_result(None)
    await asyncio.sleep(0)
    assert (told, exchange.is_gone) == (["kept"], True)


@pytest.mark.parametrize("extensions", [{}, {"extensions": None}, {"extensions": {"http.response.debug": {}}}])
async def test_under_another_server_a_client_that_leaves_is_noticed_too(extensions: dict[str, Any]) -> None:
    client, gone = Client(), asyncio.Event()
    exchange = HttpExchange(SCOPE | extensions, client.receive, nowhere)
    remove = exchange.when_gone(gone.set)
    client.leaves.set()
    await gone.wait()
    assert exchange.is_gone
    remove()


async def test_under_another_server_what_waits_for_a_client_to_leave_is_ended() -> None:
    client, told = Client(), list[str]()
    exchange = HttpExchange(SCOPE, client.receive, nowhere)
    remove = exchange.when_gone(lambda: told.append("gone"))
    await asyncio.sleep(0)
    remove()
    client.leaves.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (told, exchange.is_gone) == ([], False)
