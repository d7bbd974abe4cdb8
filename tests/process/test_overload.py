"""More calls than an agent can take."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaia_bridge.settings import AgentLimits
from tests.process.driving import AGENTS, initialized

LIMITS = AgentLimits()
CAPACITY = LIMITS.threads + LIMITS.queue


@pytest.mark.requirement("F-107", "F-088", "S1-17")
def test_every_call_is_answered_or_told_busy_and_nobody_else_notices(tmp_path: Path) -> None:
    with initialized(str(AGENTS), cwd=tmp_path) as client:
        calls = [client.call("hold") for _ in range(200)]
        refused = [client.answer_to_any(calls) for _ in range(200 - CAPACITY)]
        assert all("stuck is busy: 8 calls running, 64 waiting" in str(item["result"]) for item in refused)
        assert client.result("ping") == {}
        assert client.call_result("calm", n=1)["structuredContent"] == {"from": "calm", "n": 1}
        assert {"hold", "calm"} <= {tool["name"] for tool in client.result("tools/list")["tools"]}
        assert client.others == []

        client.call_result("release")
        held = [client.answer_to_any(calls) for _ in range(CAPACITY)]
        assert all(item["result"]["structuredContent"] == {"from": "hold"} for item in held)
        assert {item["id"] for item in (*refused, *held)} == set(calls)

        quick = [client.call("calm") for _ in range(1000)]
        answers = [client.answer_to_any(quick)["result"] for _ in quick]
        done = [answer for answer in answers if not answer.get("isError")]
        assert all("busy" in str(answer) for answer in answers if answer.get("isError"))
        assert len(done) >= CAPACITY
        client.bridge.close_input()
        assert client.ended() == 0
        assert client.others == []
