"""One endpoint, clients of both eras: the same agent code serves them, whatever it says and asks."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

import anyio
import pytest
from mcp import Client, MCPError
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    CreateMessageResult,
    ElicitResult,
    ErrorData,
    Implementation,
    InputRequiredResult,
    ListRootsResult,
    LoggingLevel,
    PromptReference,
    RequestParamsMeta,
    ResourceTemplateReference,
    Root,
    TextContent,
)
from pydantic import FileUrl

from gaia_bridge.content import elicitation_request, input_required, roots_request, sampling_request, text
from gaia_bridge.context import RequestContext, get_request_context
from gaia_bridge.errors import (
    MISSING_CLIENT_CAPABILITY,
    AnswerError,
    ClientCapabilityError,
    ProtocolError,
    RequestCancelledError,
    ResourceNotFoundError,
)
from gaia_bridge.jsontypes import JSON
from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.settings import AgentLimits, Settings
from tests.helpers import (
    PATIENCE,
    RunningBridge,
    ScriptedAgent,
    both_eras,
    one_tool,
    ping,
    running_bridge,
    set_level,
    subscribe,
    text_of,
    tool,
    wait_in_thread,
)

pytestmark = pytest.mark.filterwarnings(f"ignore::{MCPDeprecationWarning.__module__}.{MCPDeprecationWarning.__name__}")

LOGGER = "gaia_bridge.inbound.performing"


def nothing(*_: Any) -> None:
    """Any hook or tool."""


async def filled_in(context: Any, params: Any) -> ElicitResult:
    """A user who fills in every form with the same number."""
    return ElicitResult(action="accept", content={"n": 42})


async def thought_of(context: Any, params: Any) -> CreateMessageResult:
    """A model with one answer."""
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="because"), model="m")


async def opened(context: Any) -> ListRootsResult:
    """A client with one folder."""
    return ListRootsResult(roots=[Root(uri=FileUrl("file:///work"))])


EVERYTHING: Mapping[str, Any] = {
    "elicitation_callback": filled_in,
    "sampling_callback": thought_of,
    "list_roots_callback": opened,
}
FORM = {"n": {"type": "integer"}}


# Who it is and what it has


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
        {"name": "x" * 100, "inputSchema": {"type": "object"}},
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
                assert shown((await client.list_tools()).tools) == tools
                assert shown((await client.list_prompts()).prompts) == prompts
                assert shown((await client.list_resources()).resources) == resources
                assert shown((await client.list_resource_templates()).resource_templates) == templates


def shown(items: Iterable[Any]) -> list[JSON]:
    return [item.model_dump(by_alias=True, mode="json", exclude_unset=True) for item in items]


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
        assert listed[0].input_schema == {"type": "object"}
        assert (await client.call_tool("empty", {"anything": 1})).structured_content == {"called": "empty"}


# Calls


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
            with pytest.raises(MCPError) as caught:
                await ask
            assert caught.value.code == INVALID_PARAMS
            assert "nope" in caught.value.message
    assert called == []


@pytest.mark.anyio
@pytest.mark.requirement("F-105")
async def test_an_error_that_quotes_the_client_is_valid_text() -> None:
    async with running_bridge(one_tool(nothing)) as running, running.client("legacy") as client:
        with pytest.raises(MCPError) as caught:
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
            with pytest.raises(MCPError) as caught:
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
        with pytest.raises(MCPError) as caught:
            await client.call_tool("work", {})
        assert (caught.value.code, caught.value.message) == (INTERNAL_ERROR, "Internal error")
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

    results: list[CallToolResult] = []

    async def call(client: Client) -> None:
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


# What an agent says


@both_eras
@pytest.mark.anyio
async def test_progress_arrives_in_order_and_before_the_result(mode: str) -> None:
    def work(arguments: JSON) -> str:
        for number in range(50):
            get_request_context().report_progress(number, 50, f"step {number}")
        return "done"

    heard: list[Any] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with running_bridge(one_tool(work)) as running, running.client(mode) as client:
        result = await client.call_tool("work", {}, progress_callback=progress)
        await client.call_tool("work", {})
    assert text_of(result) == "done"
    assert heard == [(number, 50, f"step {number}") for number in range(50)]


@pytest.mark.anyio
@pytest.mark.parametrize("level", LOG_LEVELS)
async def test_a_modern_client_gets_the_log_levels_that_its_requests_ask_for(level: LoggingLevel) -> None:
    heard = await _logged("auto", log_level=level)
    assert heard == list(LOG_LEVELS[LOG_LEVELS.index(level) :])


@pytest.mark.anyio
async def test_a_modern_client_that_asks_for_no_logs_gets_none() -> None:
    assert await _logged("auto") == []


@pytest.mark.anyio
@pytest.mark.parametrize("level", LOG_LEVELS)
async def test_a_legacy_client_gets_the_log_levels_that_it_set(level: LoggingLevel) -> None:
    assert await _logged("legacy", set_to=level) == list(LOG_LEVELS[LOG_LEVELS.index(level) :])


@pytest.mark.anyio
async def test_a_legacy_client_that_set_no_level_is_spared_the_debugging() -> None:
    assert await _logged("legacy") == list(LOG_LEVELS[1:])


async def _logged(mode: str, *, set_to: LoggingLevel | None = None, **options: Any) -> list[str]:
    """The levels that arrive at a client of messages in all levels."""
    heard: list[str] = []

    async def logs(params: Any) -> None:
        assert (params.data, params.logger) == ({"at": params.level}, "worker")
        heard.append(params.level)

    def work(arguments: JSON) -> None:
        for level in LOG_LEVELS:
            get_request_context().log({"at": level}, level, "worker")

    async with running_bridge(one_tool(work)) as running:
        async with running.client(mode, logging_callback=logs, **options) as client:
            if set_to is not None:
                await set_level(client, set_to)
            await client.call_tool("work", {})
            await anyio.wait_all_tasks_blocked()
    return heard


@pytest.mark.anyio
async def test_the_log_level_of_one_legacy_client_is_not_that_of_another() -> None:
    def work(arguments: JSON) -> None:
        get_request_context().log("x", "notice")

    heard: list[str] = []

    async def hear(params: Any) -> None:
        heard.append(params.level)

    async with running_bridge(one_tool(work)) as running:
        async with (
            running.client("legacy", logging_callback=hear) as one,
            running.client("legacy", logging_callback=hear) as two,
        ):
            await set_level(one, "error")
            await one.call_tool("work", {})
            await anyio.wait_all_tasks_blocked()
            assert heard == []
            await two.call_tool("work", {})
            await anyio.wait_all_tasks_blocked()
            assert heard == ["notice"]


@both_eras
@pytest.mark.anyio
async def test_an_agent_sees_what_came_with_the_request(mode: str) -> None:
    seen: list[RequestContext] = []
    async with running_bridge(one_tool(lambda _: seen.append(get_request_context()))) as running:
        async with running.client(mode, sampling_callback=thought_of) as client:
            await client.call_tool("work", {}, meta=cast(RequestParamsMeta, {"traceparent": "00-1"}))
    [request] = seen
    assert request.meta["traceparent"] == "00-1"
    assert request.has_capability("sampling")
    assert not request.has_capability("roots")
    assert request.input_responses == {}
    assert request.request_state is None


# What an agent asks


def _ask_everything(arguments: JSON) -> JSON:
    request = get_request_context()
    answers = {
        "n": request.elicit("How many?", FORM).content["n"],
        "why": request.sample("Why?", 10)["content"]["text"],
        "roots": [root["uri"] for root in request.list_roots()],
    }
    return {**answers, "again": request.elicit("Really?", FORM).action}


async def _aask_everything(arguments: JSON) -> JSON:
    request = get_request_context()
    answers = {
        "n": (await request.aelicit("How many?", FORM)).content["n"],
        "why": (await request.asample("Why?", 10))["content"]["text"],
        "roots": [root["uri"] for root in await request.alist_roots()],
    }
    return {**answers, "again": (await request.aelicit("Really?", FORM)).action}


@both_eras
@pytest.mark.parametrize("ask", [_ask_everything, _aask_everything])
@pytest.mark.anyio
async def test_the_same_code_asks_the_user_the_model_and_the_client_in_both_eras(
    mode: str, ask: Callable[[JSON], Any]
) -> None:
    async with running_bridge(one_tool(ask)) as running, running.client(mode, **EVERYTHING) as client:
        result = await client.call_tool("work", {})
    assert result.structured_content == {"n": 42, "why": "because", "roots": ["file:///work"], "again": "accept"}


@both_eras
@pytest.mark.anyio
async def test_prompts_and_resources_can_ask_too(mode: str) -> None:
    def ask(*_: Any) -> str:
        return f"{get_request_context().elicit('How many?', FORM).content['n']} books"

    hooks: dict[str, Any] = {"get_mcp_prompt": ask, "read_mcp_resource": ask}
    agent = one_tool(nothing, get_mcp_prompts=lambda: [{"name": "p"}], **hooks)
    async with running_bridge(agent) as running, running.client(mode, **EVERYTHING) as client:
        prompt = await client.get_prompt("p")
        resource = await client.read_resource("book:1")
    assert shown(prompt.messages) == [{"role": "user", "content": text("42 books")}]
    assert shown(resource.contents)[0]["text"] == "42 books"


@both_eras
@pytest.mark.anyio
async def test_several_questions_may_be_open_at_once(mode: str) -> None:
    async def ask(arguments: JSON) -> JSON:
        request = get_request_context()
        answers = await asyncio.gather(*(request.aelicit(f"{number}?", FORM) for number in range(5)))
        return {"sum": sum(answer.content["n"] for answer in answers)}

    async with running_bridge(one_tool(ask)) as running, running.client(mode, **EVERYTHING) as client:
        assert (await client.call_tool("work", {})).structured_content == {"sum": 5 * 42}


@both_eras
@pytest.mark.anyio
async def test_progress_and_logs_go_on_after_an_answer(mode: str) -> None:
    def work(arguments: JSON) -> str:
        request = get_request_context()
        request.report_progress(1)
        request.elicit("Go on?", FORM)
        request.report_progress(2)
        return "done"

    heard: list[float] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with running_bridge(one_tool(work)) as running, running.client(mode, **EVERYTHING) as client:
        result = await client.call_tool("work", {}, progress_callback=progress)
    assert text_of(result) == "done"
    assert heard == [1, 2]


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S-32")
@pytest.mark.parametrize(
    ("capability", "method", "arguments"),
    [("elicitation", "elicit", ("?", FORM)), ("sampling", "sample", ("?", 1)), ("roots", "list_roots", ())],
)
async def test_a_client_is_not_asked_for_what_it_did_not_declare(
    mode: str, capability: str, method: str, arguments: tuple[Any, ...]
) -> None:
    missing: JSON = {capability: {}}
    caught: list[ClientCapabilityError] = []

    def work(given: JSON) -> str:
        try:
            getattr(get_request_context(), method)(*arguments)
        except ClientCapabilityError as error:
            caught.append(error)
            if given:
                raise
        return "went on without"

    async with running_bridge(one_tool(work)) as running, running.client(mode) as client:
        assert text_of(await client.call_tool("work", {})) == "went on without"
        if mode == "legacy":
            result = await client.call_tool("work", {"give up": True})
            assert result.is_error
            assert capability in text_of(result)
        else:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("work", {"give up": True})
            assert refused.value.code == MISSING_CLIENT_CAPABILITY
            assert refused.value.error.data == {"requiredCapabilities": missing}
    assert [error.capabilities for error in caught] == [missing] * 2


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("F-103", "F-105")
async def test_a_question_that_cannot_be_put_is_an_error_where_it_is_asked(mode: str) -> None:
    odd: Any = object()
    asks: list[Callable[[RequestContext], Any]] = [
        lambda request: request.elicit("?", {"n": odd}),
        lambda request: request.elicit(odd, FORM),
        lambda request: request.elicit("?", {"type": "array", "properties": 5}),
        lambda request: request.sample([{"no": "message"}], 10),
        lambda request: request.sample("?", odd),
    ]

    def work(arguments: JSON) -> str:
        request = get_request_context()
        for ask in asks:
            with pytest.raises(Exception, match="cannot be asked like this|no JSON form"):
                ask(request)
        return str(request.elicit("\ud800?", FORM).action)

    async with running_bridge(one_tool(work)) as running, running.client(mode, **EVERYTHING) as client:
        assert text_of(await client.call_tool("work", {})) == "accept"


@both_eras
@pytest.mark.anyio
async def test_a_user_may_decline_and_cancel(mode: str) -> None:
    answers = [ElicitResult(action="decline"), ElicitResult(action="cancel")]

    async def user(context: Any, params: Any) -> ElicitResult:
        return answers.pop(0)

    def work(arguments: JSON) -> list[str]:
        request = get_request_context()
        return [request.elicit("?", FORM).action, request.elicit("?", FORM).action]

    async with running_bridge(one_tool(work)) as running:
        async with running.client(mode, elicitation_callback=user) as client:
            assert text_of(await client.call_tool("work", {})) == '["decline","cancel"]'


@pytest.mark.anyio
async def test_a_legacy_client_that_fails_to_answer_is_an_error_that_the_agent_can_catch() -> None:
    async def fail(context: Any, params: Any) -> ErrorData:
        return ErrorData(code=-1, message="no user here")

    def work(arguments: JSON) -> str:
        try:
            get_request_context().elicit("?", FORM)
        except AnswerError as error:
            if arguments:
                raise
            return f"caught: {error}"
        return "answered"

    async with running_bridge(one_tool(work)) as running:
        async with running.client("legacy", elicitation_callback=fail) as client:
            assert text_of(await client.call_tool("work", {})).endswith("no user here")
            result = await client.call_tool("work", {"let go": True})
            assert result.is_error
            assert "the client refused elicitation/create" in text_of(result)


async def never(context: Any, params: Any) -> ElicitResult:
    """A user who went home."""
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.anyio
async def test_a_legacy_client_that_never_answers_is_given_up_after_a_while() -> None:
    agent = one_tool(lambda _: get_request_context().elicit("?", FORM).action)
    settings = Settings(agent=AgentLimits(question_timeout=0.05))
    async with running_bridge(agent, settings=settings) as running:
        async with running.client("legacy", elicitation_callback=never) as client:
            result = await client.call_tool("work", {})
    assert result.is_error
    assert text_of(result) == "the client did not answer elicitation/create within 0.05 s"


@pytest.mark.anyio
async def test_an_agent_may_stop_waiting_for_an_answer_before_the_client_gives_one() -> None:
    async def work(arguments: JSON) -> str:
        try:
            await asyncio.wait_for(get_request_context().aelicit("?", FORM), 0.01)
        except TimeoutError:
            return "without"
        return "with"

    async with running_bridge(one_tool(work)) as running:
        async with running.client("legacy", elicitation_callback=never) as client:
            assert text_of(await client.call_tool("work", {})) == "without"
        async with running.client("auto", elicitation_callback=filled_in) as client:
            assert text_of(await client.call_tool("work", {})) in ("with", "without")


@both_eras
@pytest.mark.anyio
async def test_cancelling_a_call_reaches_the_agent_while_it_works_and_while_it_asks(mode: str) -> None:
    started, knew = threading.Event(), threading.Event()

    def work(arguments: JSON) -> None:
        request = get_request_context()
        assert not request.cancelled
        started.set()
        if request.wait_cancelled(PATIENCE) and request.cancelled:
            with pytest.raises(RequestCancelledError):
                request.raise_if_cancelled()
            with pytest.raises(RequestCancelledError):
                request.elicit("?", FORM)
            knew.set()

    async with running_bridge(one_tool(work)) as running, running.client(mode, **EVERYTHING) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "work", dict[str, Any]())
            await wait_in_thread(started.wait)
            tasks.cancel_scope.cancel()
        await wait_in_thread(knew.wait)
        assert [item.name for item in (await client.list_tools()).tools] == ["work"]


@pytest.mark.anyio
async def test_cancelling_a_call_with_an_open_question_ends_the_question() -> None:
    asked, knew = anyio.Event(), threading.Event()

    async def user(context: Any, params: Any) -> ElicitResult:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    def work(arguments: JSON) -> None:
        try:
            get_request_context().elicit("?", FORM)
        except RequestCancelledError:
            knew.set()

    async with running_bridge(one_tool(work)) as running:
        async with running.client("legacy", elicitation_callback=user) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "work", dict[str, Any]())
                await asked.wait()
                tasks.cancel_scope.cancel()
            await wait_in_thread(knew.wait)


# Questions to a client that has to come back (2026-07-28)


class Asking:
    """A tool that asks once and remembers how that went."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: list[Any] = []
        self.ended = threading.Semaphore(0)

    def __call__(self, name: str, arguments: JSON) -> JSON:
        self.asked += 1
        arguments.setdefault("list", []).append("changed by the agent")
        try:
            self.answers.append(get_request_context().elicit("How many?", FORM).content)
        except Exception as error:
            self.answers.append(type(error))
            raise
        finally:
            self.ended.release()
        return {"answer": self.answers[-1]}

    async def until_ended(self) -> None:
        await wait_in_thread(lambda seconds: self.ended.acquire(timeout=seconds))


