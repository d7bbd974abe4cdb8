"""Tool calls: side by side, each under a deadline, and whatever goes wrong is told to the model as data."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from copy import copy
from typing import Any

import pytest
from pydantic import BaseModel

from gaia.agents.base import Tool, tool
from gaia.agents.base.console import AgentConsole
from gaia.agents.base.tools import ToolEntry, ToolRegistry, get_tool_display_name
from gaia.agents.chat.limits import ChatLimits
from gaia.agents.chat.tool_execution import ToolCallError, needs_confirmation, parsed_arguments
from gaia_bridge.chat_types import ToolCall
from gaia_bridge.errors import ToolError
from gaia_bridge.text.json_types import JSON
from tests.support.fake_model import call, calls, made, say
from tests.support.waiting import PATIENCE


def result_of(function: Any, arguments: Any = None, limits: ChatLimits | None = None) -> Any:
    """What the model is told of one call of one tool: a function, or an entry as a registry holds it."""
    by_hand = not callable(function)
    name: str = "odd" if by_hand else function.__name__
    wanted: JSON | str = arguments or {}
    agent, model = made(calls((name, wanted)), say("ok"), tools=[] if by_hand else [function], chat_limits=limits)
    if by_hand:
        agent.tool_registry.register(function)
    assert agent.run("go") == "ok"
    [told] = model.asked[-1].results()
    agent.close()
    return told


def problem_of(function: Any, arguments: Any = None, limits: ChatLimits | None = None) -> str:
    told = result_of(function, arguments, limits)
    assert told.keys() == {"status", "error"}
    assert told["status"] == "error"
    return str(told["error"])


def test_calls_of_one_answer_run_side_by_side_and_come_back_in_their_order() -> None:
    together = threading.Barrier(3)

    def meet(number: int) -> int:
        together.wait(PATIENCE)
        return number

    agent, model = made(calls(*[("meet", {"number": number}) for number in range(3)]), say("ok"), tools=[meet])
    agent.run("go")
    assert model.asked[-1].results() == [0, 1, 2]
    assert [message["tool_call_id"] for message in model.asked[-1].messages[-3:]] == ["call_0", "call_1", "call_2"]


def test_only_so_many_calls_of_one_turn_run_at_once() -> None:
    running, most = 0, 0
    pair = asyncio.Barrier(2)

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await pair.wait()  # until there are two; of three, the third would be seen before the first two leave
        running -= 1

    limits = ChatLimits(parallel_tools=2)
    agent, model = made(calls(*[("work", "{}")] * 6), say("ok"), tools=[work], chat_limits=limits)
    agent.run("go")
    assert (most, len(model.asked[-1].results())) == (2, 6)


def test_of_too_many_calls_in_one_answer_the_first_are_run() -> None:
    done: list[int] = []
    wanted = calls(*[("work", {"number": number}) for number in range(4)])
    agent, model = made(wanted, say("ok"), tools=[work_into(done)], chat_limits=ChatLimits(calls=2))
    agent.run("go")
    assert sorted(done) == [0, 1]
    assert [told["error"] for told in model.asked[-1].results()[2:]] == [
        "not run: at most 2 tools can be called at once"
    ] * 2


def work_into(done: list[int]) -> Any:
    def work(number: int) -> int:
        done.append(number)
        return number

    return work


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize("arguments", ["{", "[1]", "5", '{"a": NaN}', '{"a": 1', "{'a': 1}", "[" * 100_000, "\ud800"])
def test_malformed_arguments_are_told_with_what_was_expected(arguments: str) -> None:
    problem = problem_of(add, arguments)
    assert problem.startswith("the arguments of add ")
    assert "Expected one JSON object that fits " in problem
    assert '"required": ["a"]' in problem


@pytest.mark.parametrize(("arguments", "told"), [('"{\\"a\\": 1}"', 2), (' {"a": 1}\n', 2), ('{"a": "7"}', 8)])
def test_arguments_that_can_be_understood_are(arguments: str, told: int) -> None:
    assert result_of(add, arguments) == told


@pytest.mark.parametrize("text", ["", "  "])
def test_no_arguments_at_all_are_an_empty_object(text: str) -> None:
    assert parsed_arguments(ToolCall("", "x", text)) == {}
    with pytest.raises(ToolCallError, match="the arguments of x are a list"):
        parsed_arguments(ToolCall("", "x", "[]"))


def test_arguments_that_do_not_fit_are_told_one_by_one_with_the_schema() -> None:
    problem = problem_of(add, {"a": "x", "c": 1})
    assert "the arguments do not fit:\n- a: " in problem
    assert "- c: " in problem
    assert '"a": {"type": "integer"}' in problem.replace('"title": "A", ', "")


def test_of_many_problems_a_few_are_told() -> None:
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    problem = problem_of(total, {"numbers": ["x"] * 500})
    assert problem.count("\n- ") == 11
    assert "- and 490 more" in problem


def test_an_unknown_tool_is_told_with_similar_names() -> None:
    agent, model = made(calls(("ad", {}), ("zzz", {})), say("ok"), tools=[add])
    agent.run("go")
    assert [told["error"] for told in model.asked[-1].results()] == [
        "there is no tool 'ad'. Did you mean add?",
        "there is no tool 'zzz'. Use only the tools that you were given.",
    ]


def test_a_name_that_fits_tools_of_two_servers_runs_neither() -> None:
    agent, model = made(call("read"), say("ok"))
    for server in ("a", "b"):
        entry: ToolEntry = {
            "name": f"mcp_{server}_read",
            "parameters": {},
            "_mcp_server": server,
            "_mcp_tool_name": "read",
        }
        agent.tool_registry.register({**entry, "function": lambda: "run"})
    agent.run("go")
    assert model.asked[-1].results()[0]["error"] == "there is no tool 'read'. Did you mean mcp_a_read, mcp_b_read?"


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("not so"), "not so"),
        (ToolError("as foreseen"), "as foreseen"),
        (ValueError(), "ValueError"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError("broken"), "RuntimeError: broken"),
        (
            FileNotFoundError(2, "No such file or directory", "x"),
            "FileNotFoundError: [Errno 2] No such file or directory: 'x'",
        ),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration(), "StopIteration"),
        (MemoryError(), "MemoryError"),
        (Odd(), "Odd"),
        (ValueError("half \ud800"), "half ?"),
    ],
)
def test_whatever_a_tool_raises_is_told_and_the_conversation_goes_on(error: BaseException, told: str) -> None:
    def fail() -> None:
        raise copy(error)  # one that is kept keeps all frames that it has passed

    assert problem_of(fail) == told


@pytest.mark.parametrize("error", [ValueError("not so"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_a_coroutine_raises_is_told_as_well(error: BaseException) -> None:
    async def fail() -> None:
        raise copy(error)  # one that is kept keeps all frames that it has passed

    assert problem_of(fail) in ("not so", "SystemExit: 3", "KeyboardInterrupt")


def test_a_type_error_is_told_with_the_arguments_that_are_expected() -> None:
    class Strict(Tool):
        def call(self, city: str) -> str:  # type: ignore[override]  # as authors write it
            return city

    agent, model = made(call("weather", town="Graz"), say("ok"), tools=[Strict("weather")])
    agent.run("go")
    problem = model.asked[-1].results()[0]["error"]
    assert "unexpected keyword argument 'town'" in problem
    assert "Expected arguments: " in problem


def test_what_a_tool_itself_finds_invalid_is_not_taken_for_its_arguments() -> None:
    class Record(BaseModel):
        size: int

    def read_record() -> str:
        return str(Record.model_validate({"size": "x"}))

    problem = problem_of(read_record)
    assert problem.startswith("1 validation error for Record")
    assert "the arguments do not fit" not in problem


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "(no output)"),
        (b"\xff\xfe", "[File: 2 bytes]"),
        (float("nan"), None),
        ({"content": [{"type": "image", "data": "A" * 5_000, "mimeType": "image/png"}]}, "[Image: image/png]"),
        ({"half": "\ud800"}, {"half": "?"}),
    ],
)
def test_odd_results_are_text_that_a_model_can_read(value: Any, told: Any) -> None:
    def give() -> Any:
        return value

    assert result_of(give) == told


def test_a_result_that_has_no_json_form_is_a_failure() -> None:
    def give() -> Any:
        return object()

    assert "has no JSON form (object)" in problem_of(give)


def test_results_and_failures_are_no_longer_than_they_may_be() -> None:
    def give(fails: bool) -> str:
        if fails:
            raise ValueError("\x00" * 50_000)
        return "x" * 50_000

    agent, model = made(
        calls(("give", {"fails": False}), ("give", {"fails": True})),
        say("ok"),
        tools=[give],
        chat_limits=ChatLimits(result_bytes=6_000),
    )
    agent.run("go")
    contents = [message["content"] for message in model.asked[-1].messages[-2:]]
    assert all(len(content) <= 6_000 + len('{"status": "error", "error": ""}') for content in contents)
    assert all("cut off: of 50,000 bytes" in content for content in contents)


def test_a_tool_that_does_not_end_is_given_up_and_the_model_is_told() -> None:
    free = threading.Event()

    def hang() -> None:
        free.wait(PATIENCE)

    problem = problem_of(hang, limits=ChatLimits(tool_timeout=0.05))
    free.set()
    assert problem == "hang did not finish within 0.05 s; what it has begun may still be going on"


def test_a_coroutine_that_does_not_end_is_cancelled() -> None:
    cancelled = threading.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    assert "hang did not finish" in problem_of(hang, limits=ChatLimits(tool_timeout=0.05))
    assert cancelled.wait(PATIENCE)


def test_a_tool_can_have_a_deadline_of_its_own() -> None:
    free = threading.Event()
    agent, model = made(call("hang"), say("ok"))
    with agent.tool_registry.filling():

        @tool(timeout=0.5)
        def hang() -> None:
            free.wait(PATIENCE)

    agent.run("go")
    free.set()
    assert "hang did not finish within 0.5 s" in model.asked[-1].results()[0]["error"]


def test_threads_that_hang_hold_up_other_tools_but_not_the_conversation() -> None:
    free = threading.Event()

    def hang() -> None:
        free.wait(PATIENCE)

    limits = ChatLimits(threads=1, tool_timeout=0.05)
    agent, model = made(
        call("hang"), call("add", a=1), say("ok"), say("still there"), tools=[hang, add], chat_limits=limits
    )
    assert agent.run("go") == "ok"
    assert agent.run("hello?", session_id="another") == "still there"
    free.set()
    assert model.asked[2].results()[0]["error"] == (
        "add was not run: within 0.05 s, no other tool came to an end to make room for it"
    )


def test_more_calls_than_can_wait_are_told_to_try_again() -> None:
    free, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        free.wait(PATIENCE)

    agent, model = made(
        call("hang"),
        call("hang"),
        say("ok"),
        tools=[hang],
        chat_limits=ChatLimits(threads=1, queue=0, tool_timeout=0.05),
    )
    agent.run("go")
    free.set()
    assert begun.is_set()
    assert "is busy: 1 calls running" in model.asked[-1].results()[0]["error"]


@pytest.mark.parametrize("timeout", ["soon", None])
def test_an_entry_written_by_hand_that_cannot_be_run_is_told_and_logged(
    timeout: Any, caplog: pytest.LogCaptureFixture
) -> None:
    entry: ToolEntry = {"name": "odd", "description": "Odd", "parameters": {}, "timeout": timeout}
    if timeout:
        entry["function"] = lambda: "run"
    with caplog.at_level(logging.INFO):
        problem = problem_of(entry)
    assert problem in ("odd cannot be run: could not convert string to float: 'soon'", "KeyError: 'function'")
    assert any(record.exc_info for record in caplog.records)


@pytest.mark.requirement("S4-26")
def test_tools_are_functions_async_functions_bound_methods_and_objects() -> None:
    class Weather(Tool):
        async def call(self, **kwargs: Any) -> Any:
            return {"city": kwargs["city"], "sun": True}

    class Counter:
        count = 0

        def increase(self, by: int) -> int:
            """Count."""
            self.count += by
            return self.count

    async def greet(name: str) -> str:
        await asyncio.sleep(0)
        return f"Hello {name}"

    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    wanted = calls(
        ("add", {"a": 1}),
        ("greet", {"name": "Ann"}),
        ("increase", {"by": 3}),
        ("weather", {"city": "Graz"}),
        ("weather", {}),
    )
    agent, model = made(
        wanted, say("ok"), tools=[add, greet, Counter().increase, Weather("weather", "Tell it", schema)]
    )
    agent.run("go")
    *told, refused = model.asked[-1].results()
    assert told == [2, "Hello Ann", 3, {"city": "Graz", "sun": True}]
    assert "do not fit the input schema of tool 'weather'" in refused["error"]


def test_something_that_is_no_tool_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(TypeError, match="'x' is no tool; expected a Tool, or a function"):
        made(tools=["x"])


@pytest.mark.parametrize(
    ("hints", "needed"),
    [
        ({"destructiveHint": True}, True),
        ({"destructiveHint": True, "readOnlyHint": True}, False),
        ({"destructiveHint": False}, False),
        ({"destructiveHint": "yes"}, False),
        ({}, False),
        (None, False),
        ("x", False),
    ],
)
def test_a_person_is_asked_where_a_tool_says_that_it_destroys(hints: Any, needed: bool) -> None:
    assert needs_confirmation({"annotations": hints}) is needed


def test_a_person_is_asked_about_the_tool_of_this_agent_and_no_other() -> None:
    def entry(server: str) -> ToolEntry:
        facts: ToolEntry = {"_mcp_server": server, "_mcp_tool_name": "delete", "annotations": {"destructiveHint": True}}
        return {"name": "delete", "description": "", "parameters": {}, "function": dict, **facts}

    shown: list[str] = []

    class Watching(AgentConsole):
        def confirm_tool_execution(self, tool_name: str, arguments: Any, timeout: float = 0) -> bool:
            shown.append(get_tool_display_name(tool_name))
            return True

        def _print(self, text: str, style: str) -> None:
            shown.append(text)

    agent, _ = made(call("delete"), say("ok"))
    agent.console = Watching()
    agent.tool_registry.register(entry("production"))
    other = ToolRegistry("other")
    other.register(entry("scratch"))
    assert get_tool_display_name("delete") == "delete (scratch)"
    assert agent.run("go") == "ok"
    assert [line for line in shown if "delete" in line] == [
        "delete (production)",
        "  Tool: delete (production)",
        "  Done: delete (production)",
    ]
    other.unregister("delete")
    agent.close()


def test_what_is_told_is_json() -> None:
    agent, model = made(call("nothing"), say("ok"))
    agent.run("go")
    assert json.loads(model.asked[-1].last["content"])["status"] == "error"
