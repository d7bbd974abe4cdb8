"""The console's part in a turn: output and questions to a person. A slow console never holds a turn up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any

import anyio

from gaia.agents.base.console import SilentConsole
from gaia.agents.chat.limits import ChatLimits
from gaia_bridge.errors import BusyError
from gaia_bridge.runtime.agent_runner import AgentRunner, LoopHandle, Outcome

__all__ = ["ConsoleOutput"]

logger = logging.getLogger(__name__)


class ConsoleOutput:
    """One console, and the one thread that it is used in.

    Args:
        console: Gives that of the agent. What it cannot say is not said: somebody else's may know fewer words.
        runner: Its thread.
        asking: Threads for questions that are put to clients instead: they do not wait for each other.
        limits: How long a question may stay open.
    """

    def __init__(
        self, console: Callable[[], Any], runner: AgentRunner, asking: AgentRunner, limits: ChatLimits
    ) -> None:
        self._console = console
        self._runner = runner
        self._asking = asking
        self._limits = limits
        self._hangs = False

    def tell(self, method: str, *arguments: Any) -> None:
        """Have the console print something, soon."""
        console = self._console()
        if isinstance(console, SilentConsole):
            return
        with suppress(BusyError):  # a terminal that does not keep up misses lines
            self._runner.start(partial(_say, console, method, arguments), copy_context(), _log_failure)

    async def confirm(self, ask: Callable[[], bool], context: Context, *, is_client: bool = False) -> bool:
        """Ask a person, after everything that was told before. No answer in time is no.

        Args:
            ask: Asks; may block.
            context: The context variables that it sees.
            is_client: Whether a client's user is asked, and not the one at the console.
        """
        with anyio.move_on_after(self._limits.confirm_timeout), suppress(BusyError):
            outcome = await (self._asking if is_client else self._runner).run(ask, context)
            _log_failure(outcome)
            return outcome.value is True
        return False

    async def flush(self) -> None:
        """Wait until everything is printed, so that an answer stands below what led to it.

        Not for long; and not again for a console that hangs, until it has come back.
        """
        if self._hangs or isinstance(self._console(), SilentConsole):
            return
        loop, printed = LoopHandle(), anyio.Event()
        has_come_back = threading.Event()

        def come_back(_: Outcome) -> None:
            has_come_back.set()
            self._hangs = False
            loop.call_soon(printed.set)

        with suppress(BusyError):
            self._runner.start(lambda: None, copy_context(), come_back)
            with anyio.move_on_after(self._limits.console_patience) as patience:
                await printed.wait()
            if patience.cancelled_caught:
                self._hangs = True
                if has_come_back.is_set():  # just now
                    self._hangs = False


def _say(console: object, method: str, arguments: tuple[Any, ...]) -> None:
    function = getattr(console, method, None)
    if function is not None:
        function(*arguments)


def _log_failure(outcome: Outcome) -> None:
    if outcome.error is not None:
        logger.warning("the agent's console failed", exc_info=outcome.error)
