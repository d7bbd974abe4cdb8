"""Schemas as real documents have them: what the API takes is never refused, and what is said is kept."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.settings import OpenApiLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.openapi.document import document_of
from gaia_bridge_doors.openapi.operations import read_operations

JSON_TYPE = "application/json"
KEYWORDS = [
    *("$ref", "type", "nullable", "enum", "const", "pattern", "minimum", "exclusiveMinimum", "format", "required"),
    *("properties", "additionalProperties", "items", "allOf", "anyOf", "oneOf", "not", "discriminator", "mapping"),
    *("description", "default", "example", "examples", "readOnly", "patternProperties", "x-more", "7"),
]
TEXT: JSON = {"type": "string"}
PET: JSON = {
    "type": "object",
    "required": ["kind"],
    "properties": {"kind": TEXT},
    "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat", "dog": "Dog"}},
}
CAT: JSON = {
    "allOf": [
        {"$ref": "#/components/schemas/Pet"},
        {"type": "object", "required": ["volume"], "properties": {"volume": {"type": "integer"}}},
    ]
}
SCHEMAS: JSON = {
    "Pet": PET,
    "Cat": CAT,
    "Dog": {"allOf": [{"$ref": "#/components/schemas/Pet"}], "properties": {"pack": {"type": "integer"}}},
    "Puppy": {"allOf": [{"$ref": "#/components/schemas/Dog"}], "properties": {"age": {"type": "integer"}}},
    "Either": {"oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]},
    "Closed": {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False},
    "More": {
        "allOf": [{"$ref": "#/components/schemas/Closed"}],
        "properties": {"b": TEXT},
        "additionalProperties": False,
    },
    "Animal": {
        "type": "object",
        "properties": {"id": TEXT},
        "oneOf": [{"$ref": "#/components/schemas/Bird"}],
    },
    "Bird": {"allOf": [{"$ref": "#/components/schemas/Animal"}], "properties": {"wings": {"type": "integer"}}},
    "Owner": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]},
    "Kind": {"type": "string", "enum": ["a"]},
}


def ref(name: str, **beside: Any) -> JSON:
    return {"$ref": f"#/components/schemas/{name}", **beside}


def input_of(schema: JSON, version: str = "3.0.3") -> JSON:
    """The input schema of a tool whose argument `v`, in a list so that it is no body of its own, has a schema."""
    content = {"application/json": {"schema": {"type": "array", "items": schema}}}
    document: JSON = {
        "openapi": version,
        "paths": {"/x": {"post": {"requestBody": {"required": True, "content": content}}}},
        "components": {"schemas": SCHEMAS},
    }
    [operation], left_out = read_operations(document_of(document), OpenApiLimits())
    assert left_out == []
    found: JSON = operation.definition["inputSchema"]
    return found


def takes(schema: JSON, value: object, version: str = "3.0.3") -> bool:
    return jsonschema_rs.validator_for(input_of(schema, version)).is_valid({"body": [value]})


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    "schema",
    [
        {"nullable": True, "type": "object", "allOf": [ref("Owner")]},  # @nestjs/swagger 12 with 3.0
        {"allOf": [ref("Owner"), {"nullable": True}]},  # zod-openapi with 3.0
        {"allOf": [ref("Owner"), {"type": ["object", "null"]}]},  # with 3.1
        {"nullable": True, "oneOf": [ref("Owner"), ref("Kind")]},  # drf-spectacular
        {"nullable": True, "allOf": [ref("Kind")]},
        {"type": ["object", "null"], "allOf": [ref("Owner")]},
        ref("Owner", nullable=True),
        {"type": "string", "enum": ["a", None]},
        {"type": "string", "enum": ["a"], "nullable": True},
        {"enum": ["a"], "nullable": True},
        {"type": "string", "nullable": True},
    ],
)
def test_null_is_taken_however_a_generator_says_it(schema: JSON, version: str) -> None:
    assert takes(schema, None, version)
    assert takes(schema, {"name": "x"} if "Owner" in str(schema) else "a", version)
    assert not takes(schema, 5, version)


def test_null_is_refused_where_nothing_allows_it() -> None:
    assert not takes({"type": "string", "nullable": False}, None)
    assert not takes({"allOf": [ref("Owner")]}, None)


def test_the_children_of_a_parent_with_a_discriminator_are_shown_and_taken() -> None:
    found = input_of({"type": "object", "properties": {"pet": ref("Pet")}})["$defs"]
    [parent] = [name for name in found if name.startswith("Pet") and "anyOf" not in found[name]]
    whole = found[next(name for name in found if name.startswith("Pet") and name != parent)]
    assert whole["anyOf"] == [
        {"$ref": "#/$defs/Cat", "description": "Where 'kind' is 'cat'."},
        {"$ref": "#/$defs/Dog", "description": "Where 'kind' is 'dog'."},
        {"$ref": "#/$defs/Puppy"},
        {"$ref": f"#/$defs/{parent}"},
    ]
    assert found["Cat"]["allOf"][0] == {"$ref": f"#/$defs/{parent}"}
    for pet in ({"kind": "cat", "volume": 3}, {"kind": "dog"}, {"kind": "puppy", "age": 1}, {"kind": "new", "x": 1}):
        assert takes(ref("Pet"), pet)
    assert not takes(ref("Pet"), {"volume": 3})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (ref("Either", nullable=True), {"kind": "cat", "volume": 1}),  # a Dog as well
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 1),
        ({"anyOf": [TEXT, {"type": "integer"}], "oneOf": [{"minimum": 1}, {"minimum": 0}]}, 2),
        (ref("More"), {"a": "x", "b": "y"}),
        ({"allOf": [ref("Closed"), {"properties": {"c": TEXT}, "additionalProperties": False}]}, {"a": "x", "c": "y"}),
        ({"properties": {"t": TEXT}, "oneOf": [ref("Closed")], "additionalProperties": False}, {"a": "x"}),
        (ref("Animal"), {"id": "1", "wings": 2}),  # which is its own child's alternative
        (ref("Owner"), {"name": "x", "more": 1}),
    ],
)
def test_right_values_are_taken_where_parts_of_a_schema_meet(schema: JSON, value: object) -> None:
    assert takes(schema, value)


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["", "x", "[", "string", "#/components/schemas/Pet"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), JUNK, max_size=4), st.sampled_from(["3.0.3", "3.1.0"]))
def test_whatever_a_schema_says_its_operation_compiles_or_is_named(schema: JSON, version: str) -> None:
    content = {JSON_TYPE: {"schema": schema}, "multipart/form-data": {"schema": schema}}
    document: JSON = {
        "openapi": version,
        "paths": {"/x": {"post": {"requestBody": {"required": True, "content": content}}}},
        "components": {"schemas": {**SCHEMAS, "It": schema}},
    }
    found, left_out = read_operations(document_of(document), OpenApiLimits())
    for operation in found:
        jsonschema_rs.validator_for(operation.definition["inputSchema"])
    assert len(found) + len(left_out) == 1


def test_a_list_always_says_what_is_in_it() -> None:
    assert input_of({"type": "array"})["properties"]["body"]["items"] == {"type": "array", "items": {}}


def test_a_closed_object_stays_closed_where_nothing_is_built_on_it() -> None:
    assert not takes(ref("Closed"), {"a": "x", "b": "y"})
    assert not takes({"allOf": [ref("Closed")]}, {"b": "y"})


@pytest.mark.parametrize(
    ("invalid", "left"),
    [
        ({"type": "string", "pattern": "[a-z"}, TEXT),
        ({"type": "string", "pattern": "/^[a-z]+$/i"}, TEXT),
        ({"type": "string", "pattern": "^[a-z]+$/u"}, TEXT),
        ({"type": "file", "description": "x"}, {"description": "x"}),
        ({"type": "integer", "minimum": "0"}, {"type": "integer"}),
        ({"type": "object", "properties": []}, {"type": "object"}),
        ({"type": "string", "description": 5, "examples": {"a": {"value": "x"}}}, TEXT),
        ({"anyOf": [{"type": "string", "pattern": "["}, {"type": "integer"}]}, {"anyOf": [TEXT, {"type": "integer"}]}),
    ],
)
def test_an_invalid_keyword_is_left_out_and_the_others_are_checked(invalid: JSON, left: JSON) -> None:
    found = input_of({"type": "object", "properties": {"bad": invalid, "good": {"type": "integer"}}})
    assert found["properties"]["body"]["items"]["properties"]["bad"] == left
    validator = jsonschema_rs.validator_for(found)
    assert validator.is_valid({"body": [{"good": 1}]})
    assert not validator.is_valid({"body": [{"good": "x"}]})
