"""However an agent fails, the answer is defined, tells no detail, and the next call works."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Generator
from traceback import walk_tb
from typing import Any

import anyio
import pytest

from gaia_bridge.errors import (
    INVALID_PARAMS,
    ProtocolError,
    ToolError,
)
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import call, of_method, published
from tests.support.agents import one_tool
from tests.support.on_demand import mcp_types
from tests.support.upstreams import text_of
from tests.support.waiting import PATIENCE


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
    frames = [frame.f_globals["__name__"] for frame, _ in walk_tb(record.exc_info[2])]
    assert frames[0].startswith("tests."), "what led to the agent's code explains nothing"


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
            lambda: source.get_prompt("p", {}, of_method("prompts/get")),
            lambda: source.read_resource("u:x", of_method("resources/read")),
            lambda: source.complete({}, {"name": "a", "value": ""}, {}, of_method("completion/complete")),
        ]
        for ask in asks:
            with pytest.raises(ProtocolError) as caught:
                await ask()
            assert caught.value.code == mcp_types.INTERNAL_ERROR
            assert "hunter2" not in str(caught.value)
        assert text_of(await call(source)) == "next"
