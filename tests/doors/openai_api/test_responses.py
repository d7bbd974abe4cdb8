"""The Responses API: the same turns as completions, asked and answered as items, told in typed events, and kept."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import anyio.to_thread
import pytest
from pydantic import BaseModel

from gaia_bridge.chat_types import ChatRequest, Reply, ToolCall, Usage
from gaia_bridge.errors import ContextOverflowError
from gaia_bridge.settings import ChatEndpointLimits, Settings
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.openai_api.responses.response_request import StoredResponses, read_response_request
from tests.support.agents import ScriptedAgent, tool
from tests.support.chat_endpoint import ChatAgent, Chatting, QueryAgent, chatting, events_of, failing, saying
from tests.support.on_demand import openai

pytestmark = pytest.mark.anyio

FLAT: JSON = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": None}
NESTED: JSON = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = ToolCall("call_1", "add", '{"a": 1}')


class Weather(BaseModel):
    """What is parsed."""

    city: str
    degrees: int


def echoing() -> ChatAgent:
    """Says what it was asked, as JSON."""

    async def script(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        yield Reply(json.dumps(list(request.messages)))

    return ChatAgent(script)


async def respond(server: Chatting, headers: dict[str, str] | None = None, **fields: Any) -> JSON:
    """What a request for a response is answered with, and its status as `http`."""
    body = {"model": "gaia-test", "input": "?", **fields}
    response = await server.client.post("/v1/responses", json=body, headers=headers)
    answer: JSON = response.json()
    return {**answer, "http": response.status_code}


async def streamed(server: Chatting, **fields: Any) -> list[JSON]:
    """The events of a stream, each as its name says."""
    body = {"model": "gaia-test", "input": "?", "stream": True, **fields}
    text = (await server.client.post("/v1/responses", json=body)).text
    events = events_of(text)
    names = [line.removeprefix("event: ") for line in text.split("\n") if line.startswith("event: ")]
    assert names == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


# In one piece


@pytest.mark.requirement("F-295")
async def test_a_response_has_the_whole_answer_and_the_tokens_it_took() -> None:
    agent = ChatAgent(saying("I am ", "fine", Reply("I am fine", usage=Usage(12, 3))))
    async with chatting(agent) as server, server.openai as client:
        answer = await client.responses.create(
            model="gaia-test",
            input="How are you?",
            instructions="Be brief.",
            metadata={"for": "a test"},
            temperature=0.5,
        )
    assert (answer.output_text, answer.status, answer.object, answer.model) == (
        "I am fine",
        "completed",
        "response",
        "gaia-test",
    )
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (12, 3, 15)
    assert answer.usage.input_tokens_details.cached_tokens == 0
    assert (answer.instructions, answer.metadata, answer.temperature) == ("Be brief.", {"for": "a test"}, 0.5)
    assert (answer.tools, answer.tool_choice, answer.parallel_tool_calls) == ([], "auto", True)
    [request] = agent.requests
    assert list(request.messages) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How are you?"},
    ]
    assert (request.options, request.session_id) == ({"temperature": 0.5}, None)


async def test_items_are_the_messages_that_completions_have_for_them() -> None:
    items: list[JSON] = [
        {"role": "developer", "content": "Be brief."},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        },
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Well.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "3"}]},
        {"type": "function_call_output", "call_id": "c1", "output": "4"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
            ],
        },
    ]
    agent = echoing()
    async with chatting(agent) as server, server.openai as client:
        input_items: Any = items
        answer = await client.responses.create(model="gaia-test", input=input_items)
    assert json.loads(answer.output_text) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "Well.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "3"},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
            ],
        },
    ]


async def test_options_go_to_the_agent_in_the_words_of_completions() -> None:
    agent = ChatAgent(saying(Reply("ok")))
    schema = {"type": "object"}
    async with chatting(agent) as server:
        answer = await respond(
            server,
            tools=[FLAT, {"type": "web_search"}],
            tool_choice={"type": "function", "name": "add"},
            parallel_tool_calls=False,
            max_output_tokens=50,
            top_p=0.5,
            reasoning={"effort": "low"},
            text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}},
        )
    assert (answer["http"], answer["status"]) == (200, "completed")
    [request] = agent.requests
    assert list(request.client_tools) == [NESTED]
    assert request.options == {
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
        "max_tokens": 50,
        "top_p": 0.5,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
    }


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        (Reply("cut", finish_reason="length"), "incomplete", "max_output_tokens"),
        (Reply("cut", finish_reason="content_filter"), "incomplete", "content_filter"),
        (Reply("", (CALL,), finish_reason="length"), "completed", None),
        (Reply(""), "completed", None),
    ],
)
async def test_an_answer_that_was_cut_off_is_incomplete(reply: Reply, status: str, reason: str | None) -> None:
    async with chatting(ChatAgent(saying(reply))) as server:
        answer = await respond(server)
        last = (await streamed(server))[-1]
    for response in (answer, last["response"]):
        assert response["status"] == status
        assert response["incomplete_details"] == (None if reason is None else {"reason": reason})
        assert len(response["output"]) == 1
    assert last["type"] == f"response.{status}"


async def test_an_answer_is_parsed_by_the_schema_that_it_was_asked_for() -> None:
    agent = ChatAgent(saying(Reply('{"city": "Graz", "degrees": 7}')))
    async with chatting(agent) as server, server.openai as client:
        answer = await client.responses.parse(model="gaia-test", input="?", text_format=Weather)
    assert answer.output_parsed == Weather(city="Graz", degrees=7)
    assert agent.requests[0].options["response_format"]["json_schema"]["name"] == "Weather"


async def test_an_agent_that_answers_in_one_piece_answers_here_too() -> None:
    async with chatting(QueryAgent(lambda text: {"answer": f"{text}!"})) as server:
        answer = await respond(server, input="Hi", model="gaia-query")
        refused = await respond(server, input="Hi", model="gaia-query", tools=[FLAT])
    assert answer["output"][0]["content"][0]["text"] == "Hi!"
    assert (refused["http"], refused["error"]["param"]) == (400, "tools")


async def test_tools_of_the_bridge_are_lent_as_for_completions() -> None:
    async def script(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        [lent] = request.lent_tools
        yield Reply(json.dumps((await lent.call({"a": 2}))["structuredContent"]))

    other = ScriptedAgent(lambda name, arguments: {"ran": name, **arguments}, tool("add", a={"type": "integer"}), "sub")
    lending: Any = {"type": "mcp", "server_label": "a1", "allowed_tools": ["add"], "require_approval": "never"}
    async with chatting(ChatAgent(script), other) as server, server.openai as client:
        answer = await client.responses.create(model="gaia-test", input="?", tools=[lending])
        taken = await respond(server, tools=[lending, {**FLAT, "name": "add"}])
    assert json.loads(answer.output_text) == {"ran": "add", "a": 2}
    assert (taken["http"], taken["error"]["param"]) == (400, "tools[1].name")


# As a stream


@pytest.mark.requirement("F-295")
async def test_a_stream_tells_a_message_in_typed_events() -> None:
    async with chatting(ChatAgent(saying("Hel", "lo", Reply("Hello!", usage=Usage(1, 2))))) as server:
        events = await streamed(server)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["delta"] for event in events[4:7]] == ["Hel", "lo", "!"]
    assert events[7]["text"] == "Hello!"
    response = events[-1]["response"]
    assert (response["status"], response["usage"]["total_tokens"]) == ("completed", 3)
    assert response["output"] == [events[-2]["item"]]
    assert {event["item_id"] for event in events[3:9]} == {response["output"][0]["id"]}
    assert events[0]["response"]["status"] == "in_progress"
    assert events[0]["response"]["id"] == response["id"]


async def test_a_stream_tells_calls_of_the_clients_functions_after_what_was_said() -> None:
    calls = (CALL, ToolCall("call_2", "add", '{"a": 2}'))
    async with chatting(ChatAgent(saying("Let me see.", Reply("Let me see.", calls)))) as server:
        events = await streamed(server, tools=[FLAT])
    names = [event["type"].removeprefix("response.") for event in events[7:]]
    one = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"]
    assert names == [*one, *one, "completed"] or names == ["output_item.done", *one, *one, "completed"]
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "function_call"]
    assert [event["output_index"] for event in events[-9:-1]] == [1] * 4 + [2] * 4
    assert (output[2]["call_id"], output[2]["name"], output[2]["arguments"]) == ("call_2", "add", '{"a": 2}')


async def test_functions_in_a_namespace_have_its_name_before_theirs_for_the_agent_alone() -> None:
    called = Reply("", (ToolCall("c1", "mcp__time__now", "{}"), ToolCall("c2", "agents__stop", "{}")))
    agent = ChatAgent(saying(called))
    inner = {"type": "function", "name": "now", "parameters": {"type": "object"}}
    tools = [
        {"type": "namespace", "name": "mcp__time__", "description": "Times", "tools": [inner]},
        {"type": "namespace", "name": "agents", "tools": [{**inner, "name": "stop"}]},
    ]
    async with chatting(agent) as server:
        first = await respond(server, tools=tools)
        items = [*first["output"], {"type": "function_call_output", "call_id": "c1", "output": "noon"}]
        await respond(server, tools=tools, input=items)
        await respond(server, tools=tools, input=items[-1:], previous_response_id=first["id"])
    names = ["mcp__time__now", "agents__stop"]
    assert [(item["namespace"], item["name"]) for item in first["output"]] == [
        ("mcp__time__", "now"),
        ("agents", "stop"),
    ]
    assert [item["function"]["name"] for item in agent.requests[0].client_tools] == names
    for request in agent.requests[1:]:
        [said] = [message for message in request.messages if message["role"] == "assistant"]
        assert [call["function"]["name"] for call in said["tool_calls"]] == names


@pytest.mark.requirement("F-295")
async def test_openais_own_client_reads_a_stream() -> None:
    agent = ChatAgent(saying("a", "b", Reply("ab", (CALL,))))
    async with chatting(agent) as server, server.openai as client:
        async with client.responses.stream(model="gaia-test", input="?", tools=[{**FLAT, "strict": False}]) as stream:  # type: ignore[list-item]
            deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            final = await stream.get_final_response()
        plain = await client.responses.create(model="gaia-test", input="?", stream=True)
        types = [event.type async for event in plain]
    assert (deltas, final.output_text) == (["a", "b"], "ab")
    assert [item.type for item in final.output] == ["message", "function_call"]
    assert (types[0], types[-1]) == ("response.created", "response.completed")


@pytest.mark.requirement("F-295")
async def test_openais_blocking_client_works() -> None:
    async with chatting(ChatAgent(saying("a", Reply("ab")))) as server:
        base_url = str(server.client.base_url.join("/v1"))

        def use() -> tuple[str, str, list[str]]:
            with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
                first = client.responses.create(model="gaia-test", input="?")
                again = client.responses.retrieve(first.id)
                client.responses.delete(first.id)
                with client.responses.create(model="gaia-test", input="?", stream=True) as stream:
                    types: list[str] = [event.type for event in stream]
                with pytest.raises(openai.NotFoundError):
                    client.responses.retrieve(first.id)
                return first.output_text, again.output_text, types

        first, again, types = await anyio.to_thread.run_sync(use)
    assert (first, again, types[-1]) == ("ab", "ab", "response.completed")


async def test_a_stream_that_fails_says_so_in_its_last_event_and_before_its_first_piece_by_a_status() -> None:
    error = ContextOverflowError("The conversation is too long.", "Send less.")
    async with chatting(ChatAgent(failing(error, "a")), ChatAgent(failing(error), "gaia-mute")) as server:
        last = (await streamed(server))[-1]
        refused = await respond(server, model="gaia-mute", stream=True)
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"]["code"] == "context_length_exceeded"
    assert last["response"]["output"][0]["content"][0]["text"] == "a"
    assert (refused["http"], refused["error"]["param"]) == (400, "input")


# Going on


@pytest.mark.requirement("F-295")
async def test_a_response_is_gone_on_from_as_often_as_somebody_likes() -> None:
    agent = echoing()
    async with chatting(agent) as server, server.openai as client:
        first = await client.responses.create(model="gaia-test", input="one", instructions="Be brief.")
        second = await client.responses.create(model="gaia-test", input="two", previous_response_id=first.id)
        other = await client.responses.create(
            model="gaia-test", input="three", previous_response_id=first.id, instructions="Be long."
        )
    said = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": first.output_text},
    ]
    assert second.previous_response_id == first.id
    assert json.loads(second.output_text) == [*said, {"role": "user", "content": "two"}]
    assert json.loads(other.output_text) == [
        {"role": "system", "content": "Be long."},
        *said,
        {"role": "user", "content": "three"},
    ]


async def test_a_call_of_the_clients_function_is_answered_by_id_alone() -> None:
    agent = ChatAgent(saying(Reply("Let me see.", (CALL,))))
    output = {"type": "function_call_output", "call_id": "call_1", "output": "4"}
    async with chatting(agent) as server:
        first = await respond(server, tools=[FLAT])
        second = await respond(server, input=[output], previous_response_id=first["id"], tools=[FLAT])
        strange = await respond(server, input=[{**output, "call_id": "x"}], previous_response_id=first["id"])
    assert second["http"] == 200
    assert list(agent.requests[1].messages) == [
        {"role": "user", "content": "?"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "4"},
    ]
    assert (strange["http"], strange["error"]["param"]) == (400, "input[0].call_id")


async def test_a_streamed_response_is_stored_too_and_one_that_shall_not_be_is_not() -> None:
    async with chatting(ChatAgent(saying("ok"))) as server:
        stored = (await streamed(server))[-1]["response"]
        response = await server.client.get(f"/v1/responses/{stored['id']}")
        assert (response.status_code, response.json()) == (200, stored)
        private = await respond(server, store=False)
        assert private["store"] is False
        response = await server.client.get(f"/v1/responses/{private['id']}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "response_not_found")
        gone_on = await respond(server, previous_response_id=private["id"])
        assert (gone_on["http"], gone_on["error"]["code"]) == (400, "previous_response_not_found")
        response = await server.client.delete(f"/v1/responses/{stored['id']}")
        assert response.json() == {"id": stored["id"], "object": "response", "deleted": True}
        assert (await server.client.delete(f"/v1/responses/{stored['id']}")).status_code == 404


async def test_a_session_is_the_agents_and_gets_what_is_new() -> None:
    agent = ChatAgent(saying(Reply("ok")))
    items = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    async with chatting(agent) as server:
        response = await server.client.post(
            "/v1/responses", json={"model": "gaia-test", "input": items}, headers={"X-Session-Id": "me"}
        )
        both = await respond(server, {"X-Session-Id": "me"}, previous_response_id=response.json()["id"])
    assert response.headers["x-session-id"] == "me"
    [request] = agent.requests
    assert (list(request.messages), request.session_id) == ([{"role": "user", "content": "c"}], "me")
    assert (both["http"], both["error"]["param"]) == (400, "previous_response_id")


def kept(store: StoredResponses, *ids: str) -> list[bool]:
    """Which are there."""

    def is_there(response_id: str) -> bool:
        try:
            return bool(store.response(response_id))
        except ChatError:
            return False

    return [is_there(response_id) for response_id in ids]


async def test_as_many_responses_are_stored_as_there_may_be_and_those_used_last() -> None:
    store = StoredResponses(ChatEndpointLimits(stored=2))
    for name in "abc":
        store.add({"id": name}, [])
        if name == "b":
            store.history("a")
    assert kept(store, "a", "b", "c") == [True, False, True]


async def test_as_much_is_stored_as_there_may_be_counting_the_conversation_of_each() -> None:
    history: list[JSON] = [{"role": "user", "content": "x" * 600}]
    store = StoredResponses(ChatEndpointLimits(stored_bytes=1_000))
    for name in "ab":
        store.add({"id": name}, history)
    assert kept(store, "a", "b") == [False, True]
    store.add({"id": "c"}, [*history, *history])
    assert kept(store, "a", "b", "c") == [False, False, False]
    store.add({"id": "d"}, history)
    assert kept(store, "d") == [True]


async def test_a_response_is_forgotten_in_time() -> None:
    now = 0.0
    store = StoredResponses(ChatEndpointLimits(stored_seconds=10), lambda: now)
    store.add({"id": "a"}, [])
    now = 9.0
    assert kept(store, "a") == [True]
    now = 11.0
    assert kept(store, "a") == [False]


# Refusals


WRONG: list[tuple[JSON, str]] = [
    ({"input": None}, "input"),
    ({"input": []}, "input"),
    ({"input": {}}, "input"),
    ({"input": [5]}, "input[0]"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    ({"input": [{"content": "x"}]}, "input[0].type"),
    ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": None}]}, "input[0].content"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        "input[0].content[0].image_url",
    ),
    ({"input": [{"role": "assistant", "content": "x"}]}, "input"),
    ({"input": [{"type": "function_call", "call_id": "c", "name": "n"}]}, "input[0].arguments"),
    ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input[0].call_id"),
    ({"model": 5}, "model"),
    ({"instructions": 5}, "instructions"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": [{"type": "function", "function": {"name": "x"}}]}, "tools[0].name"),
    ({"tools": [FLAT, FLAT]}, "tools[1].name"),
    ({"tools": [{"type": "unheard_of"}]}, "tools[0].type"),
    ({"tools": [{"type": "namespace", "tools": []}]}, "tools[0].name"),
    ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]}, "tools[0].tools[0].name"),
    ({"tools": [{"type": "namespace", "name": "n", "tools": [FLAT] * 129}]}, "tools[0].tools"),
    ({"tools": [{"type": "mcp", "server_label": "a0", "server_url": "http://x"}]}, "tools[0].server_url"),
    ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"temperature": 3}, "temperature"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ({"reasoning": {"effort": 5}}, "reasoning.effort"),
    ({"metadata": {"a": 5}}, "metadata"),
    ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
    ({"store": "yes"}, "store"),
    ({"stream": 1}, "stream"),
    ({"background": True}, "background"),
    ({"conversation": "c"}, "conversation"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"previous_response_id": "resp_x"}, "previous_response_id"),
]


@pytest.mark.parametrize(("fields", "param"), WRONG)
def test_a_request_that_is_wrong_is_told_where(fields: JSON, param: str) -> None:
    limits = ChatEndpointLimits()
    body = json.dumps({"model": "gaia-test", "input": "?", **fields}).encode()
    with pytest.raises(ChatError) as refused:
        read_response_request(body, None, StoredResponses(limits), limits)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert refused.value.message.startswith(("Previous response", param))


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "other"}, 404, "model"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, 400, "tools[0].server_label"),
        ({"tools": 5}, 400, "tools"),
    ],
)
async def test_a_refusal_has_openais_shape(fields: JSON, status: int, param: str) -> None:
    agent = ChatAgent(saying(Reply("ok")))
    async with chatting(agent) as server:
        answer = await respond(server, **fields)
    assert answer["http"] == status
    assert answer["error"].keys() == {"message", "type", "param", "code"}
    assert (answer["error"]["param"], answer["error"]["type"]) == (param, "invalid_request_error")
    assert agent.requests == []


async def test_more_messages_than_a_request_may_have_are_refused_with_those_before() -> None:
    settings = Settings(chats=ChatEndpointLimits(messages=3))
    async with chatting(ChatAgent(saying("ok")), settings=settings) as server:
        first = await respond(server)
        assert (await respond(server, previous_response_id=first["id"]))["http"] == 200
        two = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
        refused = await respond(server, input=two, previous_response_id=first["id"])
    assert (refused["http"], refused["error"]["param"], refused["error"]["code"]) == (400, "input", "array_too_long")


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/v1/responses", 405, "POST"),
        ("DELETE", "/v1/responses", 405, "POST"),
        ("POST", "/v1/responses/resp_x", 405, "GET, DELETE"),
        ("GET", "/v1/responses/resp_x/input_items", 404, None),
        ("POST", "/v1/responses/resp_x/cancel", 404, None),
    ],
)
async def test_what_is_not_served_is_said(method: str, path: str, status: int, allow: str | None) -> None:
    async with chatting(ChatAgent(saying("ok"))) as server:
        response = await server.client.request(method, path, json={})
    assert (response.status_code, response.headers.get("allow")) == (status, allow)
    assert "error" in response.json()