async def first_round(client: Client, name: str = "work", **arguments: Any) -> tuple[str, str]:
    """Call until the agent asks; returns the key of its question and the state to come back with."""
    result = await client.session.call_tool(name, arguments, allow_input_required=True)
    assert isinstance(result, InputRequiredResult)
    assert result.input_requests is not None
    assert result.request_state is not None
    [key] = result.input_requests
    return key, result.request_state


async def come_back(
    client: Client, key: str, state: str, name: str = "work", answer: Any = None, **arguments: Any
) -> CallToolResult | InputRequiredResult:
    """Call again with an answer."""
    answer = ElicitResult(action="accept", content={"n": 7}) if answer is None else answer
    return await client.session.call_tool(
        name, arguments, input_responses={key: answer}, request_state=state, allow_input_required=True
    )


@pytest.mark.anyio
async def test_a_call_waits_where_it_asked_and_goes_on_with_the_answer() -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client, list=[1])
        result = await come_back(client, key, state, list=[1])
    assert isinstance(result, CallToolResult)
    assert result.structured_content == {"answer": {"n": 7}}
    assert asking.asked == 1


def _flipped(state: str) -> list[str]:
    """The state with one character changed, at several places."""
    places = (0, 3, len(state) // 2, len(state) - 2)
    return [state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1 :] for place in places]


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_a_state_that_was_changed_moved_or_made_up_is_refused_and_the_agent_not_asked() -> None:
    asking, other = Asking(), Asking()
    named = {"one": ScriptedAgent(asking, "work", "play"), "two": ScriptedAgent(other, "work")}
    async with (
        running_bridge(named=named) as running,
        running.client(path="agents/one", **EVERYTHING) as client,
        running.client(path="agents/two", **EVERYTHING) as elsewhere,
        running.client(**EVERYTHING) as everywhere,
    ):
        key, state = await first_round(client, n=1)
        _, others_state = await first_round(elsewhere, n=1)
        attempts: list[Awaitable[Any]] = [
            *(come_back(client, key, changed, n=1) for changed in _flipped(state)),
            come_back(client, key, "", n=1),
            come_back(client, key, "parked:guess", n=1),
            come_back(client, key, "x" * 100_000, n=1),
            come_back(client, key, state, name="play", n=1),
            come_back(client, key, state, n=2),
            come_back(client, key, state),
            come_back(elsewhere, key, state, n=1),
            come_back(everywhere, key, state, n=1),
            come_back(client, key, others_state, n=1),
        ]
        for attempt in attempts:
            with pytest.raises(MCPError) as caught:
                await attempt
            assert caught.value.code == INVALID_PARAMS
        assert (asking.asked, asking.answers) == (1, [])
        result = await come_back(client, key, state, n=1)
        assert isinstance(result, CallToolResult)
        assert result.structured_content == {"answer": {"n": 7}}
    assert other.asked == 1


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_a_state_works_once() -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client)
        await come_back(client, key, state)
        with pytest.raises(MCPError, match="no longer there") as caught:
            await come_back(client, key, state)
    assert caught.value.code == INVALID_PARAMS
    assert asking.asked == 1


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_two_who_come_back_with_the_same_state_do_not_both_go_on() -> None:
    asking = Asking()
    outcomes: list[Any] = []
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client)

        async def return_once() -> None:
            try:
                outcomes.append(await come_back(client, key, state))
            except MCPError as error:
                outcomes.append(error.code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(return_once)
            tasks.start_soon(return_once)
    assert outcomes.count(INVALID_PARAMS) == 1
    assert len(asking.answers) == 1


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_a_client_cannot_read_its_state() -> None:
    agent = one_tool(lambda _: input_required(state="the secret of the agent"))
    async with running_bridge(agent) as running, running.client() as client:
        result = await client.session.call_tool("work", {}, allow_input_required=True)
    assert isinstance(result, InputRequiredResult)
    assert result.request_state is not None
    assert "secret" not in result.request_state


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer",
    [
        ListRootsResult(roots=[]),
        CreateMessageResult(role="assistant", content=TextContent(type="text", text="x"), model="m"),
    ],
)
async def test_an_answer_of_the_wrong_kind_and_a_missing_one_are_asked_for_again(answer: Any) -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client)
        for wrong_key, given in ((key, answer), ("another", None)):
            result = await come_back(client, wrong_key, state, answer=given)
            assert isinstance(result, InputRequiredResult)
            assert result.input_requests is not None
            assert list(result.input_requests) == [key]
            assert result.request_state is not None
            assert result.request_state != state
            state = result.request_state
        assert asking.answers == []
        await come_back(client, key, state)
    assert (asking.asked, asking.answers) == (1, [{"n": 7}])


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_a_question_that_nobody_comes_back_for_expires() -> None:
    asking = Asking()
    settings = Settings(agent=AgentLimits(question_timeout=0.05))
    async with running_bridge(ScriptedAgent(asking, "work"), settings=settings) as running:
        async with running.client(**EVERYTHING) as client:
            key, state = await first_round(client)
            await asking.until_ended()
            with pytest.raises(MCPError) as caught:
                await come_back(client, key, state)
            assert caught.value.code == INVALID_PARAMS
    assert asking.answers == [RequestCancelledError]
    assert asking.asked == 1


