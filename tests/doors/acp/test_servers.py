"""The MCP servers that an editor gives to a conversation: tools and commands of that conversation alone."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from gaia.agents.base import MCPAgent, prompt
from gaia_bridge.bridge import Bridge
from gaia_bridge.errors import ToolError
from gaia_bridge.middleware import CallNext, McpRequest, Middleware
from gaia_bridge.settings import AcpLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.editors import Editing, EditorClient, editing, stdio_server
from tests.support.fake_model import FakeModel, call, calls, made, say
from tests.support.on_demand import acp, acp_schema
from tests.support.upstreams import TESTS
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

RAW, ASKING = (str(TESTS / "servers" / f"{name}_server.py") for name in ("raw", "asking"))
SDK = str(TESTS / "servers" / "stdio_upstream.py")


def raw(name: str = "up", **env: str) -> Any:
    """A server that is quick to start."""
    return stdio_server(name, sys.executable, "-S", RAW, "", **env)


async def test_the_servers_of_a_conversation_are_tools_of_that_conversation_alone(tmp_path: Path) -> None:
    agent, model = made(calls(("up__pid", {}), ("up__env", {})), say("Done."), say("Nothing."))
    async with editing(agent) as editor:
        session = await editor.begin(raw(GREETING="hello"), cwd=tmp_path)
        await editor.ask(session, "go")
        shown = editor.client.shown("tool_call_update")
        await editor.ask(await editor.begin(), "go")
        number, environment = model.asked[1].results()
        assert psutil.Process(number).cwd() == str(tmp_path)
    assert {"up__pid", "up__env"} <= set(model.asked[0].tool_names)
    assert model.asked[2].tool_names == []
    assert environment["GREETING"] == "hello"
    assert {update["status"] for update in shown} == {"completed"}
    assert all(update["rawOutput"]["content"] for update in shown)


async def test_a_server_ends_with_its_conversation(nothing_left: None) -> None:
    pids: list[int] = []
    agent, model = made(call("up__pid"), say("One."), call("up__pid"), say("Two."))
    async with editing(agent) as editor:
        first = await editor.begin(raw())
        await editor.ask(first, "go")
        second = await editor.begin(raw())
        await editor.ask(second, "go")
        pids += [int(model.asked[1].results()[0]), int(model.asked[3].results()[0])]
        assert pids[0] != pids[1]
        await editor.connection.close_session(first)
        await until(lambda: not psutil.pid_exists(pids[0]))
        assert psutil.pid_exists(pids[1])
    await until(lambda: not psutil.pid_exists(pids[1]))


async def test_a_server_that_does_not_start_leaves_the_others_alone() -> None:
    agent, model = made(say("Done."))
    async with editing(agent, settings=Settings(acp=AcpLimits(starting=5))) as editor:
        session = await editor.begin(stdio_server("gone", "/no/such/program"), raw("there"))
        await editor.ask(session, "go")
    assert "there__pid" in model.asked[0].tool_names
    assert not any(name.startswith("gone") for name in model.asked[0].tool_names)


@asynccontextmanager
async def asking(
    mode: str, tool: str, client: EditorClient, *, forms: bool
) -> AsyncGenerator[tuple[Editing, FakeModel]]:
    """An editor whose server asks its user something, in one of the two ways that servers have."""
    agent, model = made(call(f"up__{tool}"), say("Done."))
    async with editing(agent, client, forms=forms) as editor:
        session = await editor.begin(stdio_server("up", sys.executable, "-S", ASKING, mode))
        await editor.ask(session, "go")
        yield editor, model


@pytest.mark.parametrize("mode", ["", "modern-only"])
async def test_what_a_server_asks_is_asked_in_the_editor(mode: str) -> None:
    filled: JSON = {"name": "Ada", "window": True}
    async with asking(mode, "form", EditorClient(fill=filled), forms=True) as (editor, model):
        [form], [begun] = editor.client.forms, editor.client.shown("tool_call")
        assert form["toolCallId"] == begun["toolCallId"]
        assert form["message"].startswith("A table?")
    assert model.asked[1].results()[0]["content"] == filled
    async with asking(mode, "agree", EditorClient(), forms=False) as (editor, model):
        [asked] = editor.client.permissions
        assert asked["call"]["title"] == "Really?"
    assert model.asked[1].results()[0]["action"] == "accept"
    async with asking(mode, "agree", EditorClient("reject"), forms=False) as (_, model):
        pass
    assert model.asked[1].results()[0]["action"] == "decline"


async def test_a_server_that_asks_too_much_is_told_so() -> None:
    async with asking("", "form", EditorClient(), forms=False) as (_, model):
        pass
    assert "this editor shows no forms" in json.dumps(model.asked[1].results())


async def test_the_prompts_of_agent_and_servers_are_commands() -> None:
    class Reviewing(MCPAgent):
        """Reviews."""

        def _get_system_prompt(self) -> str:
            return "You review."

        @prompt
        def review(self, file: str, focus: str = "style") -> str:
            """Review a file."""
            return f"Review {file} for {focus}."

    model = FakeModel(say("Fine."), say("Hello."), say("What?"))
    async with editing(Reviewing(silent_mode=True, model=model)) as editor:
        session = await editor.begin(stdio_server("up", sys.executable, SDK))

        def commands() -> dict[str, JSON]:
            told = editor.client.shown("available_commands_update", session)
            return {command["name"]: command for command in told[-1]["availableCommands"]} if told else {}

        await editor.client.until(lambda: {"review", "up__greet"} <= commands().keys())
        assert commands()["review"]["description"] == "Review a file."
        assert commands()["review"]["input"] == {"hint": "file [focus]"}
        await editor.ask(session, "/review a.py focus=speed")
        await editor.ask(session, "/up__greet the whole team", acp.resource_link_block("a.py", "file:///a.py"))
        await editor.ask(session, "/etc/hosts is odd")
        with pytest.raises(acp.RequestError, match="/review: no file came; expected /review file"):
            await editor.ask(session, "/review")
    assert model.asked[0].last["content"] == "Review a.py for speed."
    assert [it["content"] for it in model.asked[1].messages[-3:]] == [
        "Greet the whole team.",
        "(image: not shown)",
        "[a.py](file:///a.py)",
    ]
    assert model.asked[2].last["content"] == "/etc/hosts is odd"


async def test_middleware_is_around_the_tools_and_prompts_of_agent_and_servers() -> None:
    class Greeting(MCPAgent):
        """Greets."""

        def _get_system_prompt(self) -> str:
            return "You greet."

        @prompt
        def hello(self) -> str:
            """Say hello."""
            return "Hello."

    class Refusing(Middleware):
        async def on_request(self, request: McpRequest, call_next: CallNext) -> JSON:
            if request.method.endswith("/list"):
                return await call_next(request)
            raise ToolError(f"refused: {request.name}")

    model = FakeModel(call("up__pid"), say("Done."))
    agent = Greeting(silent_mode=True, model=model)
    async with editing(agent, middleware=[Refusing()]) as editor:
        session = await editor.begin(raw())
        await editor.ask(session, "go")
        await editor.ask(session, "/hello")
        assert "/hello cannot be filled in: refused: hello" in str(editor.client.updates)
    assert "refused: up__pid" in str(model.asked[1].results())


async def test_servers_that_cannot_be_are_refused(nothing_left: None) -> None:
    agent, _ = made()
    http = acp_schema.HttpMcpServer(type="http", name="web", url="ftp://example.org", headers=[])
    half = acp_schema.HttpMcpServer(type="http", name="web", url="http://[::1", headers=[])
    other = acp_schema.AcpMcpServer(type="acp", name="odd", server_id="1")
    async with editing(agent, settings=Settings(acp=AcpLimits(servers=2))) as editor:
        for servers, problem in (
            ([http], r"mcpServers\[0\].url: 'ftp://example.org' came; expected a URL with http or https"),
            ([half], r"mcpServers\[0\].url: 'http://\[::1' came; expected a URL with http or https"),
            ([raw(), other], r"mcpServers\[1\].type: 'acp' came; expected stdio, http or sse"),
            ([raw(), raw()], "mcpServers: two servers are called 'up'; expected a name of its own for each"),
            ([stdio_server("up", "")], r"mcpServers\[0\].command: an empty text came; expected a program"),
            ([stdio_server(" ", "x")], r"mcpServers\[0\].name: ' ' came; expected a name that can be seen"),
            ([raw("a"), raw("b"), raw("c")], "mcpServers: 3 servers came; expected at most 2"),
        ):
            with pytest.raises(acp.RequestError, match=problem):
                await editor.begin(*servers)


async def test_servers_on_the_network_are_reached_with_their_headers() -> None:
    agent, model = made(calls(("web__work", {}), ("old__work", {})), say("Done."))
    async with Bridge(one_tool(lambda arguments: "worked")) as others, anyio.create_task_group() as tasks:
        [url] = await tasks.start(partial(others.serve_http, "127.0.0.1", 0, token="a-secret-of-thirty-two-characters"))
        secret = "Bearer a-secret-of-thirty-two-characters"
        headers = [acp_schema.HttpHeader(name="Authorization", value=secret)]
        web = acp_schema.HttpMcpServer(type="http", name="web", url=f"{url}/mcp", headers=headers)
        old = acp_schema.SseMcpServer(type="sse", name="old", url=f"{url}/sse", headers=headers)
        async with editing(agent) as editor:
            await editor.ask(await editor.begin(web, old), "go")
        tasks.cancel_scope.cancel()
    assert model.asked[1].results() == ["worked", "worked"]
