"""What a model is given for the result of an MCP tool."""

from __future__ import annotations

from typing import Any

import pytest

from gaia.mcp.responses import failure_text


@pytest.mark.requirement("S0-24")
@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"isError": True, "content": [{"type": "text", "text": "it did"}, {"type": "text", "text": "not work"}]},
         "it did\nnot work"),
        ({"isError": True, "content": [{"type": "image", "data": "aGk="}, "odd", {"text": 5}]},
         "The tool failed without saying why"),
        ({"isError": True, "structuredContent": {"reason": "ü"}}, '{"reason":"ü"}'),
        ({"isError": True}, "The tool failed without saying why"),
        ({"isError": False, "content": []}, None),
        ({"isError": "yes"}, None),
        ({"content": []}, None),
    ],
)  # fmt: skip
def test_a_result_that_says_it_is_an_error_has_a_text(result: dict[str, Any], text: str | None) -> None:
    assert failure_text(result) == text
