"""The conversation in a request: checked, and brought to one shape.

Contents that are lists of texts become one text; `developer` is today's word for `system`, which every model knows.
"""

from __future__ import annotations

from typing import Any, Final

from gaia_bridge.inbound.openai.checks import array_at, invalid, object_at, string_at
from gaia_bridge.inbound.openai.errors import ChatError
from gaia_bridge.jsontypes import JSON, is_array

__all__ = ["joined", "last_question", "read_messages", "since_last_answer"]

_ROLES: Final = {"assistant": "assistant", "developer": "system", "system": "system", "tool": "tool", "user": "user"}
_ASKING: Final = ("user", "tool")
_MAX_PARTS: Final = 1_000
_MAX_CALLS: Final = 256


def read_messages(value: Any, limit: int, *, whole: bool) -> list[JSON]:
    """The messages of a request, each with its role, its content and what belongs to its role.

    Args:
        value: The field `messages`.
        limit: How many there may be.
        whole: Whether it is a whole conversation, or may continue one that the agent remembers.

    Raises:
        ChatError: Something is wrong with one of them.
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
    """What is new to an agent that remembers the conversation."""
    answers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    return messages[answers[-1] + 1 :] if answers else messages


def last_question(messages: list[JSON]) -> str:
    """The text of what the user said last; empty if that was no text."""
    for message in reversed(messages):
        if message["role"] == "user":
            content = message["content"]
            return content if isinstance(content, str) else joined(content)
    return ""


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
        message["content"] = _content(f"{at}.content", fields.get("content"), images=role == "user")
    return message


def _call(at: str, item: Any) -> JSON:
    fields = object_at(at, item)
    function = object_at(f"{at}.function", fields.get("function"), "an object with name and arguments")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        raise invalid(f"{at}.function.arguments", arguments, "a text with JSON in it")
    return {
        "id": string_at(f"{at}.id", fields.get("id")),
        "type": "function",
        "function": {"name": string_at(f"{at}.function.name", function.get("name")), "arguments": arguments},
    }


def _content(at: str, value: Any, *, images: bool) -> str | list[JSON]:
    """One text, or parts as they came where an image is among them."""
    if isinstance(value, str):
        return value
    if not is_array(value) or not value:
        raise invalid(at, value, "a text, or a list of parts")
    items = array_at(at, value, _MAX_PARTS, "a list of parts")
    parts = [_part(f"{at}[{number}]", item, images=images) for number, item in enumerate(items)]
    return joined(parts) if all(part["type"] == "text" for part in parts) else parts


def _part(at: str, item: Any, *, images: bool) -> JSON:
    fields = object_at(at, item, "an object with type")
    match fields.get("type"):
        case "text" | "refusal" as kind:
            text = fields.get(kind)
            if not isinstance(text, str):
                raise invalid(f"{at}.{kind}", text, "a text")
            return {"type": "text", "text": text}
        case "image_url" if images:
            image = object_at(f"{at}.image_url", fields.get("image_url"), "an object with url")
            string_at(f"{at}.image_url.url", image.get("url"), "a URL, such as data:image/png;base64,...")
            return fields
        case other:
            raise invalid(f"{at}.type", other, "text or image_url" if images else "text")


def joined(parts: list[JSON]) -> str:
    """The texts among the parts of a content, as one."""
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _check_results(messages: list[JSON]) -> None:
    """Refuse results of calls that nobody asked for: no model would understand them."""
    known: set[str] = set()
    for number, message in enumerate(messages):
        known.update(call["id"] for call in message.get("tool_calls", ()))
        if message["role"] == "tool" and message["tool_call_id"] not in known:
            expected = "the id of one of the tool_calls of an earlier message of the role assistant"
            raise invalid(f"messages[{number}].tool_call_id", message["tool_call_id"], expected)