@pytest.mark.anyio
async def test_only_so_many_calls_may_wait_for_their_clients() -> None:
    asking = Asking()
    settings = Settings(agent=AgentLimits(max_parked=2))
    async with running_bridge(ScriptedAgent(asking, "work"), settings=settings) as running:
        async with running.client(**EVERYTHING) as client:
            rounds = [await first_round(client) for _ in range(2)]
            result = await client.call_tool("work", {})
            assert result.is_error
            assert "busy" in text_of(result)
            await asking.until_ended()
            assert asking.answers == [RequestCancelledError]
            for key, state in rounds:
                assert isinstance(await come_back(client, key, state), CallToolResult)
            await first_round(client)


@pytest.mark.anyio
async def test_calls_that_wait_for_their_clients_end_when_the_agent_goes() -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work"), named={"other": one_tool(nothing, "play")}) as running:
        async with running.client(**EVERYTHING) as client:
            key, state = await first_round(client)
            await running.bridge.remove("a0")
            await asking.until_ended()
            assert asking.answers == [RequestCancelledError]
            with pytest.raises(MCPError, match="Unknown tool"):
                await come_back(client, key, state)


@pytest.mark.anyio
async def test_calls_that_wait_for_their_clients_end_with_the_bridge() -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        await first_round(client)
    await asking.until_ended()
    assert asking.answers == [RequestCancelledError]


