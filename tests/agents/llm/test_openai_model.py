"""Replies of every known server, through the real library and a real connection."""

from __future__ import annotations

import gc
import logging
from contextlib import aclosing
from typing import Any

import anyio
import pytest

import gaia.llm.settings
from gaia.llm import ModelError, ModelLimits, ModelNotFoundError, OpenAIModel, Reply, Usage
from gaia.llm.model import ChatModel
from gaia.llm.servers import KNOWN, KnownServer
from gaia_bridge.chat_types import Thought
from gaia_bridge.text.json_types import JSON
from tests.agents.llm.talking import ADD, QUICK, collected, error_of, model_at, reply_of, user
from tests.servers.model_dialects import DIALECTS
from tests.servers.model_script import prompt_tokens
from tests.support.scripted_model import ModelHandle, call, calls, fault, rule, say, script, scripted_model
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def test_it_is_a_chat_model(server: ModelHandle) -> None:
    model: ChatModel = model_at(server)
    assert model.name == "scripted"


@every_dialect
async def test_text_comes_word_by_word(server: ModelHandle, dialect: str) -> None:
    server.play(script(say("It is nice today.", reasoning="hm"), dialect=dialect))
    model = model_at(server)
    pieces, reply = await collected(model, "How is it?")
    await model.aclose()
    assert pieces == ["It ", "is ", "nice ", "today."]
    assert reply.finish_reason == "stop"
    counts = DIALECTS[dialect].usage != "never"
    assert reply.usage == (Usage(prompt_tokens(server.requests()[0].body), 5) if counts else Usage())


@every_dialect
async def test_what_a_model_thinks_is_told_to_whoever_wants_it(server: ModelHandle, dialect: str) -> None:
    server.play(script(say("It is nice.", reasoning="hm"), dialect=dialect))
    model = model_at(server, thoughts=True)
    told = [piece async for piece in model.stream(user("How is it?"))]
    await model.aclose()
    assert told[0] == Thought("hm")
    assert [piece for piece in told if isinstance(piece, str)] == ["It ", "is ", "nice."]


@every_dialect
async def test_parallel_tool_calls_come_whole(server: ModelHandle, dialect: str) -> None:
    asked = calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}), ("sub", "{}"), text="Let me see. ")
    server.play(script(asked, dialect=dialect))
    reply = await reply_of(model_at(server), "Calculate!", [ADD])
    assert [(item.name, item.arguments) for item in reply.tool_calls] == [
        ("add", '{"a": 1, "b": 2}'),
        ("add", '{"a": 3, "b": 4}'),
        ("sub", "{}"),
    ]
    assert len({item.id for item in reply.tool_calls}) == 3
    assert (reply.text, reply.finish_reason) == ("Let me see. ", "tool_calls")


@every_dialect
async def test_a_conversation_with_tools_goes_on(server: ModelHandle, dialect: str) -> None:
    server.play(script(call("add", a=1, b=2), say("It is $result."), dialect=dialect))
    model = model_at(server)
    conversation = user("How much is 1 + 2?")
    _, asked = await collected(model, conversation, [ADD])
    (tool_call,) = asked.tool_calls
    function = {"name": tool_call.name, "arguments": tool_call.arguments}
    conversation += [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": tool_call.id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": tool_call.id, "content": "3"},
    ]
    assert (await reply_of(model, conversation, [ADD])).text == "It is 3."
    assert server.requests()[1].messages == conversation


@every_dialect
async def test_a_server_that_cannot_stream_with_tools_is_asked_for_a_whole_answer(
    server: ModelHandle, dialect: str
) -> None:
    server.play(
        script(
            call("add", a=1, b=2), call("add", a=1, b=2), dialect=dialect, refuses=["streaming_tools"], order="requests"
        )
    )
    model = model_at(server)
    for _ in range(2):
        _, reply = await collected(model, "Calculate!", [ADD])
        assert [(item.name, item.arguments) for item in reply.tool_calls] == [("add", '{"a": 1, "b": 2}')]
        assert reply.usage.prompt_tokens > 0
    await model.aclose()
    assert [request.body["stream"] for request in server.requests()] == [True, False, False]  # it learns


async def test_a_server_that_cannot_stream_at_all_is_asked_for_a_whole_answer(server: ModelHandle) -> None:
    server.play(script(say("Hello you."), refuses=["streaming"]))
    model = model_at(server)
    pieces, _ = await collected(model, "Hello")
    await model.aclose()
    assert pieces == ["Hello you."]


async def test_a_server_that_does_not_know_stream_options_is_asked_without(server: ModelHandle) -> None:
    server.play(script(say("one"), say("two"), refuses=["stream_options"], order="requests"))
    model = model_at(server)
    assert [(await collected(model, "Hello"))[1].text for _ in range(2)] == ["one", "two"]
    await model.aclose()
    assert ["stream_options" in request.body for request in server.requests()] == [True, False, False]


