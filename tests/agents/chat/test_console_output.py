"""What a person sees of a turn: a console may be slow, may fail or hang, and never holds a turn up."""

from __future__ import annotations

import logging
import secrets
import threading
from functools import partial
from typing import Any

import pytest

from gaia.agents.base import Agent
from gaia.agents.base.console import Console
from gaia.agents.chat.limits import ChatLimits
from tests.support.fake_model import Answer, FakeModel, call, calls, say
from tests.support.processes import threads_named
from tests.support.waiting import PATIENCE, eventually


class Noting:
    """A console that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("print_", "confirm_")):
            raise AttributeError(name)
        return partial(self._note, name)

    def _note(self, *line: Any) -> None:
        self.lines.append(line)


def paint() -> str:
    """Paint."""
    return "painted"


def fail() -> None:
    """Fail."""
    raise ValueError("no colour")


def with_console(console: Any, *answers: Answer, **options: Any) -> Agent:
    class Seen(Agent):
        def _create_console(self) -> Console:
            return console  # type: ignore[no-any-return]  # whatever a test makes of it

    return Seen(model=FakeModel(*answers), tools=[paint, fail], **options)


def test_steps_and_tools_are_told_in_their_order_before_the_answer_is_there() -> None:
    console = Noting()
    with_console(console, call("paint"), call("fail"), say("ok")).run("go")
    assert console.lines == [
        ("print_step_header", 1, 20),
        ("print_tool_usage", "paint"),
        ("print_tool_complete", "paint", None),
        ("print_step_header", 2, 20),
        ("print_tool_usage", "fail"),
        ("print_tool_complete", "fail", "no colour"),
        ("print_step_header", 3, 20),
    ]


def test_too_many_steps_and_cut_answers_are_told() -> None:
    console = Noting()
    with_console(console, call("paint"), say("so f", finish_reason="length")).run("go", max_steps=1)
    assert [line[1] for line in console.lines if line[0] == "print_warning"] == [
        "1 steps were not enough; the model is asked to conclude",
        "the model's answer was cut off at its limit of tokens",
    ]


def test_a_console_that_knows_few_words_is_told_what_it_knows() -> None:
    class Terse:
        used: list[str] = []

        def print_tool_usage(self, tool_name: str) -> None:
            self.used.append(tool_name)

    assert with_console(Terse(), call("paint"), say("ok")).run("go") == "ok"
    assert Terse.used == ["paint"]


class Failing:
    """A console that is broken."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("out of paper")


def test_a_console_that_fails_is_logged_and_the_conversation_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert with_console(Failing(), calls(("paint", {}), ("fail", {})), say("ok")).run("go") == "ok"
    assert "the agent's console failed" in caplog.text
    assert "out of paper" in caplog.text


class Hanging:
    """A console that hangs until it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.hung = 0

    def print_step_header(self, step: int, limit: int) -> None:
        self.hung += 1
        self.free.wait(PATIENCE)


def test_a_console_that_hangs_is_waited_for_once_and_again_when_it_has_come_back() -> None:
    console = Hanging()
    limits = ChatLimits(console_patience=0.05, console_lines=2)
    agent = with_console(console, *[say("ok")] * 10_000, chat_limits=limits)
    for _ in range(6):  # more lines than may wait
        assert agent.run("go") == "ok"
    assert console.hung == 1
    console.free.set()
    eventually(lambda: agent.run("go", session_id=secrets.token_hex()) == "ok" and console.hung > 1)


def test_nothing_is_started_for_a_silent_console() -> None:
    before = threading.enumerate()
    agent = Agent(silent_mode=True, model=FakeModel(say("ok")))
    agent.run("go")
    assert not threads_named("agent Agent console", before)
