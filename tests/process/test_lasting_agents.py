"""What an agent has started ends with the process, and does not keep it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.running import DEADLINE, Running
from tests.process.driving import BOUND, LineClient, initialized
from tests.process.lasting_agents import WAYS
from tests.process.liveness import LIVENESS_PORT, watching

AGENT = f"{Path(__file__).with_name('lasting_agents.py')}:LastingAgent"
PROCESSES = {"in-pool": ["pool"], "in-process": ["process"], "in-program": ["program"]}
PROCESSES["everything"] = [name for names in PROCESSES.values() for name in names]

END: dict[str, Callable[[Running], None]] = {
    "end of input": Running.close_input,
    "SIGTERM": lambda bridge: bridge.process.send_signal(signal.SIGTERM),
    "SIGINT": lambda bridge: bridge.process.send_signal(signal.SIGINT),
    "SIGKILL": lambda bridge: bridge.process.kill(),
}


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are begun anew import from here."""
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    )


@pytest.mark.requirement("F-221", "F-222")
@pytest.mark.parametrize(
    ("tool", "end"),
    [
        ("everything", "end of input"),
        ("everything", "SIGKILL"),
        pytest.param("everything", "SIGTERM", marks=pytest.mark.thorough),
        *(
            pytest.param(tool, end, marks=pytest.mark.thorough)
            for tool in (*WAYS, "in-thread")
            for end in ("end of input", "SIGINT", "SIGKILL")
        ),
    ],
)
def test_whatever_an_agent_has_started_ends_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, end: str
) -> None:
    with ExitStack() as opened:
        liveness = opened.enter_context(watching(DEADLINE))
        monkeypatch.setenv(LIVENESS_PORT, str(liveness.port))
        client = opened.enter_context(initialized(AGENT, cwd=tmp_path))
        if tool in WAYS or tool == "everything":
            assert not client.call_result(tool).get("isError")
        if tool not in WAYS:
            client.call("in-thread")
            client.bridge.until_error("hanging")
        born = PROCESSES.get(tool, [])
        liveness.wait_born(*born)
        END[end](client.bridge)
        assert _ended(client) == (-signal.SIGKILL if end == "SIGKILL" else 0)
        liveness.wait_dead(*born, seconds=BOUND)


@pytest.mark.requirement("F-223")
def test_a_signal_to_a_forked_process_is_no_signal_to_the_bridge(tmp_path: Path) -> None:
    with initialized(AGENT, cwd=tmp_path) as client:
        assert client.call_result("terminated")["structuredContent"] == {"code": -signal.SIGTERM}
        assert client.result("ping") == {}
        client.bridge.close_input()
        assert client.ended() == 0
        assert "SIGTERM" not in client.bridge.all_errors()


def _ended(client: LineClient) -> int:
    """The exit code. Not by the end of its output: a process that it forked may hold that."""
    return client.bridge.process.wait(BOUND)
