"""How a server over stdio ends: when its editor leaves, when it is told to, and when nobody listens any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bridge.cli.running import INITIALIZE, running
from tests.process.driving import AGENTS, BOUND, LineClient, initialized

STUCK = f"{AGENTS}:StuckAgent"
SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.mark.requirement("F-118", "S-12")
@pytest.mark.parametrize("tool", ["hang", "hang-async"])
def test_the_end_of_input_ends_it_with_a_call_in_flight(tmp_path: Path, tool: str) -> None:
    with initialized(STUCK, cwd=tmp_path) as client:
        client.call(tool)
        client.bridge.until_error("hanging")
        client.bridge.close_input()
        assert client.ended() == 0
        errors = client.bridge.all_errors()
        assert ("cancelled" in errors) is (tool == "hang-async")
        assert "Traceback" not in errors


@pytest.mark.requirement("F-115", "F-116", "S-12")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("tool", [None, "hang-async"])
def test_one_signal_ends_it_in_good_order(tmp_path: Path, number: signal.Signals, tool: str | None) -> None:
    with initialized(STUCK, cwd=tmp_path) as client:
        if tool is not None:
            client.call(tool)
            client.bridge.until_error("hanging")
        client.bridge.process.send_signal(number)
        assert client.ended() == 0
        errors = client.bridge.all_errors()
        assert ("cancelled" in errors) is (tool is not None)
        assert "Traceback" not in errors


@pytest.mark.requirement("F-119")
def test_an_output_that_is_closed_ends_it_quietly(tmp_path: Path) -> None:
    with initialized(STUCK, cwd=tmp_path) as client:
        client.call("hang")
        client.bridge.until_error("hanging")
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "gaia_bridge", "serve", "--stdio", STUCK],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writing)
        os.close(reading)
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(f"{INITIALIZE}\n".replace("'", '"'))
        process.stdin.flush()
        assert process.wait(2 * BOUND) == 0
        assert process.stderr.read() == ""
