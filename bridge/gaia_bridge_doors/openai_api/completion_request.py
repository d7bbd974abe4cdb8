"""A request for a chat completion: everything in it, checked and in one shape."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct
from starlette.datastructures import Headers

from gaia_bridge.settings import ChatEndpointLimits
from gaia_bridge.text.json_text import from_json
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.conversation.tool_request import RequestedTools
from gaia_bridge_doors.openai_api.messages import read_messages, since_last_answer
from gaia_bridge_doors.openai_api.options import invalid, object_at, read_flag, read_options, string_at
from gaia_bridge_doors.openai_api.tools import read_tools

SESSION_HEADER: Final = "X-Session-Id"
"""The header with the session of the agent that a request continues; the response repeats it."""

_SESSION_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class CompletionRequest(Struct, frozen=True):
    """The contents of a request."""

    model: str
    messages: list[JSON]
    """All messages, or with a session only the new ones."""
    session_id: str | None
    tools: RequestedTools
    options: JSON
    """Options for the agent's model."""
    stream: bool
    include_usage: bool
    """Whether a stream reports the number of tokens at its end."""


def session_of(headers: Headers) -> str | None:
    """Return the session in the headers of a request.

    Raises:
        ChatError: The value is no session id, or there is more than one.
    """
    given = headers.getlist(SESSION_HEADER)
    if not given:
        return None
    if len(given) > 1 or not _SESSION_ID.fullmatch(given[0]):
        raise invalid(SESSION_HEADER, ", ".join(given), "one id with 1 to 128 characters of A-Z a-z 0-9 . _ : -")
    return given[0]


def read_request(body: bytes, session_id: str | None, limits: ChatEndpointLimits) -> CompletionRequest:
    """Read the body of a request. Unknown fields are ignored.

    Args:
        body: The body.
        session_id: The session that it continues.
        limits: The limits of one request.

    Raises:
        ChatError: The body is invalid.
    """
    fields = decoded_body(body, "model and messages")
    model = string_at("model", fields.get("model"), "the id of one of the models that GET /v1/models lists")
    messages = read_messages(fields.get("messages"), limits.messages, whole=session_id is None)
    stream = read_flag(fields, "stream", "stream")
    stream_options = fields.get("stream_options")
    if stream_options is None:
        stream_options = {}
    stream_fields = object_at("stream_options", stream_options)
    return CompletionRequest(
        model=model,
        messages=messages if session_id is None else since_last_answer(messages),
        session_id=session_id,
        tools=read_tools(fields.get("tools"), limits.tools),
        options=read_options(fields),
        stream=stream,
        include_usage=read_flag(stream_fields, "include_usage", "stream_options.include_usage"),
    )


def decoded_body(body: bytes, expected: str) -> JSON:
    """Return the JSON object in a body.

    Args:
        body: The body.
        expected: The fields that it must have, for messages.

    Raises:
        ChatError: The body is no JSON object.
    """
    try:
        fields = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise ChatError(400, f"The body is not readable as JSON in UTF-8: {error}.", "invalid_json") from None
    if not is_object(fields):
        raise ChatError(400, f"The body is not a JSON object; expected one with {expected}.", "invalid_json")
    return fields
