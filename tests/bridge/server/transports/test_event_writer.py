"""Signs of life between the events of an answer, by a clock that jumps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import anyio
import pytest
from starlette.types import Message

from gaia_bridge.server.transports.event_writer import write_events
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

PING: Final = 3.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


class Client:
    """A client that takes so many seconds to read a sign of life, and may leave."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.came: list[bytes] = []
        self.reading = self.most = 0
        self.leave: Callable[[], object] = lambda: None
        self._seconds = seconds

    async def send(self, message: Message) -> None:
        body: bytes = message.get("body", b"")
        if body.startswith(b":"):
            self.reading += 1
            self.most = max(self.most, self.reading)
            await anyio.sleep(self._seconds)
            self.reading -= 1
        self.came.append(body[:1])

    def when_gone(self, callback: Callable[[], object]) -> Callable[[], object]:
        self.leave = callback
        return lambda: None


class Events:
    """Two events, ten seconds apart."""

    def __init__(self) -> None:
        self.is_over = False

    async def __call__(self) -> AsyncGenerator[bytes]:
        try:
            yield b"first"
            await anyio.sleep(10)
            yield b"last"
        finally:
            self.is_over = True


async def test_signs_of_life_come_again_and_again_until_the_end() -> None:
    client, events = Client(), Events()
    await write_events(client.send, events(), PING, [], client.when_gone)
    expected = [b"", b"f", b":", b":", b":", b"l", b""]
    assert client.came == expected
    await anyio.sleep(10 * PING)
    assert client.came == expected


async def test_a_sign_that_waits_for_a_slow_client_is_not_repeated() -> None:
    client, events = Client(seconds=20), Events()
    await write_events(client.send, events(), PING, [], client.when_gone)
    assert client.most == 1


async def test_nothing_goes_on_for_a_client_that_leaves() -> None:
    client, events = Client(), Events()
    async with anyio.create_task_group() as tasks:
        headers: list[tuple[bytes, bytes]] = []
        tasks.start_soon(write_events, client.send, events(), PING, headers, client.when_gone)
        await anyio.sleep(4)
        client.leave()
    assert events.is_over
    assert client.came == [b"", b"f", b":"]
