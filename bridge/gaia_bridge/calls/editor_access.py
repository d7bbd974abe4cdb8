"""The files and terminals of the editor that an agent converses with, and the tool that is running.

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
    """The end of a command in a terminal of the editor."""

    output: str
    """The output of the command; only the end of it, if that is much."""
    exit_code: int | None = None
    """`None` if it was ended by a signal, or ran for too long."""
    signal: str | None = None
    is_truncated: bool = False
    """Whether the beginning of the output is missing."""
    has_timed_out: bool = False
    """Whether the command ran for too long, and was killed."""


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
        """Whether the editor lets agents write files."""
        ...

    @property
    def can_run(self) -> bool:
        """Whether the editor lets agents run commands in terminals."""
        ...

    def read_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Return a file as the person sees it, with changes that are not saved yet; or some lines, counted from 1."""
        ...

    async def aread_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Do the same as `read_text_file`, for coroutines."""
        ...

    def write_text_file(self, path: str, content: str) -> None:
        """Write a file; the editor makes the file if it is not there, and shows the change."""
        ...

    async def awrite_text_file(self, path: str, content: str) -> None:
        """Do the same as `write_text_file`, for coroutines."""
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
        """Do the same as `run`, for coroutines."""
        ...


class RunningTool(Struct, frozen=True):
    """A call of a tool, and its progress."""

    call: ToolBegun
    is_confirming: bool = False
    """Whether a person is being asked whether the tool may run at all."""


def running_tool() -> RunningTool | None:
    """Return the call of the tool that the calling code is, or works for."""
    return _running.get()


def enter_tool(context: Context, running: RunningTool | None) -> Context:
    """Make code that will run in `context` know its call. Returns the same context."""
    context.run(_running.set, running)
    return context


@contextmanager
def tool_in_task(running: RunningTool) -> Generator[None]:
    """Make the block, which is within one task, know its call."""
    token = _running.set(running)
    try:
        yield
    finally:
        _running.reset(token)
