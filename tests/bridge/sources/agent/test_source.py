"""One agent as a source: what goes in is validated, and what comes out is what it promised."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gaia_bridge.content import elicitation_request, image, input_required, text
from gaia_bridge.contract import Source
from gaia_bridge.errors import (
    INVALID_PARAMS,
    ProtocolError,
    ResourceNotFoundError,
)
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import call, nothing, of_method, published, returning
from tests.support.agents import ScriptedAgent, one_tool, tool
from tests.support.on_demand import mcp_types
from tests.support.upstreams import FakeRequest, text_of

_source: type[Source] = AgentSource


class Recorder:
    """A tool that remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, JSON]] = []

    def __call__(self, name: str, arguments: JSON) -> JSON:
        self.calls.append((name, arguments))
        return {"ok": True}


@pytest.mark.anyio
@pytest.mark.requirement("S1-11")
async def test_valid_arguments_reach_the_agent_and_its_dict_comes_back_twice() -> None:
    recorder = Recorder()
    async with published(ScriptedAgent(recorder, tool("add", a={"type": "integer"}))) as source:
        result = await call(source, "add", a=1)
    assert recorder.calls == [("add", {"a": 1})]
    assert result["structuredContent"] == {"ok": True}
    assert json.loads(text_of(result)) == {"ok": True}
    assert not result.get("isError")


@pytest.mark.anyio
@pytest.mark.requirement("S1-12", "F-083")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, '- at (root): got {}; "a" is a required property'),
        ({"a": "1"}, "- at /a: got '1'; "),
        ({"a": -1}, "- at /a: got -1; "),
        ({"a": 1, "kind": "z"}, "- at /kind: got 'z'; "),
        ({"a": 1, "list": [{"n": "x"}]}, "- at /list/0/n: got 'x'; "),
        ({"a": 1, "extra": 0}, "extra"),
        ({"a": 1, "\ud800": 0}, "\\ud800"),
    ],
)
async def test_invalid_arguments_never_reach_the_agent_and_the_answer_says_what_was_wrong(
    arguments: JSON, said: str
) -> None:
    recorder = Recorder()
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 0},
            "kind": {"enum": ["x", "y"]},
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    async with published(ScriptedAgent(recorder, {"name": "add", "inputSchema": schema})) as source:
        result = await source.call_tool("add", arguments, FakeRequest())
        assert result["isError"] is True
        assert text_of(result).startswith("The arguments do not fit the input schema of tool 'add':\n")
        assert said in text_of(result)
        assert recorder.calls == []
        await call(source, "add", a=1)
    assert len(recorder.calls) == 1


@pytest.mark.anyio
@pytest.mark.requirement("S1-13", "F-082")
@pytest.mark.parametrize("name", ["", "work\x00", "WORK", "x" * 10_000])
async def test_an_unknown_tool_is_an_invalid_parameter(name: str) -> None:
    recorder = Recorder()
    async with published(ScriptedAgent(recorder, "work")) as source:
        with pytest.raises(ProtocolError) as caught:
            await call(source, name)
    assert caught.value.code == INVALID_PARAMS
    assert recorder.calls == []


@pytest.mark.anyio
@pytest.mark.requirement("S1-23")
@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"kwargs": {"a": 1}}, {"a": 1}),
        ({"kwargs": '{"a": 1}'}, {"a": 1}),
        ({"kwargs": {}}, {}),
        ({"kwargs": {"kwargs": {"a": 1}}}, {"kwargs": {"a": 1}}),
        ({"kwargs": {"a": 1}, "b": 2}, {"kwargs": {"a": 1}, "b": 2}),
        ({"kwargs": "no json"}, {"kwargs": "no json"}),
        ({"kwargs": "[1]"}, {"kwargs": "[1]"}),
        ({"kwargs": "[" * 100_000}, {"kwargs": "[" * 100_000}),
        ({"kwargs": None}, {"kwargs": None}),
        ({"kwargs": 5}, {"kwargs": 5}),
        ({"appPath": "/x"}, {"appPath": "/x"}),
    ],
)
async def test_the_envelope_of_vs_code_is_opened_and_nothing_else_is(arguments: JSON, received: JSON) -> None:
    recorder = Recorder()
    async with published(ScriptedAgent(recorder, "work")) as source:
        await source.call_tool("work", arguments, FakeRequest())
    assert recorder.calls == [("work", received)]


