"""The schemas of some sixty signatures: those that are expected, and that they are schemas which clients can use.

What is expected is in `battery.json`: for each signature its `inputSchema` and `outputSchema`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from gaia_bridge import tool
from gaia_bridge.errors import ToolError
from gaia_bridge.sources.functions.collection import DecoratedFunctions, decorated_members
from gaia_bridge.sources.functions.typed_function import TypedFunction
from tests.bridge.sources.functions.battery import SIGNATURES

EXPECTED: dict[str, list[Any]] = json.loads(Path(__file__).with_name("battery.json").read_text(encoding="utf-8"))


def name_of(function: Callable[..., Any]) -> str:
    return function.__name__


def test_every_signature_has_its_expectation() -> None:
    assert [it.__name__ for it in SIGNATURES] == list(EXPECTED)


@pytest.mark.parametrize("function", SIGNATURES, ids=name_of)
def test_a_signature_means_these_schemas(function: Callable[..., Any]) -> None:
    [definition] = DecoratedFunctions(decorated_members(tool(function))).get_mcp_tool_definitions()
    schemas = [definition["inputSchema"], definition.get("outputSchema")]
    assert schemas == EXPECTED[function.__name__]
    for schema in filter(None, schemas):
        assert schema["type"] == "object"
        jsonschema_rs.meta.validate(schema)
        assert json.loads(json.dumps(schema, allow_nan=False)) == schema


@pytest.mark.parametrize("function", SIGNATURES, ids=name_of)
def test_nothing_at_all_is_refused_with_what_is_missing(function: Callable[..., Any]) -> None:
    typed = TypedFunction(function, "tool 'f'")
    needed: list[str] = typed.input_schema.get("required", [])
    if not needed:
        assert isinstance(typed.arguments({}), dict)
        return
    with pytest.raises(ToolError) as caught:
        typed.published({})
    assert all(f"at (root): got {{}}; {name!r} is required" in str(caught.value) for name in needed)
