"""How the parameters of a tool are shown to people."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge_cli.servers.arguments import parameter_lines, signature

COLOURS = {"enum": ["red", "green"], "type": "string"}
SCHEMA = {"$defs": {"Colour": COLOURS, "Loop": {"$ref": "#/$defs/Loop"}, "a/b": {"type": "integer"}}}


def shown(about: Any, **more: Any) -> str:
    """The one parameter of a tool, as its signature has it."""
    text = signature({"name": "t", "inputSchema": {"properties": {"key": about}, **SCHEMA, **more}})
    return text.removeprefix("t(").removesuffix(")")


@pytest.mark.parametrize(
    ("about", "kind"),
    [
        ({"type": "string"}, "str"),
        ({}, "Any"),
        (True, "Any"),
        ({"type": "object"}, "dict"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]"),
        (COLOURS, '"red" | "green"'),
        ({"enum": [1, None, True]}, "1 | None | True"),
        ({"const": "x"}, '"x"'),
        ({"type": ["string", "null"]}, "str | None"),
        ({"anyOf": [COLOURS, {"type": "null"}]}, '"red" | "green" | None'),
        ({"oneOf": [{"type": "string"}, {"type": "string", "format": "uri"}]}, "str"),
        ({"type": "array"}, "list"),
        ({"type": ["array", "null"], "items": {"type": "string"}}, "list[str] | None"),
        ({"type": "array", "items": {"$ref": "#/$defs/Colour"}}, 'list["red" | "green"]'),
        ({"$ref": "#/$defs/Colour"}, '"red" | "green"'),
        ({"$ref": "#/$defs/a~1b"}, "int"),
        ({"$ref": "#/$defs/Loop"}, "Any"),
        ({"$ref": "#/nowhere"}, "Any"),
        ({"$ref": "https://example.com/schema"}, "Any"),
        ({"type": {"odd": 1}}, "Any"),
        ({"enum": list(range(32))}, " | ".join([*map(str, range(30)), "and 2 more"])),
        ({"enum": []}, "Never"),
    ],
)
def test_a_parameter_is_shown_with_its_type_as_python_writes_it(about: Any, kind: str) -> None:
    assert shown(about, required=["key"]) == f"key: {kind}"


def test_what_can_be_left_out_is_shown_with_what_it_is_then() -> None:
    assert shown({"$ref": "#/$defs/Colour", "default": "red"}) == 'key: "red" | "green" = "red"'
    assert shown({"type": "boolean", "default": False}) == "key: bool = False"
    assert shown({"type": "string"}) == "key: str = ..."


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ({"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}, " -> str"),
        ({"type": "object", "properties": {"result": {"type": "string"}}}, " -> dict"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, " -> dict[str, int]"),
        (None, ""),
    ],
)
def test_what_a_tool_returns_is_shown_as_its_function_has_it(output: Any, told: str) -> None:
    assert signature({"name": "t\n", "outputSchema": output}) == f"t (){told}"


def test_lines_tell_what_parameters_are_for() -> None:
    about = {"$ref": "#/$defs/Colour", "default": "red", "description": "of the\nbikeshed"}
    properties = {"key": about, "silent": {"type": "string"}}
    assert parameter_lines({"properties": properties, **SCHEMA}) == ['key: "red" | "green" = "red"  of the bikeshed']


@pytest.mark.parametrize("schema", [None, [], {}, {"properties": []}, {"type": "object"}])
def test_a_schema_without_parameters_has_no_lines(schema: Any) -> None:
    assert parameter_lines(schema) == []