@pytest.mark.anyio
@pytest.mark.requirement("S1-23")
async def test_a_tool_with_a_parameter_called_kwargs_gets_it_as_it_came() -> None:
    recorder = Recorder()
    async with published(ScriptedAgent(recorder, tool("work", kwargs={"type": "object"}))) as source:
        await call(source, kwargs={"a": 1})
    assert recorder.calls == [("work", {"kwargs": {"a": 1}})]


@pytest.mark.anyio
@pytest.mark.requirement("S1-12", "S1-23")
async def test_what_was_in_the_envelope_is_validated_too() -> None:
    recorder = Recorder()
    async with published(ScriptedAgent(recorder, tool("work", a={"type": "integer"}))) as source:
        result = await call(source, kwargs={"a": "x"})
    assert "- at /a: got 'x'" in text_of(result)
    assert recorder.calls == []


@pytest.mark.anyio
@pytest.mark.requirement("S-29")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"n": 1}, None),
        ({"n": "x"}, "- at /n: got 'x'; "),
        ({}, '"n" is a required property'),
        ("text", "got 'text'"),
        ([text("x")], "returned no structured content"),
        (None, "returned no structured content"),
        ({"error": "no such book"}, "no such book"),
    ],
)
async def test_a_result_must_be_what_the_output_schema_promised(value: Any, said: str | None) -> None:
    promise = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = ScriptedAgent(returning(value), {"name": "work", "outputSchema": promise})
    async with published(agent) as source:
        result = await call(source)
    if said is None:
        assert result["structuredContent"] == value
        assert not result.get("isError")
    else:
        assert result["isError"] is True
        assert said in text_of(result)


@pytest.mark.anyio
@pytest.mark.requirement("S-29", "P-11")
@pytest.mark.parametrize("value", [[1, 2], []])
async def test_a_list_may_be_promised_and_is_structured_then(value: Any) -> None:
    promise = {"type": "array", "items": {"type": "integer"}}
    async with published(ScriptedAgent(returning(value), {"name": "work", "outputSchema": promise})) as source:
        result = await call(source)
    assert result["structuredContent"] == value
    assert json.loads(text_of(result)) == value


@pytest.mark.anyio
async def test_a_malformed_request_for_input_is_an_error_result() -> None:
    asked: dict[str, JSON] = {"q": {"method": "elicitation/create", "params": {}}}
    async with published(one_tool(lambda _: input_required(asked))) as source:
        result = await call(source)
    assert result["isError"] is True
    assert "malformed" in text_of(result)


GREETING: JSON = {"name": "greet", "description": "Greets", "arguments": [{"name": "who", "required": True}]}


@pytest.mark.anyio
@pytest.mark.requirement("S1-14")
async def test_a_prompt_is_filled_in_by_the_agent_sync_or_async() -> None:
    def sync(name: str, arguments: dict[str, str]) -> str:
        return f"{name} {arguments['who']}"

    async def coroutine(name: str, arguments: dict[str, str]) -> str:
        return sync(name, arguments)

    for hook in (sync, coroutine):
        agent = one_tool(lambda _: None, get_mcp_prompts=lambda: [GREETING], get_mcp_prompt=hook)
        async with published(agent) as source:
            result = await source.get_prompt("greet", {"who": "Ann"}, of_method("prompts/get"))
        assert result["messages"] == [{"role": "user", "content": text("greet Ann")}]
        assert result["description"] == "Greets"


@pytest.mark.anyio
@pytest.mark.requirement("S1-14")
async def test_a_prompt_without_a_hook_is_its_description_and_arguments() -> None:
    async with published(one_tool(lambda _: None, get_mcp_prompts=lambda: [GREETING])) as source:
        result = await source.get_prompt("greet", {"who": "Ann"}, of_method("prompts/get"))
    assert result["messages"] == [{"role": "user", "content": text("Greets\nwho: Ann")}]


@pytest.mark.anyio
@pytest.mark.requirement("S1-14")
@pytest.mark.parametrize(("name", "said"), [("nope", "Unknown prompt: nope"), ("greet", "needs the arguments: who")])
async def test_an_unknown_prompt_and_a_missing_argument_are_invalid_parameters(name: str, said: str) -> None:
    asked: list[str] = []

    def prompt(name: str, arguments: dict[str, str]) -> None:
        asked.append(name)

    hooks: dict[str, Any] = {"get_mcp_prompts": lambda: [GREETING], "get_mcp_prompt": prompt}
    async with published(one_tool(lambda _: None, **hooks)) as source:
        with pytest.raises(ProtocolError, match=said) as caught:
            await source.get_prompt(name, {}, of_method("prompts/get"))
    assert caught.value.code == INVALID_PARAMS
    assert asked == []


