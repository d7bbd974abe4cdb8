"""Small middleware: at most so many requests, a line in the log for each, and another try where that does no harm."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Collection
from typing import Final

import anyio

from gaia_bridge.calls.cancellation import forget_unreached, was_too_late, was_unreached
from gaia_bridge.errors import ProtocolError, RequestError, ToolError
from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
from gaia_bridge.protocol.codes import INTERNAL_ERROR
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON

_CLIENTS: Final = 1_024
"""Clients that are remembered; of more, the one that asked longest ago begins anew."""

logger = logging.getLogger(__name__)


class RateLimit(Middleware):
    """Refuses requests that come too fast, and says when to try again.

    A bucket of `requests` tokens that is filled evenly within `seconds`: so many may come at once after a pause. A
    client of 2026-07-28 over HTTP is known by its address, as nothing else ties its requests together, and so is one of
    OpenAI's API that names no session. The further rounds of a request are no new ones.

    Args:
        requests: How many.
        seconds: In how much time.
        per_client: Whether each client may have so many; else all of them together.
        methods: The methods that count.

    Raises:
        ValueError: There would be none at all.
    """

    def __init__(
        self,
        requests: int,
        seconds: float = 60.0,
        *,
        per_client: bool = True,
        methods: Collection[str] = ("tools/call", "resources/read", "prompts/get", "completion/complete"),
    ) -> None:
        if requests < 1 or seconds <= 0:
            raise ValueError(f"got {requests} requests in {seconds:g} s; expected at least 1, in more than 0 s")
        self._requests = requests
        self._seconds = seconds
        self._per_client = per_client
        self._methods = frozenset(methods)
        self._buckets: OrderedDict[str | int | None, tuple[float, float]] = OrderedDict()

    async def on_request(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Take a token, or refuse."""
        if request.method in self._methods and not request.is_continued:
            key, client = None, request.client_request
            if self._per_client:  # a text or a number, so that no connection is kept
                key = client.session_key or hash(client.principal if client.address is None else client.address)
            wait = self._take(key)
            if wait > 0:
                whose = "of a client" if self._per_client else "of all clients together"
                text = f"Too many requests: {self._requests} {whose} in {self._seconds:g} s are taken"
                text += f"; try again in {wait:.1f} s"
                raise ToolError(text) if request.method == "tools/call" else ProtocolError(INTERNAL_ERROR, text)
        return await call_next(request)

    def _take(self, key: str | int | None) -> float:
        """Take a token; return the seconds until there is one, if there is none."""
        now, rate = time.monotonic(), self._requests / self._seconds
        tokens, filled = self._buckets.get(key, (float(self._requests), now))
        tokens = min(float(self._requests), tokens + (now - filled) * rate)
        wait = max(0.0, (1 - tokens) / rate)
        self._buckets[key] = (tokens if wait > 0 else tokens - 1, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return wait


class TimingLog(Middleware):
    """Logs each request when it is answered: its method, client, outcome and duration.

        tools/call add for vscode 1.139: ok in 3.2 ms

    The line has no contents. Given first, it measures the middleware behind it as well; given last, none of it.

    Args:
        logger: The logger; `gaia_bridge.middleware.shipped` if not given.
        level: As in `logging`.
    """

    def __init__(self, logger: logging.Logger | None = None, level: int = logging.INFO) -> None:
        self._logger = logger or logging.getLogger(__name__)
        self._level = level

    async def on_request(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Measure the request."""
        began, outcome = time.perf_counter(), "given up"
        try:
            result = await call_next(request)
            outcome = _outcome_of(result)
        except RequestError:
            outcome = "refused"
            raise
        except Exception:
            outcome = "failed"
            raise
        finally:
            if self._logger.isEnabledFor(self._level):
                took = round(1000 * (time.perf_counter() - began), 1)
                what = one_line(f"{request.method} {request.name.partition('?')[0]}", 120).rstrip()
                where = f" at {request.endpoint}" if request.endpoint else ""
                who = one_line(request.client, 120)
                self._logger.log(self._level, "%s%s for %s: %s in %g ms", what, where, who, outcome, took)
        return result


def _outcome_of(result: JSON) -> str:
    if result.get("resultType") == "input_required":
        return "asks"
    return "tool error" if result.get("isError") is True else "ok"


class RetryReads(Middleware):
    """Tries requests that change nothing again, where the connection to a server was lost before it answered.

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

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Try again only if the tool's annotations say that it may be repeated."""
        hints = request.annotations
        is_harmless = hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True
        return await (self._try(request, call_next) if is_harmless else call_next(request))

    async def on_list(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Try again: lists change nothing."""
        return await self._try(request, call_next)

    async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Try again: reading changes nothing."""
        return await self._try(request, call_next)

    async def on_get_prompt(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Try again: prompts change nothing."""
        return await self._try(request, call_next)

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
