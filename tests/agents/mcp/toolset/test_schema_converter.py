"""Schemas and results as `MCPSchemaConverter` converts them."""

from __future__ import annotations

import json
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from gaia.mcp.toolset import MCPSchemaConverter
from tests.support.on_demand import mcp_types, stdio_upstream
from tests.support.provider_rules import violations

convert = MCPSchemaConverter.convert_input_schema
text_of = MCPSchemaConverter.convert_tool_result

EXAMPLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "format": "uri", "title": "URL"},
        "max_length": {"type": "integer", "default": 5000, "exclusiveMaximum": 1000000},
    },
    "required": ["url"],
}


def of_property(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = convert({"properties": {"p": schema}})["properties"]["p"]
    return found


@pytest.mark.requirement("S4-15")
def test_the_example_of_the_document_converts_as_printed() -> None:
    assert convert(EXAMPLE) == {
        "type": "object",
        "properties": {"url": {"type": "string"}, "max_length": {"type": "integer", "default": 5000}},
        "required": ["url"],
    }


@pytest.mark.requirement("S4-12")
def test_only_formats_that_are_known_are_kept() -> None:
    for kept in ("date-time", "date", "time", "email", "uuid"):
        assert of_property({"type": "string", "format": kept}) == {"type": "string", "format": kept}
    for dropped in ("uri", "hostname", "ipv4", "regex", "byte"):
        assert of_property({"type": "string", "format": dropped}) == {"type": "string"}


@pytest.mark.requirement("S4-13")
def test_what_providers_refuse_is_dropped() -> None:
    number = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 9, "minimum": 1, "title": "N"}
    assert of_property(number) == {"type": "number", "minimum": 1}
    assert of_property({"type": "string", "minLength": 1}) == {"type": "string"}
    kept = {"type": "string", "minLength": 2, "maxLength": 9, "pattern": "^a", "enum": ["ab"], "description": "D"}
    assert of_property(kept) == kept
    whole = convert({"title": "T", "description": "D", "$schema": "x", "type": "object", "properties": {}})
    assert whole.keys() == {"type", "properties", "additionalProperties"}


@pytest.mark.requirement("S4-14")
@pytest.mark.parametrize("schema", [None, {}, {"type": None}, {"properties": None}, {"type": "", "properties": {}}])
def test_type_and_properties_are_always_there(schema: Any) -> None:
    found = convert(schema)
    assert (found["type"], found["properties"]) == ("object", {})


@pytest.mark.requirement("S4-14")
def test_what_is_converted_is_not_changed() -> None:
    before = deepcopy(EXAMPLE)
    found = convert(EXAMPLE)
    found["properties"]["url"]["enum"] = ["x"]
    found["required"].append("y")
    assert EXAMPLE == before


@pytest.mark.requirement("S4-16")
@pytest.mark.parametrize("names", [[], ["a"], ["a", "b"]])
def test_a_schema_of_which_everything_is_required_is_closed(names: list[str]) -> None:
    found = convert({"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": names})
    assert found["additionalProperties"] is False
    assert violations("openai", found) == []


@pytest.mark.requirement("S4-17")
@pytest.mark.parametrize(
    "schema",
    [
        EXAMPLE,
        {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]},
        {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
        {"properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"], "additionalProperties": False},
        {"properties": {"a": {"type": "object", "properties": {"b": {"type": "null"}}}}, "required": ["a"]},
    ],
)
def test_a_schema_with_something_optional_is_not_closed(schema: dict[str, Any]) -> None:
    assert "additionalProperties" not in convert({"type": "object", **schema})


@pytest.mark.requirement("S4-18")
def test_conversion_reaches_every_depth() -> None:
    leaf = {"type": "string", "format": "uri", "title": "T"}
    schema = {
        "properties": {
            "object": {"type": "object", "properties": {"x": leaf}},
            "items": {"type": "array", "items": leaf},
            "either": {"anyOf": [leaf, {"type": "null"}]},
            "defined": {"$ref": "#/$defs/leaf"},
            "map": {"type": "object", "additionalProperties": leaf},
        },
        "$defs": {"leaf": leaf},
    }
    found = convert(schema)
    assert "uri" not in json.dumps(found) and "title" not in json.dumps(found)
    assert found["properties"]["object"]["properties"]["x"] == {"type": "string"}
    assert found["$defs"] == {"leaf": {"type": "string"}}


NESTED: dict[str, Any] = {
    "properties": {"rows": {"type": "array", "minItems": 1, "items": {"type": "array", "items": {}, "minItems": 2}}},
    "$defs": {},
}


