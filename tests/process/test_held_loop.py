"""A signal ends the process also where its event loop is held."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.driving import BOUND

PROGRAM = str(Path(__file__).with_name("held_loop.py"))


@pytest.mark.requirement("F-221")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_signal_ends_the_process_in_bounded_time_although_its_loop_is_held(loop: str, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, PROGRAM, loop], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as held:
        try:
            assert held.stdout is not None
            assert held.stdout.readline() == b"held\n"
            held.send_signal(number)
            assert held.wait(BOUND) == 0
        finally:
            held.kill()
