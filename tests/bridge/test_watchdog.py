"""An event loop that is held is named, with where; one that is idle, or stood still with everything else, is not."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import anyio.to_thread
import pytest

from gaia_bridge.watchdog import watching

PATIENCE = 0.1

STOPPED = f"""
import logging, sys, anyio
from gaia_bridge.watchdog import watching
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

    logger = logging.getLogger("gaia_bridge.watchdog")
    logger.addHandler(told)
    try:
        with watching(PATIENCE):
            hold_the_loop()
            await anyio.to_thread.run_sync(told.twice.wait, 10)
    finally:
        logger.removeHandler(told)
    first, second = told.records
    assert first.getMessage() == "the event loop has been held for 0.1 s, and still is"
    assert "in hold_the_loop" in str(first.stack_info)
    assert second.getMessage().startswith("the event loop goes on, after ")


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
