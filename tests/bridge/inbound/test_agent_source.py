"""One agent as a source: whatever it does, every request has a defined answer and the next one works."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp_types import INTERNAL_ERROR

from gaia_bridge.content import elicitation_request, image, input_required, text
from gaia_bridge.context import get_request_context
from gaia_bridge.contract import Publisher, Source
from gaia_bridge.errors import (
    INVALID_PARAMS,
    BusyError,
    ProtocolError,
    RequestCancelledError,
    ResourceNotFoundError,
    ToolError,
)
from gaia_bridge.inbound.agent_call import Question
from gaia_bridge.inbound.agent_source import AgentSource
from gaia_bridge.jsontypes import JSON
from gaia_bridge.model import Change, ChangeKind
from gaia_bridge.publishing import AnnouncesChanges
from gaia_bridge.settings import AgentLimits
from tests.helpers import PATIENCE, ScriptedAgent, one_tool, tool, wait_in_thread
from tests.outbound_helpers import FakeRequest, text_of

_source: type[Source] = AgentSource

ALWAYS = AgentLimits(definitions_max_age=0)
"""Read the definitions again whenever they are asked for."""


@asynccontextmanager
async def published(agent: Any, limits: AgentLimits | None = None) -> AsyncGenerator[AgentSource]:
    """A source that runs until the end of the block."""
    source = AgentSource(agent, "test", limits or AgentLimits())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(source.run)
            yield source
            tasks.cancel_scope.cancel()


async def call(source: AgentSource, name: str = "work", **arguments: Any) -> JSON:
    return await source.call_tool(name, arguments, FakeRequest())


def nothing(*_: Any) -> None:
    """Any hook or tool."""


def returning(value: Any) -> Callable[..., Any]:
    def run(*_: Any) -> Any:
        return value

    return run


class Recorder:
    """A tool that remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, JSON]] = []

    def __call__(self, name: str, arguments: JSON) -> JSON:
        self.calls.append((name, arguments))
        return {"ok": True}


class Changes:
    """Listens to a source."""

    def __init__(self, source: AgentSource) -> None:
        self.heard: list[Change] = []
        self._more = anyio.Event()
        self.stop = source.listen(self._hear)

    async def until(self, change: Change) -> None:
        while change not in self.heard:
            await self._more.wait()

    def _hear(self, change: Change) -> None:
        self.heard.append(change)
        self._more.set()
        self._more = anyio.Event()


# Arguments


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


# Failures


class CustomError(BaseException):
    pass


class BadWordsError(ValueError):
    def __str__(self) -> str:
        raise SystemExit(3)


FAILURES = [
    RuntimeError("hunter2"),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    CustomError("hunter2"),
    MemoryError(),
    RecursionError("hunter2"),
    StopIteration(),
    BadWordsError(),
    ExceptionGroup("hunter2", [ValueError("hunter2")]),
]


def _sync(error: BaseException) -> Callable[[JSON], Any]:
    def run(arguments: JSON) -> Any:
        if arguments:
            raise error
        return {"next": True}

    return run


def _async(error: BaseException) -> Callable[[JSON], Any]:
    async def run(arguments: JSON) -> Any:
        await asyncio.sleep(0)
        return _sync(error)(arguments)

    return run


def _generator(error: BaseException) -> Callable[[JSON], Any]:
    def run(arguments: JSON) -> Generator[Any]:
        yield 1
        _sync(error)(arguments)

    return run


@pytest.mark.anyio
@pytest.mark.requirement("F-100", "F-101", "S1-20")
@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("make", [_sync, _async, _generator])
async def test_however_a_tool_fails_it_is_an_error_result_without_details_and_the_next_call_works(
    error: BaseException, make: Callable[[BaseException], Callable[[JSON], Any]]
) -> None:
    async with published(one_tool(make(error))) as source:
        result = await call(source, fail=True)
        assert result["isError"] is True
        assert "hunter2" not in json.dumps(result)
        assert "Traceback" not in json.dumps(result)
        assert not (await call(source)).get("isError")


@pytest.mark.anyio
@pytest.mark.requirement("F-100")
async def test_the_details_of_a_failure_are_in_the_log_under_the_reference_that_was_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with published(one_tool(_sync(RuntimeError("what happened")))) as source:
        said = text_of(await call(source, fail=True))
    reference = said.rpartition(" ")[2]
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert reference in record.getMessage()
    assert record.exc_info is not None
    assert "what happened" in str(record.exc_info[1])


