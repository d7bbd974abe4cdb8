"""Which `isError` texts say that the arguments did not fit."""

from __future__ import annotations

import pytest

from gaia.mcp.client.validation import is_validation_error


@pytest.mark.requirement("S0-35")
@pytest.mark.parametrize(
    "text",
    [
        "Invalid params: missing required parameter 'path'",
        "Input validation error: 'path' is a required property",
        "MCP error -32602: Input validation error: Invalid arguments for tool read_file",
        "1 validation error for call[read_file]\npath\n  Missing required argument",
        "read_file() missing 1 required positional argument: 'path'",
        "The arguments do not fit the input schema of tool 'echo':\n- at (root): got {}",
    ],
)
def test_what_servers_say_about_wrong_arguments_is_recognised(text: str) -> None:
    assert is_validation_error(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "File not found: /x",
        "The form is invalid",
        "Required reading: none",
        "Output validation error: 'sum' is a required property",
        "upstream 'up' answered with structured content against the output schema of its tool 'add':\n"
        '- at (root): got {}; "sum" is a required property',
    ],
)
def test_other_failures_are_not(text: str) -> None:
    assert not is_validation_error(text)
