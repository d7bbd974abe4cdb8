"""The event loop that an agent was made on, where a coroutine made it: it is kept with the agent, which goes on there.

What a factory opens (connections, locks, tasks) belongs to the loop that it was awaited on.
"""

from __future__ import annotations

import concurrent.futures
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Final

from gaia_bridge.runtime.agent_runner import AgentLoop, Outcome, RunsCoroutines

_ATTRIBUTE: Final = "_mcp_own_loop"


def own_loop_of(agent: object) -> OwnLoop | None:
    """The event loop that an agent was made on, if that is kept with it."""
    found = getattr(agent, "__dict__", {}).get(_ATTRIBUTE)
    return found if isinstance(found, OwnLoop) else None


class FactoryTimeout(Exception):
    """It did not end in time."""


class OwnLoop:
    """An event loop in a thread of its own. It ends with the last of its leases, or when it is forgotten.

    Args:
        name: Whose it is, for the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()  # re-entrant: a lease may be given back by garbage collection
        self._leases = 0
        self._loop = self._new_loop()

    def run(self, awaitable: Awaitable[Any], seconds: float, farewell: float) -> Any:
        """Await something on the loop, and wait for it in the calling thread.

        Args:
            seconds: How long; then it is cancelled.
            farewell: Seconds that it is given to end then.

        Raises:
            FactoryTimeout: It did not end in time.
            BaseException: What it raised.
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
                raise FactoryTimeout from None
            raise
        if outcome.error is not None:
            self._loop.close()
            raise outcome.error
        return outcome.value

    def keep_with(self, agent: object) -> bool:
        """Have `own_loop_of(agent)` be this. Returns whether the agent takes an attribute."""
        try:
            object.__setattr__(agent, _ATTRIBUTE, self)
        except (AttributeError, TypeError):
            self._loop.close()
            return False
        return True

    def lease(self) -> RunsCoroutines:
        """The loop, for somebody who closes what he is given. Where it has ended, it is a new one."""
        with self._lock:
            if not self._leases and self._loop.is_closed:
                self._loop = self._new_loop()
            self._leases += 1
            return _Lease(self._loop, self._give_back)

    def borrowed(self) -> RunsCoroutines:
        """The loop, for somebody with whom it does not end."""
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
    """Implements `RunsCoroutines`. One that is forgotten gives itself back."""

    def __init__(self, loop: AgentLoop, give_back: Callable[[], None]) -> None:
        self._loop = loop
        self._give_back = weakref.finalize(self, give_back)
        self._give_back.atexit = False

    def submit(
        self,
        awaitable: Awaitable[Any],
        convert: Callable[[Any], Any],
        context: Context,
        on_done: Callable[[Outcome], None],
    ) -> Callable[[], object]:
        """Run `awaitable` as a task of the loop; returns a thread-safe function that cancels it."""
        return self._loop.submit(awaitable, convert, context, on_done)

    def close(self) -> None:
        """Give it back, once."""
        self._give_back()

    async def join(self, seconds: float) -> None:
        """Wait for its end, if it was closed, at most so long."""
        if self._loop.is_closed:
            await self._loop.join(seconds)