@pytest.mark.anyio
@pytest.mark.requirement("S1-13")
@pytest.mark.parametrize("error", [ValueError("limit must be positive"), ToolError("limit must be positive")])
async def test_a_failure_that_the_agent_foresaw_is_told_word_for_word(error: Exception) -> None:
    async with published(one_tool(_sync(error))) as source:
        result = await call(source, fail=True)
    assert result["isError"] is True
    assert text_of(result) == "limit must be positive"


@pytest.mark.anyio
@pytest.mark.requirement("S1-13")
async def test_a_tool_that_the_agent_itself_does_not_know_is_an_invalid_parameter() -> None:
    async with published(one_tool(_sync(ValueError("Unknown tool: work")))) as source:
        with pytest.raises(ProtocolError) as caught:
            await call(source, fail=True)
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.anyio
@pytest.mark.requirement("S1-20", "F-103")
async def test_a_value_without_a_json_form_is_an_error_and_the_next_call_works() -> None:
    values: list[Any] = [object(), {"x": 1}]
    async with published(one_tool(lambda _: values.pop(0))) as source:
        result = await call(source)
        assert result["isError"] is True
        assert "object at 0x" not in text_of(result)
        assert (await call(source))["structuredContent"] == {"x": 1}


@pytest.mark.anyio
@pytest.mark.requirement("F-106")
async def test_a_result_over_the_limit_is_an_error() -> None:
    async with published(one_tool(lambda _: "x" * 2_000), AgentLimits(result_bytes=1_000)) as source:
        result = await call(source)
    assert result["isError"] is True
    assert "at most 1,000" in text_of(result)


@pytest.mark.anyio
@pytest.mark.requirement("F-103", "F-107")
async def test_a_generator_that_blocks_does_not_stop_the_bridge() -> None:
    release = threading.Event()

    def words() -> Generator[str]:
        assert release.wait(PATIENCE)
        yield "done"

    results: list[JSON] = []
    async with published(one_tool(lambda _: words())) as source:

        async def ask() -> None:
            results.append(await call(source))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            release.set()
    assert text_of(results[0]) == '["done"]'


# What a tool promises


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


# Prompts, resources and completions


def _request(method: str) -> FakeRequest:
    request = FakeRequest()
    request.method = method
    return request


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
            result = await source.get_prompt("greet", {"who": "Ann"}, _request("prompts/get"))
        assert result["messages"] == [{"role": "user", "content": text("greet Ann")}]
        assert result["description"] == "Greets"


@pytest.mark.anyio
@pytest.mark.requirement("S1-14")
async def test_a_prompt_without_a_hook_is_its_description_and_arguments() -> None:
    async with published(one_tool(lambda _: None, get_mcp_prompts=lambda: [GREETING])) as source:
        result = await source.get_prompt("greet", {"who": "Ann"}, _request("prompts/get"))
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
            await source.get_prompt(name, {}, _request("prompts/get"))
    assert caught.value.code == INVALID_PARAMS
    assert asked == []