class ClassMethod(MCPSchemaConverter):
    @classmethod
    def _normalize_property(cls, prop: dict[str, Any]) -> dict[str, Any]:
        prop = super()._normalize_property(prop)
        prop.pop("minItems", None)
        return prop


class StaticMethod(MCPSchemaConverter):
    @staticmethod
    def _normalize_property(prop: dict[str, Any]) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]  # as the document has it
        prop = MCPSchemaConverter._normalize_property(prop)
        prop.pop("minItems", None)
        return prop


class PlainMethod(MCPSchemaConverter):
    def _normalize_property(self, prop: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]  # many will
        prop = super()._normalize_property(prop)
        prop.pop("minItems", None)
        return prop


@pytest.mark.requirement("S4-20")
@pytest.mark.parametrize("converter", [ClassMethod, StaticMethod, PlainMethod])
def test_a_rule_that_a_subclass_changes_takes_effect_at_every_depth(converter: type[MCPSchemaConverter]) -> None:
    assert "minItems" in json.dumps(convert(NESTED))
    for one in (converter, converter()):
        assert "minItems" not in json.dumps(one.convert_input_schema(NESTED))
        assert "minItems" not in json.dumps(one.extract_tool_info({"inputSchema": NESTED}))


@pytest.mark.requirement("S4-20")
def test_a_rule_of_a_subclass_may_let_more_through() -> None:
    class Everything(MCPSchemaConverter):
        @classmethod
        def _normalize_property(cls, prop: dict[str, Any]) -> dict[str, Any]:
            return prop

    found = Everything.convert_input_schema(EXAMPLE)
    assert found["properties"] == EXAMPLE["properties"]


@pytest.mark.requirement("S4-21")
def test_what_a_tool_does_not_say_of_itself_has_defaults() -> None:
    closed: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    assert MCPSchemaConverter.extract_tool_info({}) == {"name": "unknown", "description": "", "parameters": closed}
    told = MCPSchemaConverter.extract_tool_info({"name": "n", "description": "d", "inputSchema": EXAMPLE})
    assert told == {"name": "n", "description": "d", "parameters": convert(EXAMPLE)}
    odd = MCPSchemaConverter().extract_tool_info({"name": 3, "description": None, "inputSchema": "x"})
    assert odd == {"name": "unknown", "description": "", "parameters": closed}


TEXT = {"type": "text", "text": "a"}


@pytest.mark.requirement("S4-22")
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, ""),
        ("as it is", "as it is"),
        ([TEXT, {"type": "text", "text": "b"}], "a\nb"),
        ({"content": [TEXT]}, "a"),
        ({"content": {"content": "deep"}}, "deep"),
        ({"content": [], "structuredContent": {"n": 1}}, '{\n  "n": 1\n}'),
        ({"content": []}, ""),
        ([], ""),
        ({"a": [1, "ü"]}, '{\n  "a": [\n    1,\n    "ü"\n  ]\n}'),
        ([1, 2], "[\n  1,\n  2\n]"),
        (3, "3"),
        (True, "true"),
        (["x", TEXT], "x\na"),
        (TEXT, "a"),
        (SimpleNamespace(text="t"), "t"),
        (SimpleNamespace(content=[SimpleNamespace(text="t")]), "t"),
        (b"\x00\x01", '"[2 bytes]"'),
        ({"odd": SimpleNamespace(x=1)}, '{\n  "odd": "namespace(x=1)"\n}'),
    ],
)
def test_results_are_converted_to_text(result: Any, text: str) -> None:
    assert text_of(result) == text


def test_results_of_the_sdk_are_converted_to_text() -> None:
    assert text_of([mcp_types.TextContent(text="sdk")]) == "sdk"


@pytest.mark.requirement("S4-22")
def test_what_is_no_text_is_named_and_never_spelled_out() -> None:
    assert text_of(stdio_upstream.MIX).split("\n") == [
        "plain",
        "[image: image/png, 70 bytes]",
        "[audio: audio/wav, 4 bytes]",
        "[resource: demo://linked, Linked, text/plain]",
        "inside",
        "[resource: demo://blob, 2 bytes]",
    ]
    for value in (
        mcp_types.ImageContent(data=stdio_upstream.PIXEL, mime_type="image/png"),
        {"x": {"mimeType": "image/png", "data": stdio_upstream.PIXEL}},
    ):
        assert stdio_upstream.PIXEL not in text_of(value)
        assert "70 bytes" in text_of(value)
    assert text_of({"type": "image", "data": 3}) == "[image: of unknown kind]"
