"""Which tool of an agent is running, for whoever is asked something by it: an editor shows the question at its call."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar

from msgspec import Struct

from gaia_bridge.chat_types import ToolBegun


class RunningTool(Struct, frozen=True):
    """A call, and how far it is."""

    call: ToolBegun
    is_confirming: bool = False
    """Whether a person is asked whether it may run at all."""


_running: ContextVar[RunningTool | None] = ContextVar("gaia_bridge_running_tool", default=None)


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
