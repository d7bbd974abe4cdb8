"""What goes beyond the core of MCP: extensions, tasks, methods that only a server and its clients know.

The bridge does not know what they mean. It tells clients which of them its servers declare, and carries their requests
and results as they are, to the server that an endpoint is for, or that made the task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult

from gaia_bridge.contract import Source
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.inbound.client_request import Context, SdkClientRequest, connection_of
from gaia_bridge.inbound.introducing import TASKS_EXTENSION, capabilities_of
from gaia_bridge.jsontypes import JSON, is_object
from gaia_bridge.model import SourceKind
from gaia_bridge.results import is_input_required
from gaia_bridge.wire import is_modern

__all__ = ["Forwarding", "with_public_task"]

_TASK: Final = "taskId"
_TASKS: Final = "tasks/"

_MakeRequest = Callable[[Context], SdkClientRequest]


def with_public_task(catalog: Catalog, source: Source, result: JSON) -> JSON:
    """A result that is a task, with an id that leads back to its source where there are several (S-34)."""
    if len(catalog.sources) < 2:
        return result
    if isinstance(identifier := result.get(_TASK), str):
        return {**result, _TASK: f"{source.name}:{identifier}"}
    task = result.get("task")
    return {**result, "task": with_public_task(catalog, source, task)} if is_object(task) else result


class Forwarding:
    """Middleware that passes on what the endpoint itself does not know.

    Args:
        catalog: Where to.
        serves: Whether the endpoint knows a method.
        request: Makes a client's request of the SDK's.
        answering: Makes JSON-RPC errors of errors.
    """

    def __init__(
        self,
        catalog: Catalog,
        serves: Callable[[str], bool],
        request: _MakeRequest,
        answering: Callable[[Callable[[], Awaitable[JSON | None]]], Callable[[], Awaitable[Any]]],
    ) -> None:
        self._catalog = catalog
        self._serves = serves
        self._request = request
        self._answering = answering

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Pass a request on, or go on."""
        is_request = ctx.request_id is not None
        if not is_request or self._serves(ctx.method) or not connection_of(ctx).initialize_accepted:
            return await call_next(ctx)

        async def forward() -> JSON | None:
            target = self._target(ctx.method, ctx.params or {}, modern=is_modern(ctx.protocol_version))
            if target is None:
                return None
            source, params = target
            result = await source.forward(ctx.method, params, self._request(ctx))
            if is_input_required(result):
                return result
            result = with_public_task(self._catalog, source, self._catalog.addresses.outward(source, result))
            dropped = () if is_modern(ctx.protocol_version) else ("resultType",)
            return {key: value for key, value in result.items() if key not in dropped}

        result: HandlerResult = await self._answering(forward)()
        return await call_next(ctx) if result is None else result

    def _target(self, method: str, params: Mapping[str, Any], *, modern: bool) -> tuple[Source, JSON] | None:
        """Who a request is for, and its parameters as they are called there."""
        servers = [source for source in self._catalog.sources if source.kind is SourceKind.SERVER]
        own = {key: value for key, value in params.items() if key != "_meta"}
        if len(self._catalog.sources) == 1:
            return (servers[0], own) if servers else None
        if not method.startswith(_TASKS) or _TASK not in params:
            return None
        name, colon, identifier = str(params[_TASK]).partition(":")
        source = next((source for source in servers if source.name == name and colon), None)
        if source is None:
            told = capabilities_of(self._catalog, modern=modern)
            if "tasks" not in told and TASKS_EXTENSION not in told.get("extensions", {}):
                return None  # nobody here has tasks, so that there is no such method either
            raise ProtocolError(INVALID_PARAMS, "There is no such task")
        return source, {**own, _TASK: identifier}