@pytest.mark.anyio
async def test_what_was_said_while_nobody_waited_is_told_to_whoever_comes_back() -> None:
    alone, posted = threading.Event(), threading.Event()

    async def work(arguments: JSON) -> str:
        request = get_request_context()

        async def ask() -> str:
            return (await request.aelicit("?", FORM)).action

        asking = asyncio.ensure_future(ask())
        await asyncio.to_thread(alone.wait, PATIENCE)
        request.report_progress(1, None, "meanwhile")
        posted.set()
        return await asking

    heard: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with running_bridge(one_tool(work)) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client)
        alone.set()
        await wait_in_thread(posted.wait)
        result = await client.session.call_tool(
            "work",
            {},
            progress_callback=progress,
            input_responses={key: ElicitResult(action="decline")},
            request_state=state,
        )
    assert text_of(result) == "decline"
    assert heard == ["meanwhile"]


# Agents that say themselves what they need, and are called again (SEP-2322)


def _rounds(arguments: JSON) -> JSON:
    """Asks for three things, one round each, and remembers what it got in its state."""
    request = get_request_context()
    state: JSON = json.loads(request.request_state or "{}")
    responses = request.input_responses
    if "n" in responses:
        state["n"] = responses["n"]["content"]["n"]
    if "why" in responses:
        state["why"] = responses["why"]["content"]["text"]
    if "roots" in responses:
        state["roots"] = len(responses["roots"]["roots"])
    questions = {
        "n": elicitation_request("How many?", FORM),
        "why": sampling_request("Why?", 10),
        "roots": roots_request(),
    }
    for key, question in questions.items():
        if key not in state:
            return input_required({key: question}, json.dumps(state))
    return state


