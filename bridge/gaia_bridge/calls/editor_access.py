"""What an agent has of the editor that it converses with: its files, its terminals, and which tool asks.

Files are read with the text that is not saved yet. An editor shows a question at the call of the tool that asks.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Protocol

from msgspec import Struct

from gaia_bridge.chat_types import ToolBegun

_running: ContextVar[RunningTool | None] = ContextVar("gaia_bridge_running_tool", default=None)


class CommandEnd(Struct, frozen=True):
    """How a command in a terminal of the editor has ended."""

    output: str
    """What it has written: the end of it, if that is much."""
    exit_code: int | None = None
    """`None` if it was ended by a signal, or ran for too long."""
    signal: str | None = None
    is_truncated: bool = False
    """Whether the beginning of the output is missing."""
    has_timed_out: bool = False
    """Whether it ran for too long, and was killed."""


class EditorAccess(Protocol):
    """The editor that an agent converses with. Paths that are not absolute begin in the folder of the conversation.

    Every method may be called from a thread, which waits; coroutines use the `a` twins. All raise `AnswerError` if the
    editor does not let agents do that, refuses, or does not answer, and `RequestCancelledError` once the turn is over.
    """

    @property
    def can_read(self) -> bool:
        """Whether the editor lets agents read files."""
        ...

    @property
    def can_write(self) -> bool:
        """Whether it lets them write files."""
        ...

    @property
    def can_run(self) -> bool:
        """Whether it lets them run commands in terminals."""
        ...

    def read_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """A file as the person sees it, with what is not saved yet.

        Args:
            path: Where.
            line: The first line that is wanted, from 1 on.
            limit: How many lines.
        """
        ...

    async def aread_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """`read_text_file` for coroutines."""
        ...

    def write_text_file(self, path: str, content: str) -> None:
        """Write a file; the editor makes it if it is not there, and shows the change.

        Args:
            path: Where.
            content: All of it.
        """
        ...

    async def awrite_text_file(self, path: str, content: str) -> None:
        """`write_text_file` for coroutines."""
        ...

    def run(
        self,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> CommandEnd:
        """Run a command in a terminal that the person sees, and wait for its end.

        Args:
            command: The program.
            args: Its arguments.
            env: Variables for it.
            cwd: Its folder; that of the conversation by default.
            timeout: Seconds, at most `AcpLimits.command_timeout`; then it is killed.
        """
        ...

    async def arun(
        self,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds the command, which is killed
    ) -> CommandEnd:
        """`run` for coroutines."""
        ...


class RunningTool(Struct, frozen=True):
    """A call, and how far it is."""

    call: ToolBegun
    is_confirming: bool = False
    """Whether a person is asked whether it may run at all."""


def running_tool() -> RunningTool | None:
    """The tool that the calling code is, or works for."""
    return _running.get()


def enter_tool(context: Context, running: RunningTool | None) -> Context:
    """Have code that will run in `context` know its call. Returns the same context."""
    context.run(_running.set, running)
    return context


@contextmanager
def tool_in_task(running: RunningTool) -> Generator[None]:
    """Have the block, which is within one task, know its call."""
    token = _running.set(running)
    try:
        yield
    finally:
        _running.reset(token)
