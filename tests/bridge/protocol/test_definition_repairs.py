"""What MCP's own schema forbids in a definition is put right, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.protocol.definition_repairs import repaired
from gaia_bridge.protocol.kinds import KINDS
from gaia_bridge.protocol.vocabulary import definition_problem, for_legacy
from gaia_bridge.text.json_types import JSON

EMPTY: JSON = {"type": "object", "properties": {}}
STRING: JSON = {"type": "string"}

values = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
texts = st.text(max_size=3)
schemas = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", None, ["object", "null"], ["object"]]),
        "properties": st.none() | st.dictionaries(texts, st.just(STRING) | st.booleans() | st.none(), max_size=3),
        "required": st.none() | st.booleans() | texts | st.lists(texts, max_size=3),
        "description": texts,
        "x-vendor": values,
    },
)
tools = st.fixed_dictionaries(
    {"name": texts},
    optional={
        "inputSchema": st.none() | schemas,
        "title": st.none() | texts,
        "description": st.none() | texts,
        "outputSchema": st.none() | st.just(EMPTY),
        "annotations": st.none() | st.dictionaries(st.just("readOnlyHint"), st.none() | st.booleans()),
        "icons": st.none(),
        "execution": st.none(),
        "_meta": st.none(),
        "x-vendor": values,
    },
)


def assert_is_strict(tool: JSON, *, legacy: bool) -> None:
    """As the schema of MCP has it, which the TypeScript SDK takes literally."""
    schema = tool["inputSchema"]
    assert schema["type"] == "object"
    properties = schema.get("properties", {})
    assert all(isinstance(item, dict if legacy else (dict, bool)) for item in properties.values())
    assert all(isinstance(name, str) for name in schema.get("required", []))
    for field in ("title", "description", "outputSchema", "annotations", "icons", "execution", "_meta"):
        assert tool.get(field, "absent") is not None
    assert None not in tool.get("annotations", {}).values()


@given(tools)
@pytest.mark.requirement("F-293")
def test_whatever_is_left_unclear_a_strict_client_can_read_the_tool(tool: JSON) -> None:
    shown = repaired("tool", tool)
    assert definition_problem("tool", shown) is None
    assert_is_strict(shown, legacy=False)
    legacy = for_legacy("tool", shown)
    assert legacy is not None
    assert_is_strict(legacy, legacy=True)
    assert repaired("tool", shown) == shown
    assert (shown["name"], "x-vendor" in shown) == (tool["name"], "x-vendor" in tool)


@pytest.mark.requirement("F-293", "S1-18")
@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (None, EMPTY),
        ({}, EMPTY),
        ({"type": None}, EMPTY),
        (
            {"properties": {"a": STRING}, "required": ["a"]},
            {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
        ),
        ({"anyOf": [{"required": ["a"]}]}, {**EMPTY, "anyOf": [{"required": ["a"]}]}),
        ({"type": "object", "properties": None, "required": None}, EMPTY),
        ({"type": "object", "properties": []}, EMPTY),
        ({"type": ["object", "null"], "properties": {"a": None}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "object", "required": True}, {"type": "object"}),
        ({"type": "object", "required": "a"}, {"type": "object", "required": ["a"]}),
        (
            {
                "type": "object",
                "properties": {
                    "a": {"type": "object", "properties": {"b": None}, "required": None, "additionalProperties": None},
                    "c": {"anyOf": [{"type": "array", "items": None}, None], "enum": [None, 1], "default": None},
                },
                "additionalProperties": None,
                "$defs": {"d": {"type": "string", "minLength": None, "const": None}},
            },
            {
                "type": "object",
                "properties": {
                    "a": {"type": "object", "properties": {"b": {}}},
                    "c": {"anyOf": [{"type": "array"}, {}], "enum": [None, 1], "default": None},
                },
                "$defs": {"d": {"type": "string", "const": None}},
            },
        ),
    ],
)
def test_a_schema_that_is_none_of_an_object_becomes_one(schema: object, shown: JSON) -> None:
    assert repaired("tool", {"name": "x", "inputSchema": schema}) == {"name": "x", "inputSchema": shown}


@pytest.mark.requirement("F-293")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {
            "type": "object",
            "properties": {"a": True, "b": {"default": None}},
            "required": [],
            "additionalProperties": False,
        },
        {"type": "string"},
        {"type": ["string", "null"]},
        True,
        "object",
        [],
    ],
)
def test_a_schema_that_is_allowed_and_one_of_something_else_stay_as_they_are(schema: object) -> None:
    assert repaired("tool", {"name": "x", "inputSchema": schema})["inputSchema"] == schema


@pytest.mark.requirement("F-293")
@pytest.mark.parametrize(
    ("kind", "definition", "shown"),
    [
        ("prompt", {"name": "p", "title": None, "arguments": None}, {"name": "p"}),
        (
            "prompt",
            {"name": "p", "arguments": [{"name": "a", "description": None, "required": None}, 5]},
            {"name": "p", "arguments": [{"name": "a"}, 5]},
        ),
        ("resource", {"uri": "a:b", "name": "r", "mimeType": None, "size": None}, {"uri": "a:b", "name": "r"}),
        (
            "resource template",
            {"uriTemplate": "a:{b}", "name": "r", "description": None},
            {"uriTemplate": "a:{b}", "name": "r"},
        ),
        ("resource", {"uri": None, "name": None, "x-vendor": None}, {"uri": None, "name": None, "x-vendor": None}),
    ],
)
def test_what_has_no_value_is_absent_in_every_kind_of_definition(kind: str, definition: JSON, shown: JSON) -> None:
    assert kind in KINDS
    assert repaired(kind, definition) == shown


@pytest.mark.requirement("F-293")
def test_of_a_list_with_thousands_of_faults_the_valid_items_stay_in_their_order() -> None:
    icons = [{"src": f"https://x.test/{number}.png"} if number % 1000 == 0 else number for number in range(4000)]
    arguments: list[JSON] = [{"name": "a", "title": 1}, {"name": "b", "description": "B"}] * 1000
    shown = repaired("prompt", {"name": "p", "icons": icons, "arguments": arguments, "title": 5})
    kept = [icon for icon in icons if isinstance(icon, dict)]
    assert shown == {"name": "p", "icons": kept, "arguments": [{"name": "a"}, {"name": "b", "description": "B"}] * 1000}


def test_clients_before_2026_07_28_see_objects_where_a_property_takes_anything_or_nothing() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"any": True, "none": False, "text": STRING}}
    tool = {"name": "x", "inputSchema": schema, "outputSchema": schema}
    legacy = for_legacy("tool", tool)
    shown: JSON = {"type": "object", "properties": {"any": {}, "none": {"not": {}}, "text": STRING}}
    assert legacy == {"name": "x", "inputSchema": shown, "outputSchema": shown}
    assert legacy is not None
    assert definition_problem("tool", legacy, modern=False) is None
    assert tool["inputSchema"] is schema