@pytest.mark.anyio
@pytest.mark.requirement("F-100", "F-101")
@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
async def test_however_a_prompt_resource_or_completion_fails_it_is_a_protocol_error_without_details(
    error: BaseException,
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    hooks: dict[str, Any] = dict.fromkeys(("get_mcp_prompt", "read_mcp_resource", "complete_mcp_argument"), fail)
    agent = one_tool(lambda _: "next", get_mcp_prompts=lambda: [{"name": "p"}], **hooks)
    async with published(agent) as source:
        asks: list[Callable[[], Awaitable[JSON]]] = [
            lambda: source.get_prompt("p", {}, _request("prompts/get")),
            lambda: source.read_resource("u:x", _request("resources/read")),
            lambda: source.complete({}, {"name": "a", "value": ""}, {}, _request("completion/complete")),
        ]
        for ask in asks:
            with pytest.raises(ProtocolError) as caught:
                await ask()
            assert caught.value.code == INTERNAL_ERROR
            assert "hunter2" not in str(caught.value)
        assert text_of(await call(source)) == "next"


@pytest.mark.anyio
@pytest.mark.requirement("S1-15")
async def test_a_resource_is_read_with_the_type_it_was_listed_with() -> None:
    listed = [{"uri": "book:1", "name": "Emma", "mimeType": "text/markdown"}]
    agent = one_tool(lambda _: None, get_mcp_resources=lambda: listed, read_mcp_resource="# {}".format)
    async with published(agent) as source:
        [known] = (await source.read_resource("book:1", _request("resources/read")))["contents"]
        [other] = (await source.read_resource("book:2", _request("resources/read")))["contents"]
    assert known == {"uri": "book:1", "mimeType": "text/markdown", "text": "# book:1"}
    assert other == {"uri": "book:2", "mimeType": "text/plain", "text": "# book:2"}


def _not_found(uri: str) -> Any:
    raise ResourceNotFoundError(uri)


@pytest.mark.anyio
@pytest.mark.requirement("S1-15")
@pytest.mark.parametrize("hooks", [{}, {"read_mcp_resource": nothing}, {"read_mcp_resource": _not_found}])
async def test_a_resource_that_nobody_can_read_is_not_found(hooks: dict[str, Any]) -> None:
    async with published(one_tool(lambda _: None, **hooks)) as source:
        with pytest.raises(ResourceNotFoundError) as caught:
            await source.read_resource("book:1", _request("resources/read"))
    assert caught.value.uri == "book:1"


@pytest.mark.anyio
async def test_a_malformed_resource_result_is_a_protocol_error() -> None:
    async with published(one_tool(lambda _: None, read_mcp_resource=returning({"contents": [{}]}))) as source:
        with pytest.raises(ProtocolError, match="malformed result") as caught:
            await source.read_resource("book:1", _request("resources/read"))
    assert caught.value.code == INTERNAL_ERROR


@pytest.mark.anyio
async def test_completions_come_from_the_agent_with_what_was_filled_in_already() -> None:
    asked: list[Any] = []

    def complete(ref: JSON, argument: str, value: str, context: dict[str, str]) -> list[str]:
        asked.append((ref, argument, value, context))
        return ["Ann", "Anna"]

    ref = {"type": "ref/prompt", "name": "greet"}
    async with published(one_tool(lambda _: None, complete_mcp_argument=complete)) as source:
        request = _request("completion/complete")
        result = await source.complete(ref, {"name": "who", "value": "An"}, {"lang": "en"}, request)
    assert result["completion"]["values"] == ["Ann", "Anna"]
    assert asked == [(ref, "who", "An", {"lang": "en"})]


@pytest.mark.anyio
async def test_an_agent_without_completions_suggests_nothing() -> None:
    async with published(one_tool(lambda _: None)) as source:
        request = _request("completion/complete")
        result = await source.complete({}, {"name": "who", "value": ""}, {}, request)
    assert result["completion"]["values"] == []


# Bounds


@pytest.mark.anyio
@pytest.mark.requirement("S1-17", "F-107")
async def test_as_many_calls_run_side_by_side_as_the_agent_has_threads() -> None:
    together = threading.Barrier(8)
    async with published(one_tool(lambda _: together.wait(PATIENCE))) as source:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(call, source)
    assert not together.broken


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_one_call_too_many_is_told_busy_and_a_busy_agent_keeps_its_tools() -> None:
    release, running = threading.Event(), threading.Semaphore(0)

    def block(arguments: JSON) -> str:
        running.release()
        assert release.wait(PATIENCE)
        return "done"

    limits = AgentLimits(threads=2, queue=1, definitions_max_age=0)
    async with published(one_tool(block), limits) as source:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(call, source)
            for _ in range(2):
                await wait_in_thread(lambda seconds: running.acquire(timeout=seconds))
            result = await call(source)
            assert result["isError"] is True
            assert text_of(result) == "test is busy: 2 calls running, 1 waiting. Try again in a moment."
            await source.refresh()
            assert [item["name"] for item in source.offer.tools] == ["work"]
            assert not source.offer.left_out
            release.set()
        assert text_of(await call(source)) == "done"


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
@pytest.mark.parametrize("blocking", [True, False])
async def test_a_call_over_its_deadline_is_an_error_and_its_code_can_know(blocking: bool) -> None:
    knew = threading.Event()

    def sync(arguments: JSON) -> None:
        if get_request_context().wait_cancelled(PATIENCE):
            knew.set()

    async def coroutine(arguments: JSON) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            knew.set()

    async with published(one_tool(sync if blocking else coroutine), AgentLimits(call_timeout=0.05)) as source:
        result = await call(source)
        assert result["isError"] is True
        assert text_of(result) == "tool 'work' did not finish within 0.05 s"
        await wait_in_thread(knew.wait)


@pytest.mark.anyio
async def test_a_cancelled_request_cancels_the_call_and_nobody_is_left_waiting() -> None:
    started, knew = threading.Event(), threading.Event()

    def work(arguments: JSON) -> None:
        request = get_request_context()
        assert not request.cancelled
        started.set()
        if request.wait_cancelled(PATIENCE) and request.cancelled:
            knew.set()

    async with published(one_tool(work)) as source:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, source)
            await wait_in_thread(started.wait)
            tasks.cancel_scope.cancel()
        await wait_in_thread(knew.wait)


