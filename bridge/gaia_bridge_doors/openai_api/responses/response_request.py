"""A request for a response: everything in it, checked, and for the agent the same as one for a completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.settings import ChatEndpointLimits
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.openai_api.checks import came, invalid, object_at, string_at
from gaia_bridge_doors.openai_api.completion_request import CompletionRequest, decoded_body
from gaia_bridge_doors.openai_api.messages import since_last_answer
from gaia_bridge_doors.openai_api.options import read_flag, read_options
from gaia_bridge_doors.openai_api.responses.items import read_items
from gaia_bridge_doors.openai_api.responses.stored_responses import StoredResponses
from gaia_bridge_doors.openai_api.tools import read_tools

_REFUSED: Final[Mapping[str, str]] = {
    "background": "the answer is given to who waits for it. Leave it out",
    "conversation": "there are no stored conversations. Use previous_response_id, or the header X-Session-Id",
    "prompt": "there are no stored prompts. Send instructions and input",
}
_SAME: Final = ("temperature", "top_p", "parallel_tool_calls", "user")
"""Fields that chat completions have under the same name, and with the same meaning."""
_MAX_METADATA: Final = 16
_MAX_METADATA_CHARS: Final = 512


class ResponseRequest(Struct, frozen=True):
    """What a client asks for."""

    asked: CompletionRequest
    """As far as the agent is concerned."""
    history: list[JSON]
    """The whole conversation up to the answer, without instructions."""
    previous: str | None
    store: bool
    echo: JSON
    """The fields that the response repeats."""


def read_response_request(
    body: bytes, session_id: str | None, stored: StoredResponses, limits: ChatEndpointLimits
) -> ResponseRequest:
    """Read the body of a request. Fields that are not known are ignored.

    Args:
        body: As it came.
        session_id: The session that it continues.
        stored: Earlier responses.
        limits: How much it may have.

    Raises:
        ChatError: Something is wrong with it.
    """
    fields = decoded_body(body, "model and input")
    for name, reason in _REFUSED.items():
        if fields.get(name) not in (None, False):
            raise ChatError(400, f"{name} is not supported: {reason}.", "unsupported_parameter", name)
    model = string_at("model", fields.get("model"), "the id of one of the models that GET /v1/models lists")
    previous = _previous(fields.get("previous_response_id"), session_id)
    before = stored.history(previous) if previous is not None else []
    new = read_items(fields.get("input"), limits.messages, before, whole=session_id is None)
    history = [*before, *new]
    if len(history) > limits.messages:
        message = f"input: {len(history)} messages, with those before; expected at most {limits.messages}."
        raise ChatError(400, message, "array_too_long", "input")
    instructions = fields.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise invalid("instructions", instructions, "a text")
    said = history if session_id is None else since_last_answer(new)
    asked = CompletionRequest(
        model=model,
        messages=[{"role": "system", "content": instructions}, *said] if instructions else said,
        session_id=session_id,
        tools=read_tools(fields.get("tools"), limits.tools, flat=True),
        options=_options(fields),
        stream=read_flag(fields, "stream", "stream"),
        include_usage=True,
    )
    store = fields.get("store") is None or read_flag(fields, "store", "store")
    return ResponseRequest(asked, history, previous, store, _echo(fields))


def _previous(value: Any, session_id: str | None) -> str | None:
    if value is None:
        return None
    previous = string_at("previous_response_id", value, "the id of an earlier response")
    if session_id is not None:
        message = "previous_response_id: the header X-Session-Id names a conversation, too. Leave one of them out."
        raise ChatError(400, message, "invalid_value", "previous_response_id")
    return previous


def _options(fields: JSON) -> JSON:
    """The options in the words of chat completions."""
    options = read_options({name: fields.get(name) for name in _SAME})
    tokens = fields.get("max_output_tokens")
    if tokens is not None:
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
            raise invalid("max_output_tokens", tokens, "a whole number greater than 0")
        options["max_tokens"] = tokens
    if (choice := fields.get("tool_choice")) is not None:
        options["tool_choice"] = _choice(choice)
    text = object_at("text", fields.get("text") or {})
    if (form := text.get("format")) is not None:
        options |= _format(object_at("text.format", form))
    reasoning = object_at("reasoning", fields.get("reasoning") or {})
    if (effort := reasoning.get("effort")) is not None:
        options["reasoning_effort"] = string_at("reasoning.effort", effort, "a text, such as low")
    return options


def _choice(choice: Any) -> Any:
    if choice in ("none", "auto", "required"):
        return choice
    if is_object(choice) and choice.get("type") == "function":
        name = string_at("tool_choice.name", choice.get("name"), "the name of a function")
        return {"type": "function", "function": {"name": name}}
    shown = choice.get("type") if is_object(choice) else choice
    raise invalid("tool_choice", shown, "none, auto, required, or an object of the type function with its name")


def _format(form: JSON) -> JSON:
    match form.get("type"):
        case "text":
            return {}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "json_schema":
            string_at("text.format.name", form.get("name"))
            object_at("text.format.schema", form.get("schema"), "a JSON Schema")
            described = {name: form[name] for name in ("name", "description", "schema", "strict") if name in form}
            return {"response_format": {"type": "json_schema", "json_schema": described}}
        case other:
            raise invalid("text.format.type", other, "text, json_object or json_schema")


def _echo(fields: JSON) -> JSON:
    def given(name: str, default: Any) -> Any:
        value = fields.get(name)
        return default if value is None else value

    return {
        "background": False,
        "instructions": fields.get("instructions"),
        "max_output_tokens": fields.get("max_output_tokens"),
        "metadata": _metadata(fields.get("metadata")),
        "parallel_tool_calls": given("parallel_tool_calls", True),
        "previous_response_id": fields.get("previous_response_id"),
        "reasoning": given("reasoning", {"effort": None, "summary": None}),
        "temperature": fields.get("temperature"),
        "text": given("text", {"format": {"type": "text"}}),
        "tool_choice": given("tool_choice", "auto"),
        "tools": given("tools", []),
        "top_p": fields.get("top_p"),
        "truncation": "disabled",
        "user": fields.get("user"),
    }


def _metadata(value: Any) -> JSON:
    """What the client wants to be told again."""
    metadata = object_at("metadata", {} if value is None else value)
    if len(metadata) > _MAX_METADATA:
        message = f"metadata: {len(metadata)} entries came; expected at most {_MAX_METADATA}."
        raise ChatError(400, message, "object_too_large", "metadata")
    for name, text in metadata.items():
        if not isinstance(text, str) or len(text) > _MAX_METADATA_CHARS:
            shown = came(text[:50]) + "..." if isinstance(text, str) else came(text)
            expected = f"a text of at most {_MAX_METADATA_CHARS} characters"
            message = f"metadata.{name[:50]}: {shown} came; expected {expected}."
            raise ChatError(400, message, "invalid_value", "metadata")
    return metadata
