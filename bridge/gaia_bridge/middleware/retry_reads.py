"""Asks again where a server was not reached, and asking twice does no harm."""

from __future__ import annotations

import logging

import anyio

from gaia_bridge.calls.cancellation import forget_unreached, was_too_late, was_unreached
from gaia_bridge.errors import RequestError
from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON

logger = logging.getLogger(__name__)


class RetryReads(Middleware):
    """Tries again what changes nothing, where the connection to a server was lost before it answered.

    That is lists, resources, prompts, and tools that say of themselves `readOnlyHint` or `idempotentHint`. What a
    server or an agent has answered, be it an error, is its answer; a call that a server did not finish in time is not
    repeated either.

    Args:
        attempts: How often it is tried, with the first.
        wait: Seconds before the second attempt; twice as many before each further one.
        longest_wait: Seconds before any attempt, at most.

    Raises:
        ValueError: There would be no attempt.
    """

    def __init__(self, attempts: int = 3, *, wait: float = 0.2, longest_wait: float = 5.0) -> None:
        if attempts < 1 or wait < 0:
            raise ValueError(f"got {attempts} attempts, {wait:g} s apart; expected at least 1, and no negative wait")
        self._attempts = attempts
        self._wait = wait
        self._longest = longest_wait

    async def on_list(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Lists change nothing."""
        return await self._try(request, call_next)

    async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Reading changes nothing."""
        return await self._try(request, call_next)

    async def on_get_prompt(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Prompts change nothing."""
        return await self._try(request, call_next)

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        """A tool may change something, unless it says otherwise."""
        told = request.annotations
        is_harmless = told.get("readOnlyHint") is True or told.get("idempotentHint") is True
        return await (self._try if is_harmless else _once)(request, call_next)

    async def _try(self, request: McpRequest, call_next: CallNext) -> JSON:
        if request.is_continued:  # the call that its answers belong to is gone with the connection
            return await call_next(request)
        wait = self._wait
        for attempt in range(1, self._attempts):
            forget_unreached()
            try:
                result = await call_next(request)
            except RequestError as error:
                if not _is_worth_it():
                    raise
                reason = str(error)
            else:
                if result.get("isError") is not True or not _is_worth_it():
                    return result
                reason = "its server was not reached"
            what = one_line(f"{request.method} {request.name}", 120).rstrip()
            logger.info("%s: attempt %d of %d: %s", what, attempt, self._attempts, one_line(reason, 300))
            await anyio.sleep(min(wait, self._longest))
            wait *= 2
        return await call_next(request)


def _is_worth_it() -> bool:
    return was_unreached() and not was_too_late()


async def _once(request: McpRequest, call_next: CallNext) -> JSON:
    return await call_next(request)
