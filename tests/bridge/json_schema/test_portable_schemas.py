"""Output schemas become such that every client compiles them, and demand no more than before."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given

from gaia_bridge.json_schema.portable_schemas import for_draft_07, portable
from gaia_bridge.json_schema.validation import reference_problem
from gaia_bridge.text.json_types import JSON
from tests.support.odd_definitions import odd_schemas

VALUES: list[Any] = [None, True, 0, 1.5, "", "a", [], ["a"], [1, "a"], {}, {"a": 1}, {"a": "a", "b": None}, {"a": {}}]


@given(odd_schemas)
def test_every_schema_becomes_one_that_its_metaschema_and_all_references_allow(schema: JSON) -> None:
    before = json.dumps(schema)
    written, fault = portable(schema)
    assert json.dumps(schema) == before
    jsonschema_rs.meta.validate(written)
    jsonschema_rs.validator_for(written, offline=True)
    assert reference_problem(written) is None
    assert portable(written) == (written, None)
    if written == schema:
        assert (written is schema, fault) == (True, None)


@given(odd_schemas)
def test_a_schema_never_demands_more_than_before(schema: JSON) -> None:
    if str(schema.get("$schema")).endswith("draft-04/schema#"):
        return  # has keywords of later drafts, without a meaning
    try:
        old = jsonschema_rs.validator_for(schema, offline=True)
    except (ValueError, jsonschema_rs.ValidationError):
        return
    written = portable(schema).schema
    for new in map(jsonschema_rs.validator_for, (written, for_draft_07(written))):
        for value in VALUES:
            with suppress(RuntimeError):  # references to themselves
                assert new.is_valid(value) or not old.is_valid(value), (value, written)


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"required": None, "properties": None}, {}),
        ({"properties": {"a": None}, "required": ["a", "a"]}, {"properties": {"a": {}}, "required": ["a"]}),
        ({"id": "x", "properties": {"a": {"id": "#a"}}}, {"properties": {"a": {}}}),
        (
            {"$id": "https://x.test/a", "properties": {"b": {"$ref": "a#c"}, "c": {"$anchor": "c", "type": "string"}}},
            {"properties": {"b": {"$ref": "#/properties/c"}, "c": {"type": "string"}}},
        ),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}, {"type": "object"}),
        ({"items": [{"type": "string"}], "enum": ["a", "a"]}, {"prefixItems": [{"type": "string"}], "enum": ["a"]}),
        ({"nullable": True, "title": 5, "$async": True}, {}),
    ],
)
def test_a_schema_is_put_right_where_its_meaning_stays(schema: JSON, written: JSON) -> None:
    assert portable(schema) == (written, None)


@pytest.mark.parametrize(
    ("schema", "written", "place"),
    [
        ({"properties": {"a": {"pattern": "(?P<n>a)"}}}, {"properties": {"a": {}}}, "/properties/a/pattern"),
        ({"not": {"pattern": "(?i)a"}, "type": "object"}, {"type": "object"}, "/not/pattern"),
        ({"oneOf": [{"type": "bigint"}, {"type": "string"}]}, {"anyOf": [{}, {"type": "string"}]}, "/oneOf/0/type"),
        (
            {"patternProperties": {"(?i)a": {}}, "additionalProperties": False},
            {},
            "/patternProperties",
        ),
        ({"properties": {"a": {"$ref": "#/none"}}}, {"properties": {"a": {}}}, "/properties/a/$ref"),
        ({"enum": [], "minLength": "1"}, {}, "/enum"),
        ({"properties": {"a": {"maximum": 10**400}}}, {"properties": {"a": {}}}, "/properties/a/maximum"),
        ({"maxItems": 10**400, "multipleOf": 10**400}, {}, "/maxItems"),
    ],
)
def test_a_schema_that_cannot_be_put_right_demands_less(schema: JSON, written: JSON, place: str) -> None:
    weak, fault = portable(schema)
    assert weak == written
    assert fault is not None
    assert fault.startswith(f"at {place}: ")


def test_a_schema_that_every_client_compiles_stays_as_it_is() -> None:
    schemas: tuple[JSON, ...] = (
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}], "additionalItems": False},
        {"$ref": "#/$defs/Node", "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}}},
        {"if": {"required": ["a"]}, "then": {"minProperties": 2}, "x-vendor": {"a": [None]}, "default": None},
        {"prefixItems": [{"type": "string"}], "items": False, "unevaluatedProperties": False},
        {"type": "string", "nullable": True, "format": "unheard-of", "const": {"$id": "a"}},
    )
    for schema in schemas:
        assert portable(schema).schema is schema


def test_clients_of_draft_7_see_tuples_without_what_is_said_of_the_rest() -> None:
    tuple_schema = {"type": "array", "prefixItems": [{"type": "string"}], "items": False, "maxItems": 1}
    schema = {"type": "object", "properties": {"pair": tuple_schema, "items": {"items": False}}}
    shown = for_draft_07(schema)
    assert shown["properties"]["pair"] == {key: tuple_schema[key] for key in ("type", "prefixItems", "maxItems")}
    assert shown["properties"]["items"] == {"items": False}
    plain = {"type": "object", "items": False}
    assert for_draft_07(plain) is plain
