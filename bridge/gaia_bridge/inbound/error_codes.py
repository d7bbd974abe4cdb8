"""Errors with the codes that the client's revision knows.

2026-07-28 keeps -32020 to -32099 for itself and defines three of them; -32002 and -32042 of earlier revisions must not
be sent to its clients any more (basic, "Error codes").
"""

from __future__ import annotations

from typing import Any, Final

from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp_types import (
    HEADER_MISMATCH,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from gaia_bridge.errors import INTERNAL_ERROR, INVALID_PARAMS
from gaia_bridge.inbound.client_request import Context
from gaia_bridge.jsontypes import is_object
from gaia_bridge.wire import is_modern

__all__ = ["LEGACY_RESOURCE_NOT_FOUND", "codes_of_the_era"]

LEGACY_RESOURCE_NOT_FOUND: Final = -32002
"""MCP 2025-11-25, server/resources; 2026-07-28 says -32602 (SEP-2164)."""

_RESERVED: Final = range(-32099, -32019)
_DEFINED: Final = (HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION)


async def codes_of_the_era(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Middleware: say errors to clients of 2026-07-28 with codes that there are."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        code = error.error.code
        if not is_modern(ctx.protocol_version):
            raise
        if code == LEGACY_RESOURCE_NOT_FOUND:
            data = _with_uri(error.error.data, (ctx.params or {}).get("uri"))
            raise MCPError(INVALID_PARAMS, error.error.message, data) from error
        if code in _RESERVED and code not in _DEFINED:
            raise MCPError(INTERNAL_ERROR, error.error.message, error.error.data) from error
        raise


def _with_uri(data: Any, uri: Any) -> Any:
    if not isinstance(uri, str) or not (data is None or is_object(data)):
        return data
    return {"uri": uri, **(data or {})}