async def test_a_whole_answer_to_a_request_for_a_stream_is_taken(server: ModelHandle) -> None:
    server.play(script(calls(("add", "{}"), text="Well.", stream=False, finish="stop")))
    reply = await reply_of(model_at(server), "Hello", [ADD])
    assert (reply.text, reply.finish_reason, len(reply.tool_calls)) == ("Well.", "tool_calls", 1)


@pytest.mark.parametrize(
    "quirks",
    [
        {"indexes": "zero"},
        {"indexes": "missing"},
        {"indexes": "missing", "calls": "whole", "id_length": 0, "id_prefix": ""},
        {"indexes": "zero", "calls": "whole", "id_length": 0, "id_prefix": ""},
        {"arguments": "object"},
        {"call_finish": "stop"},
        {"usage": "always"},
        {"id_length": 0, "id_prefix": "same"},
    ],
)
async def test_tool_calls_survive_what_servers_make_of_the_protocol(server: ModelHandle, quirks: JSON) -> None:
    server.play(script(calls(("add", {"a": 1}), ("add", {"a": 2}), ("sub", {})), quirks=quirks))
    reply = await reply_of(model_at(server), "Calculate!", [ADD])
    assert [(item.name, item.arguments) for item in reply.tool_calls] == [
        ("add", '{"a": 1}'),
        ("add", '{"a": 2}'),
        ("sub", "{}"),
    ]
    assert len({item.id for item in reply.tool_calls if item.id}) == 3
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize("reply", [say("Hello", finish=None), say("Hello", done=False), say("Hello", usage=None)])
async def test_an_end_that_is_told_in_one_way_only_is_an_end(server: ModelHandle, reply: JSON) -> None:
    server.play(script(reply))
    assert (await reply_of(model_at(server), "Hello")).text == "Hello"


async def test_malformed_arguments_are_for_the_caller_to_judge(server: ModelHandle) -> None:
    server.play(script(call("no_such_tool", '{"a": 1')))
    (tool_call,) = (await reply_of(model_at(server), "Hello", [ADD])).tool_calls
    assert (tool_call.name, tool_call.arguments) == ("no_such_tool", '{"a": 1')


@every_dialect
async def test_malformed_arguments_in_the_history_are_sent_so_that_every_server_takes_them(
    server: ModelHandle, dialect: str
) -> None:
    server.play(script(say("sorry"), dialect=dialect, order="requests"))
    function = {"name": "add", "arguments": '{"a": 1'}
    conversation = [
        *user("Hello"),
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "Error: the arguments are no JSON"},
    ]
    assert (await reply_of(model_at(server), conversation)).text == "sorry"
    assert function["arguments"] == '{"a": 1'  # what the caller has is not changed


async def test_text_that_no_encoding_can_carry_is_sent_as_well_as_it_can_be(server: ModelHandle) -> None:
    server.play(script(say("Well.")))
    assert (await reply_of(model_at(server), "caf\udce9")).text == "Well."
    assert server.requests()[-1].messages == user("caf?")


async def test_options_are_sent_and_the_callers_win(server: ModelHandle) -> None:
    server.play(script(say("a")))
    model = model_at(server, options={"temperature": 0, "top_k": 3})
    await collected(model, "Hello", [ADD], {"temperature": 1, "stream": False, "model": "other", "n": 4})
    await model.aclose()
    body = server.requests()[0].body
    assert body == {
        "model": "scripted",
        "messages": user("Hello"),
        "tools": [ADD],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 1,
        "top_k": 3,
    }


async def test_options_that_are_refused_where_they_mean_nothing_are_left_out(server: ModelHandle) -> None:
    server.play(script(say("a")))
    model = model_at(server)
    await collected(model, "Hello", (), {"tool_choice": "auto", "parallel_tool_calls": True, "temperature": None})
    await model.aclose()
    assert sorted(server.requests()[0].body) == ["messages", "model", "stream", "stream_options"]


