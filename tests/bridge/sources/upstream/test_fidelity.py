"""What a client gets through us is what it would get from the server itself (P-11).

One server for the whole file, and beside it the same server behind the SDK's own client, which is the judge.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio
import pytest
from pydantic import BaseModel

from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import SourceKind
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import mcp
from tests.support.upstreams import PATIENT, FakeRequest, sdk_server, text_of
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


@dataclass
class Pair:
    ours: Upstream
    direct: mcp.Client


@pytest.fixture(scope="module")
async def pair() -> AsyncGenerator[Pair]:
    spec = sdk_server()
    parameters = mcp.StdioServerParameters(command=spec.command, args=list(spec.args))
    async with AsyncExitStack() as stack:
        ours = Upstream(spec, PATIENT)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        await tasks.start(ours.run)
        direct = await stack.enter_async_context(mcp.Client(mcp.stdio_client(parameters), mode="auto", cache=None))
        await ours.wait_settled()
        yield Pair(ours, direct)
        tasks.cancel_scope.cancel()


def wire(model: BaseModel) -> JSON:
    """A model of the SDK as the JSON that it was made from."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def result_of(model: BaseModel) -> JSON:
    """A result as it should come out: without who the server is, which belongs to its own connection."""
    result = wire(model)
    assert result["_meta"].pop("io.modelcontextprotocol/serverInfo")["name"] == "sdk-upstream"
    return result if result["_meta"] else {key: value for key, value in result.items() if key != "_meta"}


async def test_the_offer_is_what_the_server_declares(pair: Pair) -> None:
    features, direct = pair.ours.features, pair.direct
    assert pair.ours.kind is SourceKind.SERVER
    assert list(features.tools) == [wire(tool) for tool in (await direct.list_tools()).tools]
    assert list(features.prompts) == [wire(prompt) for prompt in (await direct.list_prompts()).prompts]
    assert list(features.resources) == [wire(resource) for resource in (await direct.list_resources()).resources]
    templates = (await direct.list_resource_templates()).resource_templates
    assert list(features.templates) == [wire(template) for template in templates]
    assert features.capabilities == {"tools", "prompts", "resources", "completions"}
    assert (features.info.name, features.info.version, features.info.title) == ("sdk-upstream", "1.2.3", "An upstream")
    assert features.info.instructions == "Ask me anything."
    assert features.left_out == ()


@pytest.mark.requirement("P-11")
async def test_every_kind_of_content_arrives_unflattened(pair: Pair) -> None:
    result = await pair.ours.call_tool("mix", {}, FakeRequest(modern=True))
    assert result == result_of(await pair.direct.call_tool("mix", {}))
    kinds = [block["type"] for block in result["content"]]
    assert kinds == ["text", "image", "audio", "resource_link", "resource", "resource"]
    assert result["structuredContent"] == {"kinds": 6, "none": None}


async def test_arguments_and_structured_content_arrive(pair: Pair) -> None:
    result = await pair.ours.call_tool("add", {"a": 1, "b": 2.5}, FakeRequest(modern=True))
    assert result == result_of(await pair.direct.call_tool("add", {"a": 1, "b": 2.5}))
    assert result["structuredContent"] == {"sum": 3.5}


async def test_null_arguments_and_meta_arrive(pair: Pair) -> None:
    meta = {"example.com/tenant": {"id": None}, "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}
    result = await pair.ours.call_tool("echo", {"none": None, "list": [None]}, FakeRequest(meta, modern=True))
    assert result["structuredContent"] == {"arguments": {"none": None, "list": [None]}}
    received = result["_meta"]["received"]
    ours = {key for key in received if key.startswith("io.modelcontextprotocol/")}
    del received["progress_token"]  # which keeps the call alive
    assert {key: value for key, value in received.items() if key not in ours} == meta
    assert received["io.modelcontextprotocol/clientInfo"]["name"] == "gaia-mcp-bridge"


async def test_a_failure_stays_a_failure(pair: Pair) -> None:
    result = await pair.ours.call_tool("fail", {}, FakeRequest(modern=True))
    assert (result["isError"], text_of(result)) == (True, "it did not work")


@pytest.mark.requirement("F-063")
async def test_a_broken_promise_of_an_output_schema_is_an_error_for_us_as_for_the_official_client(pair: Pair) -> None:
    result = await pair.ours.call_tool("structured", {}, FakeRequest(modern=True))
    assert (result["isError"], "structuredContent" in result) == (True, False)
    assert "against the output schema of its tool 'structured'" in text_of(result)
    with pytest.raises(RuntimeError, match="Invalid structured content"):
        await pair.direct.call_tool("structured", {})


async def test_an_unknown_tool_is_the_servers_own_error(pair: Pair) -> None:
    with pytest.raises(ProtocolError) as caught:
        await pair.ours.call_tool("nope", {}, FakeRequest(modern=True))
    assert (caught.value.code, caught.value.message) == (-32602, "Unknown tool: nope")
    assert caught.value.data == {"name": "nope"}


async def test_prompts_arrive(pair: Pair) -> None:
    result = await pair.ours.get_prompt("greet", {"who": "Ada"}, FakeRequest(modern=True))
    assert result == result_of(await pair.direct.get_prompt("greet", {"who": "Ada"}))


async def test_resources_arrive(pair: Pair) -> None:
    result = await pair.ours.read_resource("demo://note", FakeRequest(modern=True))
    assert result == result_of(await pair.direct.read_resource("demo://note"))


async def test_suggestions_arrive(pair: Pair) -> None:
    ref, argument = {"type": "ref/prompt", "name": "greet"}, {"name": "who", "value": "an"}
    result = await pair.ours.complete(ref, argument, {}, FakeRequest(modern=True))
    assert result["completion"] == {"values": ["anna", "anton"], "total": 2, "hasMore": False}


async def test_progress_arrives_in_order_and_before_the_result(pair: Pair) -> None:
    request = FakeRequest({"progressToken": "the-clients-own"})
    await pair.ours.call_tool("progress", {}, request)
    assert request.progress == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_twenty_calls_at_once_each_get_their_own_answer(pair: Pair) -> None:
    answers: dict[int, JSON] = {}

    async def add(number: int) -> None:
        answers[number] = await pair.ours.call_tool("add", {"a": number}, FakeRequest(modern=True))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(add, number)
    assert {number: result["structuredContent"]["sum"] for number, result in answers.items()} == {
        number: number for number in range(20)
    }


async def test_a_cancelled_call_leaves_the_connection_usable(pair: Pair) -> None:
    with anyio.move_on_after(0.05) as scope:
        await pair.ours.call_tool("hang", {}, FakeRequest(modern=True))
    assert scope.cancelled_caught
    assert text_of(await pair.ours.call_tool("add", {"a": 1}, FakeRequest(modern=True))) == "1"