@pytest.mark.anyio
@pytest.mark.parametrize("blocking", [True, False])
async def test_calls_in_flight_end_when_the_agent_is_no_longer_published(blocking: bool) -> None:
    started, knew = threading.Event(), threading.Event()

    def sync(arguments: JSON) -> None:
        request = get_request_context()
        started.set()
        request.wait_cancelled(PATIENCE)
        try:
            request.raise_if_cancelled()
        except RequestCancelledError as error:
            assert str(error) == "the agent is no longer published"
            knew.set()

    async def coroutine(arguments: JSON) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            knew.set()

    source = AgentSource(one_tool(sync if blocking else coroutine), "test", AgentLimits())
    results: list[JSON] = []

    async def ask() -> None:
        results.append(await call(source))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as outer:
            async with anyio.create_task_group() as inner:
                await inner.start(source.run)
                outer.start_soon(ask)
                await wait_in_thread(started.wait)
                inner.cancel_scope.cancel()
    assert results[0]["isError"] is True
    assert text_of(results[0]) == "the agent is no longer published"
    await wait_in_thread(knew.wait)


@pytest.mark.anyio
async def test_nothing_can_be_called_once_the_agent_is_no_longer_published() -> None:
    async with published(one_tool(lambda _: "x")) as source:
        pass
    result = await call(source)
    assert result["isError"] is True


@pytest.mark.anyio
async def test_an_unpublished_agent_leaves_no_thread_behind() -> None:
    async with published(one_tool(lambda _: asyncio.sleep(0))) as source:
        await call(source)
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("agent test")]
        assert threads
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, PATIENCE)
        assert not thread.is_alive()


@pytest.mark.anyio
@pytest.mark.requirement("S-14")
async def test_an_agent_that_floods_its_client_starves_nobody() -> None:
    class Quick(FakeRequest):
        """The request of a client that wants no progress: there is nothing to wait for."""

        async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
            self.progress.append((progress, total, message))

    stop, flooded = threading.Event(), threading.Event()

    def flood(arguments: JSON) -> str:
        request = get_request_context()
        deadline = time.monotonic() + PATIENCE / 2
        for number in itertools.count():
            request.report_progress(number)
            if number == 1_000:
                flooded.set()
            if stop.is_set():
                return "stopped"
            if time.monotonic() > deadline:
                break
        return "nobody came to stop it"

    request, results = Quick(), list[JSON]()

    async def call_it() -> None:
        results.append(await source.call_tool("work", {}, request))

    async with published(one_tool(flood), AgentLimits(notes=10)) as source:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_it)
            await wait_in_thread(flooded.wait)
            for _ in range(10):  # the loop comes round while the flood goes on
                await anyio.lowlevel.checkpoint()
            stop.set()
    assert text_of(results[0]) == "stopped"
    numbers = [progress for progress, _, _ in request.progress]
    assert numbers == sorted(numbers)


@pytest.mark.anyio
async def test_progress_and_logs_come_in_order_and_before_the_result() -> None:
    def work(arguments: JSON) -> str:
        request = get_request_context()
        for number in range(100):
            request.report_progress(number, 100, f"step {number}")
            request.log({"step": number}, "debug", "worker")
        return "done"

    request = FakeRequest()
    async with published(one_tool(work)) as source:
        result = await source.call_tool("work", {}, request)
    assert text_of(result) == "done"
    assert request.progress == [(number, 100, f"step {number}") for number in range(100)]
    assert request.logs == [("debug", {"step": number}, "worker") for number in range(100)]


