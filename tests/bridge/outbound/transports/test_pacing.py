"""What a server costs is the work that it makes, not the time in which others had the processor."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from gaia_bridge.jsontypes import JSON
from gaia_bridge.outbound.transports import stdio
from gaia_bridge.outbound.transports.budgets import Share
from gaia_bridge.outbound.transports.pacing import PacedBackend
from tests.children import Received, child, launched

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
    async def send(stream: SocketStream) -> None:
        async with stream:
            await stream.send(b"xx")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    backend = PacedBackend(lambda: Counted(0.1, 0.25, anyio.current_time))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, send)
        connection = await backend.connect_tcp("127.0.0.1", port)
        assert await connection.read(1) == b"x"
        interrupted()
        assert await connection.read(1) == b"x"
        await connection.aclose()
        tasks.cancel_scope.cancel()
    assert Counted.spent < AWAY / 2
