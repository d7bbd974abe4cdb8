"""Turns: what an agent says is what a client gets, in one piece or as it comes, and every failure has its answer."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from gaia_bridge.chat_types import ChatRequest, Reply, ToolCall, Usage
from gaia_bridge.errors import (
    BusyError,
    ContextOverflowError,
    ModelBusyError,
    ModelCredentialsError,
    ModelError,
    ModelNotFoundError,
    ModelUnreachableError,
    RequestCancelledError,
    SessionLimitError,
)
from gaia_bridge.runtime.agent_runner import AgentRunner
from gaia_bridge.settings import AgentLimits, ChatEndpointLimits, Settings
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.turn import Turn
from tests.support.chat_endpoint import (
    QUESTION,
    ChatAgent,
    Chatting,
    QueryAgent,
    Script,
    chatting,
    events_of,
    failing,
    saying,
)
from tests.support.on_demand import mcp, openai
from tests.support.waiting import PATIENCE, comes_true, wait_in_thread

pytestmark = pytest.mark.anyio

FUNCTION: JSON = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


class Held:
    """A script that says something, and then nothing until it is released or cancelled."""

    def __init__(self, *before: str) -> None:
        self.before = before
        self.waiting = threading.Event()
        self.cancelled = threading.Event()
        self._released: Future[None] = Future()

    def release(self) -> None:
        self._released.set_result(None)

    async def __call__(self, request: ChatRequest) -> AsyncGenerator[str | Reply]:
        for piece in self.before:
            yield piece
        self.waiting.set()
        try:
            await asyncio.shield(asyncio.wrap_future(self._released))
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        yield Reply("".join(self.before) + "done")


def limited(**limits: Any) -> Settings:
    return Settings(chats=ChatEndpointLimits(**limits))


# In one piece


async def test_a_completion_has_the_whole_answer_and_the_tokens_it_took() -> None:
    agent = ChatAgent(saying("I am ", "fine", Reply("I am fine", finish_reason="length", usage=Usage(12, 3))))
    async with chatting(agent) as server, server.openai as client:
        answer = await client.chat.completions.create(model="gaia-test", messages=[{"role": "user", "content": "?"}])
    [choice] = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "I am fine", "length")
    assert choice.message.tool_calls is None
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (12, 3, 15)
    assert (answer.object, answer.model) == ("chat.completion", "gaia-test")
    assert answer._request_id  # pyright: ignore[reportPrivateUsage]  # it is documented


async def test_the_agent_gets_the_conversation_the_options_and_the_clients_tools() -> None:
    agent = ChatAgent(saying(Reply("ok")))
    messages = [{"role": "system", "content": "Be brief."}, QUESTION]
    async with chatting(agent) as server:
        response = await server.complete(messages=messages, tools=[FUNCTION], temperature=0.1, tool_choice="auto")
    assert "x-session-id" not in response.headers
    [request] = agent.requests
    assert request.messages == messages
    assert request.options == {"temperature": 0.1, "tool_choice": "auto"}
    assert (list(request.client_tools), list(request.lent_tools), request.session_id) == ([FUNCTION], [], None)


async def test_a_call_of_the_clients_tool_ends_the_turn() -> None:
    call = ToolCall("c1", "add", '{"a": 1')
    agent = ChatAgent(saying(Reply("", (call,))))
    async with chatting(agent) as server:
        response = await server.complete(tools=[FUNCTION])
    [choice] = response.json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1'}}
    ]


async def test_an_agent_that_forgets_its_reply_has_said_what_it_said() -> None:
    async with chatting(ChatAgent(saying("a", "", "b"))) as server:
        assert await server.text() == "ab"


async def test_what_no_json_can_carry_is_replaced() -> None:
    async with chatting(ChatAgent(saying("a\ud800", Reply("a\ud800b")))) as server:
        assert await server.text() == "a?b"
        events = events_of((await server.complete(stream=True)).text)
        assert [event["choices"][0]["delta"].get("content") for event in events[:-1]] == ["", "a?", "b", None]


async def test_a_session_is_named_in_a_header_and_named_back() -> None:
    agent = ChatAgent(saying(Reply("ok")))
    history = [QUESTION, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "And now?"}]
    async with chatting(agent) as server:
        for stream in (False, True):
            response = await server.complete(messages=history, headers={"X-Session-Id": "me"}, stream=stream)
            assert response.headers["x-session-id"] == "me"
        refused = await server.complete(headers={"X-Session-Id": "a b"})
    assert [(request.session_id, list(request.messages)) for request in agent.requests] == [("me", history[2:])] * 2
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "X-Session-Id")


# In pieces


async def stream_of(server: Chatting, **fields: Any) -> list[Any]:
    response = await server.complete(stream=True, **fields)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return events_of(response.text)


async def test_a_stream_begins_with_the_role_and_ends_with_the_reason() -> None:
    async with chatting(ChatAgent(saying("I am ", "fine", Reply("I am fine, thanks")))) as server:
        *chunks, done = await stream_of(server)
    assert done == "[DONE]"
    assert {(chunk["object"], chunk["model"]) for chunk in chunks} == {("chat.completion.chunk", "gaia-test")}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all("usage" not in chunk for chunk in chunks)
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "content": ""},
        {"content": "I am "},
        {"content": "fine"},
        {"content": ", thanks"},
        {},
    ]
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, None, "stop"]


async def test_a_stream_tells_the_tokens_when_it_is_asked_to() -> None:
    agent = ChatAgent(saying(Reply("hi", usage=Usage(1, 2))))
    async with chatting(agent) as server:
        *chunks, usage, done = await stream_of(server, stream_options={"include_usage": True})
    assert (usage["choices"], usage["usage"]["total_tokens"], done) == ([], 3, "[DONE]")
    assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)


async def test_openais_client_puts_streamed_tool_calls_together() -> None:
    calls = (ToolCall("c1", "add", '{"a":1}'), ToolCall("c2", "add", "{}"))
    async with chatting(ChatAgent(saying("Let me see.", Reply("Let me see.", calls)))) as server:
        async with server.openai as client:
            async with client.chat.completions.stream(
                model="gaia-test", messages=[{"role": "user", "content": "?"}]
            ) as stream:
                completion = await stream.get_final_completion()
    [choice] = completion.choices
    assert choice.message.content == "Let me see."
    assert choice.finish_reason == "tool_calls"
    assert [
        (call.id, call.function.arguments) for call in choice.message.tool_calls or [] if call.type == "function"
    ] == [
        ("c1", '{"a":1}'),
        ("c2", "{}"),
    ]


async def test_pieces_arrive_as_they_come() -> None:
    held = Held("first")
    async with chatting(ChatAgent(held)) as server, server.openai as client:
        stream = await client.chat.completions.create(
            model="gaia-test", messages=[{"role": "user", "content": "?"}], stream=True
        )
        pieces = aiter(stream)
        assert [(await anext(pieces)).choices[0].delta.content for _ in range(2)] == ["", "first"]
        assert held.waiting.wait(PATIENCE)
        held.release()
        assert [chunk.choices[0].delta.content async for chunk in pieces] == ["done", None]


async def test_a_silent_stream_is_begun_all_the_same_and_shows_that_it_lives() -> None:
    held = Held()
    async with chatting(ChatAgent(held), settings=limited(ping_interval=0.02)) as server:
        async with server.client.stream("POST", "/v1/chat/completions", json=server.body(stream=True)) as response:
            assert response.status_code == 200
            lines = response.aiter_lines()
            while await anext(lines) != ": keep-alive":
                pass
            held.release()
            assert "data: [DONE]" in [line async for line in lines]


async def test_an_agent_says_nothing_more_until_its_last_piece_was_taken() -> None:
    said: list[int] = []

    async def script(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        for number in range(10):
            said.append(number)
            yield f"{number}"

    def has_said(count: int) -> bool:
        return len(said) == count

    runner = AgentRunner("test", threads=1, queue=0)
    try:
        with Turn("test", ChatEndpointLimits(), lambda _: None) as turn, anyio.fail_after(PATIENCE):
            turn.begin(ChatAgent(script), runner, ChatRequest([QUESTION]))
            for taken in range(10):
                await wait_in_thread(comes_true(partial(has_said, taken + 1)))
                assert await turn.next() == f"{taken}"
            assert await turn.reply() == Reply("0123456789")
    finally:
        runner.close()


# Failures


TURN_FAILURES: list[tuple[BaseException, int, str, str]] = [
    (ContextOverflowError("It is too long.", "Say less."), 400, "context_length_exceeded", "BadRequestError"),
    (ModelBusyError("Not so fast.", "", 2.5), 429, "rate_limit_exceeded", "RateLimitError"),
    (ModelBusyError("Not so fast."), 429, "rate_limit_exceeded", "RateLimitError"),
    (ModelUnreachableError("No server.", "Start it."), 503, "agent_model_unreachable", "InternalServerError"),
    (ModelNotFoundError("No such model.", "Pull it."), 502, "agent_model_not_found", "InternalServerError"),
    (ModelCredentialsError("Bad key.", "Set it."), 502, "agent_model_credentials", "InternalServerError"),
    (ModelError("Odd.", "Look."), 502, "agent_model_failed", "InternalServerError"),
    (BusyError("a0", 8, 64), 429, "agent_busy", "RateLimitError"),
    (SessionLimitError(3), 429, "session_limit_reached", "RateLimitError"),
    (RequestCancelledError(), 503, "cancelled", "InternalServerError"),
    (RuntimeError("secret"), 500, "agent_failed", "InternalServerError"),
    (SystemExit(3), 500, "agent_failed", "InternalServerError"),
    (ValueError("secret"), 500, "agent_failed", "InternalServerError"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("error", "status", "code", "raised_as"), TURN_FAILURES, ids=[f"{type(item[0]).__name__}" for item in TURN_FAILURES]
)
async def test_a_turn_that_fails_is_the_right_exception(
    error: BaseException, status: int, code: str, raised_as: str, stream: bool
) -> None:
    async with chatting(ChatAgent(failing(error))) as server, server.openai as client:
        with pytest.raises(openai.APIStatusError) as raised:
            await client.chat.completions.create(
                model="gaia-test", messages=[{"role": "user", "content": "?"}], stream=stream
            )
    assert (raised.value.status_code, raised.value.code, type(raised.value).__name__) == (status, code, raised_as)
    assert "secret" not in raised.value.message and "Traceback" not in raised.value.message
    if isinstance(error, ModelError):
        assert str(error) in raised.value.message
    headers = raised.value.response.headers
    assert headers["x-should-retry"] == "false"
    if isinstance(error, ModelBusyError):
        assert headers["retry-after"] == ("3" if error.retry_after else "1")


async def test_no_client_repeats_a_turn_that_may_have_run_tools() -> None:
    agent = ChatAgent(failing(ModelBusyError("Not so fast.", "", 0.0)))
    async with chatting(agent) as server, server.openai as client:
        with pytest.raises(openai.RateLimitError):
            await client.with_options(max_retries=3).chat.completions.create(
                model="gaia-test", messages=[{"role": "user", "content": "?"}]
            )
    assert len(agent.requests) == 1


async def test_the_details_of_a_failure_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with chatting(ChatAgent(failing(RuntimeError("secret")))) as server:
        message: str = (await server.error())["message"]
    reference = message.rstrip(".").rpartition(" ")[2]
    [record] = [record for record in caplog.records if record.exc_info]
    assert reference in record.getMessage()
    assert record.exc_info is not None and str(record.exc_info[1]) == "secret"


@pytest.mark.parametrize(
    ("error", "code"), [(ModelUnreachableError("Gone."), "agent_model_unreachable"), (KeyError("x"), "agent_failed")]
)
async def test_a_failure_after_the_first_piece_is_the_last_event(error: Exception, code: str) -> None:
    async with chatting(ChatAgent(failing(error, "Well, "))) as server, server.openai as client:
        *chunks, last = await stream_of(server)
        assert [chunk["choices"][0]["delta"]["content"] for chunk in chunks] == ["", "Well, "]
        assert last["error"]["code"] == code
        stream = await client.chat.completions.create(
            model="gaia-test", messages=[{"role": "user", "content": "?"}], stream=True
        )
        with pytest.raises(openai.APIError) as raised:
            async for _ in stream:
                pass
        assert raised.value.code == code


async def test_an_agent_that_says_what_is_no_text_has_failed() -> None:
    odd: Any = 5
    async with chatting(ChatAgent(saying("a", odd))) as server:
        assert (await server.error())["code"] == "agent_failed"


ODD: Any = object()


@pytest.mark.parametrize(
    "reply", [Reply(ODD), Reply("x", (ODD,)), Reply("x", usage=ODD), Reply("x", finish_reason=ODD)]
)
async def test_an_agent_whose_reply_is_none_has_failed(reply: Reply) -> None:
    async with chatting(ChatAgent(saying("Well, ", reply))) as server:
        assert (await server.error())["code"] == "agent_failed"
        events = await stream_of(server, stream_options={"include_usage": True})
        assert events[-1]["error"]["code"] == "agent_failed"


async def test_an_agent_whose_method_is_no_generator_has_failed() -> None:
    agent: Any = ChatAgent(saying("x"))
    agent.answer_chat = str
    async with chatting(agent) as server:
        assert (await server.error())["code"] == "agent_failed"
        assert (await server.error())["code"] == "agent_failed"  # and there is room for the next


async def test_a_turn_that_takes_too_long_is_ended() -> None:
    held = Held()
    async with chatting(ChatAgent(held), settings=limited(turn_timeout=0.05)) as server:
        error = await server.error()
        assert (error["status"], error["code"], error["type"]) == (504, "deadline_exceeded", "server_error")
        await wait_in_thread(held.cancelled.wait)


async def test_a_stream_that_takes_too_long_says_so() -> None:
    held = Held("Well, ")
    async with chatting(ChatAgent(held), settings=limited(turn_timeout=0.2)) as server:
        assert (await stream_of(server))[-1]["error"]["code"] == "deadline_exceeded"
        await wait_in_thread(held.cancelled.wait)


@pytest.mark.parametrize("script", [saying(*["xxx"] * 4), saying(Reply("x" * 11))], ids=["pieces", "reply"])
async def test_an_answer_has_at_most_so_many_characters(script: Script) -> None:
    async with chatting(ChatAgent(script), settings=limited(answer_length=10)) as server:
        assert (await server.error())["code"] == "answer_too_long"


async def test_an_agent_has_at_most_so_many_turns_at_once() -> None:
    held = Held()
    async with chatting(ChatAgent(held), settings=limited(turns=1)) as server, anyio.create_task_group() as tasks:

        async def first() -> None:
            assert await server.text() == "done"

        tasks.start_soon(first)
        await wait_in_thread(held.waiting.wait)
        response = await server.complete()
        assert (response.status_code, response.headers["retry-after"]) == (429, "1")
        assert "1 turns are running" in response.json()["error"]["message"]
        [model] = (await server.client.get("/status")).json()["models"]
        assert model["turns"] == 1
        held.release()
    async with chatting(ChatAgent(held), settings=limited(turns=1)) as server:
        assert [await server.text() for _ in range(3)] == ["done"] * 3


async def test_turns_of_one_agent_do_not_hold_up_each_other() -> None:
    count = 12
    together = asyncio.Barrier(count)  # on the agent's own loop

    async def script(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        await together.wait()
        yield request.messages[0]["content"]

    answers: dict[int, str] = {}
    async with chatting(ChatAgent(script)) as server:

        async def ask(number: int) -> None:
            answers[number] = await server.text(messages=[{"role": "user", "content": f"{number}"}])

        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(ask, number)
    assert answers == {number: f"{number}" for number in range(count)}


class BlockingAgent(QueryAgent):
    """Answers when it is released, and has a tool."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.asked, self.release = threading.Event(), threading.Event()

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [{"name": "hello", "description": "", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> str:
        return "hi"

    def _answer(self, text: str) -> str:
        self.asked.set()
        self.release.wait(PATIENCE)
        return "done"


@pytest.mark.requirement("F-107")
async def test_tools_of_an_agent_do_not_wait_for_its_chats() -> None:
    agent = BlockingAgent()
    async with chatting(agent, settings=Settings(agent=AgentLimits(threads=1))) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(server.complete, model="gaia-query"))
            await wait_in_thread(agent.asked.wait)
            async with mcp.Client(f"{server.client.base_url}/mcp") as client:
                with anyio.fail_after(PATIENCE / 2):
                    result = await client.call_tool("hello", {})
            assert (result.is_error, agent.release.is_set()) == (False, False)
            agent.release.set()


# Going away


async def open_request(server: Chatting, **fields: Any) -> SocketStream:
    """A request of whose answer nothing is read; closing the connection is hanging up."""
    port = server.client.base_url.port or 0
    body = json.dumps(server.body(**fields)).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = await anyio.connect_tcp("127.0.0.1", port)
    await connection.send(head.encode() + body)
    return connection


@pytest.mark.parametrize("before", [(), ("first",)], ids=["silent", "talking"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_client_that_hangs_up_cancels_the_turn(stream: bool, before: tuple[str, ...]) -> None:
    held = Held(*before)
    async with chatting(ChatAgent(held)) as server:
        async with await open_request(server, stream=stream):
            await wait_in_thread(held.waiting.wait)
        await wait_in_thread(held.cancelled.wait)
        held.release()
        assert await server.text() == "".join(before) + "done"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_agent_that_is_removed_ends_its_turns(stream: bool) -> None:
    held = Held("first")
    async with chatting(ChatAgent(held)) as server, anyio.create_task_group() as tasks:

        async def ask() -> None:
            response = await server.complete(stream=stream)
            if stream:
                assert events_of(response.text)[-1]["error"]["code"] == "model_gone"
            else:
                assert (response.status_code, response.json()["error"]["code"]) == (503, "model_gone")

        tasks.start_soon(ask)
        await wait_in_thread(held.waiting.wait)
        await server.bridge.remove("a0")


@pytest.mark.requirement("F-115")
async def test_a_shutdown_lets_turns_finish_and_tells_those_that_do_not() -> None:
    quick, slow = Held("first"), Held("first")
    agents = [ChatAgent(quick, "quick"), ChatAgent(slow, "slow")]
    async with chatting(*agents, settings=limited(farewell=0.3)) as server, anyio.create_task_group() as tasks:

        async def ask(model: str, end: str) -> None:
            last = events_of((await server.complete(model=model, stream=True)).text)[-1]
            assert (last if isinstance(last, str) else last["error"]["code"]) == end

        tasks.start_soon(ask, "quick", "[DONE]")
        tasks.start_soon(ask, "slow", "shutting_down")
        await wait_in_thread(quick.waiting.wait)
        await wait_in_thread(slow.waiting.wait)
        server.server.stop()
        quick.release()


# Agents that answer in one piece


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("fine", "fine"),
        ({"status": "success", "result": "fine", "conversation": []}, "fine"),
        ({"answer": "fine"}, "fine"),
        ({"response": "fine", "answer": None}, "fine"),
        ({"result": {"a": 1}}, '{"a":1}'),
        ({"other": 1}, '{"other":1}'),
        (["a"], '["a"]'),
        (None, ""),
    ],
)
async def test_an_agent_that_answers_in_one_piece_may_return_many_things(returned: Any, text: str) -> None:
    async with chatting(QueryAgent(lambda _: returned)) as server:
        assert await server.text(model="gaia-query") == text
        events = events_of((await server.complete("gaia-query", stream=True)).text)
        said = [event["choices"][0]["delta"].get("content") or "" for event in events[:-1]]
        assert "".join(said) == text


async def test_it_is_asked_what_the_user_said_last_in_a_thread_of_its_own() -> None:
    asked: list[tuple[str, str]] = []

    def answer(text: str) -> str:
        asked.append((text, threading.current_thread().name))
        return "ok"

    messages = [QUESTION, {"role": "assistant", "content": "x"}, {"role": "user", "content": "Now?"}]
    async with chatting(QueryAgent(answer)) as server:
        assert await server.text(model="gaia-query", messages=messages) == "ok"
    [(text, thread)] = asked
    assert text == "Now?"
    assert thread.startswith("agent a0 #")


async def test_it_may_be_a_coroutine_function() -> None:
    async def answer(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    async with chatting(QueryAgent(answer)) as server:
        assert await server.text(model="gaia-query") == QUESTION["content"].upper()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [FUNCTION]}, "tools"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]},
            "messages",
        ),
    ],
)
async def test_it_is_given_nothing_but_a_text(fields: JSON, param: str) -> None:
    async with chatting(QueryAgent(lambda text: text)) as server:
        error = await server.error(model="gaia-query", **fields)
        assert (error["status"], error["param"]) == (400, param)


async def test_one_that_fails_or_hangs_has_its_answer_too() -> None:
    release = threading.Event()

    def answer(text: str) -> str:
        if text == "fail":
            raise RuntimeError("secret")
        release.wait(PATIENCE)
        return "late"

    settings = Settings(agent=AgentLimits(threads=1, queue=0), chats=ChatEndpointLimits(turn_timeout=0.1))
    async with chatting(QueryAgent(answer), settings=settings) as server:

        async def ask(text: str) -> JSON:
            return await server.error(model="gaia-query", messages=[{"role": "user", "content": text}])

        assert (await ask("fail"))["code"] == "agent_failed"
        assert (await ask("hang"))["status"] == 504
        assert (await ask("hang"))["code"] == "agent_busy"  # its thread is still taken
        release.set()
        [source] = server.bridge.sources
        assert isinstance(source, AgentSource)
        runner = source.chats
        await wait_in_thread(comes_true(lambda: runner._pending == 0))  # pyright: ignore[reportPrivateUsage]
        assert await server.text(model="gaia-query") == "late"
