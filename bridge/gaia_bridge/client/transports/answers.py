"""What a reply to a POST of Streamable HTTP is: a response, an error, a stream, or nothing that was expected."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports.http_client import Reply
from gaia_bridge.client.transports.http_values import named_status
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
"""What servers call a request that the transport refused. The first is one of the codes that they may give a meaning
(JSON-RPC 2.0, section 5.1)."""
_NO_SESSION: Final = re.compile(r"session|not initiali[sz]ed", re.IGNORECASE)


def is_stream(reply: Reply) -> bool:
    """Whether an event stream was opened."""
    return reply.ok and reply.content_type == EVENT_STREAM


def is_transient(status: int) -> bool:
    """Whether asking again may help: after 401, once some other request has renewed the authorisation."""
    return status in (401, 429) or status >= 500


def session_of(reply: Reply) -> str | None:
    """The session that the answer to `initialize` has opened, or `None` where the server keeps none.

    Raises:
        UpstreamError: Its id cannot be sent back.
    """
    session = reply.headers.get(SESSION)
    if session is not None and not _SESSION_ID.fullmatch(session):
        raise UpstreamError("sent a session id that is not 1 to 1024 characters of visible ASCII")
    return session


async def messages_of(reply: Reply, words: Callable[[Reply], Awaitable[str]]) -> list[JSON]:
    """The messages in the body: a response, and where the server batches perhaps others.

    Args:
        words: Reads what it says in words.

    Raises:
        UpstreamError: There is something else, or nothing.
    """
    if reply.status in (202, 204):
        raise UpstreamError(f"answered a request with HTTP {named_status(reply.status)}, and so not at all")
    if reply.content_type not in ("", JSON_TYPE):
        kind = one_line(reply.content_type, 60)
        said = await words(reply)
        raise UpstreamError(f"answered with {kind}, where JSON or an event stream was expected{said and f': {said}'}")
    body = await reply.body()
    if not body.strip():
        raise UpstreamError("answered with an empty body")
    if not reply.content_type:
        raise UpstreamError("answered without a content type, where JSON or an event stream was expected")
    return messages(body)


async def error_response(request_id: int, reply: Reply) -> JSON | None:
    """The JSON-RPC error in the body, or `None`: many things answer HTTP requests that know nothing of JSON-RPC.

    It is about our request whatever its id: version 1 of the Python SDK calls all such errors `server-error`.
    """
    if reply.content_type != JSON_TYPE:
        return None
    try:
        body = await reply.body()
        reply.again(body)  # for whoever looks for other words in it
        found = messages(body)
    except UpstreamError:
        return None
    return next(({**message, "id": request_id} for message in found if _is_error(message.get("error"))), None)


def _is_error(error: object) -> bool:
    """Whether it is a JSON-RPC error, and not one of the many other forms."""
    return is_object(error) and type(error.get("code")) is int and isinstance(error.get("message"), str)


async def knows_no_method(reply: Reply) -> bool:
    """Whether a message was refused only because its method is not known there. Of a notification, nothing is lost by
    that: servers of few lines, such as amd-gaia's MCP bridge, know no `notifications/initialized`.

    Args:
        reply: Not one of success.
    """
    response = await error_response(0, reply)
    return response is not None and response["error"].get("code") == METHOD_NOT_FOUND


async def knows_no_session(reply: Reply, response: JSON | None) -> bool:
    """Whether a server that was given a session says that there is none.

    The specification wants 404, for which some answer 410. Version 1 of the Python SDK answers 400 with a plain text,
    and servers made after the example of the TypeScript SDK 400 with a JSON-RPC error, also where a restarted server
    was not greeted yet.

    Args:
        reply: Not one of success.
        response: The JSON-RPC error in its body, if there is one.
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
    """Whether a response to a request in a session is an error that may say that there is none.

    Some servers say so with HTTP 200 or 500. There, the error may as well be about a session of the tool that was
    called.
    """
    error = response.get("error")
    if not is_object(error) or error.get("code") in (INVALID_PARAMS, METHOD_NOT_FOUND):
        return False
    return _NO_SESSION.search(str(error.get("message"))) is not None


async def _beginning_of(reply: Reply) -> str:
    if reply.content_type not in ("", "text/plain"):
        return ""
    try:
        beginning = await reply.read()
    except UpstreamError:
        return ""
    reply.again(beginning)
    return beginning[:200].decode("utf-8", "replace")
