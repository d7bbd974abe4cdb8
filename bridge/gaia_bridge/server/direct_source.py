"""Direct calls of tools of any source, such as an agent: one task asks the source, and nothing else is around it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, Protocol, cast

from gaia_bridge.calls.cancellation import Cancellation
from gaia_bridge.calls.direct_call import DirectCall, plain_result
from gaia_bridge.contract import ClientRequest, Source
from gaia_bridge.errors import RequestCancelledError
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.protocol.vocabulary import is_loud_enough
from gaia_bridge.server.connection import ClientConnection
from gaia_bridge.text.json_types import JSON

_NOTHING: Final[Mapping[str, Any]] = {}
Ask = Callable[[ClientRequest], Awaitable[JSON]]
"""Asks a source for the result of a request."""


class _Origin(Protocol):
    """The facts about a client that a request needs: those of `DirectClient`."""

    modern: bool
    principal: Hashable
    meta: Mapping[str, Any]
    connection: ClientConnection
    address: str | None

    @property
    def client(self) -> Hashable: ...
    @property
    def client_info(self) -> Mapping[str, Any]: ...
    @property
    def client_capabilities(self) -> Mapping[str, Any]: ...
    @property
    def log_level(self) -> str | None: ...


class SourceRoute:
    """One tool of a source, by the source's name for it. A `DirectRoute`."""

    def __init__(self, source: Source, own: str) -> None:
        self.target = source, own
        self.deadline = math.inf  # the source has its own, from the same beginning

    def begin(self, call: DirectCall, arguments: JSON) -> bool:
        """Ask the source; see `DirectRoute.begin`."""
        call.connection = work = _Work()
        work.task = asyncio.get_running_loop().create_task(self._ask(call, work, arguments))
        return True

    async def _ask(self, call: DirectCall, work: _Work, arguments: JSON) -> None:
        work.cancellation.enter()
        try:
            source, own = self.target
            result = await source.call_tool(own, arguments, _DirectRequest(call))
        except asyncio.CancelledError:
            call.set_exception(RequestCancelledError())  # where the source itself gave up
            raise
        except Exception as error:
            call.set_exception(error)
        else:
            call.set_result({"result": result})

    def plain_result(self, response: JSON) -> JSON | None:
        """Return the result if it is plain; see `DirectRoute`."""
        return plain_result(response)

    def answered(self, call: DirectCall, now: float) -> None:
        """Do nothing: the task that asked is all that is to be counted."""

    def release(self, call: DirectCall) -> None:
        """Do nothing, as for `answered`."""

    def abandon(self, call: DirectCall) -> None:
        """Cancel the work of the source."""
        work: _Work = call.connection
        work.cancellation.take_reason()
        if call.reasons:
            work.cancellation.reason = call.reasons[0]
        if work.task is not None:
            work.task.cancel()


class _Work:
    def __init__(self) -> None:
        self.cancellation = Cancellation()
        self.task: asyncio.Task[None] | None = None


def first_of(direct: DirectCall, ask: Ask) -> Ask:
    """Return a function that asks a source, and waits for the answer to a direct call where that has asked already."""
    if not isinstance(direct.route, SourceRoute):
        return ask
    asked = [direct]

    async def wait(request: ClientRequest) -> JSON:
        if not asked:
            return await ask(request)
        call = asked.pop()
        call.adopt()
        try:
            response = await call.wait()
        finally:
            if not call.done():
                call.route.abandon(call)
            work: _Work = call.connection
            work.cancellation.report()
        result: JSON = response["result"]
        return result

    return wait


class _DirectRequest:
    """A direct call as its source sees it: a `ClientRequest`. A message to the client makes it ordinary."""

    method = "tools/call"
    input_responses = _NOTHING
    request_state = None

    def __init__(self, call: DirectCall) -> None:
        origin = cast("_Origin", call.origin)
        self._call = call
        self._origin = origin
        self.modern = origin.modern
        self.principal = origin.principal
        self.meta = origin.meta
        self.address = origin.address
        self.params: Mapping[str, Any] = call.message["params"]
        self.client = origin.client

    @property
    def is_relayed(self) -> bool:
        return self._origin.connection.is_shared

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        if self.address is not None:
            return False
        self._origin.connection.when_closed(callback)
        return True

    @property
    def session_key(self) -> str | None:
        return self._origin.connection.key if self.address is None else None

    @property
    def client_info(self) -> Mapping[str, Any]:
        return self._origin.client_info

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        return self._origin.client_capabilities

    @property
    def client_folder(self) -> str | None:
        return self._origin.connection.client_folder

    @property
    def log_level(self) -> str | None:
        return self._origin.log_level

    async def report_progress(self, report: Progress) -> None:
        """Do nothing: the client of a direct call wants no progress."""

    async def log(self, message: LogMessage) -> None:
        if is_loud_enough(message.level, self.log_level):
            await (await self._ordinary()).log(message)

    async def push(self, method: str, params: JSON) -> JSON:
        return await (await self._ordinary()).push(method, params)

    async def close_stream(self) -> None:
        await (await self._ordinary()).close_stream()

    async def _ordinary(self) -> ClientRequest:
        return cast("ClientRequest", await self._call.ordinary())