async def test_a_key_is_shown_and_nothing_is_shown_without_one(
    server: ModelHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody")
    server.play(script(say("a"), say("b"), order="requests"))
    await reply_of(model_at(server), "Hello")
    await reply_of(model_at(server, api_key="sk-mine"), "Hello")
    without, with_key = (request.headers for request in server.requests())
    assert "authorization" not in without
    assert with_key["authorization"] == "Bearer sk-mine"
    assert "somebody" not in str(without) + str(with_key)


async def test_connections_are_used_again(server: ModelHandle) -> None:
    server.play(script(rules=[rule(".", say("a"))]))
    model = model_at(server)
    for _ in range(3):
        await collected(model, "Hello")
    await model.aclose()
    assert len({request.client for request in server.requests()}) == 1


async def test_nothing_is_left_open_and_it_can_be_used_again(server: ModelHandle) -> None:
    server.play(script(rules=[rule(".", say("a"))]))
    model = model_at(server)
    for _ in range(2):
        await collected(model, "Hello")
        await model.aclose()
    await model.aclose()
    del model
    gc.collect()  # a connection that is open is a ResourceWarning, which is an error here
    assert len(server.requests()) == 2


async def test_closing_the_generator_ends_the_request(server: ModelHandle) -> None:
    server.play(script(say("one two three", hold="gate", hold_after=2)))
    model = model_at(server)
    with anyio.fail_after(PATIENCE):
        async with aclosing(model.stream(user("Hello"))) as stream:
            assert await anext(stream) == "one "
            await server.until(server.wait_held, "gate")
        await server.until(server.wait_ended, outcome="disconnected")
    await model.aclose()


@pytest.mark.parametrize("hold_after", [0, 2])
async def test_cancelling_whoever_waits_ends_the_request(server: ModelHandle, hold_after: int) -> None:
    server.play(script(say("one two three", hold="gate", hold_after=hold_after)))
    model = model_at(server)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collected, model, "Hello")
            await server.until(server.wait_held, "gate")
            tasks.cancel_scope.cancel()
        await server.until(server.wait_ended, outcome="disconnected")
    await model.aclose()


async def test_many_chats_at_once_get_their_own_answers(server: ModelHandle) -> None:
    number = 50
    reply = call("add", '{"a": $1, "b": $1}')
    server.play(script(rules=[rule(r"double (\d+)", {**reply, "hold": "all"}, say("$result"))]))
    model = model_at(server)
    answers: dict[int, Reply] = {}

    async def chat(index: int) -> None:
        answers[index] = (await collected(model, f"double {index}", [ADD]))[1]

    async with anyio.create_task_group() as tasks:
        for index in range(number):
            tasks.start_soon(chat, index)
        await server.until(server.wait_held, "all", number)
        server.release("all")
    await model.aclose()
    assert {index: reply.tool_calls[0].arguments for index, reply in answers.items()} == {
        index: f'{{"a": {index}, "b": {index}}}' for index in range(number)
    }
    assert server.state()["peak"] == number


# Which server, which model


