"""Results of MCP tools as a GAIA agent's model reads them ("GAIA Response Wrapping"). Pure."""

from __future__ import annotations

from typing import Any, Final

from gaia_bridge.calls.results.rendering import FAILED_SILENTLY, ContentStyle, render_result

__all__ = ["failure_text", "wrapped_failure", "wrapped_success"]

_INSTRUCTION: Final = (
    "Parse this JSON data and provide a human-readable summary. "
    "Your answer must be a plain text string, not a JSON object."
)

_TEXTS: Final = ContentStyle(texts_only=True)
"""Only the texts of a result say why a tool failed; the whole result is handed on beside them."""


def wrapped_success(tool_name: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a successful tool call, as a model gets it."""
    return {
        "status": "success",
        "message": f"Tool '{tool_name}' returned data",
        "data": result,
        "instruction": _INSTRUCTION,
    }


def wrapped_failure(error: Any, result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a failed tool call, as a model gets it."""
    return {"status": "error", "error": error, "data": result}


def failure_text(result: dict[str, Any]) -> str | None:
    """Return the text of an MCP result with `isError`; `None` for any other result."""
    if result.get("isError") is not True:
        return None
    return render_result(result, _TEXTS) or FAILED_SILENTLY
