"""What messages consist of, in the words of chat completions, whichever API they came by: contents, and calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array
from gaia_bridge_doors.conversation.turn import joined
from gaia_bridge_doors.openai_api.checks import array_at, invalid, object_at, text_at

ReadPart = Callable[[str, JSON], JSON]
"""Reads one part of a content, as this API has them: where it is, and its fields."""

_MAX_PARTS: Final = 1_000


def content_at(at: str, value: Any, read: ReadPart, *, least: int = 0) -> str | list[JSON]:
    """A content: one text, or parts where there is more than texts among them.

    Args:
        at: Where it is, for messages.
        value: It.
        read: Reads each part.
        least: How many parts there must be.

    Raises:
        ChatError: Something is wrong with it.
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
    """A part that is a text, which that field of it has."""
    return {"type": "text", "text": text_at(f"{at}.{field}", fields.get(field))}


def call_of(at: str, fields: JSON, name: Callable[[], str], call_id: Callable[[], str]) -> JSON:
    """A call of a tool.

    Args:
        at: Where its name and arguments are, for messages.
        fields: They.
        name: Reads the name.
        call_id: Reads its id.

    Raises:
        ChatError: Something is wrong with it.
    """
    arguments = text_at(f"{at}.arguments", fields.get("arguments"), "a text with JSON in it")
    return {"id": call_id(), "type": "function", "function": {"name": name(), "arguments": arguments}}
