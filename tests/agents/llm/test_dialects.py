"""Schemas in the dialects of providers: nothing that they refuse, nothing that the tool would take shut out."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gaia.llm import schema_walk
from gaia.llm.dialects import DIALECTS, converted, declaration, normalised, provider_named
from tests.support.provider_rules import violations

each_provider = pytest.mark.parametrize("provider", DIALECTS)

NAMES = ("a", "b", "title", "$ref", "format", "x[0]")
"""Of properties: some of them are keywords elsewhere, and one is no name for Anthropic."""

ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "title": st.just("T"),
        "description": st.sampled_from(["", "What it is"]),
        "$comment": st.just("c"),
        "examples": st.just([1]),
        "readOnly": st.booleans(),
    },
)


@cache
def scalars() -> st.SearchStrategy[Any]:
    texts = st.fixed_dictionaries(
        {"type": st.sampled_from(["string", ["string", "null"]])},
        optional={
            "format": st.sampled_from(["uri", "date-time", "email", "int32", "regex"]),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(3, 9),
            "pattern": st.sampled_from([".*", "^(?!x)", r"\(?=?"]),
        },
    )
    numbers = st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number", ["number", "null"], ["integer", "string"]])},
        optional={
            "minimum": st.integers(-9, 0),
            "maximum": st.integers(1, 9),
            "exclusiveMinimum": st.sampled_from([-10, 0.5]),
            "exclusiveMaximum": st.integers(10, 19),
            "multipleOf": st.just(1),
            "format": st.sampled_from(["int64", "double"]),
        },
    )
    values = st.sampled_from(["x", "", 1, 2.5, True, None, {"k": [1]}])
    enums = st.one_of(
        st.lists(values, min_size=1, max_size=4, unique_by=repr).map(lambda found: {"enum": found}),
        values.map(lambda value: {"const": value}),
        st.just({"type": "string", "enum": ["x", "y"]}),
        st.just({"type": ["string", "null"], "enum": ["x", None]}),
    )
    plain = st.sampled_from(
        [True, False, {}, {"type": "null"}, {"type": "boolean"}, {"type": "string", "default": "x"}]
    )
    return st.one_of(texts, numbers, enums, plain)


@cache
def references() -> st.SearchStrategy[Any]:
    pointers = ["#", "#/$defs/one", "#/definitions/two", "#/properties/a", "#/$defs/nowhere", "http://x/y", "#anchor"]
    return st.fixed_dictionaries(
        {"$ref": st.sampled_from(pointers)},
        optional={"description": st.just("Which"), "default": st.just(None), "minimum": st.just(1)},
    )


def objects(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(st.sampled_from(NAMES), parts, max_size=3),
            "required": st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
            "additionalProperties": st.one_of(st.booleans(), parts),
            "patternProperties": parts.map(lambda part: {"^x": part}),
            "minProperties": st.just(0),
            "propertyNames": st.just({"maxLength": 99}),
            "not": st.just({"required": ["zzz"]}),
            "anyOf": st.lists(st.just({"required": ["a"]}), min_size=1, max_size=2),
            "unevaluatedProperties": st.just(True),
        },
    )


def composed(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(parts, min_size=1, max_size=3)
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": parts,
            "prefixItems": several,
            "minItems": st.integers(0, 1),
            "maxItems": st.integers(2, 3),
            "uniqueItems": st.just(True),
            "contains": st.just(True),
        },
    )
    unions = st.tuples(st.sampled_from(["anyOf", "oneOf", "allOf"]), several).map(lambda pair: {pair[0]: pair[1]})
    return st.tuples(st.one_of(objects(parts), arrays, unions), ANNOTATIONS).map(lambda pair: {**pair[1], **pair[0]})


def schemas(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, composed, max_leaves=6)


PARTS = schemas(st.one_of(scalars(), references()))
TOPS = objects(PARTS)
DESCRIBED = scalars().filter(lambda found: isinstance(found, dict))
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["x", "2001-01-01T00:00:00Z", "xyz", 0, 1, 2.5, -3, True, None, {"k": [1]}, []]
)


@st.composite
def parameters(draw: st.DrawFn) -> dict[str, Any]:
    """Schemas of tools, with definitions that they refer to, and that refer to themselves."""
    part = PARTS
    schema: dict[str, Any] = draw(TOPS)
    schema["$defs"] = {"one": draw(part)}
    schema["definitions"] = {"two": draw(part)}
    if draw(st.booleans()):
        schema |= draw(st.sampled_from([{"$ref": "#/$defs/one"}, {"oneOf": [{"$ref": "#/definitions/two"}]}]))
    return schema | draw(ANNOTATIONS)


@each_provider
@given(parameters())
@settings(max_examples=20, deadline=None)
def test_no_provider_finds_anything_to_refuse(provider: str, schema: dict[str, Any]) -> None:
    before = deepcopy(schema)
    found = converted(schema, provider)
    assert violations(provider, found) == []
    assert schema == before
    assert json.loads(json.dumps(found)) == found


@given(parameters())
@settings(max_examples=20, deadline=None)
def test_what_was_converted_for_openai_stays_as_it_is(schema: dict[str, Any]) -> None:
    once = converted(schema, "openai")
    assume("$defs" not in once)  # what is written out may be so one level further
    assert converted(once, "openai") == once


@st.composite
def objects_and_values(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, Any], Any]:
    """A schema and a value that it takes."""
    kind = draw(st.sampled_from(["scalar", "object", "array", "anyOf", "oneOf", "allOf"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(DESCRIBED), draw(VALUES)
    inner: list[tuple[dict[str, Any], Any]] = [
        draw(objects_and_values(depth - 1)) for _ in range(draw(st.integers(1, 3)))
    ]
    if kind == "object":
        names = draw(st.permutations(["a", "b", "c"]))[: len(inner)]
        present = draw(st.lists(st.sampled_from(names), unique=True))
        described = dict(zip(names, (schema for schema, _ in inner), strict=True))
        schema: dict[str, Any] = {"type": "object", "properties": described, "required": present}
        if draw(st.booleans()):
            schema["additionalProperties"] = draw(st.sampled_from([False, True, {"type": "integer"}]))
        value: dict[str, Any] = {name: item for name, (_, item) in zip(names, inner, strict=True) if name in present}
        if schema.get("additionalProperties") is True:
            value["other"] = 1
        return schema, value
    if kind == "array":
        listed = [schema for schema, _ in inner]
        values = [item for _, item in inner]
        if draw(st.booleans()):
            return {"type": "array", "prefixItems": listed, "maxItems": len(listed)}, values
        return {"type": "array", "items": {"anyOf": listed}}, values
    return {kind: [schema for schema, _ in inner]}, inner[0][1]


@pytest.mark.parametrize("provider", ["anthropic", "ollama", "openai"])
@given(objects_and_values())
@settings(max_examples=20, deadline=None)
def test_what_the_tool_takes_is_not_shut_out(provider: str, pair: tuple[dict[str, Any], Any]) -> None:
    part, value = pair
    schema = {"type": "object", "properties": {"p": part}, "required": ["p"]}
    assume(jsonschema_rs.is_valid(schema, {"p": value}, validate_formats=False))
    found = converted(schema, provider, close=False)
    assert jsonschema_rs.is_valid(found, {"p": value}, validate_formats=False), found


@given(parameters())
@settings(max_examples=20, deadline=None)
def test_a_tool_is_strict_exactly_if_it_is_closed(schema: dict[str, Any]) -> None:
    told = declaration("openai", "t", "", converted(schema, "openai"))
    assert (told.get("strict") is True) is (told["parameters"].get("additionalProperties") is False)


ALL_REQUIRED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "where": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "days": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["where", "days"],
}


def test_a_schema_with_nothing_optional_is_closed_at_every_level() -> None:
    found = converted(ALL_REQUIRED, "openai")
    assert found["additionalProperties"] is False
    assert found["properties"]["where"]["additionalProperties"] is False


@pytest.mark.parametrize(
    "part",
    [
        {"type": "object", "properties": {"x": {"type": "string"}}},
        {"type": "string", "default": "x"},
        {"type": "object"},
        {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": True},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array"},
        {},
        True,
    ],
)
@pytest.mark.parametrize("place", ["itself", "items", "anyOf"])
def test_something_optional_or_open_anywhere_keeps_a_schema_from_being_strict(part: Any, place: str) -> None:
    places = {"itself": part, "items": {"type": "array", "items": part}, "anyOf": {"anyOf": [part]}}
    schema = {"type": "object", "properties": {"p": places[place]}, "required": ["p"], "additionalProperties": False}
    assert "additionalProperties" not in converted(schema, "openai")


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"p": schema}, "required": ["p"]}
    return schema


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (nested(10), True),
        (nested(12), False),
        ({"properties": {f"p{n}": {"type": "null"} for n in range(5_001)}}, False),
        ({"properties": {"p": {"type": "string", "enum": [str(n) for n in range(1_000)]}}}, True),
        ({"properties": {"p": {"type": "string", "enum": [str(n) for n in range(1_001)]}}}, False),
        ({"properties": {"p": {"type": "string", "enum": [f"{n:061}" for n in range(251)]}}}, False),
        ({"properties": {"p" * 120_001: {"type": "string"}}}, False),
        ({"properties": {"p": {"type": "string", "const": "x" * 120_000}}}, False),
    ],
)
def test_a_schema_beyond_a_limit_of_strict_mode_is_sent_without_it(schema: dict[str, Any], strict: bool) -> None:
    found = converted(schema | {"required": [*schema["properties"]]}, "openai")
    assert (found.get("additionalProperties") is False) is strict
    assert violations("openai", found) == []


@each_provider
def test_a_property_may_be_called_like_a_keyword(provider: str) -> None:
    names = ["title", "format", "default", "properties", "required", "items", "enum", "const", "minLength"]
    schema = {"type": "object", "properties": {name: {"type": "string", "title": "T"} for name in names}}
    assert converted(schema, provider)["properties"] == {name: {"type": "string"} for name in names}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_references_are_kept_and_their_targets_are_definitions(provider: str) -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/definitions/tree"}}}}
    schema = {"properties": {"root": {"$ref": "#/definitions/tree"}}, "definitions": {"tree": tree, "unused": {}}}
    found = converted(schema, provider)
    assert found["properties"]["root"] == {"$ref": "#/$defs/tree"}
    assert found["$defs"] == {
        "tree": {
            "type": "object",
            "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        }
    }


@pytest.mark.parametrize("provider", ["ollama", "gemini"])
def test_references_are_written_out_until_they_come_round(provider: str) -> None:
    tree = {"type": "object", "properties": {"kid": {"$ref": "#/$defs/tree"}, "n": {"type": "integer"}}}
    found = converted({"properties": {"root": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}, provider)
    assert found["properties"]["root"]["properties"] == {"kid": {"type": "object"}, "n": {"type": "integer"}}
    assert "$defs" not in found


def test_a_reference_that_is_described_where_it_is_used_keeps_that_description() -> None:
    color = {"type": "string", "enum": ["red"], "description": "A color"}
    uses = {
        "new": {"$ref": "#/$defs/color", "description": "Of the door"},
        "old": {"allOf": [{"$ref": "#/$defs/color"}], "description": "Of the roof"},
    }
    found = converted({"properties": uses, "$defs": {"color": color}}, "openai")["properties"]
    assert found["new"] == color | {"description": "Of the door"}
    assert found["old"] == color | {"description": "Of the roof"}


@each_provider
def test_a_schema_that_doubles_with_every_reference_stays_bounded(provider: str) -> None:
    bomb: dict[str, Any] = {
        f"d{n}": {"properties": {c: {"$ref": f"#/$defs/d{n + 1}"} for c in "xy"}} for n in range(40)
    }
    both = {f"e{n}": {"allOf": [{"$ref": f"#/$defs/e{n + 1}"}] * 2} for n in range(40)}
    uses = {"p": {"$ref": "#/$defs/d0"}, "q": {"$ref": "#/$defs/e0"}}
    found = converted({"properties": uses, "$defs": {**bomb, **both}}, provider)
    assert len(json.dumps(found)) < 100 * schema_walk.MAX_SCHEMAS
    assert violations(provider, found) == []


@each_provider
@pytest.mark.parametrize("levels", [100, 5_000])
def test_a_schema_of_any_depth_is_cut(provider: str, levels: int) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        deep = {"type": "array", "items": deep}
    found = converted({"type": "object", "properties": {"p": deep}}, provider)
    assert json.dumps(found).count("items") <= schema_walk.MAX_LEVELS + 2
    assert violations(provider, found) == []


@pytest.mark.requirement("S-30")
@each_provider
@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"a": {"type": "string", "minLength": length}}} for length in range(3_000)]},
        {"properties": {"a": {"allOf": [{"enum": [*range(40_000)]}, {"enum": [*range(40_000, 80_000)]}]}}},
        {
            "properties": {"a": {"$ref": "#/$defs/0", "minLength": 1}},
            "$defs": {str(at): {"$ref": f"#/$defs/{at + 1}", "minLength": at} for at in range(3_000)},
        },
    ],
    ids=["many parts", "long lists", "long chain"],
)
def test_a_schema_of_which_there_is_much_of_anything_is_converted(provider: str, schema: dict[str, Any]) -> None:
    assert list(converted(schema, provider)["properties"]) == ["a"]


@each_provider
def test_alternatives_of_alternatives_are_told_by_their_properties(provider: str) -> None:
    def branch(name: str) -> dict[str, Any]:
        return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}

    union = {"oneOf": [branch("a"), {"anyOf": [branch("b"), {"$ref": "#/$defs/union"}]}]}
    told = converted({"anyOf": [{"$ref": "#/$defs/union"}, branch("c")], "$defs": {"union": union}}, provider)
    assert sorted(told["properties"]) == ["a", "b", "c"]
    assert "required" not in told
    assert "additionalProperties" not in told


def test_what_an_open_alternative_accepts_is_not_closed() -> None:
    assert converted({"anyOf": [{"additionalProperties": True}]}, "openai")["additionalProperties"] is True


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"allOf": [{"type": "integer", "minimum": 1}, {"type": "number", "minimum": 3}]}, ("integer", 3)),
        ({"minimum": 0, "exclusiveMinimum": True, "type": "number"}, ("number", None)),
        ({"type": "number", "allOf": [{"maximum": 3}, {"minimum": 2}]}, ("number", 2)),
    ],
)
def test_all_of_becomes_one_schema(part: dict[str, Any], expected: tuple[str, int | None]) -> None:
    found = converted({"properties": {"p": part}}, "openai")["properties"]["p"]
    assert (found["type"], found.get("minimum")) == expected


def test_objects_of_which_all_are_wanted_have_the_properties_of_all() -> None:
    one = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    two = {"properties": {"a": {"minLength": 3}, "b": {"type": "integer"}}, "required": ["b"]}
    found = converted({"allOf": [one, two]}, "openai")
    assert found == {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 3}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }


@each_provider
def test_alternatives_at_the_top_are_told_by_the_properties(provider: str) -> None:
    schema = {
        "type": "object",
        "properties": {"lang": {"type": "string"}},
        "required": ["lang"],
        "oneOf": [
            {"properties": {"id": {"type": "integer"}, "kind": {"type": "string"}}, "required": ["id", "kind"]},
            {"properties": {"url": {"type": "string"}, "kind": {"type": "string"}}, "required": ["url", "kind"]},
        ],
    }
    found = converted(schema, provider)
    assert {*found["properties"]} == {"lang", "id", "url", "kind"}
    assert found["required"] == ["lang", "kind"]


@pytest.mark.parametrize("provider", ["openai", "ollama", "gemini"])
@pytest.mark.parametrize(
    "part",
    [
        {"type": "array", "items": [{"type": "number"}, {"type": "number"}], "additionalItems": False},
        {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False},
        {"prefixItems": [{"type": "number"}], "maxItems": 1},
    ],
)
def test_a_tuple_becomes_a_list_of_what_its_elements_may_be(provider: str, part: dict[str, Any]) -> None:
    found = converted({"properties": {"p": part}}, provider)["properties"]["p"]
    assert (found["type"], found["items"]) == ("array", {"type": "number"})


def test_the_tuples_of_old_drafts_are_written_as_new_ones_where_tuples_are_known() -> None:
    part = {"type": "array", "items": [{"type": "number"}], "additionalItems": False}
    found = converted({"properties": {"p": part}}, "anthropic")["properties"]["p"]
    assert found == {"type": "array", "prefixItems": [{"type": "number"}], "items": False}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": "string", "nullable": True}, {"type": "string", "nullable": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer", "nullable": True}),
        ({"enum": ["x", None]}, {"type": "string", "enum": ["x"], "nullable": True}),
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}),
        ({"type": ["integer", "string"]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ({"type": "null"}, {"type": "string", "nullable": True}),
        ({"type": "string", "format": "uri"}, {"type": "string"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "array"}, {"type": "array", "items": {"anyOf": [{"type": "string"}]}}),
    ],
)
def test_what_gemini_is_told(part: dict[str, Any], expected: dict[str, Any]) -> None:
    found = converted({"properties": {"p": part}}, "gemini")["properties"]["p"]
    if part == {"type": "array"}:
        assert {"type": "string"} in found["items"]["anyOf"]
    else:
        assert found == expected


def test_ollama_is_told_the_types_of_alternatives_too() -> None:
    part = {"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "N", "minimum": 3}
    found = converted({"properties": {"p": part}}, "ollama")["properties"]["p"]
    assert found == {"type": ["integer", "null"], "anyOf": [{"type": "integer"}, {"type": "null"}]}


def test_anthropic_is_told_everything_that_2020_12_has_a_word_for() -> None:
    part = {"type": "string", "format": "uri", "minLength": 2, "pattern": "^(?!x)", "title": "T"}
    found = converted({"$schema": "x", "properties": {"p": part, "filter[x]": {}}}, "anthropic")
    assert found["properties"] == {"p": {"type": "string", "format": "uri", "minLength": 2, "pattern": "^(?!x)"}}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("others", [{}, {"additionalProperties": False}])
def test_nothing_is_closed_over_properties_that_only_a_pattern_names(provider: str, others: dict[str, Any]) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}, "patternProperties": {"^x": {}}, **others}
    assert converted(schema, provider)["additionalProperties"] is True
    inside = converted({"properties": {"p": schema}, "required": ["p"]}, provider)
    assert inside["properties"]["p"]["additionalProperties"] is True
    assert inside.get("additionalProperties") is not False


@each_provider
@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": ["object", "null"]}, {"type": 3, "enum": 4}])
def test_every_schema_is_of_an_object_with_properties(provider: str, schema: dict[str, Any]) -> None:
    found = converted(schema, provider)
    assert (found["type"], found["properties"]) == ("object", {})


def test_one_schema_is_normalised_without_its_parts() -> None:
    part = {"type": "object", "title": "T", "properties": {"x": {"title": "X"}}}
    assert normalised(part, DIALECTS["openai"]) == {"type": "object", "properties": {"x": {"title": "X"}}}


@pytest.mark.parametrize(("name", "provider"), [("OpenAI", "openai"), (" claude ", "anthropic"), ("google", "gemini")])
def test_a_provider_is_known_by_the_names_that_people_use(name: str, provider: str) -> None:
    assert provider_named(name) == provider


def test_an_unknown_provider_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="the provider is 'bard'; expected anthropic, gemini, ollama, openai"):
        provider_named("bard")
