"""One endpoint, clients of both eras: what they see, call, read and complete."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import anyio
import pytest

from gaia_bridge.errors import (
    ProtocolError,
    ResourceNotFoundError,
)
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import nothing
from tests.bridge.sources.agent.people import shown
from tests.support.agents import ScriptedAgent, one_tool, tool
from tests.support.bridges import RunningBridge, both_eras, ping, running_bridge, subscribe, text_of
from tests.support.on_demand import mcp, mcp_types
from tests.support.waiting import PATIENCE, wait_in_thread

LOGGER = "gaia_bridge.sources.agent.invoker"


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-16", "P-2", "P-10")
async def test_a_client_is_told_who_the_agent_is_and_what_it_can_do(mode: str) -> None:
    introduction = {"name": "Books", "version": "3.1", "title": "The books", "instructions": "Ask first."}
    agent = one_tool(nothing, get_mcp_server_info=lambda: introduction, get_mcp_prompts=lambda: [{"name": "p"}])
    async with running_bridge(agent) as running, running.client(mode) as client:
        info = client.server_info
        assert info is not None
        assert (info.name, info.version, info.title) == ("Books", "3.1", "The books")
        assert client.instructions == "Ask first."
        declared = client.server_capabilities.model_dump(exclude_none=True, by_alias=True)
    assert declared["tools"] == declared["prompts"] == {"listChanged": True}
    assert "resources" not in declared
    assert "completions" not in declared


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-14", "S1-15", "P-10")
async def test_what_an_agent_cannot_do_is_not_advertised_and_what_it_can_is(mode: str) -> None:
    hooks: dict[str, Any] = {"get_mcp_prompt": nothing, "read_mcp_resource": nothing, "complete_mcp_argument": nothing}
    async with running_bridge(one_tool(nothing)) as running, running.client(mode) as client:
        bare = client.server_capabilities.model_dump(exclude_none=True, by_alias=True)
    async with running_bridge(one_tool(nothing, **hooks)) as running, running.client(mode) as client:
        full = client.server_capabilities.model_dump(exclude_none=True, by_alias=True)
    assert not {"prompts", "resources", "completions"} & bare.keys()
    assert {"tools", "prompts", "resources", "completions"} <= full.keys()
    assert full["resources"] == {"listChanged": True, "subscribe": True}


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-10", "S1-14", "S1-15", "S1-18", "S1-19", "S1-22")
async def test_a_client_sees_exactly_what_the_agent_declared(mode: str) -> None:
    schema: JSON = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "title": "Query",
        "description": "What to look for",
        "properties": {
            "kind": {"type": "string", "enum": ["novel", "poem"], "default": "novel"},
            "class": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
            "x-y": {"$ref": "#/$defs/author", "description": "Who"},
            "_p": True,
            "": {"oneOf": [{"const": None}, {"type": "array", "items": {"type": "number"}}]},
        },
        "required": ["kind"],
        "additionalProperties": False,
        "$defs": {"author": {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}}},
        "x-vendor": {"kept": None},
    }
    tools: list[JSON] = [
        {
            "name": "find-books",
            "title": "Find books",
            "description": "Finds.\nSecond line, é \U0001f4da",
            "icons": [{"src": "https://example.com/i.svg", "mimeType": "image/svg+xml", "sizes": ["48x48"]}],
            "annotations": {"title": "Find", "readOnlyHint": True, "openWorldHint": False},
            "inputSchema": schema,
            "outputSchema": {"type": "object", "properties": {"books": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}},
            "_meta": {"ui": {"resourceUri": "ui://x"}, "empty": {}},
        },
        {"name": "x" * 100, "inputSchema": {"type": "object", "properties": {}}},
        {"name": "tést tool/v1.0", "inputSchema": {"type": "object", "properties": {}}},
    ]
    prompts: list[JSON] = [
        {"name": "p", "title": "P", "description": "d", "arguments": [{"name": "a", "title": "A", "required": True}]}
    ]
    resources: list[JSON] = [
        {"uri": "book:1", "name": "1", "title": "One", "mimeType": "text/plain", "size": 3, "_meta": {"k": 1}}
    ]
    templates: list[JSON] = [{"uriTemplate": "book:{n}", "name": "n", "annotations": {"priority": 0.5}}]
    hooks: dict[str, Any] = {
        "get_mcp_prompts": lambda: prompts,
        "get_mcp_resources": lambda: resources,
        "get_mcp_resource_templates": lambda: templates,
    }
    async with running_bridge(ScriptedAgent(nothing, *tools, **hooks)) as running:
        for path in ("", "agents/a0"):
            async with running.client(mode, path) as client:
                listed = shown((await client.list_tools()).tools)
                listed[0]["inputSchema"]["properties"]["_p"] = True  # legacy clients are shown {}: MCP demands objects
                assert listed == tools
                assert shown((await client.list_prompts()).prompts) == prompts
                assert shown((await client.list_resources()).resources) == resources
                assert shown((await client.list_resource_templates()).resource_templates) == templates


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-10", "S1-18", "S1-22")
async def test_one_impossible_definition_does_not_spoil_the_list(mode: str) -> None:
    agent = ScriptedAgent(
        lambda name, arguments: {"called": name},
        {"name": "empty", "inputSchema": {}},
        {"name": "bad", "inputSchema": {"type": "string"}},
        {"name": "null-property", "inputSchema": {"properties": {"a": {}, "b": {"type": "string"}}}},
        {"description": "has no name"},
    )
    async with running_bridge(agent) as running, running.client(mode) as client:
        listed = (await client.list_tools()).tools
        assert [item.name for item in listed] == ["empty", "null-property"]
        assert listed[0].input_schema == {"type": "object", "properties": {}}
        assert (await client.call_tool("empty", {"anything": 1})).structured_content == {"called": "empty"}


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-11", "S1-19", "P-12")
async def test_a_call_returns_the_dict_as_text_and_as_structure(mode: str) -> None:
    agent = ScriptedAgent(lambda name, arguments: {"name": name, **arguments}, tool("say-it", text={"type": "string"}))
    async with running_bridge(agent) as running, running.client(mode) as client:
        result = await client.call_tool("say-it", {"text": "é\u2028"})
    assert result.is_error is False
    assert result.structured_content == {"name": "say-it", "text": "é\u2028"}
    assert json.loads(text_of(result)) == result.structured_content


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-12", "S1-13", "F-082", "F-083")
async def test_bad_arguments_and_unknown_names_have_their_own_answers(mode: str) -> None:
    called: list[str] = []
    agent = ScriptedAgent(lambda name, arguments: called.append(name), tool("work", n={"type": "integer"}))
    async with running_bridge(agent) as running, running.client(mode) as client:
        result = await client.call_tool("work", {"n": "1"})
        assert result.is_error
        assert "- at /n: got '1'; " in text_of(result)
        for ask in (client.call_tool("nope", {}), client.get_prompt("nope")):
            with pytest.raises(mcp.MCPError) as caught:
                await ask
            assert caught.value.code == mcp_types.INVALID_PARAMS
            assert "nope" in caught.value.message
    assert called == []


@pytest.mark.anyio
@pytest.mark.requirement("F-105")
async def test_an_error_that_quotes_the_client_is_valid_text() -> None:
    async with running_bridge(one_tool(nothing)) as running, running.client("legacy") as client:
        with pytest.raises(mcp.MCPError) as caught:
            await client.get_prompt("\ud800")
    assert caught.value.message == "Unknown prompt: ?"


@pytest.mark.anyio
@pytest.mark.requirement("S-29")
async def test_structure_that_is_no_object_stays_with_clients_that_know_it() -> None:
    agent = ScriptedAgent(lambda name, arguments: [1, 2], {"name": "work", "outputSchema": {"type": "array"}})
    async with running_bridge(agent) as running:
        async with running.client("auto") as client:
            assert (await client.call_tool("work", {})).structured_content == [1, 2]
        async with running.client("legacy") as client:
            result = await client.call_tool("work", {})
            assert result.structured_content is None
            assert text_of(result) == "[1,2]"


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-13", "F-100")
async def test_an_agent_may_answer_with_a_protocol_error_of_its_own(mode: str) -> None:
    errors = [
        ProtocolError(-32000, "own", {"k": 1}),
        ProtocolError(-32000, "own", {"k": object()}),
        ProtocolError(-32000, "\ud800", {"\ud800": float("nan")}),
    ]

    def fail(arguments: JSON) -> None:
        raise errors.pop(0)

    async with running_bridge(one_tool(fail)) as running, running.client(mode) as client:
        seen: list[tuple[int, str, Any]] = []
        while errors:
            with pytest.raises(mcp.MCPError) as caught:
                await client.call_tool("work", {})
            seen.append((caught.value.code, caught.value.message, caught.value.error.data))
    assert seen == [(-32000, "own", {"k": 1}), (-32000, "own", None), (-32000, "?", {"?": None})]


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("F-100")
async def test_a_fault_of_the_bridge_itself_is_an_internal_error_and_nothing_more(
    mode: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> Any:
        raise RuntimeError("hunter2")

    async with running_bridge(one_tool(nothing)) as running, running.client(mode) as client:
        monkeypatch.setattr(running.bridge.sources[0], "call_tool", broken)
        with pytest.raises(mcp.MCPError) as caught:
            await client.call_tool("work", {})
        assert (caught.value.code, caught.value.message) == (mcp_types.INTERNAL_ERROR, "Internal error")
        monkeypatch.undo()
        assert not (await client.call_tool("work", {})).is_error
    assert "hunter2" in caplog.text


@pytest.mark.anyio
@pytest.mark.requirement("S1-17", "F-107")
async def test_blocking_calls_overlap_and_everybody_else_is_answered_meanwhile() -> None:
    release, running_calls = threading.Event(), threading.Semaphore(0)
    together = threading.Barrier(8)

    def block(arguments: JSON) -> str:
        together.wait(PATIENCE)
        running_calls.release()
        assert release.wait(PATIENCE)
        return "done"

    results: list[mcp_types.CallToolResult] = []

    async def call(client: mcp.Client) -> None:
        results.append(await client.call_tool("work", {}))

    settings = Settings(agent=AgentLimits(threads=8, queue=8, definitions_max_age=0))
    named = {"slow": one_tool(block), "quick": one_tool(lambda _: "quick", "other")}
    async with (
        running_bridge(named=named, settings=settings) as running,
        running.client("legacy") as legacy,
        running.client("auto") as modern,
        anyio.create_task_group() as tasks,
    ):
        await legacy.list_tools()
        await modern.list_tools()
        for number in range(20):
            tasks.start_soon(call, legacy if number % 2 else modern)
        for _ in range(8):
            await wait_in_thread(lambda seconds: running_calls.acquire(timeout=seconds))
        await ping(legacy)
        for client in (legacy, modern):
            assert [item.name for item in (await client.list_tools()).tools] == ["work", "other"]
            assert text_of(await client.call_tool("other", {})) == "quick"
        while len(results) < 4:
            await anyio.lowlevel.checkpoint()
        assert all("busy" in text_of(result) for result in results)
        release.set()
    texts = [text_of(result) for result in results]
    assert texts.count("done") == 16
    assert len(texts) == 20


@pytest.mark.anyio
@pytest.mark.requirement("S1-15")
@pytest.mark.parametrize(("mode", "code"), [("auto", -32602), ("legacy", -32002)])
async def test_a_resource_that_is_not_there_has_the_code_of_its_era(mode: str, code: int) -> None:
    def read(uri: str) -> Any:
        raise ResourceNotFoundError(uri)

    hooks: dict[str, Any]
    for hooks in ({}, {"read_mcp_resource": read}, {"read_mcp_resource": nothing}):
        async with running_bridge(one_tool(nothing, **hooks)) as running, running.client(mode) as client:
            with pytest.raises(mcp.MCPError) as caught:
                await client.read_resource("book:1")
            assert caught.value.code == code
            assert caught.value.error.data == {"uri": "book:1"}


@pytest.mark.anyio
async def test_a_legacy_client_cannot_subscribe_to_what_is_not_there() -> None:
    async with running_bridge(one_tool(nothing)) as running, running.client("legacy") as client:
        with pytest.raises(mcp.MCPError) as caught:
            await subscribe(client, "book:1")
    assert caught.value.code == -32002


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-14", "S1-15")
async def test_arguments_of_prompts_and_templates_are_completed(mode: str) -> None:
    asked: list[Any] = []

    def complete(ref: JSON, argument: str, value: str, context: dict[str, str]) -> list[str]:
        asked.append((ref, argument, value, context))
        return [f"{value}na"]

    hooks: dict[str, Any] = {
        "complete_mcp_argument": complete,
        "get_mcp_prompts": lambda: [{"name": "p", "arguments": [{"name": "who"}]}],
        "get_mcp_resource_templates": lambda: [{"uriTemplate": "book:{n}", "name": "n"}],
    }
    first = one_tool(nothing, get_mcp_prompts=lambda: [{"name": "p"}], read_mcp_resource=nothing)
    named = {"one": first, "two": one_tool(nothing, **hooks)}
    async with running_bridge(named=named) as running, running.client(mode) as client:
        prompt = mcp_types.PromptReference(type="ref/prompt", name="two__p")
        result = await client.complete(prompt, {"name": "who", "value": "An"}, {"lang": "en"})
        assert result.completion.values == ["Anna"]
        template = mcp_types.ResourceTemplateReference(type="ref/resource", uri="book:{n}")
        assert (await client.complete(template, {"name": "n", "value": "An"})).completion.values == ["Anna"]
        for unknown in (
            mcp_types.PromptReference(type="ref/prompt", name="nope"),
            mcp_types.ResourceTemplateReference(type="ref/resource", uri="nope:{n}"),
        ):
            with pytest.raises(mcp.MCPError) as caught:
                await client.complete(unknown, {"name": "n", "value": ""})
            assert caught.value.code == mcp_types.INVALID_PARAMS
    assert asked == [
        ({"type": "ref/prompt", "name": "p"}, "who", "An", {"lang": "en"}),
        ({"type": "ref/resource", "uri": "book:{n}"}, "n", "An", {}),
    ]


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("F-109")
async def test_what_one_call_sets_in_its_context_no_other_call_sees(mode: str) -> None:
    import contextvars

    principal: contextvars.ContextVar[str] = contextvars.ContextVar("principal", default="nobody")
    together = threading.Barrier(2)

    def sync(arguments: JSON) -> list[str]:
        before = principal.get()
        principal.set(arguments["me"])
        together.wait(PATIENCE)
        return [before, principal.get()]

    results: dict[str, str] = {}

    async def call(client: mcp.Client, me: str) -> None:
        results[me] = text_of(await client.call_tool("work", {"me": me}))

    async with running_bridge(one_tool(sync)) as running, running.client(mode) as client:
        await client.list_tools()
        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                for me in ("A", "B"):
                    tasks.start_soon(call, client, me)
    assert results == {"A": '["nobody","A"]', "B": '["nobody","B"]'}


@pytest.mark.anyio
@pytest.mark.requirement("F-113")
async def test_a_failure_is_one_line_in_the_log_by_its_reference(caplog: pytest.LogCaptureFixture) -> None:
    def fail(arguments: JSON) -> None:
        raise KeyError("details")

    async with running_bridge(one_tool(fail)) as running, running.client() as client:
        with caplog.at_level(logging.INFO, LOGGER):
            said = text_of(await client.call_tool("work", {}))
    [record] = [record for record in caplog.records if record.name == LOGGER]
    assert record.getMessage() == f"a0: tool 'work' failed, reference {said.rpartition(' ')[2]}"


async def _introduced(running: RunningBridge, mode: str) -> mcp_types.Implementation:
    async with running.client(mode) as client:
        assert client.server_info is not None
        return client.server_info


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-16")
async def test_the_introduction_follows_who_is_published(mode: str) -> None:
    async with running_bridge(one_tool(nothing, get_mcp_server_info=lambda: {"name": "Books"})) as running:
        assert (await _introduced(running, mode)).name == "Books"
        await running.bridge.add_agent(one_tool(nothing, "play"), "second")
        assert (await _introduced(running, mode)).name == "gaia-mcp-bridge"
        await running.bridge.remove("second")
        assert (await _introduced(running, mode)).name == "Books"
