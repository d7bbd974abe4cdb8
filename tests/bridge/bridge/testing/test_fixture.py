"""What authors of agents test with: a client in both eras, a user, a model, and what was said meanwhile."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge import Bridge, Elicited, ProtocolError, ToolError, get_request_context, tool
from gaia_bridge.testing import FakeModel, FakeUser, RecordingClient, connected
from tests.support.forking import forked
from tests.support.on_demand import mcp_server

Connect = Callable[..., RecordingClient]


class Desk:
    def __init__(self) -> None:
        self.publisher: Any = None

    def on_mcp_published(self, publisher: Any) -> None:
        self.publisher = publisher

    def on_mcp_unpublished(self, publisher: Any) -> None:
        self.publisher = None

    @tool
    def sign(self, times: int = 1) -> list[str]:
        """Ask the user."""
        request = get_request_context()
        request.report_progress(1, 2, "asking")
        request.log("about to ask", "debug")
        answers = [request.elicit(f"Sign {number}?", {"yes": {"type": "boolean"}}) for number in range(times)]
        return [f"{answer.action} {dict(answer.content)}" for answer in answers]

    @tool
    def think(self, what: str) -> str:
        """Ask the model."""
        return str(get_request_context().sample(what, max_tokens=9)["content"]["text"])


async def test_the_user_answers_form_after_form(mcp_client: Connect) -> None:
    user = FakeUser({"yes": True}, False, Elicited("cancel"), lambda message, schema: {"yes": message == "Sign 3?"})
    async with mcp_client(Desk(), user=user) as client:
        result = await client.call_tool("sign", times=4)
        assert result.structured_content == {
            "result": ["accept {'yes': True}", "decline {}", "cancel {}", "accept {'yes': True}"]
        }
        assert [message for message, _ in user.asked] == ["Sign 0?", "Sign 1?", "Sign 2?", "Sign 3?"]
        assert user.asked[0][1]["properties"] == {"yes": {"type": "boolean"}}


async def test_a_question_too_much_says_what_to_give(mcp_client: Connect) -> None:
    async with mcp_client(Desk(), user=FakeUser(True), model=FakeModel()) as client:
        with pytest.raises((ToolError, ProtocolError), match=r"has 1 answers; .*'Sign 1\?': give FakeUser"):
            await client.call_tool("sign", times=2)
        with pytest.raises((ToolError, ProtocolError), match="the model of this test was asked 1 times"):
            await client.call_tool("think", what="so")


async def test_the_model_answers_in_text_in_full_and_by_a_function(mcp_client: Connect) -> None:
    full = {"role": "assistant", "content": {"type": "text", "text": "two"}, "model": "m"}
    model = FakeModel("one", full, lambda params: f"{params['maxTokens']}")
    async with mcp_client(Desk(), model=model) as client:
        assert [(await client.call_tool("think", what=word)).text for word in "abc"] == ["one", "two", "9"]
        assert model.prompts == ["a", "b", "c"]
        assert model.asked[0]["maxTokens"] == 9


async def test_what_is_said_meanwhile_is_recorded(mcp_client: Connect) -> None:
    async with mcp_client(Desk(), user=FakeUser(True)) as client:
        await client.call_tool("sign")
        assert [report.message for report in client.progress] == ["asking"]
        assert [message["data"] for message in client.log] == ["about to ask"]
        received: list[Any] = []
        await client.call_tool("sign", {"times": 0}, on_progress=received.append)
        assert (len(received), len(client.progress)) == (1, 1)


async def test_changes_are_waited_for(mcp_client: Connect) -> None:
    desk = Desk()
    async with mcp_client(desk) as client:
        desk.publisher.tools_changed()
        assert await client.heard("notifications/tools/list_changed") is not None
        assert client.changes == []


async def test_what_never_comes_is_told_in_time(mcp_client: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaia_bridge.bridge.testing.recording_client._PATIENCE", 0.01)
    async with mcp_client(Desk()) as client:
        with pytest.raises(TimeoutError, match=r"no notifications/gone came within 0\.01 s, but nothing"):
            await client.heard("notifications/gone")


async def test_three_sources_are_tested_as_one(mcp_client: Connect) -> None:
    def multiply(a: int, b: int) -> int:
        return a * b

    server: Any = mcp_server.MCPServer("times")
    server.tool()(multiply)
    bridge = Bridge(Desk(), server, servers={"child": [sys.executable, *forked("stdio_upstream.py")]})
    async with mcp_client(bridge, user=FakeUser(True)) as client:
        assert (await client.call_tool("times__multiply", a=2, b=3)).text == "6"
        assert "accept" in (await client.call_tool("sign")).text
        while not any(item["name"].startswith("child__") for item in await client.list_tools()):
            await client.heard("notifications/tools/list_changed")  # on a busy machine it starts late
    async with mcp_client(bridge, endpoint="times") as client:
        assert client.server_info["name"] == "times"


@pytest.mark.anyio
async def test_without_the_fixture_the_best_era_is_spoken() -> None:
    async with connected(Desk()) as client:
        assert client.revision == "2026-07-28"


def test_the_plugin_needs_no_mark_no_configuration_and_runs_in_both_eras(tmp_path: Path) -> None:
    """A project of its own, as an author has it, with fixtures of its own."""
    (tmp_path / "test_it.py").write_text(
        """
import pytest
from gaia_bridge import tool

class Hello:
    @tool
    def greet(self, name: str) -> str:
        return f"Hello, {name}!"

@pytest.fixture
def name():
    return "Ada"

async def test_greets(mcp_client, name):
    async with mcp_client(Hello()) as client:
        assert (await client.call_tool("greet", name=name)).text == "Hello, Ada!"

async def test_fails(mcp_client):
    async with mcp_client(Hello()) as client:
        assert await client.list_tools() == []
"""
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "test_fails[legacy]" in done.stdout
    assert "ExceptionGroup" not in done.stdout


def test_the_plugin_imports_nothing_of_the_bridge_until_a_test_uses_it() -> None:
    code = (
        "import sys, gaia_bridge.bridge.testing.plugin; "
        "print([m for m in sys.modules if m.startswith(('gaia_bridge.e', 'gaia_bridge.bridge.e'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
