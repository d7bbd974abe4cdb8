"""Messages of a conversation, in OpenAI's shape. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from gaia_bridge.chats import Reply, ToolCall
from gaia_bridge.jsontypes import JSON, is_array, is_object

__all__ = ["answered", "as_call", "assistant_message", "call_ids", "split_instructions", "user_message"]

_INSTRUCTING = ("system", "developer")


def user_message(prompt: str) -> JSON:
    """What a person says."""
    return {"role": "user", "content": prompt}


def assistant_message(reply: Reply, calls: Iterable[ToolCall]) -> JSON:
    """What the model said, as it is told later what it said.

    Servers that parse the arguments of earlier calls fail with those that are no JSON object: these are left out here,
    and quoted where the model is told what was wrong with them.
    """
    message: JSON = {"role": "assistant", "content": reply.text}
    wanted = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _object_text(call.arguments)}}
        for call in calls
    ]
    return {**message, "tool_calls": wanted} if wanted else message


def as_call(item: Any) -> str | None:
    """The id of one item of `tool_calls`."""
    return item.get("id") if is_object(item) and isinstance(item.get("id"), str) else None


def call_ids(message: JSON) -> tuple[str, ...]:
    """The ids of the calls that an assistant's message holds."""
    calls = message.get("tool_calls")
    return tuple(name for item in calls if (name := as_call(item)) is not None) if is_array(calls) else ()


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
    """The same, with an answer to every tool call: a client may have gone on without running its own tools."""
    found: list[JSON] = []
    waiting: dict[str, None] = {}
    for message in messages:
        if message.get("role") == "tool":
            waiting.pop(str(message.get("tool_call_id")), None)
        else:
            found += _given_up(waiting)
            waiting = dict.fromkeys(call_ids(message))
        found.append(message)
    return found + _given_up(waiting)


def _object_text(arguments: str) -> str:
    try:
        return arguments if is_object(json.loads(arguments)) else "{}"
    except (ValueError, RecursionError):
        return "{}"


def _given_up(waiting: dict[str, None]) -> list[JSON]:
    return [{"role": "tool", "tool_call_id": name, "content": "(not run)"} for name in waiting]


def _text(content: Any) -> str:
    if is_array(content):
        return "\n".join(str(part.get("text", "")) for part in content if is_object(part))
    return "" if content is None else str(content)
