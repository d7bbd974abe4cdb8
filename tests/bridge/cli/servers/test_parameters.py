"""How the parameters of a tool are shown to people."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.cli.servers.parameters import parameter_lines

COLOURS = {"enum": ["red", "green"], "type": "string"}
SCHEMA = {"$defs": {"Colour": COLOURS, "Loop": {"$ref": "#/$defs/Loop"}, "a/b": {"type": "integer"}}}


def shown(about: Any, **more: Any) -> str:
    [line] = parameter_lines({"properties": {"key": about}, **SCHEMA, **more})
    return line


@pytest.mark.parametrize(
    ("about", "kind"),
    [
        ({"type": "string"}, "string"),
        ({}, "any"),
        (True, "any"),
        (COLOURS, '"red" | "green"'),
        ({"enum": [1, None]}, "1 | null"),
        ({"const": "x"}, '"x"'),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [COLOURS, {"type": "null"}]}, '"red" | "green" | null'),
        ({"oneOf": [{"type": "string"}, {"type": "string", "format": "uri"}]}, "string"),
        ({"type": "array", "items": {"type": "string"}}, "array of string"),
        ({"type": "array", "items": {"$ref": "#/$defs/Colour"}}, 'array of ("red" | "green")'),
        ({"$ref": "#/$defs/Colour"}, '"red" | "green"'),
        ({"$ref": "#/$defs/a~1b"}, "integer"),
        ({"$ref": "#/$defs/Loop"}, "any"),
        ({"$ref": "#/nowhere"}, "any"),
        ({"$ref": "https://example.com/schema"}, "any"),
        ({"enum": list(range(32))}, " | ".join([*map(str, range(30)), "and 2 more"])),
        ({"enum": []}, "nothing"),
    ],
)
def test_what_a_parameter_may_be_is_told(about: Any, kind: str) -> None:
    assert shown(about, required=["key"]) == f"key: {kind}"


def test_what_can_be_left_out_is_told_with_what_it_is_then_and_what_it_is_for() -> None:
    about = {"$ref": "#/$defs/Colour", "default": "red", "description": "of the\nbikeshed"}
    assert shown(about) == 'key: "red" | "green" (optional, default "red")  of the bikeshed'
    assert shown({"type": "string"}) == "key: string (optional)"


@pytest.mark.parametrize("schema", [None, [], {}, {"properties": []}, {"type": "object"}])
def test_a_schema_without_parameters_has_no_lines(schema: Any) -> None:
    assert parameter_lines(schema) == []
