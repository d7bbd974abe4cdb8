"""What a server costs is the work that it makes, not the time in which others had the processor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from gaia_bridge.client.transports.budgets import Share
from gaia_bridge.client.transports.children import stdio
from gaia_bridge.client.transports.http.http1 import Http1Connection
from gaia_bridge.text.json_types import JSON
from tests.support.http1_wires import Keeper, Wire
from tests.support.obedient_children import Received, child, launched

pytestmark = pytest.mark.anyio

AWAY = 0.3
"""Seconds that somebody else has the processor."""


def interrupted() -> None:
    """Not to get the processor for a while."""
    time.sleep(AWAY)


class Counted(Share):
    """Adds up what is spent."""

    spent = 0.0

    def __init__(self, part: float, burst: float, now: Callable[[], float]) -> None:
        super().__init__(part, burst, now)
        Counted.spent = 0.0

    def spend(self, seconds: float) -> float:
        Counted.spent += seconds
        return super().spend(seconds)


class Interrupted(Received):
    """A receiver that does not get the processor for a while."""

    def message(self, message: JSON, during: int | None) -> None:
        interrupted()
        super().message(message, during)


@pytest.mark.requirement("F-301")
async def test_a_child_pays_for_no_time_that_others_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "Share", Counted)
    receiver = Interrupted()
    async with launched(child(), receiver) as link:
        link.data_received(b'{"jsonrpc":"2.0","method":"notifications/x"}\n')
        assert len(receiver.messages) == 1
        assert Counted.spent < AWAY / 2


@pytest.mark.requirement("F-301")
async def test_a_connection_pays_for_no_time_that_others_had() -> None:
    loop = asyncio.get_running_loop()
    wire = Wire(Http1Connection(Keeper(), Counted(0.1, 0.25, loop.time)))
    response = wire.connection.send(b"", 1)
    wire.connection.data_received(b"HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\nx")
    assert await response.read() == b"x"
    interrupted()
    wire.connection.data_received(b"x")
    assert await response.read() == b"x"
    assert Counted.spent < AWAY / 2
