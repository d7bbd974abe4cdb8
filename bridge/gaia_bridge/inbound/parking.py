"""Calls that wait for a client to come back with an answer.

A client of 2026-07-28 cannot be asked while it waits; it is given the question as the result, and asks again with the
answer. In between, the call that asked stands here (design section 4, row 1). The handle travels in `requestState`,
which the server seals and binds to the request, so a handle cannot be guessed, moved or used twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from gaia_bridge.errors import BusyError
from gaia_bridge.inbound.agent_call import AgentCall
from gaia_bridge.runtime import LoopHandle

__all__ = ["Parking"]


class Parking:
    """The parked calls of one source.

    Args:
        name: The source, for error texts.
        places: How many calls may wait at once.
        patience: Seconds after which a call that nobody came back for is cancelled.
    """

    def __init__(self, name: str, places: int, patience: float) -> None:
        self._name = name
        self._places = places
        self._patience = patience
        self._loop = LoopHandle()
        self._parked: dict[str, tuple[AgentCall, Callable[[], None]]] = {}

    def park(self, call: AgentCall) -> str:
        """Let a call wait; returns the handle that brings it back.

        Raises:
            BusyError: All places are taken.
        """
        if len(self._parked) >= self._places:
            raise BusyError(self._name, 0, len(self._parked))
        handle = secrets.token_urlsafe(16)
        self._parked[handle] = (call, self._loop.call_later(self._patience, lambda: self._expire(handle)))
        return handle

    def take(self, handle: str) -> AgentCall | None:
        """The call that waits under `handle`, no longer parked; `None` if there is none (any more)."""
        call, stop_timer = self._parked.pop(handle, (None, None))
        if stop_timer is not None:
            stop_timer()
        return call

    def close(self) -> None:
        """Cancel every parked call."""
        for handle in list(self._parked):
            self._cancel(handle, "the agent is no longer published")

    def _expire(self, handle: str) -> None:
        self._cancel(handle, f"the client did not answer within {self._patience:g} s")

    def _cancel(self, handle: str, reason: str) -> None:
        if (call := self.take(handle)) is not None:
            call.cancel(reason)
