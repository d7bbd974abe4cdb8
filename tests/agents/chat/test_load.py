"""Many sessions, fifty at once, against a model server in another process: nobody hears of anybody else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gaia.agents.chat.limits import ChatLimits
from tests.support.scripted_model import call, rule, say, scripted_model

ROOT = Path(__file__).parents[3]
AT_ONCE = 50
MIB = 1024 * 1024


@pytest.mark.timeout(180)
@pytest.mark.parametrize("sessions", [50, pytest.param(1_000, marks=pytest.mark.thorough)])
def test_many_sessions_fifty_at_once_keep_apart_and_within_bounds(sessions: int) -> None:
    rules = [rule(r"I am (user\d+): (\d+) plus 7", call("add", name="$1", a="$2", b=7), say("So $result."))]
    with scripted_model(rules=rules, models=["scripted"]) as server:
        program = [sys.executable, "-m", "tests.agents.chat.load_program", server.base_url, str(sessions), str(AT_ONCE)]
        done = subprocess.run(program, cwd=ROOT, stdout=subprocess.PIPE, timeout=170, check=True)
        found = json.loads(done.stdout)
        requests = server.requests()
        peak = server.state()["peak"]
    assert found["problems"] == []
    assert found["sessions"] == sessions
    for number, history in enumerate(found["histories"]):
        assert [message["role"] for message in history] == ["user", "assistant", "tool", "assistant"]
        assert f"user{number} " in history[2]["content"]
    assert len(requests) == 2 * sessions
    for request in requests:
        users = {word.rstrip(":") for text in map(str, request.messages) for word in text.split() if "user" in word}
        assert len({name for name in users if name.removeprefix("user").isdigit()}) == 1
    assert 1 < peak <= AT_ONCE
    quarter, *_, end = found["memory"]
    assert end - quarter < 32 * MIB, f"three quarters of the sessions took {(end - quarter) / MIB:.0f} MiB"
    limits = ChatLimits()
    assert found["threads"] <= limits.threads + limits.step_threads + 10
    assert found["threads after"] == 1
