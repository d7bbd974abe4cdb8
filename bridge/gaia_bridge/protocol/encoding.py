"""Encodes JSON-RPC messages as bytes."""

from __future__ import annotations

import json
from typing import Any

from gaia_bridge.errors import ProtocolError
from gaia_bridge.text.json_text import to_json, valid_json
from gaia_bridge.text.json_types import JSON


def encoded(value: Any) -> bytes:
    """A value as JSON in UTF-8, repaired if need be: lone surrogates are replaced, NaN and infinities are null."""
    try:
        return to_json(value)
    except ValueError:
        return to_json(valid_json(value))


def encoded_result(request_id: int | str, result: JSON) -> bytes:
    """A response with a result."""
    written = b"%d" % request_id if type(request_id) is int else _identifier(request_id)
    return b'{"jsonrpc":"2.0","id":' + written + b',"result":' + encoded(result) + b"}"


def encoded_error(request_id: int | str | None, error: ProtocolError) -> bytes:
    """A response with an error."""
    fields: JSON = {"code": error.code, "message": error.message}
    if error.data is not None:
        fields["data"] = error.data
    return b'{"jsonrpc":"2.0","id":' + _identifier(request_id) + b',"error":' + encoded(fields) + b"}"


def encoded_request(request_id: int, method: str, params: JSON | None) -> bytes:
    """A request."""
    message: JSON = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return encoded(message if params is None else {**message, "params": params})


def encoded_notification(method: str, params: JSON | None) -> bytes:
    """A notification."""
    message: JSON = {"jsonrpc": "2.0", "method": method}
    return encoded(message if params is None else {**message, "params": params})


def _identifier(request_id: int | str | None) -> bytes:
    # In ASCII: an id may contain lone surrogates, which UTF-8 cannot encode, and must come back unchanged.
    return b"%d" % request_id if isinstance(request_id, int) else json.dumps(request_id).encode()