@both_eras
@pytest.mark.anyio
async def test_an_agent_may_ask_in_rounds_whatever_its_client_speaks(mode: str) -> None:
    async with running_bridge(one_tool(_rounds)) as running, running.client(mode, **EVERYTHING) as client:
        result = await client.call_tool("work", {})
    assert result.structured_content == {"n": 42, "why": "because", "roots": 1}


@both_eras
@pytest.mark.anyio
async def test_prompts_and_resources_may_ask_in_rounds_too(mode: str) -> None:
    def ask(*_: Any) -> Any:
        answer = get_request_context().input_responses.get("n")
        if answer is None:
            return input_required({"n": elicitation_request("How many?", FORM)})
        return f"{answer['content']['n']} books"

    hooks: dict[str, Any] = {"get_mcp_prompt": ask, "read_mcp_resource": ask}
    agent = one_tool(nothing, get_mcp_prompts=lambda: [{"name": "p"}], **hooks)
    async with running_bridge(agent) as running, running.client(mode, **EVERYTHING) as client:
        assert shown((await client.get_prompt("p")).messages)[0]["content"] == text("42 books")
        assert shown((await client.read_resource("book:1")).contents)[0]["text"] == "42 books"


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S-32")
async def test_rounds_ask_only_for_what_the_client_declared(mode: str) -> None:
    async with running_bridge(one_tool(_rounds)) as running:
        async with running.client(mode, elicitation_callback=filled_in) as client:
            if mode == "legacy":
                result = await client.call_tool("work", {})
                assert result.is_error
                assert "sampling" in text_of(result)
            else:
                with pytest.raises(MCPError) as caught:
                    await client.call_tool("work", {})
                assert caught.value.code == MISSING_CLIENT_CAPABILITY


