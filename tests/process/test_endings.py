"""How a server over stdio ends: when its editor leaves, when it is told to, and when nobody listens any more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gaia_bridge.text.json_types import JSON
from tests.cli.running import DEADLINE, INITIALIZE, request
from tests.process.driving import AGENTS, BOUND, initialized

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


@contextmanager
def with_raw_pipes(folder: Path) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """A server whose output nobody reads for the test; the descriptor to read it from."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "gaia_bridge", "serve", "--stdio", str(AGENTS)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    with suppress(BrokenPipeError), process:
        try:
            yield process, reading
        finally:
            process.kill()


def send(process: subprocess.Popen[bytes], *messages: JSON) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


@pytest.mark.requirement("F-119")
@pytest.mark.parametrize(
    "when", ["after the handshake", pytest.param("before the handshake", marks=pytest.mark.thorough)]
)
def test_an_output_that_is_closed_ends_it_quietly(tmp_path: Path, when: str) -> None:
    with with_raw_pipes(tmp_path) as (process, reading):
        if when == "before the handshake":
            os.close(reading)
            send(process, INITIALIZE)
        else:
            send(process, INITIALIZE)
            assert os.read(reading, 1)
            os.close(reading)
            send(process, request(2, "ping"))
        assert process.wait(DEADLINE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.requirement("F-118", "F-090")
def test_an_editor_that_stopped_reading_and_leaves_is_not_waited_for(tmp_path: Path) -> None:
    with with_raw_pipes(tmp_path) as (process, reading):
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        text = "x" * 100_000  # more than a pipe holds
        calls = [request(n, "tools/call", name="calm", arguments={"text": text}) for n in range(2, 6)]
        send(process, INITIALIZE, initialized, *calls)
        assert os.read(reading, 1)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(BOUND) == 0
        os.close(reading)


@pytest.mark.requirement("F-119")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_standard_stream_that_was_closed_from_the_start_is_empty(tmp_path: Path, closed: str) -> None:
    command = f'exec "$0" -m gaia_bridge serve --stdio "$1" {closed}'
    sent = f"{json.dumps(INITIALIZE)}\n".encode()
    ended = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, str(AGENTS)],
        cwd=tmp_path,
        input=sent,
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert (b'"protocolVersion"' in ended.stdout) is (closed == "2>&-")
