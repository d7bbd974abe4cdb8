"""A request for a response: all of it, checked, and converted for the agent to a request for a completion.

The items of its `input` become the messages of chat completions. Responses are stored, so
that a later request can go on from them (`previous_response_id`), or read them again.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.settings import ChatEndpointLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.openai_api.completion_request import CompletionRequest, decoded_body
from gaia_bridge_doors.openai_api.messages import call_of, content_at, since_last_answer, text_part
from gaia_bridge_doors.openai_api.options import array_at, came, invalid, object_at, read_flag, read_options, string_at
from gaia_bridge_doors.openai_api.tools import function_name, read_tools


class _StoredResponse(Struct, frozen=True):
    response: JSON
    history: list[JSON]
    size: int
    """Bytes as JSON: of the response and of the whole conversation, though responses share its messages."""
    expires: float


class StoredResponses:
    """Responses in memory, and bounded: those used last are kept. Only on the event loop.

    Args:
        limits: The limits of their number, size and age.
        clock: Returns the time in seconds.
    """

    def __init__(self, limits: ChatEndpointLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._bytes = 0
        self._stored: OrderedDict[str, _StoredResponse] = OrderedDict()

    def add(self, response: JSON, history: list[JSON]) -> None:
        """Store a response.

        Args:
            response: The response, as the client got it.
            history: The conversation up to and with it, without instructions, in the shape of chat completions.
        """
        size = len(to_json(response)) + len(to_json(history))
        self._stored[response["id"]] = _StoredResponse(
            response, history, size, self._clock() + self._limits.stored_seconds
        )
        self._bytes += size
        while self._stored and self._is_too_much():
            self._forget(next(iter(self._stored)))

    def response(self, response_id: str) -> JSON:
        """Return a response, as the client got it.

        Raises:
            ChatError: There is no response of that id, or no longer.
        """
        return self._found(
            response_id, ChatError(404, _missing("Response", response_id), "response_not_found")
        ).response

    def history(self, response_id: str) -> list[JSON]:
        """Return the conversation up to and with a response.

        Raises:
            ChatError: There is no response of that id, or no longer.
        """
        message, param = _missing("Previous response", response_id), "previous_response_id"
        return self._found(response_id, ChatError(400, message, "previous_response_not_found", param)).history

    def remove(self, response_id: str) -> None:
        """Remove a response. Others that continue it are kept.

        Raises:
            ChatError: There is no response of that id.
        """
        self.response(response_id)
        self._forget(response_id)

    def _found(self, response_id: str, error: ChatError) -> _StoredResponse:
        stored = self._stored.get(response_id)
        if stored is None:
            raise error
        if stored.expires < self._clock():
            self._forget(response_id)
            raise error
        self._stored.move_to_end(response_id)
        return stored

    def _is_too_much(self) -> bool:
        oldest = next(iter(self._stored.values()))
        return (
            len(self._stored) > self._limits.stored
            or self._bytes > self._limits.stored_bytes
            or oldest.expires < self._clock()
        )

    def _forget(self, response_id: str) -> None:
        self._bytes -= self._stored.pop(response_id).size


def _missing(what: str, response_id: str) -> str:
    shown = ascii(one_line(response_id, 80))
    return (
        f"{what} with id {shown} not found: it was not stored, or is forgotten. Send the whole conversation as input."
    )


_ROLES: Final = {"assistant": "assistant", "developer": "system", "system": "system", "user": "user"}
_TEXTS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""The field of the text in each kind of content part."""
_SKIPPED: Final = frozenset(
    {"reasoning", "compaction", "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response"}
    | {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "computer_call"}
)
"""Items of other models' answers that clients send back, and that no model here can use."""


