"""JSON-RPC and MCP error codes, and the HTTP status that each maps to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gaia_bridge.errors import INTERNAL_ERROR as INTERNAL_ERROR
from gaia_bridge.errors import INVALID_PARAMS as INVALID_PARAMS
from gaia_bridge.errors import INVALID_REQUEST as INVALID_REQUEST
from gaia_bridge.errors import MISSING_CLIENT_CAPABILITY as MISSING_CLIENT_CAPABILITY

PARSE_ERROR: Final = -32700
"""JSON-RPC 2.0, section 5.1: the message is not valid JSON."""
METHOD_NOT_FOUND: Final = -32601
"""JSON-RPC 2.0, section 5.1: the method does not exist."""
LEGACY_RESOURCE_NOT_FOUND: Final = -32002
"""MCP 2025-11-25, server/resources: the resource does not exist; 2026-07-28 uses -32602 instead (SEP-2164)."""
HEADER_MISMATCH: Final = -32020
"""MCP 2026-07-28, basic, "Error codes": a header contradicts the body (SEP-2243)."""
UNSUPPORTED_REVISION: Final = -32022
"""MCP 2026-07-28, basic, "Error codes": the server does not support the revision of the request."""
URL_ELICITATION_REQUIRED: Final = -32042
"""MCP 2025-11-25, client/elicitation: the user has to open some URLs first. Later revisions do not have this error."""
REQUEST_CANCELLED: Final = -32800
"""Answers a request that its client cancelled, in the handshake era over HTTP: there, an event stream has to end with
a response. Taken from the Language Server Protocol; MCP defines no code for this."""

HTTP_STATUS: Final[Mapping[int, int]] = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_REVISION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The HTTP status of an error response that is sent as plain JSON in 2026-07-28; 200 for codes that are not listed."""

_RESERVED: Final = range(-32099, -32019)
_DEFINED: Final = (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_REVISION)


def is_reserved(code: int) -> bool:
    """Whether a code is in the range that 2026-07-28 reserves, and not defined there (basic, "Error codes")."""
    return code in _RESERVED and code not in _DEFINED