async def test_the_environment_counts_when_the_model_is_used(
    server: ModelHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER", "nobody")
    model = OpenAIModel(limits=QUICK)  # an agent that never chats is built all the same
    assert model.name == "the model of this machine"
    with pytest.raises(ModelError, match="'nobody' is no provider"):
        await collected(model, "Hello")
    server.play(script(say("a")))
    monkeypatch.setenv("GAIA_BASE_URL", server.base_url)
    monkeypatch.setenv("GAIA_MODEL", "scripted")
    assert model.name == "scripted"
    assert (await reply_of(model, "Hello")).text == "a"


def test_arguments_count_at_once() -> None:
    with pytest.raises(ModelError, match="'nobody' is no provider"):
        OpenAIModel(provider="nobody")
    with pytest.raises(ModelError, match="is no address"):
        OpenAIModel(base_url="ftp://host")


async def test_the_only_model_is_used(server: ModelHandle) -> None:
    server.play(script(say("a"), say("b"), models=["chatty", "nomic-embed-text"], order="requests"))
    model = model_at(server, model=None)
    assert model.name == f"the model of {server.base_url}"
    await collected(model, "Hello")
    assert model.name == "chatty"
    await collected(model, "Hello")
    await model.aclose()
    assert [request.path for request in server.all_requests()].count(
        f"{server.base_url.removeprefix(server.url)}/models"
    ) == 1


async def test_several_models_are_a_question(server: ModelHandle) -> None:
    server.play(script(models=["a", "b"]))
    error = await error_of(model_at(server, model=None))
    assert isinstance(error, ModelNotFoundError)
    assert str(error) == (
        f"The model server at {server.base_url} has 2 models, and it was not said which one to use: a, b. "
        "Set GAIA_MODEL, or the model argument, to one of them."
    )


async def test_models_that_are_not_there_or_for_something_else_do_not_count(server: ModelHandle) -> None:
    listed: list[Any] = [
        {"id": "Qwen3-GGUF", "labels": ["reasoning"]},
        {"id": "Flux", "labels": ["image"]},
        {"id": "Big-GGUF", "downloaded": False},
        {"id": "Whisper-Large"},
    ]
    server.play(script(say("a"), models=listed, dialect="lemonade"))
    model = model_at(server, model=None)
    await collected(model, "Hello")
    await model.aclose()
    assert server.requests()[0].body["model"] == "Qwen3-GGUF"


async def test_a_model_that_was_found_and_is_gone_is_looked_for_again(server: ModelHandle) -> None:
    server.play(script(say("a"), models=["old"]))
    model = model_at(server, model=None)
    await collected(model, "Hello")
    server.play(script(say("b"), models=["new"]))
    with pytest.raises(ModelNotFoundError, match="has no model 'old'. It has new."):
        await collected(model, "Hello")
    assert (await reply_of(model, "Hello")).text == "b"


def known_at(*servers: tuple[str, ModelHandle | None]) -> tuple[KnownServer, ...]:
    rows = {row.name: row for row in KNOWN}
    return tuple(
        KnownServer(
            name, rows[name].title, (handle.base_url if handle else "http://127.0.0.1:9/v1",), "start", "longer"
        )
        for name, handle in servers
    )


async def test_without_any_setting_the_first_server_that_answers_is_used_and_named(
    server: ModelHandle, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gaia.llm")
    server.play(script(say("a"), dialect="ollama"))
    with scripted_model(models=[], dialect="lemonade") as empty:
        rows = known_at(("vllm", None), ("lemonade", empty), ("ollama", server))
        monkeypatch.setattr(gaia.llm.settings, "KNOWN", rows)
        model = OpenAIModel()
        assert model.name == "the model of this machine"
        assert (await reply_of(model, "Hello")).text == "a"
    assert f"using Ollama at {server.base_url}; set GAIA_BASE_URL for another" in caplog.messages


async def test_a_server_that_wants_a_key_is_said_to_be_there(
    server: ModelHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(script(api_key="sk-right", dialect="lemonade"))
    monkeypatch.setattr(gaia.llm.settings, "KNOWN", known_at(("vllm", None), ("lemonade", server)))
    assert "wants an API key" in str(await error_of(OpenAIModel()))


def keys_shown(server: ModelHandle) -> set[str]:
    """Keys that a server was sent, also with questions for its models."""
    return {request.headers.get("authorization", "").removeprefix("Bearer ") for request in server.all_requests()}


async def test_only_the_server_that_is_chosen_is_shown_the_key(
    server: ModelHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(script(say("a"), dialect="ollama"))
    with scripted_model(models=[], dialect="lemonade") as empty:
        monkeypatch.setattr(gaia.llm.settings, "KNOWN", known_at(("lemonade", empty), ("ollama", server)))
        assert (await reply_of(OpenAIModel(api_key="sk-mine"), "Hello")).text == "a"
        assert "sk-mine" not in keys_shown(empty)
    assert server.requests()[0].headers["authorization"] == "Bearer sk-mine"
    assert "authorization" not in server.all_requests()[0].headers


async def test_where_all_want_a_key_they_are_shown_it_one_after_the_other(
    server: ModelHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(script(say("a"), api_key="sk-mine", dialect="ollama"))
    with (
        scripted_model(api_key="sk-other", dialect="lemonade") as first,
        scripted_model(api_key="sk-mine", dialect="vllm") as last,
    ):
        rows = known_at(("lemonade", first), ("ollama", server), ("vllm", last))
        monkeypatch.setattr(gaia.llm.settings, "KNOWN", rows)
        assert (await reply_of(OpenAIModel(api_key="sk-mine"), "Hello")).text == "a"
        assert "sk-mine" in keys_shown(first)
        assert "sk-mine" not in keys_shown(last)


async def test_without_any_server_it_is_said_where_one_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaia.llm.settings, "KNOWN", known_at(("lemonade", None), ("ollama", None)))
    assert str(await error_of(OpenAIModel())) == (
        "No model server answers on this machine; looked for Lemonade at http://127.0.0.1:9/v1, "
        "Ollama at http://127.0.0.1:9/v1. Start Lemonade (start), or set GAIA_BASE_URL to where one runs, "
        "or PROVIDER=openai and OPENAI_API_KEY."
    )


async def test_a_server_that_comes_back_elsewhere_is_found_again(
    server: ModelHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(script(say("still here"), dialect="ollama"))
    with scripted_model(say("a"), dialect="lemonade", is_gone_afterwards=True) as first:
        monkeypatch.setattr(gaia.llm.settings, "KNOWN", known_at(("lemonade", first), ("ollama", server)))
        model = OpenAIModel()
        assert (await collected(model, "Hello"))[1].text == "a"
    with pytest.raises(ModelError, match="Start Lemonade"):
        await collected(model, "Hello")
    assert (await reply_of(model, "Hello")).text == "still here"


async def test_a_limit_can_be_another(server: ModelHandle) -> None:
    server.play(script(fault("rate_limited", retry_after=3)))
    error = await error_of(model_at(server, limits=ModelLimits(retries=0)))
    assert "Try again in 3 s." in str(error)
    assert len(server.requests()) == 1