@pytest.mark.anyio
@pytest.mark.requirement("S1-15")
async def test_a_resource_is_read_with_the_type_it_was_listed_with() -> None:
    listed = [{"uri": "book:1", "name": "Emma", "mimeType": "text/markdown"}]
    agent = one_tool(lambda _: None, get_mcp_resources=lambda: listed, read_mcp_resource="# {}".format)
    async with published(agent) as source:
        [known] = (await source.read_resource("book:1", of_method("resources/read")))["contents"]
        [other] = (await source.read_resource("book:2", of_method("resources/read")))["contents"]
    assert known == {"uri": "book:1", "mimeType": "text/markdown", "text": "# book:1"}
    assert other == {"uri": "book:2", "mimeType": "text/plain", "text": "# book:2"}


def _not_found(uri: str) -> Any:
    raise ResourceNotFoundError(uri)


@pytest.mark.anyio
async def test_a_resource_that_an_agent_lists_and_has_no_method_to_read_says_which_is_missing() -> None:
    agent = one_tool(lambda _: None, get_mcp_resources=lambda: [{"uri": "book:1", "name": "Emma"}])
    async with published(agent) as source:
        with pytest.raises(
            ResourceNotFoundError, match="book:1 is listed, and the agent has no method read_mcp_resource"
        ):
            await source.read_resource("book:1", of_method("resources/read"))


@pytest.mark.anyio
@pytest.mark.requirement("S1-15")
@pytest.mark.parametrize("hooks", [{}, {"read_mcp_resource": nothing}, {"read_mcp_resource": _not_found}])
async def test_a_resource_that_nobody_can_read_is_not_found(hooks: dict[str, Any]) -> None:
    async with published(one_tool(lambda _: None, **hooks)) as source:
        with pytest.raises(ResourceNotFoundError) as caught:
            await source.read_resource("book:1", of_method("resources/read"))
    assert caught.value.uri == "book:1"


@pytest.mark.anyio
async def test_a_malformed_resource_result_is_a_protocol_error() -> None:
    async with published(one_tool(lambda _: None, read_mcp_resource=returning({"contents": [{}]}))) as source:
        with pytest.raises(ProtocolError, match="malformed result") as caught:
            await source.read_resource("book:1", of_method("resources/read"))
    assert caught.value.code == mcp_types.INTERNAL_ERROR


@pytest.mark.anyio
async def test_completions_come_from_the_agent_with_what_was_filled_in_already() -> None:
    asked: list[Any] = []

    def complete(ref: JSON, argument: str, value: str, context: dict[str, str]) -> list[str]:
        asked.append((ref, argument, value, context))
        return ["Ann", "Anna"]

    ref = {"type": "ref/prompt", "name": "greet"}
    async with published(one_tool(lambda _: None, complete_mcp_argument=complete)) as source:
        request = of_method("completion/complete")
        result = await source.complete(ref, {"name": "who", "value": "An"}, {"lang": "en"}, request)
    assert result["completion"]["values"] == ["Ann", "Anna"]
    assert asked == [(ref, "who", "An", {"lang": "en"})]


@pytest.mark.anyio
async def test_an_agent_without_completions_suggests_nothing() -> None:
    async with published(one_tool(lambda _: None)) as source:
        request = of_method("completion/complete")
        result = await source.complete({}, {"name": "who", "value": ""}, {}, request)
    assert result["completion"]["values"] == []


@pytest.mark.anyio
@pytest.mark.requirement("P-11")
async def test_an_image_arrives_as_an_image() -> None:
    async with published(one_tool(lambda _: [text("see"), image(b"x", "image/png")])) as source:
        assert (await call(source))["content"] == [text("see"), image(b"x", "image/png")]


@pytest.mark.anyio
@pytest.mark.requirement("S-32")
async def test_a_client_is_not_asked_for_input_that_it_did_not_declare() -> None:
    asked = {"q": elicitation_request("?", {"n": {"type": "integer"}})}
    async with published(one_tool(lambda _: input_required(asked))) as source:
        request = FakeRequest()
        request.modern = True
        with pytest.raises(ProtocolError, match="elicitation"):
            await source.call_tool("work", {}, request)
        request.client_capabilities = {"elicitation": {}}
        assert (await source.call_tool("work", {}, request))["inputRequests"] == asked
