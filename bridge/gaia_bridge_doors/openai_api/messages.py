"""The conversation in a request, its contents and its calls: checked, and converted to one shape.

The shape is that of chat completions, whichever API a request came by. Contents that are lists of texts become one
text; `developer` is today's name for `system`, which every model accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.conversation.turn import joined
from gaia_bridge_doors.openai_api.options import array_at, invalid, object_at, string_at, text_at

ReadPart = Callable[[str, JSON], JSON]
"""Reads one part of a content in the shape of an API, given its place and its fields."""

_MAX_PARTS: Final = 1_000


def content_at(at: str, value: Any, read: ReadPart, *, least: int = 0) -> str | list[JSON]:
    """Return a content: one text, or a list of parts if not all of them are texts.

    Args:
        at: The place of the content, for messages.
        value: The content.
        read: Reads each part.
        least: The least number of parts.

    Raises:
        ChatError: The content is invalid.
    """
    if isinstance(value, str):
        return value
    if not is_array(value) or len(value) < least:
        raise invalid(at, value, "a text, or a list of parts")
    items = array_at(at, value, _MAX_PARTS, "a list of parts")
    places = [f"{at}[{number}]" for number in range(len(items))]
    parts = [
        read(place, object_at(place, item, "an object with type")) for place, item in zip(places, items, strict=True)
    ]
    return joined(parts) if all(part["type"] == "text" for part in parts) else parts


def text_part(at: str, fields: JSON, field: str) -> JSON:
    """Return a text part, with the text of that field."""
    return {"type": "text", "text": text_at(f"{at}.{field}", fields.get(field))}


def call_of(at: str, fields: JSON, name: Callable[[], str], call_id: Callable[[], str]) -> JSON:
    """Return a call of a tool.

    Args:
        at: The place of its name and arguments, for messages.
        fields: The name and arguments.
        name: Reads the name.
        call_id: Reads its id.

    Raises:
        ChatError: The call is invalid.
    """
    arguments = text_at(f"{at}.arguments", fields.get("arguments"), "a text with JSON in it")
    return {"id": call_id(), "type": "function", "function": {"name": name(), "arguments": arguments}}


_ROLES: Final = {"assistant": "assistant", "developer": "system", "system": "system", "tool": "tool", "user": "user"}
_ASKING: Final = ("user", "tool")
_MAX_CALLS: Final = 256


def read_messages(value: Any, limit: int, *, whole: bool) -> list[JSON]:
    """Return the messages of a request, each with its role, its content and the fields of its role.

    Args:
        value: The field `messages`.
        limit: The most messages that are allowed.
        whole: Whether it is a whole conversation, or may continue one that the agent remembers.

    Raises:
        ChatError: One of the messages is invalid.
    """
    expected = "a list of messages, the last of them what is asked"
    items = array_at("messages", value, limit, expected)
    messages = [_message(f"messages[{number}]", item) for number, item in enumerate(items)]
    if not any(message["role"] in _ASKING for message in since_last_answer(messages)):
        last = f"one of the role {messages[-1]['role']} at the end" if messages else "none"
        problem = f"messages: {last} came; expected a message of the role user or tool, which the agent answers."
        raise ChatError(400, problem, "invalid_value", "messages")
    if whole:
        _check_results(messages)
    return messages


def since_last_answer(messages: list[JSON]) -> list[JSON]:
    """Return the messages that are new to an agent that remembers the conversation."""
    answers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    return messages[answers[-1] + 1 :] if answers else messages


def _message(at: str, item: Any) -> JSON:
    fields = object_at(at, item, "an object with role and content")
    role = fields.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise invalid(f"{at}.role", role, f"one of {', '.join(_ROLES)}")
    message: JSON = {"role": _ROLES[role], "content": None}
    if fields.get("name") is not None:
        message["name"] = string_at(f"{at}.name", fields["name"])
    if role == "tool":
        message["tool_call_id"] = string_at(f"{at}.tool_call_id", fields.get("tool_call_id"), "the id of a tool call")
    if role == "assistant" and fields.get("tool_calls"):
        calls = array_at(f"{at}.tool_calls", fields["tool_calls"], _MAX_CALLS, "a list of tool calls")
        message["tool_calls"] = [_call(f"{at}.tool_calls[{number}]", call) for number, call in enumerate(calls)]
    if fields.get("content") is not None or "tool_calls" not in message:
        read = partial(_read_part, images=role == "user")
        message["content"] = content_at(f"{at}.content", fields.get("content"), read, least=1)
    return message


def _call(at: str, item: Any) -> JSON:
    fields = object_at(at, item)
    function = object_at(f"{at}.function", fields.get("function"), "an object with name and arguments")
    return call_of(
        f"{at}.function",
        function,
        name=lambda: string_at(f"{at}.function.name", function.get("name")),
        call_id=lambda: string_at(f"{at}.id", fields.get("id")),
    )


def _read_part(at: str, fields: JSON, *, images: bool) -> JSON:
    """Return one part; an image as it came."""
    match fields.get("type"):
        case "text" | "refusal" as kind:
            return text_part(at, fields, kind)
        case "image_url" if images:
            image = object_at(f"{at}.image_url", fields.get("image_url"), "an object with url")
            string_at(f"{at}.image_url.url", image.get("url"), "a URL, such as data:image/png;base64,...")
            return fields
        case other:
            raise invalid(f"{at}.type", other, "text or image_url" if images else "text")


def _check_results(messages: list[JSON]) -> None:
    """Refuse results of unknown calls: no model would understand them."""
    call_ids: set[str] = set()
    for number, message in enumerate(messages):
        call_ids.update(call["id"] for call in message.get("tool_calls", ()))
        if message["role"] == "tool" and message["tool_call_id"] not in call_ids:
            expected = "the id of one of the tool_calls of an earlier message of the role assistant"
            raise invalid(f"messages[{number}].tool_call_id", message["tool_call_id"], expected)