@pytest.mark.anyio
@pytest.mark.parametrize(("rounds", "ends"), [(1, True), (3, True), (4, False)])
async def test_the_bridge_plays_as_many_rounds_for_a_legacy_client_as_it_may_and_no_more(
    rounds: int, ends: bool
) -> None:
    calls: list[int] = []

    def work(arguments: JSON) -> Any:
        calls.append(1)
        return "done" if len(calls) > rounds else input_required({"n": elicitation_request("?", FORM)})

    settings = Settings(agent=AgentLimits(max_rounds=3))
    async with running_bridge(one_tool(work), settings=settings) as running:
        async with running.client("legacy", **EVERYTHING) as client:
            if ends:
                assert text_of(await client.call_tool("work", {})) == "done"
            else:
                with pytest.raises(MCPError, match="3 times without coming to an end"):
                    await client.call_tool("work", {})
    assert len(calls) == min(rounds, 3) + 1


@pytest.mark.anyio
async def test_a_legacy_client_that_does_not_play_along_fails_that_call_alone() -> None:
    async def fail(context: Any, params: Any) -> ErrorData:
        return ErrorData(code=-1, message="no user here")

    settings = Settings(agent=AgentLimits(question_timeout=0.05))
    agent = ScriptedAgent(lambda name, arguments: _rounds({}) if name == "ask" else "worked", "ask", "work")
    async with running_bridge(agent, settings=settings) as running:
        for user, said in ((fail, "no user here"), (never, "did not answer elicitation/create within 0.05 s")):
            async with running.client("legacy", elicitation_callback=user) as client:
                result = await client.call_tool("ask", {})
                assert result.is_error
                assert said in text_of(result)
                assert text_of(await client.call_tool("work", {})) == "worked"


