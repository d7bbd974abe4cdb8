"""A command whose standard error or output nobody takes ends as it would otherwise, and soon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import DEADLINE
from tests.process.test_blocked_streams import full_pipe

COMMANDS = {
    "--help": 0,
    "nonsense": 64,
    "serve --port x": 64,
    "remove nobody": 78,
    "list": 0,
    "status --url 127.0.0.1:9": 69,
}
SLOW = {"serve nope --port 0": 66, "agents nope": 66, "add x no-such-program": 69, "test-client nobody": 78}
"""Those that load more."""

every_command = pytest.mark.parametrize(
    ("command", "code"),
    [*COMMANDS.items(), *(pytest.param(*item, marks=pytest.mark.thorough) for item in SLOW.items())],
)


@contextmanager
def stream(kind: str) -> Generator[int]:
    if kind == "unread":
        with full_pipe() as writing:
            yield writing
    else:
        with open("/dev/full", "wb") as full:
            yield full.fileno()


def ended(command: str, closed: str = "", **streams: Any) -> subprocess.CompletedProcess[str]:
    started = [sys.executable, "-m", "gaia_bridge", *command.split()]
    started = ["sh", "-c", f'exec "$@" {closed}', "sh", *started] if closed else started
    captured: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(started, stdin=subprocess.DEVNULL, text=True, timeout=DEADLINE, check=False, **captured)


@every_command
@pytest.mark.parametrize("kind", ["unread", "full"])
@pytest.mark.requirement("F-364")
def test_a_command_ends_with_its_own_code_although_nobody_takes_its_errors(command: str, code: int, kind: str) -> None:
    with stream(kind) as errors:
        assert ended(command, stderr=errors).returncode == code


@every_command
@pytest.mark.parametrize("closed", ["2>&-", ">&-", pytest.param("<&-", marks=pytest.mark.thorough)])
@pytest.mark.requirement("F-364")
def test_a_command_ends_with_its_own_code_although_a_stream_is_closed(command: str, code: int, closed: str) -> None:
    result = ended(command, closed)
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr


@pytest.mark.parametrize("command", ["--help", "--version", "list --json", "completion bash"])
@pytest.mark.requirement("F-364")
def test_output_that_cannot_be_written_is_one_line_and_a_code_of_its_own(command: str) -> None:
    with stream("full") as output:
        result = ended(command, stdout=output)
    assert (result.returncode, result.stderr.count("\n")) == (74, 1)
    assert "error: standard output cannot be written: No space left on device" in result.stderr


@pytest.mark.parametrize("command", ["--help", "list --json", "completion bash"])
@pytest.mark.requirement("F-364")
def test_a_reader_that_is_gone_ends_a_command_quietly(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as output:
        result = ended(command, stdout=output)
    assert result.stderr == ""


@pytest.mark.requirement("F-364")
def test_errors_and_results_keep_their_order_where_both_go_to_one_pipe(tmp_path: Path) -> None:
    (tmp_path / "mcp_servers.json").write_text('{"mcpServers": {"a": {"command": "b"}}}', encoding="utf-8")
    result = ended(f"trust --yes --json --config {tmp_path / 'mcp_servers.json'}", stderr=subprocess.STDOUT)
    assert result.stdout.index("a is approved\n") < result.stdout.index("{\n")
