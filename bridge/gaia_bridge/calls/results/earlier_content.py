"""Results as clients of early revisions know them. Pure.

They refuse a whole result for one block of content of a kind that they do not know: it becomes one that they know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array, is_object

_UNKNOWN: Final[Mapping[str, frozenset[str]]] = {
    "2024-11-05": frozenset({"audio", "resource_link"}),
    "2025-03-26": frozenset({"resource_link"}),
}
"""The kinds of content that came later, by revision."""


def content_for(revision: str, method: str, result: JSON) -> JSON:
    """A result with content and definitions of tools that clients of a revision know.

    Args:
        revision: What the client speaks, earlier than 2025-11-25.
        method: What it asked.
        result: The result; not changed.
    """
    if method == "tools/list" and is_array(tools := result.get("tools")):
        return {**result, "tools": [_without_execution(tool) for tool in tools]}
    unknown = _UNKNOWN.get(revision)
    if unknown is None:
        return result
    if method == "tools/call" and is_array(blocks := result.get("content")):
        return {**result, "content": [_block(block, number, unknown) for number, block in enumerate(blocks)]}
    if method == "prompts/get" and is_array(messages := result.get("messages")):
        return {**result, "messages": [_message(message, number, unknown) for number, message in enumerate(messages)]}
    return result


def _without_execution(tool: JSON) -> JSON:
    """A tool without its way of running as a task, which only 2025-11-25 has."""
    return tool if "execution" not in tool else {key: value for key, value in tool.items() if key != "execution"}


def _message(message: Any, number: int, unknown: frozenset[str]) -> Any:
    return {**message, "content": _block(message.get("content"), number, unknown)} if is_object(message) else message


def _block(block: Any, number: int, unknown: frozenset[str]) -> Any:
    """A block of a known kind: sound as a resource, a link as a sentence about it."""
    kind = block.get("type") if is_object(block) else None
    if kind not in unknown:
        return block
    about = {key: block[key] for key in ("annotations", "_meta") if key in block}
    if kind == "audio":
        # The address of a part of the same message (RFC 2392): a resource has to have one.
        sound = {"uri": f"cid:{number}@content", "mimeType": block.get("mimeType"), "blob": block.get("data")}
        return {"type": "resource", "resource": sound, **about}
    from gaia_bridge.calls.results.rendering import ContentStyle, render_block  # few need it

    return {"type": "text", "text": render_block(block, ContentStyle()), **about}