@pytest.mark.anyio
@pytest.mark.requirement("F-103", "F-104", "F-105")
async def test_anything_can_be_logged_and_reported_in_valid_text() -> None:
    odd: Any = 5

    def work(arguments: JSON) -> None:
        request = get_request_context()
        for data in ("\ud800", float("nan"), object(), {"k": {1, 2}}, "x" * 1_000):
            request.log(data, logger=odd)
        request.log("x", logger="\ud800")
        request.report_progress(1, 2, "\ud800")
        request.report_progress(2, 2, odd)

    request = FakeRequest()
    async with published(one_tool(work), AgentLimits(log_bytes=100)) as source:
        assert not (await source.call_tool("work", {}, request)).get("isError")
    json.dumps([request.logs, request.progress], ensure_ascii=False, allow_nan=False).encode()
    assert [logger for _, _, logger in request.logs] == ["5"] * 5 + ["?"]
    assert len(request.logs[4][1]) <= 100
    assert [message for _, _, message in request.progress] == ["?", "5"]


def test_an_answer_that_comes_twice_or_too_late_is_ignored() -> None:
    question = Question("q1", "roots/list", {})
    question.answer({"roots": []})
    question.answer({"roots": [1]})
    question.fail(ValueError())
    assert question.reply.result() == {"roots": []}
    late = Question("q2", "roots/list", {})
    late.reply.cancel()
    late.answer({"roots": []})
    late.fail(ValueError())
    assert late.reply.cancelled()


# Changes


@pytest.mark.anyio
@pytest.mark.requirement("P-10")
async def test_a_list_that_changed_without_a_word_is_found_and_announced_when_it_is_asked_for() -> None:
    agent = one_tool(lambda _: None, get_mcp_prompts=lambda: list(prompts))
    prompts: list[JSON] = []
    async with published(agent, ALWAYS) as source:
        changes = Changes(source)
        await source.refresh()
        assert changes.heard == []
        agent.tools.append(tool("more"))
        await source.refresh()
        assert changes.heard == [Change(ChangeKind.TOOLS)]
        prompts.append({"name": "p"})
        await source.refresh()
        assert changes.heard[1:] == [Change(ChangeKind.PROMPTS)]
        assert "prompts" in source.offer.capabilities
        changes.stop()
        changes.stop()
        agent.tools.clear()
        await source.refresh()
        assert len(changes.heard) == 2


@pytest.mark.anyio
async def test_a_list_is_not_read_again_while_it_is_young() -> None:
    reads: list[int] = []

    def definitions() -> list[JSON]:
        reads.append(1)
        return [tool("work")]

    agent = one_tool(lambda _: None)
    setattr(agent, "get_mcp_tool_definitions", definitions)  # noqa: B010 - a method like any other
    async with published(agent, AgentLimits(definitions_max_age=1_000)) as source:
        for _ in range(3):
            await source.refresh()
    assert len(reads) == 1


@pytest.mark.anyio
async def test_many_who_ask_at_once_read_once() -> None:
    release, reads = threading.Event(), list[int]()

    def definitions() -> list[JSON]:
        reads.append(1)
        assert len(reads) == 1 or release.wait(PATIENCE)
        return [tool("work")]

    agent = one_tool(lambda _: None)
    setattr(agent, "get_mcp_tool_definitions", definitions)  # noqa: B010 - a method like any other
    async with published(agent, ALWAYS) as source:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(source.refresh)
            await anyio.wait_all_tasks_blocked()
            release.set()
    assert len(reads) == 2


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_an_agent_whose_list_hangs_keeps_the_list_it_gave() -> None:
    release, calm = threading.Event(), threading.Event()
    calm.set()

    def definitions() -> list[JSON]:
        if not calm.is_set():
            release.wait(PATIENCE)
        return [tool("work")]

    agent = one_tool(lambda _: "worked")
    setattr(agent, "get_mcp_tool_definitions", definitions)  # noqa: B010 - a method like any other
    async with published(agent, AgentLimits(definitions_max_age=0, definitions_timeout=0.02)) as source:
        changes = Changes(source)
        calm.clear()
        for _ in range(4):
            await source.refresh()
            assert text_of(await call(source)) == "worked"
        assert changes.heard == []
        assert source.offer.left_out
        release.set()


class Announcing(AnnouncesChanges, ScriptedAgent):
    pass


@pytest.mark.anyio
async def test_an_agent_announces_from_its_own_threads_and_the_new_list_is_read_first() -> None:
    def work(name: str, arguments: JSON) -> None:
        agent.tools.append(tool("more"))
        agent.notify_mcp_tools_changed()
        agent.notify_mcp_prompts_changed()
        agent.notify_mcp_resources_changed()
        agent.notify_mcp_resource_updated("book:1")

    agent = Announcing(work, "work")
    seen: list[list[str]] = []
    async with published(agent) as source:
        changes = Changes(source)
        source.listen(lambda _: seen.append([item["name"] for item in source.offer.tools]))
        await call(source)
        await changes.until(Change(ChangeKind.RESOURCE_UPDATED, "book:1"))
    kinds = (ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.RESOURCES)
    assert changes.heard == [*map(Change, kinds), Change(ChangeKind.RESOURCE_UPDATED, "book:1")]
    assert seen[0] == ["work", "more"]


