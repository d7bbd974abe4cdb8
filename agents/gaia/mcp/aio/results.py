"""Results of MCP tools as GAIA has them: `{"success": ..., ...}`, with the content as text. Pure."""

from __future__ import annotations

from typing import Any, Final

from gaia_bridge.calls.results.conversion import is_input_required
from gaia_bridge.calls.results.rendering import FAILED_SILENTLY, ContentStyle, render_result
from gaia_bridge.errors import ToolError
from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["answered", "failure", "outcome"]

_STYLE: Final = ContentStyle(
    "[{Kind}: {facts}]", media=("mimeType",), resource=("uri",), link=("uri",), embedded_text=False
)
_ASKS = "The tool asks for input that nobody can give it here"


def outcome(result: object) -> dict[str, Any]:
    """Return the outcome of a tool call as a dictionary.

    Args:
        result: The MCP result, as it came.

    Returns:
        `{"success": True, "content": text}`, or `{"success": False, "error": text}` if it says `isError`.
    """
    if is_input_required(result):
        return failure(_ASKS)
    if not is_object(result):  # over a transport of one's own
        return failure(f"The tool answered with a {type(result).__name__}; expected an object")
    text = render_result(result, _STYLE)
    if result.get("isError") is True:
        return failure(text or FAILED_SILENTLY)
    return {"success": True, "content": text}


def answered(result: JSON) -> JSON:
    """Return the MCP result as it came, unless it asks for input.

    Raises:
        ToolError: The tool asks for input instead.
    """
    if is_input_required(result):
        raise ToolError(_ASKS)
    return result


def failure(error: str) -> dict[str, Any]:
    """Return an error in the form of `outcome`."""
    return {"success": False, "error": error}
