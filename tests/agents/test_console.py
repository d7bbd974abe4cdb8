"""The consoles: one that speaks on stderr only, and one that does not speak."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest

from gaia import AgentConsole, SilentConsole
from gaia.agents.base.console import Console
from gaia.agents.base.tools import ToolRegistry, tool


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable makes `rich` treat a captured stream as a terminal, as some test services ask it to."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def register_acer_tool() -> str:
    name = "mcp_acer_launch_experience_zone"
    ToolRegistry("test").register(
        {
            "name": name,
            "description": "[MCP:acer] Launch it",
            "parameters": {},
            "_mcp_server": "acer",
            "_mcp_tool_name": "launch_experience_zone",
        }
    )
    return name


def say_everything(console: Console) -> None:
    console.print_tool_usage("search-code")
    console.print_info("good to know")
    console.print_warning("take care")
    console.print_error("it failed")


@pytest.mark.requirement("S3-11")
def test_a_tool_of_a_server_is_shown_by_its_own_name_and_its_server(capsys: pytest.CaptureFixture[str]) -> None:
    AgentConsole().print_tool_usage(register_acer_tool())
    shown = capsys.readouterr().err
    assert "🔧 Executing operation\n" in shown
    assert "Tool: launch_experience_zone (acer)\n" in shown
    assert "mcp_acer" not in shown


@pytest.mark.requirement("S3-12")
def test_a_native_tool_with_a_phrase_is_shown_by_it_alone(capsys: pytest.CaptureFixture[str]) -> None:
    AgentConsole().print_tool_usage("query_documents")
    assert capsys.readouterr().err == "Searching through indexed documents...\n"


@pytest.mark.requirement("S3-12")
def test_a_tool_can_bring_its_own_phrase(capsys: pytest.CaptureFixture[str]) -> None:
    @tool(display_label="Counting words...")
    def count_words(text: str) -> int:
        return len(text.split())

    AgentConsole().print_tool_usage("count_words")
    assert capsys.readouterr().err == "Counting words...\n"
    assert count_words("a b") == 2


@pytest.mark.requirement("S3-12")
def test_any_other_tool_is_shown_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    AgentConsole().print_tool_usage("search-code")
    assert capsys.readouterr().err == "🔧 Executing operation\n  Tool: search-code\n"


def test_the_agent_console_says_everything_on_stderr_and_nothing_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    say_everything(AgentConsole())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[2:] == ["Info: good to know", "Warning: take care", "Error: it failed"]


def test_the_silent_console_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    say_everything(SilentConsole())
    assert capfd.readouterr() == ("", "")


def test_text_is_shown_as_it_is_without_markup_wrapping_or_emoji_codes(capsys: pytest.CaptureFixture[str]) -> None:
    message = "[bold]not markup[/bold] [MCP:x] :smile: " + "long " * 60 + "end"
    AgentConsole().print_info(message)
    assert capsys.readouterr().err == f"Info: {message}\n"


def test_a_name_from_a_server_cannot_send_commands_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    AgentConsole().print_tool_usage("evil\x1b[2J\x07\nTool: harmless\x9b")
    assert capsys.readouterr().err == "🔧 Executing operation\n  Tool: evil\\x1b[2J\\x07 Tool: harmless\\x9b\n"


def test_a_message_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    AgentConsole().print_error("first\nsecond\rthird")
    assert capsys.readouterr().err == "Error: first\nsecond\\rthird\n"


def test_a_console_without_a_terminal_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    console = AgentConsole()
    stderr.close()
    say_everything(console)
    late = io.StringIO()
    monkeypatch.setattr(sys, "stderr", late)
    console.print_info("nobody listened before")
    assert late.getvalue() == ""


def test_a_reader_that_goes_away_ends_neither_the_agent_nor_its_stdout() -> None:
    program = (
        "import sys, gaia\n"
        "console = gaia.AgentConsole()\n"
        "sys.stdin.read()\n"
        "for _ in range(3):\n"
        "    console.print_info('anybody there?')\n"
        "sys.stdout.write('still here')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        child.stderr.close()
        child.stdin.close()
        assert child.stdout.read() == b"still here"


def test_rich_is_loaded_when_the_first_line_is_printed() -> None:
    program = (
        "import sys, gaia\n"
        "seen = ['pydantic' in sys.modules]\n"
        "console = gaia.AgentConsole()\n"
        "seen.append('rich' in sys.modules)\n"
        "console.print_info('now')\n"
        "seen.append('rich' in sys.modules)\n"
        "print(seen)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, encoding="utf-8", check=True)
    assert (done.stdout, done.stderr) == ("[False, False, True]\n", "Info: now\n")


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    import gaia

    with pytest.raises(AttributeError, match="module 'gaia' has no attribute 'LoudConsole'"):
        gaia.LoudConsole  # noqa: B018  # reading it is the test


class Person:
    """Somebody at a terminal, who answers when the question is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys, terminal = os.openpty()
        self.terminal: TextIO = os.fdopen(terminal, encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", self.terminal)

    def types(self, text: str) -> None:
        os.write(self.keys, text.encode())


class Answering(AgentConsole):
    """A console at which somebody answers as soon as the question is there."""

    def __init__(self, person: Person, answer: str) -> None:
        self.person = person
        self.answer = answer
        self.shown: list[str] = []

    def _print(self, text: str, style: str) -> None:
        self.shown.append(text)
        if text.startswith("Run it?"):
            self.person.types(self.answer)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    """Somebody is there."""
    if not hasattr(os, "openpty"):
        pytest.skip("there are no terminals of this kind on this system")
    somebody = Person(monkeypatch)
    yield somebody
    somebody.terminal.close()
    os.close(somebody.keys)


@pytest.mark.parametrize(
    ("answer", "confirmed"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("yesterday\n", False)]
)
def test_a_person_is_asked_whether_a_tool_may_run(person: Person, answer: str, confirmed: bool) -> None:
    console = Answering(person, answer)
    assert console.confirm_tool_execution("wipe", {"path": "/"}) is confirmed
    assert console.shown[0] == 'wipe may destroy something. Arguments: {"path": "/"}'


def test_what_was_typed_before_the_question_is_no_answer(person: Person) -> None:
    person.types("y\n")
    assert Answering(person, "n\n").confirm_tool_execution("wipe", {}) is False


def test_the_end_of_input_is_no(person: Person) -> None:
    assert Answering(person, "\x04").confirm_tool_execution("wipe", {}) is False


def test_no_answer_in_time_is_no(person: Person) -> None:
    console = Answering(person, "")
    assert console.confirm_tool_execution("wipe", {}, timeout=0.01) is False
    assert console.shown[-1] == "Warning: no answer within 0.01 s: wipe is not run"


@pytest.mark.parametrize("stdin", [None, io.StringIO("y\n"), "closed"])
def test_without_a_terminal_nobody_can_be_asked(
    stdin: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if stdin == "closed":
        stdin = io.StringIO()
        stdin.close()
    monkeypatch.setattr(sys, "stdin", stdin)
    assert AgentConsole().confirm_tool_execution("wipe", {}) is False
    assert "there is no terminal to ask at: it is not run" in capsys.readouterr().err
    assert SilentConsole().confirm_tool_execution("wipe", {}) is False


def test_arguments_cannot_hide_behind_their_length_or_control_characters(person: Person) -> None:
    console = Answering(person, "n\n")
    console.confirm_tool_execution("wipe", {"a": "x\x1b[2J\n" + "y" * 5_000, "path": "/"})
    [shown] = [text for text in console.shown if "Arguments" in text]
    assert shown.endswith(" (of 5,034 characters, 2,000 are shown)")
    assert "\n" not in shown


def test_steps_and_ends_of_tools_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    console = AgentConsole()
    console.print_step_header(2, 20)
    console.print_tool_complete(register_acer_tool())
    console.print_tool_complete("wipe", "not\nallowed")
    assert capsys.readouterr().err == (
        "Step 2/20\n  Done: launch_experience_zone (acer)\n  Failed: wipe: not allowed\n"
    )
