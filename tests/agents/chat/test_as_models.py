"""Agents that think, as models of the bridge's own API: their model plays along, OpenAI's client asks them."""

from __future__ import annotations

from typing import Any

import pytest

from gaia.agents.base import ApiAgent, MCPAgent
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.chat_endpoint import chatting
from tests.support.on_demand import openai
from tests.support.scripted_model import ModelHandle, call, calls, fault, rule, say, scripted_model

pytestmark = pytest.mark.anyio


class WeatherAgent(MCPAgent, ApiAgent):
    """Knows the weather."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return []

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        raise ValueError(f"Unknown tool: {tool_name}")


def weather(model: ModelHandle) -> WeatherAgent:
    return WeatherAgent(base_url=model.base_url, model="scripted", silent_mode=True)


def ask(text: str, **more: Any) -> JSON:
    return {"model": "gaia-weather", "messages": [{"role": "user", "content": text}], **more}


async def test_an_agent_is_lent_a_tool_and_its_model_uses_it() -> None:
    rules = [rule("weather", call("look-up", city="Paris"), say("It is $result."))]
    with scripted_model(rules=rules) as model:
        other = one_tool(lambda arguments: f"sunny in {arguments['city']}", "look-up")
        async with chatting(named={"weather": weather(model), "other": other}) as server, server.openai as client:
            create: Any = client.chat.completions.create
            lent = [{"type": "mcp", "server_label": "other"}]
            answer = await create(**ask("What is the weather?", tools=lent))
            assert answer.choices[0].message.content == "It is sunny in Paris."
            assert answer.usage.total_tokens > 0
        assert "look-up" in model.requests()[0].tool_names


async def test_a_function_of_the_client_ends_the_turn_and_its_result_begins_the_next() -> None:
    with scripted_model(call("add", a=1), say("It is $result.")) as model:
        async with chatting(named={"weather": weather(model)}) as server, server.openai as client:
            create: Any = client.chat.completions.create
            function = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
            first = (await create(**ask("How much?", tools=[function]))).choices[0]
            assert first.finish_reason == "tool_calls"
            [asked] = first.message.tool_calls
            request = ask("How much?", tools=[function])
            request["messages"] += [
                first.message.to_dict(),
                {"role": "tool", "tool_call_id": asked.id, "content": "three"},
            ]
            assert (await create(**request)).choices[0].message.content == "It is three."


@pytest.mark.requirement("F-295")
async def test_a_response_goes_on_by_its_id_with_what_the_agent_did_before_the_clients_function() -> None:
    script = calls(("look-up", {"city": "Paris"}), ("add", {"a": 1})), say("It is $result.")
    function: Any = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}
    with scripted_model(*script) as model:
        other = one_tool(lambda arguments: f"sunny in {arguments['city']}", "look-up")
        async with chatting(named={"weather": weather(model), "other": other}) as server, server.openai as client:
            create: Any = client.responses.create
            tools = [function, {"type": "mcp", "server_label": "other"}]
            first = await create(model="gaia-weather", input="How much?", tools=tools)
            [asked] = first.output
            assert (asked.type, asked.name) == ("function_call", "add")
            output = {"type": "function_call_output", "call_id": asked.call_id, "output": "three"}
            previous = first.id
            second = await create(model="gaia-weather", input=[output], previous_response_id=previous, tools=tools)
            assert second.output_text == "It is three."
        told = [message["content"] for message in model.requests()[1].messages if message["role"] == "tool"]
        assert sorted(told) == ["sunny in Paris", "three"]


async def test_a_session_is_remembered_by_the_agent() -> None:
    with scripted_model(say("Hello."), say("You said hi.")) as model:
        async with chatting(named={"weather": weather(model)}) as server, server.openai as client:
            create: Any = client.with_options(default_headers={"X-Session-Id": "x" * 128}).chat.completions.create
            await create(**ask("hi"))
            stream = await create(**ask("What did I say?", stream=True))
            said = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(said) == "You said hi."
        assert [message["content"] for message in model.requests()[1].messages[-3:]] == [
            "hi",
            "Hello.",
            "What did I say?",
        ]


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        ("unauthorized", 502, "agent_model_credentials"),
        ("unknown_model", 502, "agent_model_not_found"),
        ("context_overflow", 400, "context_length_exceeded"),
    ],
)
async def test_what_is_wrong_with_the_agents_model_is_told(failure: str, status: int, code: str) -> None:
    with scripted_model(fault(failure, times=9)) as model:
        async with chatting(named={"weather": weather(model)}) as server, server.openai as client:
            create: Any = client.chat.completions.create
            with pytest.raises(openai.APIStatusError) as raised:
                await create(**ask("hi"))
    assert (raised.value.status_code, raised.value.code) == (status, code)


async def test_an_agent_whose_model_is_not_there_says_what_to_start() -> None:
    agent = WeatherAgent(base_url="http://127.0.0.1:9/v1", model="none", silent_mode=True)
    async with chatting(named={"weather": agent}) as server, server.openai as client:
        create: Any = client.chat.completions.create
        with pytest.raises(openai.InternalServerError, match="127.0.0.1:9") as raised:
            await create(**ask("hi", stream=True))
    assert (raised.value.status_code, raised.value.code) == (503, "agent_model_unreachable")
