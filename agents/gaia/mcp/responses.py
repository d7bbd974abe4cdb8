"""Results of MCP tools as a GAIA agent's model reads them ("GAIA Response Wrapping"). Pure."""

from __future__ import annotations

import json
from typing import Any, Final

from gaia_bridge.protocol.json_types import is_array, is_object

__all__ = ["failure_text", "wrapped_failure", "wrapped_success"]

_INSTRUCTION: Final = (
    "Parse this JSON data and provide a human-readable summary. "
    "Your answer must be a plain text string, not a JSON object."
)


def wrapped_success(tool_name: str, result: dict[str, Any]) -> dict[str, Any]:
    """What a model is given when a tool did its work."""
    return {
        "status": "success",
        "message": f"Tool '{tool_name}' returned data",
        "data": result,
        "instruction": _INSTRUCTION,
    }


def wrapped_failure(error: Any, result: dict[str, Any]) -> dict[str, Any]:
    """What a model is given when a tool failed."""
    return {"status": "error", "error": error, "data": result}


def failure_text(result: dict[str, Any]) -> str | None:
    """What an MCP result that says `isError` says about it; `None` for any other result."""
    if result.get("isError") is not True:
        return None
    content = result.get("content")
    blocks: list[Any] = content if is_array(content) else []
    texts = [block["text"] for block in blocks if is_object(block) and isinstance(block.get("text"), str)]
    if texts:
        return "\n".join(texts)
    structured = result.get("structuredContent")
    return "The tool failed without saying why" if structured is None else json.dumps(structured, ensure_ascii=False)
