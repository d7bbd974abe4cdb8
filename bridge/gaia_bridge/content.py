"""Builders for the MCP shapes that an agent may return instead of a plain dictionary. All pure, all wire-shaped.

A tool may return any JSON-serialisable value, one content block, a list of content blocks, `tool_result(...)` or
`input_required(...)`. The same shapes written out by hand are just as good: these functions only save the spelling.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from gaia_bridge.text.json_types import JSON

__all__ = [
    "audio", "elicitation_request", "embedded_blob", "embedded_text", "form_params", "image", "input_required",
    "resource_link", "roots_request", "sampling_request", "text", "tool_result", "user_message",
]  # fmt: skip


def text(value: str) -> JSON:
    """Return a text content block."""
    return {"type": "text", "text": value}


def image(data: bytes, mime_type: str) -> JSON:
    """Return an image content block of raw bytes."""
    return {"type": "image", "data": base64.b64encode(data).decode("ascii"), "mimeType": mime_type}


def audio(data: bytes, mime_type: str) -> JSON:
    """Return an audio content block of raw bytes."""
    return {"type": "audio", "data": base64.b64encode(data).decode("ascii"), "mimeType": mime_type}


def resource_link(uri: str, name: str, **fields: Any) -> JSON:
    """Return a link to a resource that the client may read; `fields` are further MCP `Resource` fields."""
    return {"type": "resource_link", "uri": uri, "name": name, **fields}


def embedded_text(uri: str, value: str, mime_type: str = "text/plain") -> JSON:
    """Return a content block that carries a text resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": value}}


def embedded_blob(uri: str, data: bytes, mime_type: str = "application/octet-stream") -> JSON:
    """Return a content block that carries a binary resource."""
    blob = base64.b64encode(data).decode("ascii")
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "blob": blob}}


def tool_result(*content: JSON, structured: Mapping[str, Any] | None = None, is_error: bool = False) -> JSON:
    """Return a complete tool result: content blocks, optional structured content, and whether it is a failure."""
    result: JSON = {"content": list(content), "isError": is_error}
    if structured is not None:
        result["structuredContent"] = dict(structured)
    return result


def user_message(*content: JSON | str) -> list[JSON]:
    """Return a prompt or sampling message of the user for each content block (or text) given."""
    return [{"role": "user", "content": text(item) if isinstance(item, str) else item} for item in content]


def elicitation_request(message: str, schema: Mapping[str, Any]) -> JSON:
    """Return a request for a form for the user, for use in `input_required`.

    Args:
        message: The question to the user.
        schema: A flat JSON Schema object, or just its `properties`, all of which are then required.
    """
    return {"method": "elicitation/create", "params": form_params(message, schema)}


def form_params(message: str, schema: Mapping[str, Any]) -> JSON:
    """Return the parameters of a form-mode `elicitation/create` request (MCP client/elicitation)."""
    if "properties" not in schema:
        schema = {"type": "object", "properties": dict(schema), "required": list(schema)}
    return {"mode": "form", "message": message, "requestedSchema": dict(schema)}


def sampling_request(messages: str | Sequence[JSON], max_tokens: int, **params: Any) -> JSON:
    """Return a question for the client's model, for use in `input_required`; `params` are further MCP parameters."""
    listed = user_message(messages) if isinstance(messages, str) else list(messages)
    return {"method": "sampling/createMessage", "params": {"messages": listed, "maxTokens": max_tokens, **params}}


def roots_request() -> JSON:
    """Return a request for the client's root folders, for use in `input_required`."""
    return {"method": "roots/list", "params": {}}


def input_required(requests: Mapping[str, JSON] | None = None, state: str | None = None) -> JSON:
    """Return a result that asks the client to answer these requests and call again (MCP 2026-07-28, SEP-2322).

    The bridge plays the rounds itself for clients of earlier revisions. On the next round the answers are in
    `RequestContext.input_responses` and `state` in `RequestContext.request_state`; the client cannot read or change
    the state.

    Args:
        requests: The questions, by keys of your choice.
        state: A text that you want to remember until then.
    """
    result: JSON = {"resultType": "input_required"}
    if requests:
        result["inputRequests"] = dict(requests)
    if state is not None:
        result["requestState"] = state
    return result
