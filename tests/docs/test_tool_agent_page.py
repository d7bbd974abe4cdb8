"""The agent that `docs/async-manager.md` shows, with a model server that plays along."""

from __future__ import annotations

from pathlib import Path

from tests.docs.test_async_manager import example, printed
from tests.support.scripted_model import call, say, scripted_model


def test_the_agent_chats_with_the_tools_of_its_servers(tmp_path: Path) -> None:
    replies = call("get_current_time", timezone="Europe/Lisbon"), say("It is noon in Lisbon.")
    with scripted_model(*replies, models=["qwen3"]) as model:
        code = example("ToolAgent(").replace("http://localhost:11434/v1", model.base_url)
        assert printed(code, tmp_path) == "It is noon in Lisbon.\n"
        asked = model.requests()
    assert asked[0].tool_names == ["get_current_time"]
    assert asked[1].messages[-1]["content"] == "12:00"
