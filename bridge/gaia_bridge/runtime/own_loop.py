"""The event loop that a coroutine created an agent on: the loop is kept with the agent, whose coroutines run there.

Connections, locks and tasks that a factory opens belong to the loop on which it was awaited.
"""

from __future__ import annotations

import concurrent.futures
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final

from gaia_bridge.runtime.agent_runner import AgentLoop, Outcome, RunsCoroutines

_ATTRIBUTE: Final = "_mcp_own_loop"


def own_loop_of(agent: object) -> OwnLoop | None:
    """Return the event loop that an agent was created on, if that is kept with the agent."""
    loop = getattr(agent, "__dict__", {}).get(_ATTRIBUTE)
    return loop if isinstance(loop, OwnLoop) else None


class FactoryTimeoutError(Exception):
    """The factory of an agent did not end in time."""


class OwnLoop:
    """An event loop in a thread of its own. It ends with the last of its leases, or when it is garbage-collected."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()  # re-entrant: a lease may be given back by garbage collection
        self._leases = 0
        self._loop = self._new_loop()

    def run(self, awaitable: Awaitable[Any], seconds: float, farewell: float) -> Any:
        """Await something on the loop, and wait for it in the calling thread.

        Args:
            seconds: The time after which it is cancelled.
            farewell: Seconds that it then has to end.

        Raises:
            FactoryTimeoutError: The awaitable did not end in time.
            BaseException: Every exception that the awaitable raised.
        """
        done: concurrent.futures.Future[Outcome] = concurrent.futures.Future()
        cancel = self._loop.submit(awaitable, lambda value: value, copy_context(), done.set_result)
        try:
            outcome = done.result(seconds)
        except BaseException as error:  # Ctrl-C, too
            cancel()
            with suppress(concurrent.futures.TimeoutError):
                done.result(farewell)
            self._loop.close()
            if isinstance(error, TimeoutError):
                raise FactoryTimeoutError from None
            raise
        if outcome.error is not None:
            self._loop.close()
            raise outcome.error
        return outcome.value

    def keep_with(self, agent: object) -> bool:
        """Store the loop for `own_loop_of(agent)`; return whether that was possible. If not, the loop is ended."""
        try:
            object.__setattr__(agent, _ATTRIBUTE, self)
        except (AttributeError, TypeError):
            self._loop.close()
            return False
        return True

    def lease(self) -> RunsCoroutines:
        """Return the loop, or a new one if it has ended, for a user whose `close` counts: the last one ends it."""
        with self._lock:
            if not self._leases and self._loop.is_closed:
                self._loop = self._new_loop()
            self._leases += 1
            return _Lease(self._loop, self._give_back)

    def borrowed(self) -> RunsCoroutines:
        """Return the loop for a user whose `close` does not end it."""
        return _Lease(self._loop, lambda: None)

    def _give_back(self) -> None:
        with self._lock:
            self._leases -= 1
            if not self._leases:
                self._loop.close()

    def _new_loop(self) -> AgentLoop:
        loop = AgentLoop(self._name)
        weakref.finalize(self, loop.close).atexit = False
        return loop


class _Lease:
    """A lease of the loop. Implements `RunsCoroutines`. One that is garbage-collected is given back."""

    def __init__(self, loop: AgentLoop, give_back: Callable[[], None]) -> None:
        self._loop = loop
        self._give_back = weakref.finalize(self, give_back)
        self._give_back.atexit = False
        self.submit = loop.submit

    def close(self) -> None:
        """Give the lease back; a second call does nothing."""
        self._give_back()

    async def join(self, seconds: float) -> None:
        """Wait at most so many seconds for the end of the loop, if it was closed."""
        if self._loop.is_closed:
            await self._loop.join(seconds)