def read_items(value: Any, limit: int, history: Iterable[JSON] = (), *, whole: bool) -> list[JSON]:
    """Return the messages of the field `input`.

    Args:
        value: The field: a text, or a list of items.
        limit: The most items that are allowed.
        history: The messages before.
        whole: Whether these are all messages before, or the agent may remember more.

    Raises:
        ChatError: An item is invalid, or there is nothing to answer.
    """
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    items = array_at("input", value, limit, "a text, or a list of items, the last of them what is asked")
    calls = {call["id"] for message in history for call in message.get("tool_calls", ())}
    messages: list[JSON] = []
    for number, item in enumerate(items):
        at = f"input[{number}]"
        message = _message(at, object_at(at, item, "an item, such as a message with role and content"))
        if message is None:
            continue
        calls.update(call["id"] for call in message.get("tool_calls", ()))
        if whole and message["role"] == "tool" and message["tool_call_id"] not in calls:
            expected = "the call_id of an earlier function_call, in input or in the response of previous_response_id"
            raise invalid(f"{at}.call_id", message["tool_call_id"], expected)
        _add(messages, message)
    if not any(message["role"] in ("user", "tool") for message in since_last_answer(messages)):
        problem = (
            "input: nothing to answer came; expected a message of the role user, or a function_call_output, at the end."
        )
        raise ChatError(400, problem, "invalid_value", "input")
    return messages


def _add(messages: list[JSON], message: JSON) -> None:
    """Add a message; calls join the answer before them, and the calls beside them: to models they are one message."""
    before = messages[-1] if messages else None
    if "tool_calls" in message and before is not None and before["role"] == "assistant":
        messages[-1] = {**before, "tool_calls": [*before.get("tool_calls", ()), *message["tool_calls"]]}
    else:
        messages.append(message)


def _message(at: str, item: JSON) -> JSON | None:
    kind = item.get("type", "message" if "role" in item else None)
    match kind:
        case "message":
            return _chat_message(at, item)
        case "function_call":
            return {"role": "assistant", "content": None, "tool_calls": [_call(at, item)]}
        case "function_call_output":
            call_id = string_at(f"{at}.call_id", item.get("call_id"), "the call_id of a function_call")
            output = content_at(f"{at}.output", item.get("output"), partial(_read_part, images=False))
            return {"role": "tool", "content": output, "tool_call_id": call_id}
        case str() if kind in _SKIPPED:
            return None
        case _:
            raise invalid(f"{at}.type", kind, "message, function_call or function_call_output")


def _chat_message(at: str, item: JSON) -> JSON:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise invalid(f"{at}.role", role, f"one of {', '.join(_ROLES)}")
    read = partial(_read_part, images=role == "user")
    return {"role": _ROLES[role], "content": content_at(f"{at}.content", item.get("content"), read)}


def _call(at: str, item: JSON) -> JSON:
    return call_of(
        at,
        item,
        name=lambda: function_name(item.get("namespace"), string_at(f"{at}.name", item.get("name"))),
        call_id=lambda: string_at(f"{at}.call_id", item.get("call_id")),
    )


def _read_part(at: str, fields: JSON, *, images: bool) -> JSON:
    """Return one part, an image in the shape of chat completions."""
    kind = fields.get("type")
    if isinstance(kind, str) and (field := _TEXTS.get(kind)):
        return text_part(at, fields, field)
    if kind == "input_image" and images:
        url = string_at(f"{at}.image_url", fields.get("image_url"), "a URL, such as data:image/png;base64,...")
        detail = fields.get("detail")
        return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if detail else {})}
    texts = "input_text or output_text"
    raise invalid(f"{at}.type", kind, f"{texts}, or input_image with a URL" if images else texts)


_REFUSED: Final[Mapping[str, str]] = {
    "background": "the answer is given to who waits for it. Leave it out",
    "conversation": "there are no stored conversations. Use previous_response_id, or the header X-Session-Id",
    "prompt": "there are no stored prompts. Send instructions and input",
}
_SAME: Final = ("temperature", "top_p", "parallel_tool_calls", "user")
"""Fields of chat completions with the same name and meaning."""
_MAX_METADATA: Final = 16
_MAX_METADATA_CHARS: Final = 512


class ResponseRequest(Struct, frozen=True):
    """The contents of a request."""

    asked: CompletionRequest
    """The request as the agent gets it."""
    history: list[JSON]
    """The whole conversation up to the answer, without instructions."""
    previous: str | None
    store: bool
    echo: JSON
    """The fields that the response repeats."""


def read_response_request(
    body: bytes, session_id: str | None, stored: StoredResponses, limits: ChatEndpointLimits
) -> ResponseRequest:
    """Read the body of a request. Unknown fields are ignored.

    Args:
        body: The body.
        session_id: The session that it continues.
        stored: Earlier responses.
        limits: The limits of one request.

    Raises:
        ChatError: The body is invalid.
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
    """Return the options by the names of chat completions."""
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
    """Return the metadata that the response repeats to the client."""
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
