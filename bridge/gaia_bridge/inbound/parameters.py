"""What is said of a request whose parameters are not those of its method: which one, what came, what was expected."""

from __future__ import annotations

from typing import Final

from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from pydantic import ValidationError

from gaia_bridge.errors import INVALID_PARAMS
from gaia_bridge.inbound.client_request import Context, connection_of
from gaia_bridge.schema import json_pointer
from gaia_bridge.schema_parts import preview
from gaia_bridge.text import printable

__all__ = ["named_parameters"]

_SHOWN: Final = 3
"""Parameters that one error names."""

_UNINITIALIZED: Final = ("Invalid request parameters", "")
"""What the SDK says, with these data, to a request before the handshake (basic/lifecycle, "Initialization")."""


async def named_parameters(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Middleware: the SDK refuses parameters without naming one."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        raise MCPError(INVALID_PARAMS, f"Invalid request parameters: {_problems(error)}") from None
    except MCPError as error:
        if (error.message, error.data) == _UNINITIALIZED and not connection_of(ctx).initialize_accepted:
            problem = f"{printable(ctx.method, 100)} came before the handshake; send initialize first"
            raise MCPError(INVALID_PARAMS, f"Invalid request parameters: {problem}") from None
        raise


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False)
    shown = [
        f"at {json_pointer(item['loc'])}: "
        + ("" if item["type"] == "missing" else f"got {printable(preview(item['input']))}; ")
        + item["msg"][:1].lower()
        + item["msg"][1:]
        for item in found[:_SHOWN]
    ]
    return "; ".join([*shown, *(["and more"] if len(found) > _SHOWN else [])])
