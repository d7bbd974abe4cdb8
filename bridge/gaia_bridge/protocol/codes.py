"""The codes of JSON-RPC and MCP errors, each once; which of them a revision has, and what they are over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "HEADER_MISMATCH",
    "HTTP_STATUS",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "LEGACY_RESOURCE_NOT_FOUND",
    "METHOD_NOT_FOUND",
    "MISSING_CLIENT_CAPABILITY",
    "PARSE_ERROR",
    "REQUEST_CANCELLED",
    "UNSUPPORTED_REVISION",
    "URL_ELICITATION_REQUIRED",
    "is_reserved",
]

PARSE_ERROR: Final = -32700
"""JSON-RPC 2.0, section 5.1: what came is no JSON."""

INVALID_REQUEST: Final = -32600
"""JSON-RPC 2.0, section 5.1: this cannot be asked, or not now."""

METHOD_NOT_FOUND: Final = -32601
"""JSON-RPC 2.0, section 5.1."""

INVALID_PARAMS: Final = -32602
"""JSON-RPC 2.0, section 5.1. Also the code of an unknown tool, prompt or (since 2026-07-28) resource."""

INTERNAL_ERROR: Final = -32603
"""JSON-RPC 2.0, section 5.1: the request was right, but it could not be served."""

LEGACY_RESOURCE_NOT_FOUND: Final = -32002
"""MCP 2025-11-25, server/resources; 2026-07-28 says -32602 (SEP-2164)."""

HEADER_MISMATCH: Final = -32020
"""MCP 2026-07-28, basic, "Error codes": a header and the body say different things (SEP-2243)."""

MISSING_CLIENT_CAPABILITY: Final = -32021
"""MCP 2026-07-28, basic, "Error codes": the request needs a capability that the client did not declare."""

UNSUPPORTED_REVISION: Final = -32022
"""MCP 2026-07-28, basic, "Error codes"."""

URL_ELICITATION_REQUIRED: Final = -32042
"""MCP 2025-11-25, client/elicitation: the user has to visit some pages first. Not sent to later clients."""

REQUEST_CANCELLED: Final = -32800
"""Ends the event stream of a request that its client cancelled, in the handshake era over HTTP, where a stream ends
with a response. The Language Server Protocol has it; MCP names none."""

HTTP_STATUS: Final[Mapping[int, int]] = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_REVISION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The status of an error that is the whole answer to a request of 2026-07-28; 200 for all others."""

_RESERVED: Final = range(-32099, -32019)
_DEFINED: Final = (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_REVISION)


def is_reserved(code: int) -> bool:
    """Whether 2026-07-28 keeps a code for itself and has not defined it (basic, "Error codes")."""
    return code in _RESERVED and code not in _DEFINED
