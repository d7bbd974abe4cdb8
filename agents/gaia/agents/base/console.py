"""Where an agent talks to the person who runs it: always stderr, because stdout may be carrying a protocol."""

from __future__ import annotations

import json
import re
import select
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from gaia.agents.base.tools import get_tool_display_label, get_tool_display_name
from gaia_bridge.text.escaping import one_line

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

__all__ = ["CONFIRM_TIMEOUT", "AgentConsole", "Console", "SilentConsole", "shown_arguments"]

CONFIRM_TIMEOUT: Final = 300.0
"""Seconds for a person to confirm a tool call; silence is no."""

_SHOWN: Final = 2_000
"""Characters of a call's arguments that a person is asked to judge; if there are more, the text says so."""

_PHRASES = {
    "index_document": "Adding a document to the index...",
    "list_indexed_documents": "Listing the indexed documents...",
    "query_documents": "Searching through indexed documents...",
    "query_specific_file": "Searching one document...",
    "read_file": "Reading a file...",
    "run_shell_command": "Running a shell command...",
    "search_file": "Looking for files...",
    "summarize_document": "Summarizing a document...",
    "write_file": "Writing a file...",
}
"""The progress texts of GAIA's own tools; other tools set theirs with `tool(display_label=...)`."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Console(Protocol):
    """The methods of a console that an agent needs; `_create_console` may return any object of this shape.

    It may have more of the methods of `AgentConsole`; what it has not is not shown, and nobody is asked.
    """

    def print_tool_usage(self, tool_name: str) -> None:
        """Say that a tool is being used, given its registry key."""
        ...

    def print_info(self, message: str) -> None:
        """Say something that is good to know."""
        ...

    def print_warning(self, message: str) -> None:
        """Say that something is not as it should be, and that work goes on."""
        ...

    def print_error(self, message: str) -> None:
        """Say that something failed."""
        ...


class AgentConsole:
    """A `rich` console on stderr, loaded when the first line is printed.

    Text is shown as it is: no markup, and control characters escaped, since names and messages may come from a
    server. When nobody reads stderr any more the console falls silent; an agent must not fail for it.
    """

    def print_tool_usage(self, tool_name: str) -> None:
        """Say what a tool does in words if there are any, else which tool is used: `tool (server)` for MCP tools."""
        label = get_tool_display_label(tool_name) or _PHRASES.get(tool_name)
        if label:
            self._print(label, "bold blue")
            return
        display_name = " ".join(get_tool_display_name(tool_name).split())
        self._print("🔧 Executing operation", "bold blue")
        self._print(f"  Tool: {display_name}", "dim")

    def print_step_header(self, step: int, limit: int) -> None:
        """Say that the model is asked again."""
        self._print(f"Step {step}/{limit}", "dim")

    def print_tool_complete(self, tool_name: str, problem: str | None = None) -> None:
        """Say that a tool is done, and what went wrong, if anything did."""
        display_name = " ".join(get_tool_display_name(tool_name).split())
        if problem is None:
            self._print(f"  Done: {display_name}", "dim green")
        else:
            self._print(f"  Failed: {display_name}: {one_line(problem)}", "yellow")

    def confirm_tool_execution(
        self, tool_name: str, arguments: Mapping[str, Any], timeout: float = CONFIRM_TIMEOUT
    ) -> bool:
        """Ask whether a tool may be used. Without a terminal nobody can be asked, which is no.

        Args:
            tool_name: Its registry key.
            arguments: What it would be called with.
            timeout: Seconds after which silence is no.
        """
        display_name = " ".join(get_tool_display_name(tool_name).split())
        if not _is_terminal():
            self.print_warning(
                f"{display_name} may destroy something, and there is no terminal to ask at: it is not run. "
                "Agent(confirm_destructive=False) runs such tools without asking."
            )
            return False
        _forget_what_was_typed()
        self._print(f"{display_name} may destroy something. Arguments: {shown_arguments(arguments)}", "bold yellow")
        self._print("Run it? Type y for yes; anything else is no.", "bold yellow")
        if not select.select([sys.stdin], [], [], timeout)[0]:
            self.print_warning(f"no answer within {timeout:g} s: {display_name} is not run")
            return False
        return sys.stdin.readline().strip().casefold() in ("y", "yes")

    def print_info(self, message: str) -> None:
        """Say something that is good to know."""
        self._print(f"Info: {message}", "blue")

    def print_warning(self, message: str) -> None:
        """Say that something is not as it should be, and that work goes on."""
        self._print(f"Warning: {message}", "yellow")

    def print_error(self, message: str) -> None:
        """Say that something failed."""
        self._print(f"Error: {message}", "bold red")

    def _print(self, text: str, style: str) -> None:
        text = _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
        try:
            self._rich.print(text, style=style, markup=False, highlight=False, emoji=False, soft_wrap=True)
        except (OSError, ValueError):
            # ValueError is what a closed file raises.
            self._rich.quiet = True

    @cached_property
    def _rich(self) -> RichConsole:
        from rich.console import Console as RichConsole

        class Stderr(RichConsole):
            def on_broken_pipe(self) -> None:
                # rich would redirect stdout, which is not ours, and exit the process.
                self.quiet = True

        return Stderr(stderr=True)


def shown_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a tool call in one line, shortened, for a person to judge."""
    text = json.dumps(dict(arguments), ensure_ascii=False, default=str)
    more = f" (of {len(text):,} characters, {_SHOWN:,} are shown)" if len(text) > _SHOWN else ""
    return one_line(text, _SHOWN) + more


def _is_terminal() -> bool:
    try:
        return sys.stdin.isatty()
    except (AttributeError, ValueError):  # there is none, or it was closed
        return False


def _forget_what_was_typed() -> None:
    """Discard the input from before the question: it is no answer."""
    with suppress(ImportError):  # on Windows
        import termios

        with suppress(OSError, ValueError, termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


class SilentConsole:
    """A console that prints nothing, for tests and for agents that serve others."""

    def print_tool_usage(self, tool_name: str) -> None:
        """Print nothing."""

    def print_step_header(self, step: int, limit: int) -> None:
        """Print nothing."""

    def print_tool_complete(self, tool_name: str, problem: str | None = None) -> None:
        """Print nothing."""

    def confirm_tool_execution(self, tool_name: str, arguments: Mapping[str, Any], timeout: float = 0) -> bool:
        """Refuse, since no person is there."""
        return False

    def print_info(self, message: str) -> None:
        """Print nothing."""

    def print_warning(self, message: str) -> None:
        """Print nothing."""

    def print_error(self, message: str) -> None:
        """Print nothing."""
