"""A server whose standard streams are held, full or closed serves, and ends when it is told to."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import DEADLINE, INITIALIZE, request
from tests.conformance.runner import free_port
from tests.process.driving import AGENTS, BOUND

CALM = f"{AGENTS}:CalmAgent"


@contextmanager
def served(folder: Path, *options: str, **streams: Any) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "gaia_bridge", "serve", CALM, *options]
    env = {**os.environ, "HOME": str(folder), "NO_COLOR": "1"}
    with subprocess.Popen[bytes](command, cwd=folder, env=env, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def health(port: int, **headers: str) -> int:
    """The status of one request of its own connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request("GET", "/health", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def full_pipe() -> Generator[int]:
    """The writing end of a pipe that nobody reads and that takes no byte more."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x")
        os.set_blocking(writing, True)
        yield writing
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.requirement("F-202", "F-114")
def test_a_standard_error_that_nobody_reads_holds_up_no_request_and_no_end(tmp_path: Path) -> None:
    port = free_port()
    with full_pipe() as error, served(tmp_path, "--port", str(port), stderr=error) as process:
        wait_until_served(port, process)
        for _ in range(30):
            assert health(port, Origin="http://evil.example") == 403
        assert health(port) == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND) == 0


@pytest.mark.requirement("F-202", "F-203")
@pytest.mark.parametrize("error", ["held", "full", "closed"])
def test_whatever_becomes_of_standard_error_the_client_of_a_stdio_server_is_answered(
    tmp_path: Path, error: str
) -> None:
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with open("/dev/full", "wb") as full, full_pipe() as held:
        if error == "closed":
            streams["preexec_fn"] = closing(2)
        else:
            streams["stderr"] = full if error == "full" else held
        with served(tmp_path, "--stdio", "--debug", **streams) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for number, message in enumerate((INITIALIZE, request(2, "tools/call", name="calm")), 1):
                process.stdin.write(json.dumps(message).encode() + b"\n")
                process.stdin.flush()
                assert json.loads(process.stdout.readline())["id"] == number
            process.stdin.close()
            assert process.wait(BOUND) == 0


@pytest.mark.requirement("F-203")
def test_a_server_that_was_started_without_any_standard_stream_serves(tmp_path: Path) -> None:
    port = free_port()
    with served(tmp_path, "--port", str(port), preexec_fn=closing(0, 1, 2)) as process:
        wait_until_served(port, process)
        assert health(port) == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND) == 0


def wait_until_served(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            assert health(port) == 200
            break
        except ConnectionRefusedError:
            time.sleep(0.05)


def closing(*descriptors: int) -> Callable[[], None]:
    def close() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    return close
