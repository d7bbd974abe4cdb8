"""A descriptor that an event loop was given is closed once: its number may be somebody else's right afterwards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

import gaia_bridge
from gaia_bridge.constants import BRIDGE_PACKAGES
from gaia_bridge.runtime.pipe_end import PipeEnd
from tests.support.obedient_children import child, launched

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine in one of the loops that the bridge runs in."""
    chosen: Run = request.param
    return chosen


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Generator[list[int]]:
    """Descriptors that others open in the very moment in which the loop closes a file of ours."""
    opened: list[int] = []
    close = PipeEnd.close

    def close_after_others_opened_something(end: PipeEnd) -> None:
        opened.append(os.open(os.devnull, os.O_RDONLY))
        close(end)

    monkeypatch.setattr(PipeEnd, "close", close_after_others_opened_something)
    yield opened
    for descriptor in opened:
        with suppress(OSError):
            os.close(descriptor)


def are_open(descriptors: list[int]) -> bool:
    for descriptor in descriptors:
        os.fstat(descriptor)
    return True


@pytest.mark.parametrize("way", ["connect_reader", "connect_writer"])
def test_a_transport_closes_nothing_but_its_own_descriptor(run: Run, way: str, strangers: list[int]) -> None:
    reading, writing = os.pipe()
    ours, theirs = (reading, writing) if way == "connect_reader" else (writing, reading)

    async def open_and_close() -> None:
        transport, _ = await getattr(PipeEnd(ours), way)(asyncio.Protocol)
        transport.close()
        for _ in range(3):
            await asyncio.sleep(0)

    run(open_and_close())
    assert strangers
    assert are_open(strangers)
    if way == "connect_reader":
        with pytest.raises(BrokenPipeError):
            os.write(theirs, b"x")
    else:
        assert os.read(theirs, 1) == b""
    os.close(theirs)


@pytest.mark.parametrize("standard", [0, 1, 2])
def test_a_pipe_on_the_descriptor_of_a_closed_standard_stream_is_closed_as_well(run: Run, standard: int) -> None:
    async def open_and_close() -> None:
        transport, _ = await PipeEnd(standard).connect_writer(asyncio.BaseProtocol)
        transport.close()
        for _ in range(3):
            await asyncio.sleep(0)

    kept = os.dup(standard)
    reading, writing = os.pipe()
    try:
        os.dup2(writing, standard)
        os.close(writing)
        run(open_and_close())
        os.set_blocking(reading, False)
        assert os.read(reading, 1) == b""
    finally:
        os.dup2(kept, standard)
        os.close(kept)
        os.close(reading)


def test_the_end_of_a_server_closes_nothing_but_its_own_descriptors(run: Run, strangers: list[int]) -> None:
    async def launch_and_stop() -> None:
        async with launched(child()):
            pass

    run(launch_and_stop())
    assert len(strangers) >= 3 + 3, "our ends, and those of the child"
    assert are_open(strangers)


def test_an_end_that_no_loop_has_is_closed_once() -> None:
    reading, writing = os.pipe()
    end = PipeEnd(reading)
    assert end.fileno() == reading
    end.close()
    other = os.dup(writing)
    end.close()
    assert other == reading
    assert are_open([other])
    os.close(other)
    os.close(writing)


def test_no_loop_is_given_a_pipe_in_any_other_way() -> None:
    root = Path(gaia_bridge.__file__).parents[1]
    files = [path for package in BRIDGE_PACKAGES for path in (root / package).rglob("*.py")]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert {name for name, text in texts.items() if "connect_read_pipe" in text or "connect_write_pipe" in text} == {
        "pipe_end.py"
    }
