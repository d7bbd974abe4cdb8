"""Messages of a conversation, in OpenAI's shape. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gaia_bridge.chat_types import Reply, ToolCall
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = [
    "answered",
    "assistant_message",
    "call_ids",
    "decoded",
    "sendable",
    "split_instructions",
    "tool_message",
    "user_message",
]

_INSTRUCTING = ("system", "developer")

_BEYOND_64_BITS: Final = 2.0**63


def user_message(prompt: str) -> JSON:
    """Return a prompt as a message of the user."""
    return {"role": "user", "content": valid_text(prompt)}


def tool_message(call: ToolCall, content: str) -> JSON:
    """Return the message with the result of a call."""
    return {"role": "tool", "tool_call_id": valid_text(call.id), "content": content}


def assistant_message(reply: Reply, calls: Iterable[ToolCall]) -> JSON:
    """Return the model's reply, with these calls of it, as a message of the conversation.

    Servers that parse the arguments of earlier calls fail with those that are no JSON object: these become `{}` here,
    and are quoted in the result, which tells the model the mistake.
    """
    message: JSON = {"role": "assistant", "content": valid_text(reply.text)}
    wanted = [
        {
            "id": valid_text(call.id),
            "type": "function",
            "function": {"name": valid_text(call.name), "arguments": _object_text(call.arguments)},
        }
        for call in calls
    ]
    return {**message, "tool_calls": wanted} if wanted else message


def sendable(message: JSON) -> JSON:
    """Return the message with each half of a character replaced: JSON in UTF-8, as a model's server gets it, has none.

    A half that is kept in a history would make every later turn fail.

    Raises:
        ValueError: It is nested too deeply, or no JSON.
    """
    try:
        text = json.dumps(message, ensure_ascii=False)
        safe = valid_text(text)
        return message if safe == text else decoded(safe)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"a message of the conversation cannot be sent: {error}") from None


def decoded(text: str) -> Any:
    """Decode JSON that a model wrote, strictly: `NaN` is no JSON, and servers refuse it, as they do `1e999`.

    Raises:
        ValueError: It is no JSON.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse, parse_float=_number)


def call_ids(message: JSON) -> tuple[str, ...]:
    """Return the ids of the calls that an assistant's message holds."""
    calls = message.get("tool_calls")
    return tuple(item["id"] for item in calls if _is_call(item)) if is_array(calls) else ()


def split_instructions(messages: Iterable[JSON]) -> tuple[list[str], list[JSON]]:
    """Take the system messages out: many models accept one, and only as the first.

    Returns:
        Their texts, and all other messages.
    """
    instructions: list[str] = []
    others: list[JSON] = []
    for message in messages:
        if message.get("role") in _INSTRUCTING:
            instructions.append(_text(message.get("content")))
        else:
            others.append(message)
    return [text for text in instructions if text], others


def answered(messages: Sequence[JSON]) -> list[JSON]:
    """Return the messages with exactly one answer to every tool call, as servers demand.

    A client may have gone on without running its own tools, may answer twice, or when nobody waits any more.
    """
    result: list[JSON] = []
    waiting: dict[str, None] = {}
    for message in messages:
        if message.get("role") == "tool":
            name = str(message.get("tool_call_id"))
            if name in waiting:
                del waiting[name]
                result.append(message)
        else:
            result += _given_up(waiting)
            waiting = dict.fromkeys(call_ids(message))
            result.append(message)
    return result + _given_up(waiting)


def _object_text(arguments: str) -> str:
    try:
        return valid_text(arguments) if is_object(decoded(arguments)) else "{}"
    except (ValueError, RecursionError):
        return "{}"


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


def _number(digits: str) -> int | float:
    """Read a number with a point or an exponent; one that needs more than 64 bits becomes an integer.

    To JSON Schema `1e30` is an integer, but pydantic takes no float of that size for one.
    """
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits:.40} is too large")
    return int(value) if abs(value) >= _BEYOND_64_BITS else value


def _is_call(item: Any) -> bool:
    return is_object(item) and isinstance(item.get("id"), str)


def _given_up(waiting: dict[str, None]) -> list[JSON]:
    return [{"role": "tool", "tool_call_id": name, "content": "(not run)"} for name in waiting]


def _text(content: Any) -> str:
    if is_array(content):
        return "\n".join(str(part.get("text", "")) for part in content if is_object(part))
    return "" if content is None else str(content)
