"""JSON-RPC messages as bytes, and the rules of which response belongs to which request. Pure."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from gaia_bridge.jsontypes import JSON, is_object
from gaia_bridge.outbound.transport import UpstreamError
from gaia_bridge.text import printable

__all__ = ["cancellation", "decoded", "encoded", "is_complete", "is_response", "response_to"]


def encoded(message: JSON) -> bytes:
    """A message as UTF-8, on one line. A lone surrogate, which UTF-8 cannot carry, becomes a question mark.

    Raises:
        UpstreamError: It cannot be said in JSON, such as NaN.
    """
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise UpstreamError(f"cannot be sent what JSON cannot say: {printable(str(error), 100)}") from None
    return text.encode("utf-8", "replace")


def decoded(content: bytes | str) -> JSON:
    """A message from what a server sent.

    Bytes that are no UTF-8 are replaced (F-011). NaN and the infinities, which JSON does not have and some servers
    write all the same, become null (F-039).

    Raises:
        UpstreamError: It is no JSON object.
    """
    try:
        message: Any = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        message = _leniently(content, error)
    if not is_object(message):
        raise UpstreamError("sent JSON that is no object, and so no JSON-RPC message")
    return message


def _leniently(content: bytes | str, error: ValueError) -> Any:
    text = content if isinstance(content, str) else content.decode("utf-8-sig", "replace")
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise UpstreamError(f"sent what is no JSON: {printable(str(error), 100)}") from None


def is_response(message: JSON) -> bool:
    """Whether it answers a request; otherwise it is a request or a notification."""
    return "method" not in message


def is_complete(response: JSON) -> bool:
    """Whether a response has what a response has: a result, or an error that is an object."""
    return "result" in response or is_object(response.get("error"))


def response_to(request_id: int, message: JSON) -> JSON:
    """The message, as the response to a request that had a channel of its own.

    An error without an id is meant for it: JSON-RPC 2.0, section 5, has servers answer so if they could not read one.

    Raises:
        UpstreamError: It is something else (F-068).
    """
    if not is_response(message) or not is_complete(message):
        raise UpstreamError("answered with what is no JSON-RPC response")
    answered = message.get("id")
    if answered is None and is_object(message.get("error")):
        return {**message, "id": request_id}
    if type(answered) is not int or answered != request_id:
        raise UpstreamError(f"answered another request than was made (id {printable(repr(answered), 40)})")
    return message


def cancellation(request_id: int) -> JSON:
    """The notification that nobody waits for a response any more."""
    params = {"requestId": request_id, "reason": "nobody waits for the answer any more"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
