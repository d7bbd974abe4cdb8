"""The message to a model whose arguments a tool refused: the error, the tool's schema and the arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["is_validation_error", "validation_message"]

_SOUNDS_LIKE_ONE: Final = re.compile(
    r"""
      -32602                                                # the JSON-RPC code: servers written in TypeScript
    | \binvalid\ (?:params|parameters?|arguments?|input)\b
    | \bvalidation\ (?:errors?|failed)\b                    # pydantic, and what is written with FastMCP
    | \bnot\ fit\ the\ input\ schema\b                      # agents that this bridge publishes
    | \bis\ a\ required\ property\b                         # jsonschema
    | \bmissing\ (?:\d+\ )?required\b
    """,
    re.IGNORECASE | re.VERBOSE,
)

_IS_ABOUT_THE_RESULT: Final = re.compile(r"\boutput (?:schema|validation)\b", re.IGNORECASE)
"""The same words, but the server broke its own promise: other arguments would not help."""


def is_validation_error(text: str) -> bool:
    """Whether the text of an `isError` result says that the arguments did not fit, as servers usually put it."""
    return _SOUNDS_LIKE_ONE.search(text) is not None and _IS_ABOUT_THE_RESULT.search(text) is None


def validation_message(tool_name: str, details: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return a text with everything that a model needs to call the tool correctly the next time.

    Args:
        tool_name: What the server calls the tool.
        details: What the server said.
        schema: The tool's input schema.
        arguments: What it was called with.
    """
    return "\n".join(
        (
            f"MCP tool '{tool_name}' input validation failed.",
            "",
            "Error details:",
            details,
            "",
            "Expected tool schema:",
            _indented_json(schema),
            "",
            "Your arguments:",
            _indented_json(arguments),
        )
    )


def _indented_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
