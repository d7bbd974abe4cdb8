"""The same agent code speaks to clients of both eras, and asks them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest

from gaia_bridge.calls.request_context import RequestContext, get_request_context
from gaia_bridge.content import text
from gaia_bridge.errors import (
    MISSING_CLIENT_CAPABILITY,
    AnswerError,
    ClientCapabilityError,
    RequestCancelledError,
)
from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import nothing
from tests.bridge.sources.agent.people import EVERYTHING, FORM, filled_in, never, shown, thought_of
from tests.support.agents import one_tool
from tests.support.bridges import both_eras, running_bridge, set_level, text_of
from tests.support.on_demand import mcp, mcp_types
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


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
async def test_a_modern_client_gets_the_log_levels_that_its_requests_ask_for(level: mcp_types.LoggingLevel) -> None:
    heard = await _logged("auto", log_level=level)
    assert heard == list(LOG_LEVELS[LOG_LEVELS.index(level) :])


@pytest.mark.anyio
async def test_a_modern_client_that_asks_for_no_logs_gets_none() -> None:
    assert await _logged("auto") == []


@pytest.mark.anyio
@pytest.mark.parametrize("level", LOG_LEVELS)
async def test_a_legacy_client_gets_the_log_levels_that_it_set(level: mcp_types.LoggingLevel) -> None:
    assert await _logged("legacy", set_to=level) == list(LOG_LEVELS[LOG_LEVELS.index(level) :])


@pytest.mark.anyio
async def test_a_legacy_client_that_set_no_level_is_spared_the_debugging() -> None:
    assert await _logged("legacy") == list(LOG_LEVELS[1:])


async def _logged(mode: str, *, set_to: mcp_types.LoggingLevel | None = None, **options: Any) -> list[str]:
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
            await client.call_tool("work", {}, meta=cast(mcp_types.RequestParamsMeta, {"traceparent": "00-1"}))
    [request] = seen
    assert request.meta["traceparent"] == "00-1"
    assert request.has_capability("sampling")
    assert not request.has_capability("roots")
    assert request.input_responses == {}
    assert request.request_state is None


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
    assert result.structured_content == {"n": 42, "why": "because", "roots": ["file:///project"], "again": "accept"}


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
            with pytest.raises(mcp.MCPError) as refused:
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
    answers = [mcp_types.ElicitResult(action="decline"), mcp_types.ElicitResult(action="cancel")]

    async def user(context: Any, params: Any) -> mcp_types.ElicitResult:
        return answers.pop(0)

    def work(arguments: JSON) -> list[str]:
        request = get_request_context()
        return [request.elicit("?", FORM).action, request.elicit("?", FORM).action]

    async with running_bridge(one_tool(work)) as running:
        async with running.client(mode, elicitation_callback=user) as client:
            assert text_of(await client.call_tool("work", {})) == '["decline","cancel"]'


@pytest.mark.anyio
async def test_a_legacy_client_that_fails_to_answer_is_an_error_that_the_agent_can_catch() -> None:
    async def fail(context: Any, params: Any) -> mcp_types.ErrorData:
        return mcp_types.ErrorData(code=-1, message="no user here")

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
    gave_up = threading.Event()

    async def work(arguments: JSON) -> str:
        try:
            await asyncio.wait_for(get_request_context().aelicit("?", FORM), 0.01)
        except TimeoutError:
            gave_up.set()
            return "without"
        return "with"

    async def late(context: Any, params: Any) -> mcp_types.ElicitResult:
        await wait_in_thread(lambda seconds: gave_up.wait(seconds))
        return await filled_in(context, params)

    async with running_bridge(one_tool(work)) as running:
        async with running.client("legacy", elicitation_callback=never) as client:
            assert text_of(await client.call_tool("work", {})) == "without"
        gave_up.clear()
        async with running.client("auto", elicitation_callback=late) as client:
            assert text_of(await client.call_tool("work", {})) == "without"


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

    async def user(context: Any, params: Any) -> mcp_types.ElicitResult:
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