@both_eras
@pytest.mark.anyio
async def test_arguments_are_the_clients_in_every_round_whatever_the_agent_does_to_them(mode: str) -> None:
    seen: list[str] = []

    def work(arguments: JSON) -> Any:
        seen.append(json.dumps(arguments, sort_keys=True))
        arguments["own"] = True
        arguments["list"].append("changed")
        if get_request_context().input_responses:
            return "done"
        return input_required({"n": elicitation_request("?", FORM)}, "state")

    async with running_bridge(one_tool(work)) as running, running.client(mode, **EVERYTHING) as client:
        assert text_of(await client.call_tool("work", {"list": [1]})) == "done"
    assert seen == ['{"list": [1]}'] * 2


@pytest.mark.anyio
async def test_what_only_modern_clients_can_say_means_nothing_from_a_legacy_one() -> None:
    seen: list[RequestContext] = []
    async with running_bridge(one_tool(lambda _: seen.append(get_request_context()))) as running:
        async with running.client("legacy") as client:
            await client.session.call_tool("work", {}, input_responses={"n": ElicitResult(action="accept")})
    assert seen[0].input_responses == {}


# Resources, prompts, completions


@pytest.mark.anyio
@pytest.mark.requirement("S1-15")
@pytest.mark.parametrize(("mode", "code"), [("auto", INVALID_PARAMS), ("legacy", -32002)])
async def test_a_resource_that_is_not_there_has_the_code_of_its_era(mode: str, code: int) -> None:
    def read(uri: str) -> Any:
        raise ResourceNotFoundError(uri)

    hooks: dict[str, Any]
    for hooks in ({}, {"read_mcp_resource": read}, {"read_mcp_resource": nothing}):
        async with running_bridge(one_tool(nothing, **hooks)) as running, running.client(mode) as client:
            with pytest.raises(MCPError) as caught:
                await client.read_resource("book:1")
            assert caught.value.code == code
            assert caught.value.error.data == {"uri": "book:1"}


@pytest.mark.anyio
async def test_a_legacy_client_cannot_subscribe_to_what_is_not_there() -> None:
    async with running_bridge(one_tool(nothing)) as running, running.client("legacy") as client:
        with pytest.raises(MCPError) as caught:
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
        prompt = PromptReference(type="ref/prompt", name="two__p")
        result = await client.complete(prompt, {"name": "who", "value": "An"}, {"lang": "en"})
        assert result.completion.values == ["Anna"]
        template = ResourceTemplateReference(type="ref/resource", uri="book:{n}")
        assert (await client.complete(template, {"name": "n", "value": "An"})).completion.values == ["Anna"]
        for unknown in (
            PromptReference(type="ref/prompt", name="nope"),
            ResourceTemplateReference(type="ref/resource", uri="nope:{n}"),
        ):
            with pytest.raises(MCPError) as caught:
                await client.complete(unknown, {"name": "n", "value": ""})
            assert caught.value.code == INVALID_PARAMS
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

    async def call(client: Client, me: str) -> None:
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


async def _introduced(running: RunningBridge, mode: str) -> Implementation:
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
