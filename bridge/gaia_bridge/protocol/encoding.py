"""JSON-RPC messages as bytes."""

from __future__ import annotations

import json
from typing import Any

from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.json_text import to_json, valid_json
from gaia_bridge.protocol.json_types import JSON

__all__ = ["encoded", "encoded_error", "encoded_notification", "encoded_request", "encoded_result"]


def encoded(value: Any) -> bytes:
    """JSON in UTF-8, whoever wrote a value: lone surrogates are replaced, what is no number is null."""
    try:
        return to_json(value)
    except ValueError:
        return to_json(valid_json(value))


def encoded_result(request_id: int | str, result: JSON) -> bytes:
    """The answer to a request."""
    return b'{"jsonrpc":"2.0","id":' + _identifier(request_id) + b',"result":' + encoded(result) + b"}"


def encoded_error(request_id: int | str | None, error: ProtocolError) -> bytes:
    """The error that answers a request."""
    told: JSON = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    return b'{"jsonrpc":"2.0","id":' + _identifier(request_id) + b',"error":' + encoded(told) + b"}"


def encoded_request(request_id: int, method: str, params: JSON | None) -> bytes:
    """A request."""
    message: JSON = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return encoded(message if params is None else {**message, "params": params})


def encoded_notification(method: str, params: JSON | None) -> bytes:
    """A notification."""
    message: JSON = {"jsonrpc": "2.0", "method": method}
    return encoded(message if params is None else {**message, "params": params})


def _identifier(request_id: int | str | None) -> bytes:
    # In ASCII: an id can be text that UTF-8 cannot carry, and has to come back as it was.
    return b"%d" % request_id if isinstance(request_id, int) else json.dumps(request_id).encode()
