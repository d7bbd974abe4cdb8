"""Results of MCP tools as GAIA has them: `{"success": ..., ...}`, with the content as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gaia_bridge.errors import ToolError
from gaia_bridge.protocol.json_types import JSON, is_array, is_object
from gaia_bridge.results.conversion import is_input_required

__all__ = ["answered", "failure", "outcome"]

_SILENT = "The tool failed without saying why"
_ASKS = "The tool asks for input that nobody can give it here"


def outcome(result: object) -> dict[str, Any]:
    """What a tool did.

    Args:
        result: The MCP result, as it came.

    Returns:
        `{"success": True, "content": text}`, or `{"success": False, "error": text}` if it says `isError`.
    """
    if is_input_required(result):
        return failure(_ASKS)
    if not is_object(result):  # over a transport of one's own
        return failure(f"The tool answered with a {type(result).__name__}; expected an object")
    text = _text(result)
    if result.get("isError") is True:
        return failure(text or _SILENT)
    return {"success": True, "content": text}


def answered(result: JSON) -> JSON:
    """The MCP result, as it came, if it is one.

    Raises:
        ToolError: The tool asks for input instead.
    """
    if is_input_required(result):
        raise ToolError(_ASKS)
    return result


def failure(error: str) -> dict[str, Any]:
    """What went wrong, as data."""
    return {"success": False, "error": error}


def _text(result: JSON) -> str:
    """The content blocks, each as text; what is structured, where there are none."""
    content = result.get("content")
    blocks: list[Any] = content if is_array(content) else []
    structured = result.get("structuredContent")
    if not blocks and structured is not None:
        return json.dumps(structured, ensure_ascii=False)
    return "\n".join(_block_text(block) for block in blocks if is_object(block))


def _block_text(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image":
            return f"[Image: {block.get('mimeType')}]"
        case "audio":
            return f"[Audio: {block.get('mimeType')}]"
        case "resource" if is_object(resource := block.get("resource")):  # embedded: the URI is in there
            return f"[Resource: {resource.get('uri')}]"
        case "resource" | "resource_link":
            return f"[Resource: {block.get('uri')}]"
        case kind:
            return f"[{kind}]"
