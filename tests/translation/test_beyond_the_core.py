"""Unknown fields, unknown methods, tasks and extensions: the bridge carries what it does not know."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import httpx2
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.model import ServerOptions, StdioServerSpec
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Script, ScriptedTransport, Wire, legacy, modern
from tests.conformance.raw_clients import SseClient, connect_http, connect_sse
from tests.interaction.connecting import DEADLINE, serving
from tests.support.on_demand import mcp_types
from tests.support.upstreams import until_ready

pytestmark = pytest.mark.anyio

TOOL: JSON = {
    "name": "make",
    "inputSchema": {"type": "object"},
    "execution": {"taskSupport": "optional"},
    "vendorField": {"kept": [1, None]},
}
RESULT: JSON = {
    "content": [{"type": "text", "text": "made", "vendorField": 1}, {"type": "hologram", "depth": 3}],
    "vendorField": {"kept": True, "null": None},
    "_meta": {"example.org/m": 1},
}
EXTENSIONS: JSON = {"example.org/extension": {"version": 1}}
TASKS: JSON = {"cancel": {"vendorField": None}, "list": {}, "vendorField": 1}


async def say_everything(wire: Wire) -> None:
    """A server that answers whatever it is asked with what it was asked."""
    while True:
        request = await wire.next()
        modern = {"resultType": "complete"} if "io.modelcontextprotocol/protocolVersion" in str(request) else {}
        match request["method"]:
            case "tools/list":
                wire.answer(
                    request, {"tools": [TOOL], **modern, **({"ttlMs": 0, "cacheScope": "private"} if modern else {})}
                )
            case "tools/call" if "task" in request["params"]:
                task = {"taskId": "t-1", "status": "working", "ttl": 60_000}
                wire.answer(request, {"task": task})
            case "tools/call":
                wire.answer(request, {**RESULT, **modern})
            case "notifications/cancelled":
                pass
            case _:
                wire.answer(request, {"echo": request["method"], "params": request.get("params"), **modern})


@asynccontextmanager
async def publishing(
    *scripts: Script, era: Literal["auto", "2026-07-28"] = "auto"
) -> AsyncGenerator[tuple[str, Bridge, list[ScriptedTransport]]]:
    """A bridge that publishes scripted servers, `up0`, `up1` and so on."""
    transports = [ScriptedTransport(script) for script in scripts]
    with anyio.fail_after(DEADLINE):
        async with serving({}) as (url, bridge):
            for number, transport in enumerate(transports):
                spec = StdioServerSpec(f"up{number}", command="none", options=ServerOptions(era=era))
                await bridge.add_upstream(spec, transport)
            await until_ready(*bridge.sources)
            yield url, bridge, transports


async def modern_request(url: str, method: str, params: JSON, *, name: str | None = None) -> JSON:
    """One request as 2026-07-28 has it; the whole answer."""
    answer: JSON = (await modern_response(url, method, params, name=name)).json()
    return answer


async def modern_response(url: str, method: str, params: JSON, *, name: str | None = None) -> httpx2.Response:
    """One request as 2026-07-28 has it."""
    meta = {
        mcp_types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
        mcp_types.CLIENT_INFO_META_KEY: {"name": "raw", "version": "1"},
        mcp_types.CLIENT_CAPABILITIES_META_KEY: {"extensions": EXTENSIONS},
    }
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**params, "_meta": {**params.get("_meta", {}), **meta}},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if name is not None:
        headers["Mcp-Name"] = name
    async with httpx2.AsyncClient() as client:
        return await client.post(url, json=body, headers=headers)


def script(era: str) -> Script:
    """A server of an era."""
    declared: JSON = {"tools": {}, "extensions": EXTENSIONS, "experimental": {"x": {}}, "tasks": TASKS}
    return (modern if era == "modern" else legacy)(say_everything, capabilities=declared)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_fields_that_nobody_knows_reach_the_far_side(era: str) -> None:
    async with publishing(script(era)) as (url, _, [transport]):
        url += "/servers/up0/mcp"
        params: JSON = {"name": "make", "arguments": {}, "vendorField": [1], "_meta": {"example.org/trace": "t"}}
        seen = [(await modern_request(url, "tools/call", params, name="make"))["result"]]
        tools = [(await modern_request(url, "tools/list", {}))["result"]["tools"]]
        async with connect_http(url) as client:
            await client.initialize("2025-11-25")
            seen.append((await client.request("tools/call", params))["result"])
            tools.append((await client.request("tools/list"))["result"]["tools"])
        [server] = transport.wires
    for result in seen:
        assert {key: result[key] for key in ("content", "vendorField")} == {
            key: RESULT[key] for key in ("content", "vendorField")
        }
        assert result["_meta"]["example.org/m"] == 1
    assert (seen[0]["resultType"], "resultType" in seen[1]) == ("complete", False)
    since_2026 = {key: value for key, value in TOOL.items() if key != "execution"}
    assert tools == [[since_2026], [TOOL]]
    calls = [message["params"] for message in server.received if message["method"] == "tools/call"]
    assert [(call["vendorField"], call["_meta"]["example.org/trace"]) for call in calls] == [([1], "t")] * 2


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_method_that_only_the_server_and_its_client_know_is_passed_on(era: str) -> None:
    async with publishing(script(era)) as (url, bridge, _):
        url += "/servers/up0/mcp"
        answer = (await modern_request(url, "example.org/do", {"a": [1]}))["result"]
        async with connect_http(url) as client:
            await client.initialize("2025-11-25")
            older = (await client.request("example.org/do", {"a": [1]}))["result"]
        await bridge.add_upstream(StdioServerSpec("other", command="none"), ScriptedTransport(legacy()))
        refused = (await modern_request(url.replace("/servers/up0", ""), "example.org/do", {}))["error"]
    assert (answer["echo"], answer["params"]["a"]) == (older["echo"], older["params"]["a"]) == ("example.org/do", [1])
    assert "resultType" not in older
    assert refused["code"] == -32601


async def know_nothing(wire: Wire) -> None:
    """A server that takes every method that it does not know for one with wrong parameters (Python SDK 1)."""
    while True:
        request = await wire.next()
        if request["method"] == "tools/list":
            wire.answer(request, {"tools": [TOOL]})
        elif "id" in request:
            wire.refuse(request, -32602, "Invalid request parameters", "")


@pytest.mark.requirement("F-342")
async def test_a_method_that_a_server_of_the_handshake_era_does_not_know_is_none_for_a_client_of_2026_07_28() -> None:
    async with publishing(legacy(know_nothing, capabilities={"tools": {}})) as (url, _, _):
        url += "/servers/up0/mcp"
        asked: list[tuple[str, str | None, int, int]] = [
            ("example.org/none", None, -32601, 404),
            ("tools/call", "make", -32602, 400),
        ]
        for method, name, code, status in asked:
            response = await modern_response(url, method, {} if name is None else {"name": name}, name=name)
            assert (response.json()["error"]["code"], response.status_code) == (code, status)
        async with connect_http(url) as client:
            await client.initialize("2025-11-25")
            refused: Any = (await client.request("example.org/none", {}))["error"]
    assert refused["code"] == -32602, "as the server says it itself"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_goes_beyond_the_core_is_declared_to_clients(era: str) -> None:
    async with publishing(script(era), era="2026-07-28" if era == "modern" else "auto") as (url, _, [transport]):
        url += "/servers/up0/mcp"
        discovered = (await modern_request(url, "server/discover", {}))["result"]["capabilities"]
        async with connect_http(url) as client:
            initialized = await client.initialize("2025-11-25")
        await modern_request(url, "tools/call", {"name": "make", "arguments": {}}, name="make")
        [server] = transport.wires
    capabilities: Any = initialized["capabilities"]
    assert discovered["extensions"] == capabilities["extensions"] == EXTENSIONS
    assert discovered["experimental"] == capabilities["experimental"] == {"x": {}}
    assert "tasks" not in discovered
    assert capabilities.get("tasks") == (TASKS if era == "legacy" else None)
    [call] = [message["params"] for message in server.received if message["method"] == "tools/call"]
    told = call.get("_meta", {}).get(mcp_types.CLIENT_CAPABILITIES_META_KEY)
    assert told == ({"extensions": EXTENSIONS} if era == "modern" else None)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_that_looks_around_on_a_stream_is_told_the_same(era: str) -> None:
    async with publishing(script(era), era="2026-07-28" if era == "modern" else "auto") as (url, _, _):
        async with connect_sse(f"{url}/servers/up0/sse") as client:
            meta: JSON = {mcp_types.PROTOCOL_VERSION_META_KEY: "2026-07-28", mcp_types.CLIENT_CAPABILITIES_META_KEY: {}}
            looked = (await client.request("server/discover", {"_meta": meta}))["result"]["capabilities"]
            initialized = await client.initialize("2025-11-25")
    capabilities: Any = initialized["capabilities"]
    assert looked["extensions"] == capabilities["extensions"] == EXTENSIONS
    assert looked["experimental"] == capabilities["experimental"] == {"x": {}}
    assert "tasks" not in looked
    assert capabilities.get("tasks") == (TASKS if era == "legacy" else None)


async def test_what_no_client_could_read_is_declared_to_none_and_a_list_of_tasks_only_for_one_server() -> None:
    odd = legacy(say_everything, capabilities={"tools": {}, "tasks": {"list": 5}, "extensions": {"x/y": 1}})
    async with publishing(odd, script("legacy")) as (url, _, _):
        told: dict[str, Any] = {}
        for path in ("/servers/up0/mcp", "/servers/up1/mcp", "/mcp"):
            async with connect_http(url + path) as client:
                told[path] = (await client.initialize("2025-11-25"))["capabilities"]
    assert not told["/servers/up0/mcp"].keys() & {"tasks", "extensions"}
    assert told["/servers/up1/mcp"]["tasks"] == TASKS
    assert told["/mcp"]["tasks"] == {name: value for name, value in TASKS.items() if name != "list"}


@pytest.mark.requirement("S-34")
async def test_a_task_leads_back_to_the_server_that_made_it() -> None:
    async with publishing(script("legacy"), script("legacy")) as (url, _, transports):
        async with connect_http(url + "/mcp") as client:
            await client.initialize("2025-11-25")
            params: JSON = {"name": "up1__make", "arguments": {}, "task": {"ttl": 60_000}}
            made = (await client.request("tools/call", params))["result"]["task"]
            assert made == {"taskId": "up1:t-1", "status": "working", "ttl": 60_000}
            asked = (await client.request("tasks/get", {"taskId": made["taskId"]}))["result"]
            assert (asked["echo"], asked["params"]["taskId"]) == ("tasks/get", "t-1")
            for unknown in ("t-1", "up7:t-1", "up1:t-2", ":", 7):
                refused = (await client.request("tasks/get", {"taskId": unknown}))["error"]
                assert "There is no such task" in refused["message"]
    methods = [[message["method"] for message in transport.wires[0].received] for transport in transports]
    assert ["tasks/get" in received for received in methods] == [False, True]
    [call] = [item["params"] for item in transports[1].wires[0].received if item["method"] == "tools/call"]
    assert call["task"] == {"ttl": 60_000}


RELATED = "io.modelcontextprotocol/related-task"
ASKED: JSON = {"message": "sure?", "requestedSchema": {"type": "object", "properties": {"yes": {"type": "boolean"}}}}


async def ask_before_the_result(wire: Wire) -> None:
    """A server whose task asks a question while its result is fetched, and says of both what task they are of."""
    while True:
        request = await wire.next()
        match request["method"]:
            case "tools/list":
                wire.answer(request, {"tools": [TOOL]})
            case "tools/call":
                wire.answer(request, {"task": {"taskId": "t-1", "status": "working"}})
            case "tasks/result":
                related = {RELATED: {"taskId": "t-1", "vendorField": 1}, "example.org/m": 1}
                wire.ask("q", "elicitation/create", {**ASKED, "_meta": related}, during=request["id"])
                answer = await wire.next()
                content = [{"type": "text", "text": str(answer["result"]["action"])}]
                wire.answer(request, {"content": content, "_meta": related})
            case _:
                pass


@pytest.mark.requirement("S-34")
@pytest.mark.parametrize(("servers", "prefix"), [(1, ""), (3, "up0:")])
async def test_what_is_related_to_a_task_names_it_as_the_client_knows_it(servers: int, prefix: str) -> None:
    asking = legacy(ask_before_the_result, capabilities={"tools": {}, "tasks": TASKS})
    others = [script("legacy") for _ in range(servers - 1)]
    async with publishing(asking, *others) as (url, _, _), connect_http(url + "/mcp") as client:
        await client.initialize("2025-11-25", {"elicitation": {}})
        params: JSON = {"name": "up0__make", "arguments": {}, "task": {"ttl": 60_000}}
        made = (await client.request("tools/call", params))["result"]["task"]
        assert made["taskId"] == f"{prefix}t-1"
        asked: list[JSON] = []
        result: JSON = {}
        request = {"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": {"taskId": made["taskId"]}}
        async for message in client.exchange(request):
            if message.get("method") == "elicitation/create":
                asked.append(message["params"])
                await client.send({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "decline"}})
            else:
                result = message["result"]
    related = {RELATED: {"taskId": made["taskId"], "vendorField": 1}, "example.org/m": 1}
    assert [params["_meta"] for params in asked] == [related]
    assert (result["content"][0]["text"], result["_meta"]) == ("decline", related)


@pytest.mark.requirement("S-34")
@pytest.mark.parametrize(("servers", "prefix"), [(1, ""), (3, "up1:")])
async def test_only_the_client_that_made_a_task_is_told_how_it_is(servers: int, prefix: str) -> None:
    transports = [*map(script, ["legacy"] * servers)]
    number = servers // 2
    async with publishing(*transports) as (url, _, made), connect_sse(url + "/sse") as maker:
        async with connect_sse(url + "/sse") as other:
            for client in (maker, other):
                await client.initialize("2025-11-25")
            params: JSON = {"name": f"up{number}__make", "arguments": {}, "task": {"ttl": 60_000}}
            task = (await maker.request("tools/call", params))["result"]["task"]["taskId"]
            [wire] = made[number].wires
            wire.notify("notifications/tasks/status", {"taskId": "t-2", "status": "working"})
            wire.notify("notifications/tasks/status", {"taskId": "t-1", "status": "completed", "vendorField": 1})
            wire.notify("notifications/elicitation/complete", {"elicitationId": "of nobody"})
            heard = [await _told(client) for client in (maker, other)]
    assert task == f"{prefix}t-1"
    assert heard == [[{"taskId": task, "status": "completed", "vendorField": 1}], []]


async def _told(client: SseClient) -> list[JSON]:
    """What a client is told of tasks, until it is told something else."""
    told: list[JSON] = []
    async for message in client.exchange({"jsonrpc": "2.0", "method": "notifications/nothing"}):
        if message.get("method") == "notifications/elicitation/complete":
            break
        told.append(message["params"])
    return told


async def make_a_task_with_odd_meta(wire: Wire) -> None:
    while True:
        request = await wire.next()
        if request["method"] == "tools/list":
            wire.answer(request, {"tools": [TOOL]})
        else:
            wire.answer(request, {"task": {"taskId": "t-1"}, "_meta": [1]})


async def test_a_result_that_is_none_of_the_core_may_have_any_meta() -> None:
    async with publishing(legacy(make_a_task_with_odd_meta, capabilities={"tools": {}})) as (url, _, _):
        params: JSON = {"name": "make", "arguments": {}}
        answer = await modern_request(f"{url}/servers/up0/mcp", "tools/call", params, name="make")
    assert answer["result"]["task"] == {"taskId": "t-1"}
    assert answer["result"]["_meta"].keys() == {mcp_types.SERVER_INFO_META_KEY}


def nested(levels: int) -> Any:
    """An array in an array, and so on."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


