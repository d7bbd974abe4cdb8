"""One line for each call: who asked what of whom, how long it took, how it ended, and how much was said, never what.

Between the SDK's server and the handlers, so that every transport and both eras come by. It costs nothing where nobody
listens: a test of a level.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp_types import CLIENT_INFO_META_KEY
from pydantic_core import to_json

from gaia_bridge.errors import ProtocolError
from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.inbound.client_request import Context, connection_of
from gaia_bridge.jsontypes import is_object
from gaia_bridge.text import one_line

__all__ = ["CallLog"]

logger = logging.getLogger(__name__)

_CALLS: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""What is told, and which parameter says what was wanted."""

_SHOWN: Final = 120
"""Characters of a name that are told."""

_LINE: Final = (
    "%(client)s %(method)s %(target)s of %(source)s: %(outcome)s in %(ms)g ms, %(bytes_in)d B in, %(bytes_out)d B out"
)


class CallLog:
    """Middleware of one endpoint.

    Args:
        catalog: Knows whose a tool, a prompt or a resource is.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Pass a request on, and tell of it afterwards."""
        if ctx.method not in _CALLS or not logger.isEnabledFor(logging.INFO):
            return await call_next(ctx)
        began, outcome, result = time.monotonic(), "failed", None
        try:
            result = await call_next(ctx)
            outcome = _outcome(result)
            return result
        except MCPError as error:
            outcome = f"error {error.error.code}"
            raise
        except anyio.get_cancelled_exc_class():
            outcome = "cancelled"
            raise
        finally:
            self._tell(ctx, outcome, time.monotonic() - began, result)

    def _tell(self, ctx: Context, outcome: str, seconds: float, result: Any) -> None:
        params = ctx.params or {}
        wanted = str(params.get(_CALLS[ctx.method])).partition("?")[0]
        call = {
            "client": _client(ctx),
            "source": self._source(ctx.method, str(params.get(_CALLS[ctx.method]))),
            "method": ctx.method,
            "target": one_line(wanted, _SHOWN),
            "ms": round(seconds * 1000, 1),
            "outcome": outcome,
            "bytes_in": _size(params),
            "bytes_out": _size(result),
        }
        logger.info(_LINE, call, extra={"call": call})

    def _source(self, method: str, wanted: str) -> str:
        look: Mapping[str, Callable[[str], Any]] = {
            "tools/call": self._catalog.tool,
            "prompts/get": self._catalog.prompt,
            "resources/read": self._catalog.addresses.find,
        }
        try:
            return str(look[method](wanted)[0].name)
        except ProtocolError:
            return "-"


def _outcome(result: Any) -> str:
    if not is_object(result):
        return "ok"
    if result.get("resultType") == "input_required":
        return "asked for input"
    return "tool error" if result.get("isError") is True else "ok"


def _client(ctx: Context) -> str:
    """Name and version of the client, as it says, and a number that tells its connection from others."""
    connection, meta = connection_of(ctx), (ctx.params or {}).get("_meta")
    said: Any = meta.get(CLIENT_INFO_META_KEY) if is_object(meta) else None
    if is_object(said):
        name, version = said.get("name"), said.get("version")
    elif connection.client_params is not None:
        name, version = connection.client_params.client_info.name, connection.client_params.client_info.version
    else:
        name, version = "unknown", ""
    return f"{one_line(f'{name}/{version}', _SHOWN)} #{id(connection) >> 4 & 0xFFFF:04x}"


def _size(value: Any) -> int:
    """Bytes of it as JSON; 0 of nothing."""
    try:
        return 0 if value is None else len(to_json(value))
    except ValueError:
        return 0
