"""No schema and no value hold the process: a verdict and its reasons have a price that is known before they are paid.

The engine keeps the interpreter for as long as it works. So each test asks for processor time, of which a second is
far more than any case may cost, and what is exponential needs hours and gigabytes.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.json_schema.parts import SchemaError
from gaia_bridge.json_schema.validation import OutputSchemas, SchemaValidator
from gaia_bridge.sources.agent.source import AgentSource
from tests.bridge.server.sources import published
from tests.support.agents import ScriptedAgent
from tests.support.upstreams import FakeRequest, text_of

DEPTH = 24

SELF = {"$ref": "#/$defs/e"}
LEAF = {"type": "number"}
NODE = {"type": "object", "properties": {"a": SELF}, "required": ["a"]}
PAIR = {"type": "object", "properties": {"a": SELF, "b": SELF}, "required": ["a"]}
LISTED = {"type": "array", "prefixItems": [SELF]}

DOUBLING: dict[str, dict[str, Any]] = {
    "anyOf": {"anyOf": [LEAF, NODE, PAIR]},
    "oneOf": {"oneOf": [LEAF, NODE, {**PAIR, "required": ["a", "b"]}]},
    "allOf": {"allOf": [NODE, PAIR]},
    "allOf below else": {"if": LEAF, "else": {"allOf": [NODE, PAIR]}},
    "if": {"if": NODE, "then": PAIR, "else": LEAF},
    "not": {"not": {"not": {"anyOf": [LEAF, NODE, PAIR]}}},
    "dependentSchemas": {"if": LEAF, "else": {**NODE, "dependentSchemas": {"a": NODE}}},
    "dependencies": {"if": LEAF, "else": {**NODE, "dependencies": {"a": NODE}}},
    "patternProperties": {
        "if": LEAF,
        "else": {"properties": {"a": SELF}, "patternProperties": {"^a": SELF, "a$": SELF}},
    },
    "additionalProperties": {"anyOf": [LEAF, {"type": "object", "additionalProperties": SELF}, NODE]},
    "unevaluatedProperties": {"anyOf": [LEAF, NODE, PAIR], "unevaluatedProperties": False},
    "unevaluatedProperties below": {"allOf": [{"anyOf": [SELF, SELF]}], "unevaluatedProperties": SELF},
    "unevaluatedItems": {"anyOf": [LEAF, LISTED, {**LISTED, "minItems": 1}], "unevaluatedItems": False},
    "contains": {"anyOf": [LEAF, {"type": "array", "contains": SELF}, {"type": "array", "items": SELF}]},
    "items": {"anyOf": [LEAF, LISTED, {"type": "array", "items": SELF}]},
}


def of_itself(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$ref": "#/$defs/e", "$defs": {"e": schema}}


def nested(leaf: Any, depth: int, *, lists: bool = False) -> Any:
    value = leaf
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return value


@contextmanager
def affordable() -> Generator[None]:
    before = time.thread_time()
    yield
    assert time.thread_time() - before < 1


@pytest.mark.requirement("F-201")
@pytest.mark.parametrize("leaf", [1, "oops"])
@pytest.mark.parametrize("keyword", DOUBLING)
def test_a_union_of_itself_costs_no_more_for_each_level_of_a_value(keyword: str, leaf: Any) -> None:
    lists = "tems" in keyword or keyword == "contains"
    validator = SchemaValidator(of_itself(DOUBLING[keyword]))
    with affordable():
        problems = validator.errors(nested(leaf, DEPTH, lists=lists))
    assert problems is None or "too nested" in problems or problems.startswith("- at ")


@pytest.mark.requirement("F-201")
def test_a_union_through_a_dynamic_reference_costs_no_more_either() -> None:
    again = {"$dynamicRef": "#n"}
    node = {"type": "object", "properties": {"a": again}, "required": ["a"]}
    schema = {
        "$ref": "#/$defs/e",
        "$defs": {"e": {"$dynamicAnchor": "n", "anyOf": [LEAF, node, {**node, "title": "x"}]}},
    }
    with affordable():
        assert SchemaValidator(schema).errors(nested("oops", DEPTH)) is not None
        assert SchemaValidator(schema).errors(nested(1, DEPTH)) is None


@pytest.mark.requirement("F-201")
def test_references_into_values_and_relative_to_parts_are_counted_as_well() -> None:
    """What only looks like data, and what another base leads elsewhere, must not make a bomb look harmless."""
    chain: dict[str, Any] = {f"d{level}": {"anyOf": [{"$ref": f"#/default/d{level + 1}"}] * 2} for level in range(60)}
    hidden: dict[str, Any] = {"$ref": "#/default/d0", "default": {**chain, "d60": LEAF}}
    inner = {
        "$id": "http://example.com/inner",
        **of_itself({"anyOf": [LEAF, NODE, PAIR], "unevaluatedProperties": False}),
    }
    moved: dict[str, Any] = {"properties": {"x": inner}, "$defs": {"e": {}}}
    for schema, value in ((hidden, "oops"), (moved, {"x": nested("oops", DEPTH)})):
        with affordable():
            assert SchemaValidator(schema).errors(value) is not None


references = st.sampled_from([SELF, SELF, {"$dynamicRef": "#n"}])
shapes = st.sampled_from([True, False, LEAF, {"type": "object"}, {"type": "array"}, {"required": ["a"]}])


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("anyOf", "oneOf", "allOf"), several),
            **dict.fromkeys(("if", "then", "else", "not", "items", "contains", "propertyNames"), inner),
            **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "unevaluatedItems"), inner),
            **dict.fromkeys(("properties", "dependentSchemas"), st.fixed_dictionaries({"a": inner})),
            "patternProperties": st.fixed_dictionaries({"^a": inner, "a$": inner}),
            "prefixItems": st.lists(inner, min_size=1, max_size=1),
        },
    )


@pytest.mark.requirement("F-201")
@given(st.recursive(references | shapes, combined, max_leaves=12).filter(lambda e: isinstance(e, dict)), st.booleans())
def test_whatever_refers_to_itself_has_a_bounded_price(schema: dict[str, Any], lists: bool) -> None:
    try:
        validator = SchemaValidator(of_itself({"$dynamicAnchor": "n", **schema}))
    except SchemaError:
        return
    with affordable():
        leaves: tuple[Any, ...] = (1, "oops", {})
        for leaf in leaves:
            validator.errors(nested(leaf, DEPTH, lists=lists))


UNION: dict[str, Any] = {
    "type": "object",
    "properties": {"expr": {"$ref": "#/$defs/e"}},
    "$defs": {"e": {"anyOf": [LEAF, NODE, PAIR]}},
}


@pytest.mark.anyio
@pytest.mark.requirement("F-201")
async def test_arguments_of_an_agent_that_are_nested_too_deeply_are_refused_with_the_place_and_others_are_served() -> (
    None
):
    agent = ScriptedAgent(lambda name, arguments: "word", {"name": "evaluate", "inputSchema": UNION})
    async with published(agent) as source:
        assert isinstance(source, AgentSource)
        with affordable():
            refused = await source.call_tool("evaluate", {"expr": nested("oops", DEPTH)}, FakeRequest())
            taken = await source.call_tool("evaluate", {"expr": nested(1, DEPTH)}, FakeRequest())
    assert refused["isError"] is True
    assert "- at /expr: it does not fit the schema, and is too large or too nested" in text_of(refused)
    assert text_of(taken) == "word"


@pytest.mark.requirement("F-201", "F-063")
def test_structured_content_that_is_nested_too_deeply_is_judged_too() -> None:
    promises = OutputSchemas("server")
    promises.replace([{"name": "t", "outputSchema": UNION}])
    with affordable():
        problem = promises.problem("t", {"structuredContent": {"expr": nested("oops", 28)}})
        assert promises.problem("t", {"structuredContent": {"expr": nested(1, 28)}}) is None
    assert problem == "- at /expr: it does not fit the schema, and is too large or too nested to say where"


@pytest.mark.requirement("F-201")
def test_a_large_value_is_not_copied_for_every_alternative() -> None:
    schema = {"anyOf": [{"type": "number"}] * 1_000}
    with affordable():
        problems = SchemaValidator(schema).errors("x" * 4_000_000)
    assert problems is not None
    assert "too large" in problems


@pytest.mark.requirement("F-201")
def test_what_does_not_fit_in_a_long_list_is_found_and_named() -> None:
    schema = {"properties": {"rows": {"items": {"$ref": "#/$defs/row"}}}, "$defs": {"row": {"required": ["name"]}}}
    rows: list[dict[str, Any]] = [{"name": "x"} for _ in range(4_000)]
    problems = SchemaValidator(schema).errors({"rows": [*rows, {"nam": "x"}]})
    assert problems == "- at /rows/4000: got {'nam': 'x'}; \"name\" is a required property"


@pytest.mark.requirement("F-201")
def test_a_long_text_costs_only_where_it_is_looked_at() -> None:
    texts = {f"a{number}": {"type": "string", "pattern": "^x"} for number in range(40)}
    validator = SchemaValidator({"properties": {"content": {"type": "string"}, **texts}})
    assert validator.errors({"content": "x" * 4_000_000, "a1": "x"}) is None
    problems = validator.errors({"content": "x" * 4_000_000, "a1": "y"})
    assert problems is not None
    assert problems.startswith("- at /a1: got 'y'; ")


ANYTHING = {
    "anyOf": [
        *({"type": kind} for kind in ("string", "number", "boolean", "null")),
        {"type": "array", "items": SELF},
        {"type": "object", "additionalProperties": SELF},
    ]
}
"""What pydantic says of any JSON value."""


@pytest.mark.requirement("F-201")
@pytest.mark.parametrize(
    "schema",
    [
        SELF,
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "object"}]},
    ],
    ids=["anything", "optional", "several"],
)
@pytest.mark.parametrize("text", ["1,2:3\n", "ü", "{"], ids=["table", "no ASCII", "braces"])
def test_a_text_that_nothing_looks_at_may_be_as_long_as_a_message(schema: dict[str, Any], text: str) -> None:
    content = text * (16_000_000 // len(text))
    properties = {"content": schema, "name": {"type": "string"}}
    validator = SchemaValidator({"properties": properties, "$defs": {"e": ANYTHING}})
    with affordable():
        assert validator.errors({"content": content}) is None
        assert validator.errors({"content": content, "name": 1}) is not None


@pytest.mark.requirement("F-201")
def test_a_pattern_that_goes_back_for_ever_gives_up() -> None:
    validator = SchemaValidator({"items": {"pattern": r"(a*)*\1b"}})
    with affordable():
        assert validator.errors(["a" * 30 + f"{number}!" for number in range(100)]) is not None


@pytest.mark.requirement("F-201")
def test_what_is_too_large_to_be_judged_is_refused_or_let_through() -> None:
    schema = {"anyOf": [{"items": {"type": "integer", "maximum": limit}} for limit in range(1_600)]}
    value = [0] * 1_000_000 + ["x"]
    validator = SchemaValidator(schema)
    with affordable():
        assert validator.errors(value) == "- at (root): it is too large or too nested to be held against the schema"
        assert validator.errors(value, unjudged=None) is None


@pytest.mark.requirement("F-201")
def test_the_schemas_of_schemas_can_be_asked_for() -> None:
    validator = SchemaValidator({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert validator.errors({"type": "string"}) is None
    assert validator.errors({"type": "widget"}) is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}},
        {
            "$id": "http://example.com/s",
            "properties": {"a": {"$ref": "s#/$defs/x"}},
            "$defs": {"x": {"type": "string"}},
        },
        {"properties": {"a": {"$ref": "x.json"}}, "$defs": {"x": {"$id": "x.json", "type": "string"}}},
        {"properties": {"a": {"$ref": "#x"}}, "$defs": {"x": {"$anchor": "x", "type": "string"}}},
        {
            "properties": {"a": {"$ref": "urn:x"}},
            "$defs": {"x": {"$id": "urn:x", "$ref": "#/$defs/y", "$defs": {"y": LEAF}}},
        },
    ],
)
def test_references_of_every_form_are_followed(schema: dict[str, Any]) -> None:
    problems = SchemaValidator(schema).errors({"a": None})
    assert problems is not None
    assert problems.startswith("- at /a: got None; ")


ROW = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/text"}}, "required": ["a"]}
TABLE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "rows": {"type": "array", "items": ROW},
        "numbers": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
    },
    "required": ["name"],
    "$defs": {"text": {"type": ["string", "null"]}},
}


@pytest.mark.requirement("F-201")
@pytest.mark.parametrize(
    "value",
    [
        {"name": "x," * 2_000_000},
        {"name": "x", "rows": [{"a": number, "b": "text"} for number in range(20_000)]},
        {"name": "x", "numbers": [*range(100_000), None]},
        {"name": "x", "other": [{"any": [number]} for number in range(20_000)]},
    ],
    ids=["text", "rows", "numbers", "other"],
)
def test_what_is_large_and_plain_is_judged(value: dict[str, Any]) -> None:
    validator = SchemaValidator(TABLE)
    with affordable():
        assert validator.errors(value) is None
        problem = validator.errors({**value, "name": ""})
    assert problem is not None
    assert "does not fit" in problem or "at /name" in problem
