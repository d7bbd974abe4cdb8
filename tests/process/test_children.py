"""Upstream servers live and die with the bridge, whatever becomes of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gaia_bridge.settings import HttpLimits, UpstreamLimits
from gaia_bridge_cli.serving.shutdown import STOP_DEADLINE
from tests.cli.running import DEADLINE, INITIALIZE, running
from tests.process.driving import AGENTS, BOUND, LineClient, OpenRequest, url_of
from tests.process.liveness import LIVENESS_PORT, watching

UPSTREAM = Path(__file__).with_name("living_upstream.py")
STUCK = f"{AGENTS}:StuckAgent"
STUBBORN_SECONDS = UpstreamLimits().stop_grace + UpstreamLimits().terminate_grace
"""What a child may take that ignores the end of its input, and then SIGTERM."""


def write_config(folder: Path, port: int, mode: str = "") -> str:
    server = {"command": sys.executable, "args": ["-S", str(UPSTREAM), mode], "env": {LIVENESS_PORT: str(port)}}
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"up": server}}), encoding="utf-8")
    return str(path)


def until_published(client: LineClient) -> None:
    """Wait until the upstream's tools are there."""
    while "up__pid" not in {tool["name"] for tool in client.result("tools/list")["tools"]}:
        while client.next().get("method") != "notifications/tools/list_changed":
            pass


@pytest.mark.requirement("F-115", "F-116", "F-118")
@pytest.mark.parametrize("end", ["end of input", "SIGTERM", "SIGINT", "SIGINT twice", "SIGKILL"])
def test_a_child_dies_with_the_bridge(tmp_path: Path, end: str) -> None:
    with watching(DEADLINE) as liveness:
        # What ends by itself between two signals shows nothing of the second.
        config = write_config(tmp_path, liveness.port, *(["stubborn"] if end == "SIGINT twice" else []))
        with running("serve", "--stdio", STUCK, "--config", config, "--log-level", "info", cwd=tmp_path) as bridge:
            client = LineClient(bridge)
            client.initialize()
            liveness.wait_born("upstream")
            until_published(client)
            client.call("hang")
            bridge.until_error("hanging")
            match end:
                case "end of input":
                    bridge.close_input()
                    expected = 0
                case "SIGKILL":
                    bridge.process.kill()
                    expected = -signal.SIGKILL
                case "SIGINT twice":
                    bridge.process.send_signal(signal.SIGINT)
                    bridge.until_error("Stopping. Ctrl-C again stops at once.")
                    bridge.process.send_signal(signal.SIGINT)
                    expected = 130
                case _:
                    bridge.process.send_signal(signal.Signals[end])
                    expected = 0
            assert client.ended() == expected
            liveness.wait_dead("upstream", seconds=BOUND)


@pytest.mark.requirement("F-115")
def test_a_child_that_ignores_the_end_of_its_input_and_sigterm_is_killed(tmp_path: Path) -> None:
    with watching(DEADLINE) as liveness:
        config = write_config(tmp_path, liveness.port, "stubborn")
        with running("serve", "--stdio", STUCK, "--config", config, cwd=tmp_path) as bridge:
            client = LineClient(bridge)
            client.initialize()
            liveness.wait_born("upstream")
            until_published(client)
            bridge.process.send_signal(signal.SIGTERM)
            assert client.ended(STUBBORN_SECONDS + BOUND) == 0
            liveness.wait_dead("upstream", seconds=BOUND)


@pytest.mark.requirement("F-225")
def test_calls_and_children_are_given_less_time_than_the_whole_end_has() -> None:
    children = UpstreamLimits()
    assert HttpLimits().shutdown_grace + children.stop_grace + children.terminate_grace + 1 <= STOP_DEADLINE <= 8


@pytest.mark.requirement("F-225")
def test_a_stubborn_child_and_a_call_that_hangs_do_not_hold_up_the_end_together(tmp_path: Path) -> None:
    with watching(DEADLINE) as liveness:
        config = write_config(tmp_path, liveness.port, "stubborn")
        with running("serve", "--port", "0", STUCK, "--config", config, cwd=tmp_path) as bridge:
            url = url_of(bridge)
            with closing(OpenRequest.modern(f"{url}/mcp", "tools/call", name="hang", arguments={})):
                liveness.wait_born("upstream")
                bridge.until_error("hanging")
                bridge.process.send_signal(signal.SIGTERM)
                assert bridge.process.wait(STOP_DEADLINE + BOUND) == 0
            liveness.wait_dead("upstream", seconds=BOUND)


EDITOR = """
import signal, subprocess, sys
bridge = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
bridge.stdin.write(sys.argv[1].encode() + b"\\n")
bridge.stdin.flush()
sys.stdout.buffer.write(bridge.stdout.readline())
sys.stdout.flush()
signal.pause()
"""
LIVING_AGENT = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.process.liveness import show_signs_of_life
from tests.process.served_agents import StuckAgent
show_signs_of_life("bridge")
"""


@pytest.mark.requirement("F-119", "F-118")
def test_an_editor_that_is_killed_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "living.py").write_text(LIVING_AGENT, encoding="utf-8")
    with watching(DEADLINE) as liveness:
        monkeypatch.setenv(LIVENESS_PORT, str(liveness.port))
        config = write_config(tmp_path, liveness.port)
        command = [sys.executable, "-m", "gaia_bridge", "serve", "--stdio", "living.py:StuckAgent", "--config", config]
        with subprocess.Popen(
            [sys.executable, "-S", "-c", EDITOR, json.dumps(INITIALIZE), *command],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
        ) as editor:
            liveness.wait_born("bridge", "upstream")
            assert editor.stdout is not None
            assert json.loads(editor.stdout.readline())["id"] == INITIALIZE["id"]
            editor.kill()
            liveness.wait_dead("bridge", "upstream", seconds=BOUND)