@pytest.mark.anyio
@pytest.mark.requirement("S-14")
async def test_a_flood_of_updates_never_swallows_a_changed_list() -> None:
    reading, release = threading.Event(), threading.Event()
    agent = Announcing(nothing, "work")
    first = [True]

    def definitions() -> list[JSON]:
        if not first:
            reading.set()
            assert release.wait(PATIENCE)
        first.clear()
        return agent.tools

    setattr(agent, "get_mcp_tool_definitions", definitions)  # noqa: B010 - a method like any other
    async with published(agent) as source:
        changes = Changes(source)
        agent.notify_mcp_prompts_changed()
        await wait_in_thread(reading.wait)
        for number in range(5_000):
            agent.notify_mcp_resource_updated(f"book:{number}")
        for _ in range(5_000):
            agent.notify_mcp_resource_updated("book:1")
        agent.notify_mcp_tools_changed()
        release.set()
        await changes.until(Change(ChangeKind.TOOLS))
    assert changes.heard.count(Change(ChangeKind.RESOURCE_UPDATED, "book:1")) == 1
    assert len(changes.heard) < 1_100


@pytest.mark.anyio
@pytest.mark.requirement("F-105")
async def test_an_update_of_an_odd_uri_is_told_in_valid_text() -> None:
    agent = Announcing(nothing, "work")
    async with published(agent) as source:
        changes = Changes(source)
        agent.notify_mcp_resource_updated("book:\ud800")
        await changes.until(Change(ChangeKind.RESOURCE_UPDATED, "book:?"))


class Told:
    """An agent that remembers its publishers."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.told: list[str] = []
        self.publisher: Publisher | None = None

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [tool("work")]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        return "worked"

    def on_mcp_published(self, publisher: Publisher) -> None:
        self.told.append("published")
        self.publisher = publisher
        if self.error is not None:
            raise self.error

    def on_mcp_unpublished(self, publisher: Publisher) -> None:
        self.told.append("unpublished" if publisher is self.publisher else "somebody else")
        if self.error is not None:
            raise self.error


@pytest.mark.anyio
async def test_an_agent_is_told_when_it_is_published_and_when_no_longer() -> None:
    agent = Told()
    async with published(agent):
        assert agent.told == ["published"]
    assert agent.told == ["published", "unpublished"]
    assert agent.publisher is not None
    agent.publisher.tools_changed()  # goes nowhere


@pytest.mark.anyio
@pytest.mark.requirement("F-101")
@pytest.mark.parametrize("error", [RuntimeError(), SystemExit(3), KeyboardInterrupt()], ids=repr)
async def test_an_agent_that_fails_to_take_note_is_published_all_the_same(error: BaseException) -> None:
    agent = Told(error)
    async with published(agent) as source:
        assert text_of(await call(source)) == "worked"
    assert agent.told == ["published", "unpublished"]


@pytest.mark.anyio
async def test_a_busy_agent_is_told_that_it_is_no_longer_published() -> None:
    agent, started, release = Told(), threading.Event(), threading.Event()

    def block(tool_name: str, arguments: JSON) -> None:
        started.set()
        release.wait(PATIENCE)

    setattr(agent, "execute_mcp_tool", block)  # noqa: B010 - a method like any other
    try:
        async with anyio.create_task_group() as tasks:
            async with published(agent, AgentLimits(threads=1, queue=0)) as source:
                tasks.start_soon(call, source)
                await wait_in_thread(started.wait)
        assert agent.told == ["published", "unpublished"]
    finally:
        release.set()


@pytest.mark.anyio
@pytest.mark.requirement("S1-20")
async def test_what_is_left_out_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent(nothing, "work", {"name": "bad", "inputSchema": []})
    async with published(agent, ALWAYS) as source:
        await source.refresh()
        await source.refresh()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "test: tool bad is left out" in warnings[0]


def test_busy_is_an_error_of_one_request() -> None:
    assert str(BusyError("a", 1, 0)).startswith("a is busy: 1 calls running, 0 waiting")


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
