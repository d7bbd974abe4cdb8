"""The MCP Inspector beside `gaia-bridge dev`: started where npx is, and never the reason for an end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from gaia_bridge_cli.serving.inspector import run_inspector
from tests.cli.running import running, write_agent
from tests.process.driving import url_of
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:1/mcp"


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, found first."""
    program = tmp_path / "bin" / "npx"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)


def runs(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_it_is_started_for_the_bridge_and_nothing_of_it_is_left(
    npx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = tmp_path / "started"
    write(
        npx,
        f"sleep 300 & echo $! $$ > {started}.part; mv {started}.part {started}; printf '\\033[1m%s\\n' \"$*\"; wait",
    )
    said = ""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_inspector, URL)
        await until(started.exists)

        def has_said() -> bool:
            nonlocal said
            said += capsys.readouterr().err
            return said.endswith("\n")

        await until(has_said)
        tasks.cancel_scope.cancel()
    arguments = "-y @modelcontextprotocol/inspector@2 --transport http --server-url http://127.0.0.1:1/mcp"
    assert said == f"inspector: \\x1b[1m{arguments}\n"
    assert not [pid for pid in map(int, started.read_text("utf-8").split()) if runs(pid)]


@pytest.mark.parametrize("script", ["exit 3", None])
async def test_what_becomes_of_it_is_told_and_is_no_error(
    npx: Path, script: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if script is None:
        monkeypatch.setenv("PATH", str(npx.parent))
    else:
        write(npx, script)
    await run_inspector(URL)
    told = "there is no npx on the PATH" if script is None else "exited with code 3; the bridge goes on without it"
    assert told in caplog.text


def test_dev_starts_it_when_asked_and_ends_it(npx: Path, tmp_path: Path) -> None:
    write_agent(tmp_path)
    write(npx, "echo here $6; exec sleep 300")
    with running("dev", "demo.py", "--inspector", "--port", "0", cwd=tmp_path) as bridge:
        url = url_of(bridge)
        assert f"here {url}/mcp" in bridge.until_error("inspector: ")
        bridge.process.send_signal(signal.SIGINT)
        assert "Traceback" not in bridge.all_errors()
        assert bridge.process.wait(30) == 0
