"""Classifies replies to a POST of Streamable HTTP: a response, an error, a stream, or something unexpected."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports.http.http_client import HttpReply
from gaia_bridge.client.transports.http.http_values import named_status
from gaia_bridge.client.transports.json_rpc import messages
from gaia_bridge.protocol.codes import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_object

EVENT_STREAM: Final = "text/event-stream"
JSON_TYPE: Final = "application/json"
SESSION: Final = "mcp-session-id"
_SESSION_ID: Final = re.compile(r"[\x21-\x7e]{1,1024}")
"""Visible ASCII (MCP 2025-11-25, basic/transports); the length is ours, every request carries it."""
_MISUSES: Final = (-32000, INVALID_REQUEST)
"""The error codes of servers for a request that their transport refused. The first is one of those that a server may
define (JSON-RPC 2.0, section 5.1)."""
_NO_SESSION: Final = re.compile(r"session|not initiali[sz]ed", re.IGNORECASE)


def is_stream(reply: HttpReply) -> bool:
    """Whether an event stream was opened."""
    return reply.ok and reply.content_type == EVENT_STREAM


def is_json(content_type: str | None) -> bool:
    """Whether a `Content-Type` is that of JSON."""
    return content_type == JSON_TYPE or (
        content_type is not None and content_type.partition(";")[0].strip().lower() == JSON_TYPE
    )


def is_transient(status: int) -> bool:
    """Whether a retry may help: after 401, once some other request has renewed the authorisation."""
    return status in (401, 429) or status >= 500


def session_of(reply: HttpReply) -> str | None:
    """Return the session that the answer to `initialize` has opened, if any; an error if its id cannot be sent back."""
    session = reply.headers.get(SESSION)
    if session is not None and not _SESSION_ID.fullmatch(session):
        raise UpstreamError("sent a session id that is not 1 to 1024 characters of visible ASCII")
    return session


async def messages_of(reply: HttpReply, words: Callable[[HttpReply], Awaitable[str]]) -> list[JSON]:
    """Read the messages in the body: a response, and perhaps others where the server batches.

    `words` reads a body that is something else, for the error.
    """
    if reply.status in (202, 204):
        raise UpstreamError(f"answered a request with HTTP {named_status(reply.status)}, and so not at all")
    if reply.content_type not in ("", JSON_TYPE):
        kind = one_line(reply.content_type, 60)
        text = await words(reply)
        raise UpstreamError(f"answered with {kind}, where JSON or an event stream was expected{text and f': {text}'}")
    body = await reply.body()
    if not body.strip():
        raise UpstreamError("answered with an empty body")
    if not reply.content_type:
        raise UpstreamError("answered without a content type, where JSON or an event stream was expected")
    return messages(body)


async def error_response(request_id: int, reply: HttpReply) -> JSON | None:
    """Read the JSON-RPC error in the body, or return `None`: proxies and others answer without JSON-RPC.

    It is about our request whatever its id: version 1 of the Python SDK sets the id `server-error` in all such errors.
    """
    if reply.content_type != JSON_TYPE:
        return None
    try:
        body = await reply.body()
        reply.again(body)  # for callers that look for another message in it
        candidates = messages(body)
    except UpstreamError:
        return None
    return next(({**message, "id": request_id} for message in candidates if _is_error(message.get("error"))), None)


def _is_error(error: object) -> bool:
    """Whether a value is a JSON-RPC error, and not one of the many other forms."""
    return is_object(error) and type(error.get("code")) is int and isinstance(error.get("message"), str)


async def knows_no_method(reply: HttpReply) -> bool:
    """Whether a reply with an error status refused a message only because its method is unknown. With a notification,
    nothing is lost by that: minimal servers, such as amd-gaia's MCP bridge, do not know `notifications/initialized`."""
    response = await error_response(0, reply)
    return response is not None and response["error"].get("code") == METHOD_NOT_FOUND


async def knows_no_session(reply: HttpReply, response: JSON | None) -> bool:
    """Whether a server reports that the session of a request does not exist, in a reply with an error status.

    The specification demands 404, for which some answer 410. Version 1 of the Python SDK answers 400 with a plain text,
    and servers after the example of the TypeScript SDK 400 with a JSON-RPC error (`response`), also after a restart and
    before a new handshake.
    """
    error: JSON = {} if response is None else response["error"]
    if reply.status in (404, 410):
        return error.get("code") != METHOD_NOT_FOUND
    if reply.status != 400:
        return False
    if response is None:
        reason = await _beginning_of(reply)
    else:
        reason = str(error.get("message")) if error.get("code") in _MISUSES else ""
    return _NO_SESSION.search(reason) is not None


def may_know_no_session(response: JSON) -> bool:
    """Whether a response to a request in a session is an error that may mean that there is no such session.

    Some servers send such an error with HTTP 200 or 500. There, it may also be about a session of the called tool.
    """
    error = response.get("error")
    if not is_object(error) or error.get("code") in (INVALID_PARAMS, METHOD_NOT_FOUND):
        return False
    return _NO_SESSION.search(str(error.get("message"))) is not None


async def _beginning_of(reply: HttpReply) -> str:
    if reply.content_type not in ("", "text/plain"):
        return ""
    try:
        beginning = await reply.read()
    except UpstreamError:
        return ""
    reply.again(beginning)
    return beginning[:200].decode("utf-8", "replace")
