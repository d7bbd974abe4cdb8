"""Nothing but MCP is on standard output, whatever an agent does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.driving import initialized

NOISY = Path(__file__).with_name("noisy_agent.py")
WAYS = ("print", "buffer", "original", "descriptor", "libc", "logging", "device")
MOMENTS = ("at import", "in the constructor", "in a listing", "in a tool", "at exit")


@pytest.mark.requirement("F-108", "P-7", "S-12")
def test_whatever_an_agent_prints_goes_to_standard_error_and_it_can_read_nothing(tmp_path: Path) -> None:
    with initialized(str(NOISY), cwd=tmp_path) as client:
        result = client.call_result("shout")
        assert result["structuredContent"] == {"child": 0, "typed": None, "read": ""}
        client.bridge.close_input()
        assert client.ended() == 0
        assert client.others == []
        errors = client.bridge.all_errors()
    said = {f"{way} {moment}" for way in WAYS for moment in MOMENTS} | {"from a child", "from a shell", "from a prompt"}
    assert {text for text in said if text not in errors} == set()
    assert "through descriptor" not in errors
