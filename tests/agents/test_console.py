"""The consoles: one that speaks on stderr only, and one that does not speak."""

from __future__ import annotations

import io
import subprocess
import sys

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
