"""Two tools instead of all: for whom, under which names, and what they answer."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import NamingPolicy, ToolSearchPolicy
from gaia_bridge.settings import AgentLimits, PageLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent, tool
from tests.support.bridges import RunningBridge, both_eras, ping, running_bridge, text_of
from tests.support.on_demand import mcp, mcp_subscriptions, mcp_types
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

VS_CODE: dict[str, Any] = {"name": "Visual Studio Code", "version": "1.138.0"}
ALWAYS = Settings(tool_search=ToolSearchPolicy.ALWAYS)
NEVER = Settings(tool_search=ToolSearchPolicy.NEVER)
OURS = ["tool_search", "call_tool"]
LOGGER = "gaia_bridge.server.published_search"


def say(name: str, given: JSON) -> JSON:
    return {"did": name, **given}


def agent_with(count: int, *tools: JSON | str) -> ScriptedAgent:
    """An agent with so many tools that say who they are, and some more."""
    return ScriptedAgent(say, *(f"t{number}" for number in range(count)), *tools)


async def names(client: mcp.Client) -> list[str]:
    return [item.name for item in (await client.list_tools()).tools]


async def search(client: mcp.Client, name: str = "tool_search", **arguments: Any) -> JSON:
    told: JSON = json.loads(text_of(await client.call_tool(name, arguments)))
    return told


async def by_name(client: mcp.Client, **arguments: Any) -> mcp_types.CallToolResult:
    return await client.call_tool("call_tool", arguments)


def vs_code(running: RunningBridge, mode: str, path: str = "") -> mcp.Client:
    return running.client(mode, path, client_info=mcp_types.Implementation(**VS_CODE))


# For whom


@both_eras
@pytest.mark.parametrize(("count", "switched"), [(128, False), (129, True)])
async def test_a_known_client_is_shown_two_tools_as_soon_as_there_are_more_than_it_takes(
    mode: str, count: int, switched: bool
) -> None:
    async with running_bridge(agent_with(count)) as running:
        for path in ("", "agents/a0"):
            async with vs_code(running, mode, path) as client:
                listed = await names(client)
                assert (listed == OURS) is switched
                assert switched or len(listed) == count
                assert (await client.call_tool("t5", {})).structured_content == {"did": "t5"}
                by_another = by_name(client, name="t5")
                if switched:
                    assert (await by_another).structured_content == {"did": "t5"}
                else:
                    with pytest.raises(mcp.MCPError, match="Unknown tool: call_tool"):
                        await by_another


@both_eras
async def test_every_endpoint_is_looked_at_by_itself(mode: str) -> None:
    async with running_bridge(agent_with(100), ScriptedAgent(say, *(f"u{number}" for number in range(29)))) as running:
        async with vs_code(running, mode) as client:
            assert await names(client) == OURS
        async with vs_code(running, mode, "agents/a0") as client:
            assert len(await names(client)) == 100


@both_eras
async def test_clients_that_are_not_known_see_everything(mode: str) -> None:
    async with running_bridge(agent_with(200)) as running, running.client(mode) as client:
        assert len(await names(client)) == 200


@both_eras
async def test_who_wants_it_always_shows_two_tools_to_everybody_on_every_endpoint(mode: str) -> None:
    async with running_bridge(agent_with(1), settings=ALWAYS) as running:
        for path in ("", "agents/a0"):
            async with running.client(mode, path) as client:
                assert await names(client) == OURS
                assert (await search(client))["total_matches"] == 1


@both_eras
async def test_who_wants_it_never_shows_everything_and_has_no_search(mode: str) -> None:
    async with running_bridge(agent_with(200), settings=NEVER) as running, vs_code(running, mode) as client:
        assert len(await names(client)) == 200
        for name in OURS:
            with pytest.raises(mcp.MCPError, match="Unknown tool"):
                await client.call_tool(name, {"name": "t1"})


@both_eras
async def test_where_there_are_no_tools_there_is_no_search(mode: str) -> None:
    async with running_bridge(settings=ALWAYS) as running, running.client(mode) as client:
        assert (await client.list_tools()).tools == []


@both_eras
async def test_another_bridge_sees_everything_and_decides_by_itself(mode: str) -> None:
    async with running_bridge(agent_with(200)) as running, vs_code(running, mode) as client:
        meta: Any = {HOPS_META_KEY: ["another"]}
        listed = await client.list_tools(meta=meta)
        assert len(listed.tools) == 200


@both_eras
async def test_clients_with_and_without_a_limit_are_served_side_by_side(mode: str) -> None:
    settings = Settings(pages=PageLimits(items=150))
    async with running_bridge(agent_with(200), settings=settings) as running:
        async with running.client(mode) as free, vs_code(running, mode) as limited:
            for _ in range(2):
                page = await free.list_tools()
                assert (len(page.tools), page.next_cursor is None) == (150, False)
                assert await names(limited) == OURS
                rest = await free.list_tools(cursor=page.next_cursor)
                assert (len(rest.tools), rest.next_cursor) == (50, None)
                late = await limited.list_tools(cursor=page.next_cursor)
                assert (late.tools, late.next_cursor) == ([], None)


async def test_it_is_told_once_who_was_switched_and_why_and_shown_in_the_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = agent_with(129)
    settings = Settings(agent=AgentLimits(definitions_max_age=0))
    async with running_bridge(agent, settings=settings) as running, vs_code(running, "auto") as client:
        status: Any = running.bridge.status
        assert status()["toolSearch"] == {"policy": "auto", "clients": []}
        await names(client)
        agent.tools.append(tool("one_more"))
        assert await names(client) == OURS
        switched = {"path": "/mcp", "client": "visual studio code", "limit": 128, "tools": 130}
        assert status()["toolSearch"] == {"policy": "auto", "clients": [switched]}
        del agent.tools[100:]
        assert len(await names(client)) == 100
        assert status()["toolSearch"]["clients"] == []
    assert [record.getMessage() for record in caplog.records if record.name == LOGGER] == [
        "Visual Studio Code takes at most 128 tools: instead of 129 it is shown two that find and call them"
        " (--tool-search never shows all)",
        "Visual Studio Code is shown all 100 tools again",
    ]


async def test_clients_are_told_when_the_tools_behind_the_search_change() -> None:
    told = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            told.set()

    async with running_bridge(agent_with(128)) as running:
        legacy = running.client("legacy", client_info=mcp_types.Implementation(**VS_CODE), message_handler=hear)
        async with legacy, vs_code(running, "auto") as modern, modern.listen(tools_list_changed=True) as subscription:
            await ping(legacy)
            assert len(await names(legacy)) == len(await names(modern)) == 128
            await running.bridge.add_agent(agent_with(0, "new_one"), "new")
            with anyio.fail_after(PATIENCE):
                await told.wait()
                assert isinstance(await anext(aiter(subscription)), mcp_subscriptions.ToolsListChanged)
            for client in (legacy, modern):
                assert await names(client) == OURS
                assert (await search(client, pattern="new_one"))["total_matches"] == 1
            await running.bridge.remove("new")
            for client in (legacy, modern):
                assert len(await names(client)) == 128
                with pytest.raises(mcp.MCPError, match="Unknown tool: tool_search"):
                    await search(client, pattern="new_one")


# Names


@both_eras
async def test_a_tool_of_a_source_keeps_its_name_and_ours_gives_way(mode: str) -> None:
    agent = agent_with(1, "call_tool", "gaia-bridge__call_tool")
    for policy in NamingPolicy:
        async with running_bridge(agent, settings=ALWAYS, names=policy) as running:
            async with running.client(mode, "agents/a0") as client:
                found, call = await names(client)
                assert (found, call[:23]) == ("tool_search", "gaia-bridge__call_tool_")
                theirs = await client.call_tool("call_tool", {"name": "t0"})
                assert theirs.structured_content == {"did": "call_tool", "name": "t0"}
                ours = await client.call_tool(call, {"name": "call_tool", "arguments": {"a": 1}})
                assert ours.structured_content == {"did": "call_tool", "a": 1}
                assert call in (await search(client))["message"]


# What a search answers


@both_eras
async def test_a_search_tells_all_that_is_needed_to_call_a_tool(mode: str) -> None:
    described = {
        "name": "remove_file",
        "description": "Removes a file. " * 20,
        "annotations": {"destructiveHint": True},
        **{"inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
    }
    async with running_bridge(agent_with(3, described), settings=ALWAYS) as running, running.client(mode) as client:
        for arguments in ({"query": "removing files"}, {"pattern": "REMOVE|zebra"}):
            told = await search(client, **arguments)
            assert told["status"] == "success"
            assert told["total_matches"] == 1
            assert told["tools"] == [
                {
                    "name": "remove_file",
                    "description": described["description"],
                    "dangerous": True,
                    "inputSchema": described["inputSchema"],
                }
            ]
        assert [item["name"] for item in (await search(client))["tools"]] == ["t0", "t1", "t2", "remove_file"]
        assert (await search(client, query="zebra"))["status"] == "no_matches"


@both_eras
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pattern": "[abc"}, "unterminated character set"),
        ({"pattern": 3}, "pattern has to be text"),
        ({"query": ["file"]}, "query has to be text"),
        ({"query": "..."}, "no words"),
    ],
)
async def test_a_search_that_cannot_be_done_is_an_error_that_the_model_can_read(
    mode: str, arguments: JSON, error: str
) -> None:
    async with running_bridge(agent_with(3), settings=ALWAYS) as running, running.client(mode) as client:
        result = await client.call_tool("tool_search", arguments)
        told = json.loads(text_of(result))
        assert result.is_error
        assert (told["status"], error in told["error"]) == ("error", True)


async def test_an_answer_has_at_most_so_many_bytes_and_one_tool_at_least() -> None:
    large: JSON = {"type": "object", "description": "x" * 4_000}
    agent = agent_with(0, *({"name": f"t{number}", "inputSchema": large} for number in range(5)))
    settings = Settings(tool_search=ToolSearchPolicy.ALWAYS, tool_search_bytes=9_000)
    async with running_bridge(agent, settings=settings) as running, running.client() as client:
        told = await search(client)
        assert ([item["name"] for item in told["tools"]], told["total_matches"]) == (["t0", "t1"], 5)
        assert "3 more match" in told["message"]
    settings = Settings(tool_search=ToolSearchPolicy.ALWAYS, tool_search_bytes=1)
    async with running_bridge(agent, settings=settings) as running, running.client() as client:
        assert len((await search(client))["tools"]) == 1


async def test_tools_that_changed_unannounced_are_found_as_they_would_be_listed() -> None:
    agent = agent_with(3)
    settings = Settings(agent=AgentLimits(definitions_max_age=0), tool_search=ToolSearchPolicy.ALWAYS)
    async with running_bridge(agent, settings=settings) as running, running.client() as client:
        agent.tools.append(tool("zebra"))
        assert (await search(client, query="zebra"))["total_matches"] == 1


async def test_the_description_says_whose_tools_there_are() -> None:
    async with running_bridge(named={"books": agent_with(1), "maps": agent_with(0, "route")}, settings=ALWAYS) as run:
        async with run.client() as client:
            found, call = (await client.list_tools()).tools
    assert "There are tools of: books, maps." in (found.description or "")
    assert found.annotations is not None
    assert found.annotations.read_only_hint
    assert call.annotations is None  # clients ask before they call what may do anything


@both_eras
async def test_a_tool_for_apps_only_is_listed_beside_the_search_and_kept_from_models(mode: str) -> None:
    hidden = {**tool("refresh_view"), "_meta": {"ui": {"resourceUri": "ui://v", "visibility": ["app"]}}}
    both = {**tool("show_view"), "_meta": {"ui": {"resourceUri": "ui://v", "visibility": ["model", "app"]}}}
    async with running_bridge(agent_with(1, hidden, both), settings=ALWAYS) as running, running.client(mode) as client:
        assert await names(client) == [*OURS, "refresh_view"]
        for look in ({"query": "view"}, {"pattern": "view"}):
            assert [found["name"] for found in (await search(client, **look))["tools"]] == ["show_view"]
        assert (await client.call_tool("refresh_view", {})).structured_content == {"did": "refresh_view"}
        refused = await by_name(client, name="refresh_view")
        assert refused.is_error
        assert "for the views of an app only" in text_of(refused)
        assert (await by_name(client, name="show_view")).structured_content == {"did": "show_view"}


# What is called by name


@both_eras
@pytest.mark.parametrize(
    "given",
    [
        {"name": "add", "arguments": {"n": 1}},
        {"name": "add", "arguments": '{"n": 1}'},
    ],
)
async def test_arguments_are_understood_as_models_write_them(mode: str, given: JSON) -> None:
    add = tool("add", n={"type": "integer"})
    async with running_bridge(agent_with(0, add, "t0"), settings=ALWAYS) as running, running.client(mode) as client:
        assert (await by_name(client, **given)).structured_content == {"did": "add", "n": 1}
        nothings: list[JSON] = [{}, {"arguments": None}, {"arguments": {}}, {"arguments": "{}"}]
        for nothing in nothings:
            assert (await by_name(client, name="t0", **nothing)).structured_content == {"did": "t0"}


@both_eras
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "The name of the tool is missing"),
        ({"name": 3}, "The name of the tool is missing"),
        ({"name": "add", "n": 1}, "There is no place for n beside the arguments"),
        ({"name": "add", "arguments": [1]}, "The arguments are no object"),
        ({"name": "add", "arguments": "{n: 1"}, "The arguments are no object"),
        ({"name": "add", "arguments": '{"n": NaN}'}, "The arguments are no object"),
        ({"name": "add", "arguments": "[" * 100_000}, "The arguments are no object"),
        ({"name": "zebra"}, "Unknown tool: zebra"),
        ({"name": "call_tool", "arguments": {"name": "add"}}, "Unknown tool: call_tool"),
        ({"name": "add", "arguments": {"n": "one"}}, "at /n"),
        ({"name": "add"}, "n"),
    ],
)
async def test_a_call_that_cannot_be_made_is_an_error_that_the_model_can_read(
    mode: str, given: JSON, error: str
) -> None:
    add = tool("add", n={"type": "integer"})
    async with running_bridge(agent_with(0, add), settings=ALWAYS) as running, running.client(mode) as client:
        result = await by_name(client, **given)
        assert result.is_error
        assert error in text_of(result)


@both_eras
async def test_a_protocol_error_of_what_is_called_by_name_is_one(mode: str) -> None:
    def refuse(name: str, arguments: JSON) -> Any:
        raise ProtocolError(-32042, "not now", {"later": True})

    async with running_bridge(ScriptedAgent(refuse, "work"), settings=ALWAYS) as running:
        async with running.client(mode) as client:
            with pytest.raises(mcp.MCPError) as direct:
                await client.call_tool("work", {})
            with pytest.raises(mcp.MCPError) as named:
                await by_name(client, name="work")
    assert named.value.error == direct.value.error


async def test_thousands_of_tools_cost_a_direct_call_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is compiled, named or indexed for a client that never searches."""
    caplog.set_level(logging.DEBUG)
    async with running_bridge(agent_with(2_000)) as running, running.client() as client:
        await client.call_tool("t1999", {})
        searching: Any = running.endpoint().tool_search
        assert searching._catalog._view._own_names == {}