async def go_deep(wire: Wire) -> None:
    """A server that answers with what no writer of JSON can write, and says such things of its own accord, too."""
    while True:
        request = await wire.next()
        if request["method"] == "tools/list":
            wire.answer(request, {"tools": [{"name": "deep", "inputSchema": {"type": "object"}}]})
            continue
        wire.notify("notifications/message", {"level": "error", "data": nested(900)})
        wire.ask("deep", "elicitation/create", {"message": "?", "requestedSchema": {"x": nested(900)}})
        assert (await wire.next())["error"]["code"] == -32602
        structured = {"a": nested(request["params"]["arguments"]["levels"])}
        result: JSON = {"content": [], "structuredContent": structured}
        wire.answer(request, result)


@pytest.mark.requirement("F-040")
async def test_what_is_nested_too_deeply_to_be_written_is_an_error_of_that_call() -> None:
    async with publishing(legacy(go_deep, capabilities={"tools": {}})) as (url, _, _):
        url += "/servers/up0/mcp"
        async with connect_http(url) as client:
            await client.initialize("2025-11-25")
            for levels in (900, 150, 300):
                params: JSON = {"name": "deep", "arguments": {"levels": levels}}
                for result in (
                    (await client.request("tools/call", params))["result"],
                    (await modern_request(url, "tools/call", params, name="deep"))["result"],
                ):
                    if levels == 150:
                        assert result["structuredContent"] == {"a": nested(levels)}
                    else:
                        assert result["isError"] is True
                        assert "nested deeper than 200 levels" in result["content"][0]["text"]
