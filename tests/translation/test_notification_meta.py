"""What a notification says in its `_meta` reaches the far side, but for what is about one connection only."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Wire, legacy, modern
from tests.conformance.raw_clients import connect_http, connect_sse
from tests.support.chat_endpoint import events_of
from tests.translation.test_beyond_the_core import modern_response, nested, publishing

pytestmark = pytest.mark.anyio

RELATED: Final = "io.modelcontextprotocol/related-task"
TASK: JSON = {"taskId": "t-1", "vendorField": 1}
KEPT: JSON = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "example.org/m": [1, None]}
OF_ONE_CONNECTION: JSON = {
    "progressToken": "theirs",
    "io.modelcontextprotocol/serverInfo": {"name": "them", "version": "1"},
}
ODD: list[Any] = [None, [1], "text", {}, OF_ONE_CONNECTION]
"""What is no `_meta`, or says nothing to anybody else."""
UNWRITABLE: JSON = {"deep": nested(900)}


async def talk(wire: Wire) -> None:
    """A server that reports progress and logs before it answers."""
    while True:
        request = await wire.next()
        if request["method"] == "tools/list":
            more = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            tools = [{"name": "talk", "inputSchema": {"type": "object"}}]
            wire.answer(request, {"tools": tools, **(more if "protocolVersion" in str(request) else {})})
        elif request["method"] == "tools/call":
            said = {**KEPT, **OF_ONE_CONNECTION, RELATED: {"taskId": "t-1"}}
            for number, meta in enumerate([said, *ODD]):
                wire.progress(request, number, _meta=meta)
                wire.notify("notifications/message", {"level": "error", "data": number, "_meta": meta})
            wire.progress(request, len(ODD) + 1, _meta=UNWRITABLE)
            wire.progress(request, len(ODD) + 2, _meta={"io.modelcontextprotocol/subscriptionId": "theirs"})
            more = {"resultType": "complete"} if "protocolVersion" in str(request) else {}
            wire.answer(request, {"content": [], **more})
        elif "id" in request:
            wire.answer(request, {})


@pytest.mark.requirement("S-34")
@pytest.mark.parametrize(("servers", "prefix"), [(1, ""), (3, "up0:")])
@pytest.mark.parametrize("of", [legacy, modern])
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_of_the_progress_and_the_log_of_a_call(of: Any, era: str, servers: int, prefix: str) -> None:
    scripts = [of(talk, capabilities={"tools": {}, "logging": {}}) for _ in range(servers)]
    params: JSON = {"name": "up0__talk", "arguments": {}, "_meta": {"progressToken": "ours"}}
    async with publishing(*scripts, era="2026-07-28" if of is modern else "auto") as (url, _, _):
        if era == "modern":
            params["_meta"]["io.modelcontextprotocol/logLevel"] = "debug"
            response = await modern_response(f"{url}/mcp", "tools/call", params, name="up0__talk")
            messages = events_of(response.text)
        else:
            async with connect_http(f"{url}/mcp") as client:
                await client.initialize("2025-11-25")
                await client.request("logging/setLevel", {"level": "debug"})
                request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                messages = [message async for message in client.exchange(request)]
    for method, without in (("notifications/progress", len(ODD) + 2), ("notifications/message", len(ODD))):
        said = [message["params"] for message in messages if message.get("method") == method]
        expected = [{**KEPT, RELATED: {"taskId": f"{prefix}t-1"}}, *[None] * without]
        assert [params.get("_meta") for params in said] == expected, method
        assert [params.get("progress", params.get("data")) for params in said] == list(range(len(expected)))
        assert {params.get("progressToken") for params in said} <= {"ours", None}


async def ask(wire: Wire) -> None:
    """A server whose task wants to know how far the answer to its question is."""
    while True:
        request = await wire.next()
        if request["method"] == "tools/list":
            wire.answer(request, {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]})
        elif request["method"] == "tools/call":
            question: JSON = {"messages": [], "maxTokens": 1, "_meta": {"progressToken": "theirs", RELATED: TASK}}
            wire.ask("q", "sampling/createMessage", question, during=request["id"])
            heard = await wire.next("notifications/progress")
            answer = await wire.next()
            said = {"progress": heard["params"], "answer": answer["result"]}
            wire.answer(request, {"content": [], "structuredContent": said})


@pytest.mark.requirement("S-34")
@pytest.mark.parametrize(("servers", "prefix"), [(1, ""), (3, "up0:")])
async def test_of_an_answer_and_its_progress(servers: int, prefix: str) -> None:
    scripts = [legacy(ask, capabilities={"tools": {}}) for _ in range(servers)]
    async with publishing(*scripts) as (url, _, _), connect_http(f"{url}/mcp") as client:
        await client.initialize("2025-11-25", {"sampling": {}})
        params: JSON = {"name": "up0__ask", "arguments": {}}
        result: JSON = {}
        async for message in client.exchange({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}):
            if message.get("method") == "sampling/createMessage":
                asked = message["params"]["_meta"]
                assert asked[RELATED] == {**TASK, "taskId": f"{prefix}t-1"}
                meta = {**KEPT, RELATED: asked[RELATED]}
                told = {"progressToken": asked["progressToken"], "progress": 1, "_meta": meta}
                await client.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
                answer = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m", "_meta": meta}
                await client.send({"jsonrpc": "2.0", "id": message["id"], "result": answer})
            else:
                result = message["result"]
    heard = result["structuredContent"]
    assert heard["progress"] == {"progressToken": "theirs", "progress": 1, "_meta": {**KEPT, RELATED: TASK}}
    assert heard["answer"]["_meta"] == {**KEPT, RELATED: TASK}


@pytest.mark.requirement("S-34")
@pytest.mark.parametrize(("servers", "prefix"), [(1, ""), (3, "up0:")])
async def test_of_a_log_message_that_belongs_to_no_call(servers: int, prefix: str) -> None:
    scripts = [legacy(talk, capabilities={"tools": {}, "logging": {}}) for _ in range(servers)]
    async with publishing(*scripts) as (url, _, transports), connect_sse(f"{url}/sse") as client:
        await client.initialize("2025-11-25")
        await client.request("logging/setLevel", {"level": "debug"})
        [wire] = transports[0].wires
        for number, meta in enumerate([{**KEPT, **OF_ONE_CONNECTION, RELATED: TASK}, *ODD]):
            wire.notify("notifications/message", {"level": "error", "data": number, "_meta": meta})
        said: list[JSON] = []
        async for message in client.exchange({"jsonrpc": "2.0", "method": "notifications/nothing"}):
            said.append(message["params"])
            if len(said) == 1 + len(ODD):
                break
    related = {**TASK, "taskId": f"{prefix}t-1"}
    assert [params.get("_meta") for params in said] == [{**KEPT, RELATED: related}, *[None] * len(ODD)]
    assert [params["data"] for params in said] == list(range(1 + len(ODD)))
