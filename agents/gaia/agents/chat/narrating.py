"""What a person sees of a turn, and is asked: through the agent's console, which may be slow, and never holds it up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any

import anyio

from gaia.agents.base.console import SilentConsole
from gaia.agents.chat.limits import ChatLimits
from gaia_bridge.errors import BusyError
from gaia_bridge.runtime import AgentRunner, Outcome

__all__ = ["Narrator"]

logger = logging.getLogger(__name__)

_FLUSH = 2.0
"""Seconds that the end of a turn waits for a slow terminal, so that an answer is printed below what led to it."""


class Narrator:
    """One console, and the one thread that it is used in.

    Args:
        console: Gives that of the agent. What it cannot say is not said: somebody else's may know fewer words.
        runner: Its thread.
        limits: How long a question may stay open.
    """

    def __init__(self, console: Callable[[], Any], runner: AgentRunner, limits: ChatLimits) -> None:
        self._console = console
        self._runner = runner
        self._limits = limits

    def tell(self, method: str, *arguments: Any) -> None:
        """Have the console print something, soon."""
        console = self._console()
        function = None if isinstance(console, SilentConsole) else getattr(console, method, None)
        if function is not None:
            with suppress(BusyError):  # a terminal that does not keep up misses lines
                self._runner.start(partial(function, *arguments), copy_context(), _log_failure)

    async def confirm(self, ask: Callable[[], bool], context: Context) -> bool:
        """Ask a person, after everything that was told before. No answer in time is no.

        Args:
            ask: Asks; may block.
            context: The context variables that it sees.
        """
        with anyio.move_on_after(self._limits.confirm_timeout), suppress(BusyError):
            outcome = await self._runner.run(ask, context)
            _log_failure(outcome)
            return outcome.value is True
        return False

    async def flush(self) -> None:
        """Wait until everything is printed; bounded."""
        if not isinstance(self._console(), SilentConsole):
            with anyio.move_on_after(_FLUSH), suppress(BusyError):
                await self._runner.run(lambda: None, copy_context())


def _log_failure(outcome: Outcome) -> None:
    if outcome.error is not None:
        logger.warning("the agent's console failed", exc_info=outcome.error)
