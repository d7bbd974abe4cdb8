"""Parses the JSON-RPC messages that clients send, builds the errors that answer invalid ones, and writes ours. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeGuard

from gaia_bridge.protocol import meta
from gaia_bridge.protocol.codes import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from gaia_bridge.protocol.framing import OversizedLine, identifier_of
from gaia_bridge.protocol.revisions import BATCHING_REVISIONS, HANDSHAKE_REVISIONS
from gaia_bridge.protocol.shapes import is_identifier
from gaia_bridge.text.json_text import encode_json, parse, to_json, valid_json
from gaia_bridge.text.json_types import JSON, is_array, is_object

_NO_MESSAGE: Final = "Not a JSON-RPC 2.0 request, notification or response"


class Refusal(NamedTuple):
    """The refusal of a message: a JSON-RPC error, and the id of the request that it answers, if that could be read."""

    code: int
    message: str
    id: int | str | None = None
    data: Any = None


def decoded(content: bytes) -> Any:
    """Parse the JSON value that a client sent, or return a `Refusal` if it is not JSON (JSON-RPC 2.0, section 5.1)."""
    try:
        return parse(content)
    except ValueError as error:
        return Refusal(PARSE_ERROR, f"Parse error: not JSON in UTF-8 ({error})", _identifier_in(content))


def oversized(line: OversizedLine) -> Refusal:
    """Return the refusal of a line that is longer than the limit."""
    message = f"A line of {line.size:,} bytes is longer than this server reads"
    return Refusal(INVALID_REQUEST, message, identifier_of(line.head, line.tail))


def message_problem(message: object) -> Refusal | None:
    """Return the refusal of a value that is not a JSON-RPC message of MCP, or `None` if it is one.

    In MCP an id must be a string or an integer, and must not be `null` (basic, "Requests").
    """
    if not is_object(message) or message.get("jsonrpc") != "2.0":
        problem = _NO_MESSAGE
    elif "method" in message:
        problem = _request_problem(message)
    else:
        problem = _response_problem(message)
    return Refusal(INVALID_REQUEST, problem, identifier(message)) if problem else None


def is_plain_request(value: object) -> TypeGuard[JSON]:
    """Whether a value is a valid request with parameters, as most are. `message_problem` checks all others."""
    message: Any = value
    try:
        return (
            type(value) is dict
            and message["jsonrpc"] == "2.0"
            and type(message["method"]) is str
            and type(message["id"]) in (int, str)
            and type(message["params"]) is dict
        )
    except KeyError:
        return False


def _request_problem(message: JSON) -> str:
    if not isinstance(message["method"], str):
        return "The method of a request must be a string"
    if "id" in message and not is_identifier(message["id"]):
        return "The id of a request must be a string or an integer"
    if (params := message.get("params")) is not None and not is_object(params):
        return "The params of a request must be an object"
    return ""


def _response_problem(message: JSON) -> str:
    if "result" not in message and "error" not in message:
        return _NO_MESSAGE
    if not is_object(message.get("result", message.get("error"))) or {"result", "error"} <= message.keys():
        return "A response must have either a result or an error, which is an object"
    if is_identifier(message.get("id")) or ("error" in message and message.get("id") is None):
        return ""
    return "The id of a response must be a string or an integer"


def batch_problem(messages: list[Any], revision: str | None, limit: int) -> Refusal | None:
    """Return the refusal of a batch, or `None` if it is accepted; before a revision is negotiated, none is."""
    if revision not in BATCHING_REVISIONS:
        return unexpected_batch(revision)
    if not messages:
        return Refusal(INVALID_REQUEST, "The batch is empty; expected at least one message")
    if len(messages) > limit:
        return Refusal(INVALID_REQUEST, f"{len(messages)} messages came in one batch; expected at most {limit}")
    return None


def batched_problem(message: object) -> Refusal | None:
    """Return the refusal of a value that cannot be part of a batch, or `None` if it can."""
    if is_object(message) and message.get("method") == "initialize":
        return Refusal(INVALID_REQUEST, "initialize must not be part of a batch", identifier(message))
    return message_problem(message)


def unexpected_batch(revision: str | None = None) -> Refusal:
    """Return the refusal of a batch where the revision has none."""
    spoken = "no revision was agreed on yet" if revision is None else f"this connection speaks {revision}"
    asked = f"Batches are not supported where {spoken}; only 2025-03-26 has them. Send one message at a time."
    return Refusal(INVALID_REQUEST, asked)


def too_many_sessions(request_id: int | str | None = None) -> Refusal:
    """Return the refusal of a new session when the limit is reached."""
    return Refusal(INTERNAL_ERROR, "Too many open sessions, all of them in use; try again later", request_id)


def era_problem(message: JSON, header: str | None) -> Refusal | None:
    """Return the refusal of a message of 2026-07-28 or later under an earlier or no `MCP-Protocol-Version`, or `None`.

    See SEP-2243.

    Args:
        header: The header, if it was sent. A body of the handshake era under a header of 2026-07-28 is found by
            `headers.envelope_problem`.
    """
    if (header is not None and header not in HANDSHAKE_REVISIONS) or not says_revision(message):
        return None
    came = "no header" if header is None else header
    problem = f"MCP-Protocol-Version: {came} came with a body of another revision; expected the same in both"
    return Refusal(HEADER_MISMATCH, problem, identifier(message))


def meta_of(message: Mapping[str, Any]) -> JSON:
    """Return the `_meta` of a message; empty if it has none."""
    params = message.get("params")
    content = params.get("_meta") if is_object(params) else None
    return content if is_object(content) else {}


def says_revision(message: Mapping[str, Any]) -> bool:
    """Whether a message states its revision in `_meta`, as all requests since 2026-07-28 do."""
    return meta_of(message).get(meta.PROTOCOL_VERSION_KEY) is not None


def is_request(message: JSON) -> bool:
    return "method" in message and "id" in message


def identifier(message: object) -> int | str | None:
    """Return the id of a request, if it is valid. `None` for responses: their ids are those of our own requests."""
    if not is_object(message) or "method" not in message:
        return None
    return message["id"] if is_identifier(message.get("id")) else None


def error_object(code: int, message: str, data: Any = None) -> JSON:
    """Return the `error` of a response; without `data`, if that is `None`."""
    error: JSON = {"code": code, "message": message}
    return error if data is None else {**error, "data": data}


def error_message(refusal: Refusal) -> JSON:
    """Return the error response for a refusal."""
    error = error_object(refusal.code, refusal.message, refusal.data)
    return {"jsonrpc": "2.0", "id": refusal.id, "error": error}


def _identifier_in(content: bytes) -> int | str | None:
    """Read the id in content that is not valid JSON: parse leniently if possible, else search both ends."""
    try:
        lenient = json.loads(content.decode("utf-8", "replace"), parse_int=_number)
    except (ValueError, RecursionError):
        return identifier_of(content)
    return None if is_array(lenient) else identifier(lenient)


def _number(digits: str) -> int | float:
    """Convert an integer of any length; `int` refuses very long ones, which become infinite here."""
    return int(digits) if len(digits) < _DIGITS else float("inf")


_DIGITS: Final = 20
"""Digits from which a number cannot be a real request id."""


def encoded(value: Any) -> bytes:
    """Write a value as JSON in UTF-8, repaired if need be: lone surrogates are replaced, NaN and infinities null."""
    try:
        return to_json(value)
    except ValueError:
        return to_json(valid_json(value))


def encoded_result(request_id: int | str, result: JSON) -> bytes:
    written = b"%d" % request_id if type(request_id) is int else _identifier(request_id)
    return b'{"jsonrpc":"2.0","id":' + written + b',"result":' + encoded(result) + b"}"


def encoded_read_result(request_id: int | str, result: JSON) -> bytes:
    """Write a response with a result that was read from JSON, and is not nested deep."""
    written = b"%d" % request_id if type(request_id) is int else _identifier(request_id)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (written, encode_json(result))


def encoded_error(refusal: Refusal) -> bytes:
    content = encoded(error_object(refusal.code, refusal.message, refusal.data))
    return b'{"jsonrpc":"2.0","id":' + _identifier(refusal.id) + b',"error":' + content + b"}"


def encoded_request(request_id: int, method: str, params: JSON | None) -> bytes:
    message: JSON = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return encoded(message if params is None else {**message, "params": params})


def encoded_notification(method: str, params: JSON | None) -> bytes:
    message: JSON = {"jsonrpc": "2.0", "method": method}
    return encoded(message if params is None else {**message, "params": params})


def _identifier(request_id: int | str | None) -> bytes:
    # In ASCII: an id may contain lone surrogates, which UTF-8 cannot encode, and must come back unchanged.
    return b"%d" % request_id if isinstance(request_id, int) else json.dumps(request_id).encode()
