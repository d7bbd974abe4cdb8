"""Puts the middleware of a bridge around the methods of one endpoint."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from gaia_bridge.calls.results.conversion import error_result
from gaia_bridge.errors import ToolError
from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
from gaia_bridge.model import Change
from gaia_bridge.protocol.kinds import KIND_OF_METHOD
from gaia_bridge.protocol.parameters import check_parameters
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.rounds import brought_to_an_end
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)

Handler = Callable[[Call], Awaitable[JSON]]
_Hook = Callable[[McpRequest, CallNext], Awaitable[JSON]]
_HOOKS: Final = {
    **dict.fromkeys(KIND_OF_METHOD, "on_list"),
    "tools/call": "on_call_tool",
    "resources/read": "on_read_resource",
    "prompts/get": "on_get_prompt",
}
"""The hook of a method, beside `on_request`."""


class MiddlewareChain:
    """The middleware, the outermost first, as one endpoint uses it.

    Args:
        endpoint: The name of the source whose endpoint it is; empty for that of everything.
    """

    def __init__(self, middleware: Sequence[Middleware], endpoint: str, catalog: Catalog, limits: AgentLimits) -> None:
        self._middleware = middleware
        self._limits = limits
        self._endpoint = endpoint
        self._catalog = catalog
        self.capabilities: JSON = {name: value for item in middleware for name, value in item.capabilities.items()}
        self._listeners = [item.on_change for item in middleware if _overrides(item, "on_change")]

    def around(self, method: str, handler: Handler) -> Handler:
        """Return the handler of a method with its hooks; the handler itself without hooks, so that nothing costs more.

        Args:
            method: The method; empty for those of extensions.
        """
        names = [name for name in ("on_request", _HOOKS.get(method)) if name is not None]
        hooks = [getattr(item, name) for item in self._middleware for name in names if _overrides(item, name)]
        return partial(self._serve, hooks, handler) if hooks else handler

    def changed(self, change: Change) -> None:
        """Notify the middleware that listens to changes."""
        for listener in self._listeners:
            try:
                listener(self._endpoint, change)
            except Exception:  # clients are to be told all the same
                logger.exception("%s failed", _name_of(listener))

    async def _serve(self, hooks: Sequence[_Hook], handler: Handler, call: Call) -> JSON:
        # The questions of sources are answered further in; a hook may ask as well.
        return await brought_to_an_end(partial(self._passed_all, hooks, handler), call, self._limits)

    async def _passed_all(self, hooks: Sequence[_Hook], handler: Handler, call: Call) -> JSON:
        step: CallNext = partial(_reached, call, handler)
        for hook in reversed(hooks):
            step = partial(_passed, hook, step)
        try:
            return await step(McpRequest(call, self._endpoint, call.params, self._catalog.tool_definition))
        except ToolError as error:
            if call.method != "tools/call":
                raise
            return error_result(str(error))
        except (Exception, GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: B036 - the boundary: nobody would answer the client
            task = asyncio.current_task()  # a hook may raise the same error because its own wait was cancelled
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            raise RuntimeError(f"middleware around {call.method} raised {type(error).__name__}") from error


def _overrides(middleware: Middleware, name: str) -> bool:
    own: Any = getattr(middleware, name)  # a bound method holds the function of its class
    return getattr(own, "__func__", own) is not getattr(Middleware, name)


def _name_of(hook: Callable[..., object]) -> str:
    return str(getattr(hook, "__qualname__", repr(hook)))


async def _passed(hook: _Hook, call_next: CallNext, request: McpRequest) -> JSON:
    result = await hook(request, call_next)
    if not is_object(result):
        expected = "expected a result, as `return await call_next(request)` does"
        raise TypeError(f"{_name_of(hook)} returned {type(result).__name__}; {expected}")
    return result


async def _reached(call: Call, handler: Handler, request: McpRequest) -> JSON:
    asked = cast("Call", request.client_request)  # that call, or the same without answers
    if request.params is call.params and asked is call:
        return await handler(call)
    check_parameters(call.method, request.params, modern=call.modern)
    other = asked.with_params(request.params)
    try:
        return await handler(other)
    finally:
        call.served_by, call.task_prefix = other.served_by, other.task_prefix
