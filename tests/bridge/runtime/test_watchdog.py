"""An event loop that is held is named, with where; one that is idle, or stood still with everything else, is not."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from gaia import background_loop as background
from gaia_bridge.runtime import agent_runner as runtime
from gaia_bridge.runtime.watchdog import _Watchdog, watching  # pyright: ignore[reportPrivateUsage]
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge, text_of
from tests.support.waiting import comes_true, wait_in_thread

PATIENCE = 0.1

STOPPED = f"""
import logging, sys, anyio
from gaia_bridge.runtime.watchdog import watching
logging.basicConfig(stream=sys.stdout, level=logging.INFO)
async def main():
    with watching({PATIENCE}):
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        await anyio.sleep({3 * PATIENCE})
anyio.run(main)
"""


class Told(logging.Handler):
    """Notices what is logged of a loop that is held."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.held = threading.Event()
        self.twice = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.held.set()
        if len(self.records) == 2:
            self.twice.set()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.mark.anyio
@pytest.mark.requirement("F-205")
async def test_a_loop_that_is_held_is_named_with_its_stack_and_again_when_it_goes_on(told: Told) -> None:
    def hold_the_loop() -> None:
        assert told.held.wait(10)

    with listening(told), watching(PATIENCE):
        hold_the_loop()
        await anyio.to_thread.run_sync(told.twice.wait, 10)
    first, second = told.records
    assert first.getMessage() == "the event loop has been held for 0.1 s, and still is"
    assert "in hold_the_loop" in str(first.stack_info)
    assert second.getMessage().startswith("the event loop goes on, after ")


@contextmanager
def listening(told: Told) -> Generator[None]:
    logger = logging.getLogger("gaia_bridge.runtime.watchdog")
    logger.addHandler(told)
    try:
        yield
    finally:
        logger.removeHandler(told)


@pytest.mark.anyio
@pytest.mark.requirement("F-314")
@pytest.mark.parametrize("loop", ["tool", "background"])
async def test_an_event_loop_that_is_not_the_bridges_is_watched_too_and_a_bystander_is_served_meanwhile(
    loop: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "watching", partial(watching, PATIENCE))
    monkeypatch.setattr(background, "watching", partial(watching, PATIENCE))

    def hold_the_loop() -> None:
        assert told.held.wait(10)

    async def work(arguments: JSON) -> str:
        if loop == "tool":
            hold_the_loop()
        else:
            with background.BackgroundLoop().acquire() as lease:
                await anyio.to_thread.run_sync(lease.run, hold_on_it)
        return "done"

    async def hold_on_it() -> None:
        hold_the_loop()

    with listening(told):
        async with running_bridge(one_tool(work), one_tool(lambda _: "there", "quick")) as running:
            async with running.client() as client, anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "work")
                with anyio.fail_after(10):
                    assert text_of(await client.call_tool("quick", {})) == "there"
                    await anyio.to_thread.run_sync(told.twice.wait, 10)
    first, second = told.records
    name = "event loop of the coroutines of agent a0" if loop == "tool" else "gaia-bridge background loop"
    held = f"the {name} has been held for 0.1 s, and still is"
    remedy = "make it a plain `def`, which runs in a thread, or `await` in it"
    assert first.getMessage() == (f"{held}; {work.__qualname__}() blocks it: {remedy}" if loop == "tool" else held)
    assert "in hold_the_loop" in str(first.stack_info)
    if loop == "tool":
        [file, *_] = str(first.stack_info).splitlines()
        assert "test_watchdog.py" in file and file.endswith("in work"), "the frames begin with those of the agent"
    assert second.getMessage().startswith(f"the {name} goes on, after ")


@pytest.mark.anyio
@pytest.mark.requirement("F-314")
async def test_a_loop_that_is_held_again_and_again_is_counted_rather_than_named(told: Told) -> None:
    watchdog: Any = _Watchdog(asyncio.get_running_loop(), "it", PATIENCE, math.inf)

    async def hold_until(holds: Callable[[], bool]) -> None:
        await anyio.lowlevel.checkpoint()
        assert comes_true(holds)(10)

    with listening(told):
        watchdog.thread.start()
        try:
            await hold_until(told.held.is_set)
            await anyio.to_thread.run_sync(told.twice.wait, 10)
            await hold_until(lambda: watchdog._unlogged == 1)
            watchdog._silence = 0
            await wait_in_thread(watchdog._alive.wait)  # it saw that the loop went on
            await hold_until(lambda: len(told.records) == 3)
        finally:
            watchdog.stop()
    lines = [record.getMessage() for record in told.records]
    assert lines[0] == "it has been held for 0.1 s, and still is"
    assert lines[1].startswith("it goes on")
    assert lines[2] == "it has been held for 0.1 s, and still is; so it was 1 times since that was said last"


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": use}) for use in (False, True)], ids=str)
async def test_a_loop_that_waits_is_left_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    watchdog: Any = _Watchdog(loop, "it", 0.001, math.inf)
    looks: list[bool] = []
    looked = anyio.Event()

    def look() -> bool:
        looks.append(resting())
        if looks[-5:] == [True] * 5:
            watchdog.stop()
            loop.call_soon_threadsafe(looked.set)
        return looks[-1]

    resting = watchdog._is_resting
    monkeypatch.setattr(watchdog, "_is_resting", look)
    watchdog.thread.start()
    with anyio.fail_after(10):
        await looked.wait()


@pytest.mark.requirement("F-205")
def test_of_a_process_that_was_stopped_nothing_is_claimed() -> None:
    command = [sys.executable, "-c", STOPPED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(5 * PATIENCE)
        os.kill(process.pid, signal.SIGCONT)
        assert process.communicate("\n", timeout=30)[0] == ""
