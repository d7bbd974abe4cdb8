"""Compiled schemas: error texts that a model can act on, and nothing that a schema or a value can break."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.json_schema import validation
from gaia_bridge.json_schema.cost import SchemaCost
from gaia_bridge.json_schema.parts import SchemaError, preview
from gaia_bridge.json_schema.validation import OutputSchemas, SchemaValidator
from gaia_bridge.text.json_types import JSON, json_pointer

any_text = st.text(st.characters(exclude_categories=()))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
)
keywords = st.sampled_from(
    ["type", "properties", "items", "required", "enum", "const", "pattern", "$ref", "$defs", "allOf", "not", "minimum"]
)
odd_schemas = st.dictionaries(keywords | any_text, json_values | st.sampled_from(["object", "string", "#", "^(a+)+$"]))

BOOK = SchemaValidator(
    {
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 1},
            "year": {"type": "integer", "minimum": 1450},
            "kind": {"enum": ["novel", "poem"]},
            "a/b~c": {"type": "boolean"},
            "authors": {"type": "array", "items": {"$ref": "#/$defs/author"}},
        },
        "required": ["title"],
        "additionalProperties": False,
        "$defs": {"author": {"type": "object", "properties": {"name": {"type": ["string", "null"]}}}},
    }
)

CLOSED: JSON = {
    "properties": {"volume": {"type": "integer"}, "loud": {"type": "boolean"}},
    "required": ["volume"],
    "additionalProperties": False,
}

SUM: dict[str, Any] = {"type": "object", "properties": {"sum": {"type": "integer"}}}


def test_a_fitting_value_has_no_errors() -> None:
    assert BOOK.errors({"title": "Emma", "year": 1815, "authors": [{"name": None}]}) is None


@pytest.mark.parametrize(
    ("value", "place", "came", "expected"),
    [
        ({"title": "x", "year": "1815"}, "/year", "'1815'", "integer"),
        ({"title": "x", "year": 3}, "/year", "3", "1450"),
        ({"title": "x", "kind": "essay"}, "/kind", "'essay'", '"novel"'),
        ({"title": "x", "authors": [{}, {"name": 5}]}, "/authors/1/name", "5", '"string"'),
        ({"title": "x", "a/b~c": 1}, "/a~1b~0c", "1", "boolean"),
        ({}, "(root)", "{}", '"title"'),
        ({"title": "x", "pages": 3}, "(root)", "'pages': 3", "pages"),
        ([], "(root)", "[]", "object"),
    ],
)
@pytest.mark.requirement("S1-12", "F-083")
def test_an_error_names_the_place_what_came_and_what_was_expected(
    value: Any, place: str, came: str, expected: str
) -> None:
    problems = BOOK.errors(value)
    assert problems is not None
    assert problems.startswith(f"- at {place}: got ")
    got, _, wanted = problems.partition("; ")
    assert came in got
    assert expected in wanted


@pytest.mark.parametrize(
    ("schema", "value", "hint"),
    [
        (CLOSED, {"volum": 1, "lod": True}, "('volum', 'lod' were unexpected); did you mean 'volume' and 'loud'?"),
        (CLOSED, {"volume": 1, "volumes": 1}, "('volumes' was unexpected)"),
        ({**CLOSED, "additionalProperties": True}, {"volum": 1}, "is a required property; did you mean 'volume'?"),
        ({**CLOSED, "additionalProperties": True}, {"other": 1}, '"volume" is a required property'),
        ({"$ref": "#/$defs/a~0b", "$defs": {"a~b": CLOSED}}, {"volume": 1, "lod": 1}, "did you mean 'loud'?"),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": CLOSED}}, [{"volume": 1, "lod": 1}], "did you mean 'loud'?"),
        ({"items": CLOSED}, [*[{"volume": 1}] * 9_000, {"volume": 1, "lod": 1}], "did you mean 'loud'?"),
        ({"properties": {"name": {}}, "unevaluatedProperties": False}, {"nme": 1}, "did you mean 'name'?"),
    ],
)
def test_the_name_for_which_another_came_is_suggested(schema: JSON, value: Any, hint: str) -> None:
    assert str(SchemaValidator(schema).errors(value)).splitlines()[0].endswith(hint)


def test_many_long_names_are_not_compared_with_each_other() -> None:
    names: JSON = {f"property {number:050}": True for number in range(4_000)}
    schema: JSON = {"properties": names, "additionalProperties": False}
    errors = SchemaValidator(schema).errors({f"propertie {number:050}": 1 for number in range(4_000)})
    assert "did you mean" not in str(errors)


def test_more_errors_than_a_reader_wants_are_cut_off() -> None:
    problems = SchemaValidator({"items": {"type": "integer"}}).errors(["x"] * 50)
    assert problems is not None
    assert problems.splitlines()[5:] == ["- and more"]


def test_all_errors_are_shown_when_they_are_few() -> None:
    problems = SchemaValidator({"items": {"type": "integer"}}).errors(["x"] * 5)
    assert problems is not None
    assert [line[:7] for line in problems.splitlines()] == ["- at /0", "- at /1", "- at /2", "- at /3", "- at /4"]


def test_a_long_value_is_shown_short() -> None:
    problems = SchemaValidator({"type": "integer"}).errors("x" * 100_000)
    assert problems is not None
    assert len(problems) < 200


@given(odd_schemas)
@pytest.mark.requirement("S-30")
def test_a_schema_compiles_or_is_refused_with_a_reason(schema: dict[str, Any]) -> None:
    try:
        SchemaValidator(schema)
    except SchemaError as error:
        assert str(error)
        assert "\n" not in str(error)


@given(json_values)
@pytest.mark.requirement("S1-12", "F-105")
def test_whatever_the_value_there_is_a_verdict_in_valid_text(value: Any) -> None:
    for schema in ({"type": "integer"}, {"additionalProperties": {"maxLength": 0}}, {"items": {"enum": [1]}}):
        problems = SchemaValidator(schema).errors(value)
        assert problems is None or problems.encode()


@pytest.mark.requirement("F-105")
@pytest.mark.parametrize("value", [{"x": "\ud800"}, {"\ud800": "x"}])
def test_text_that_is_no_unicode_is_an_error_and_not_an_exception(value: Any) -> None:
    problems = SchemaValidator({"additionalProperties": {"maxLength": 0}}).errors(value)
    assert problems is not None
    assert "\\ud800" in problems


def test_a_value_that_is_no_json_is_an_error_and_not_an_exception() -> None:
    problems = SchemaValidator({"type": "object"}).errors({1: 2})
    assert problems is not None
    assert "(root)" in problems


def test_a_number_that_json_does_not_have_is_no_number() -> None:
    assert SchemaValidator({"type": "number"}).errors(math.nan) is not None


def test_deep_nesting_is_judged() -> None:
    value: dict[str, Any] = {}
    for _ in range(250):
        value = {"child": value}
    schema = SchemaValidator({"type": "object", "properties": {"child": {"$ref": "#"}}})
    assert schema.errors(value) is None


@pytest.mark.requirement("S-30")
@pytest.mark.parametrize(
    "reference",
    ["http://127.0.0.1:1/s.json", "https://example.com/s.json", "file:///etc/passwd", "//example.com/s", "s.json"],
)
def test_no_reference_is_fetched(reference: str) -> None:
    with pytest.raises(SchemaError):
        SchemaValidator({"properties": {"x": {"$ref": reference}}})


@pytest.mark.requirement("S-30")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/absent"},
        {"type": "widget"},
        {"pattern": "("},
        {"required": "name"},
        {"$schema": "https://example.com/unknown-dialect", "type": "object"},
        {"properties": {"\ud800": {}}},
    ],
)
def test_what_is_no_schema_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        SchemaValidator(schema)


@pytest.mark.requirement("S-30")
@pytest.mark.parametrize(
    ("schema", "left"),
    [
        ({"type": "string", "pattern": "[", "maxLength": 2}, {"type": "string", "maxLength": 2}),
        ({"properties": {"a": None, "b": {"type": "x"}}}, {"properties": {"a": {}, "b": {}}}),
        ({"properties": {"+07": {"type": "x"}, "8": 1}}, {"properties": {"+07": {}, "8": {}}}),
        ({"patternProperties": {"[": {}, "^a": {}}}, {"patternProperties": {"^a": {}}}),
        ({"required": ["a", 1], "minProperties": 1}, {"minProperties": 1}),
        ({"anyOf": [{"pattern": "["}, {"type": "null"}]}, {"anyOf": [{}, {"type": "null"}]}),
        ({"type": "string", "not": {"pattern": "["}}, {"type": "string"}),
        ({"oneOf": [{"pattern": "["}, {}], "type": "string"}, {"type": "string"}),
        ({"properties": {"not": {"pattern": "[", "type": "string"}}}, {"properties": {"not": {"type": "string"}}}),
    ],
)
def test_what_is_left_without_invalid_keywords_refuses_nothing_more(schema: JSON, left: JSON) -> None:
    before = deepcopy(schema)
    assert SchemaValidator.tolerant(schema).schema == left
    assert schema == before


@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
    ],
)
def test_many_invalid_keywords_cost_few_compilations(dialect: str) -> None:
    class Counted(SchemaValidator):
        compiled = 0

        def __init__(self, schema: Mapping[str, Any]) -> None:
            Counted.compiled += 1
            super().__init__(schema)

    def properties(*invalid: str) -> JSON:
        wrong: JSON = {"pattern": "(", "minLength": -1}
        pattern = "^a" if dialect.endswith("07/schema#") else "(?i)a"  # which the format "regex" refuses
        return {str(number): {"pattern": pattern, **{key: wrong[key] for key in invalid}} for number in range(40)}

    left = Counted.tolerant({"$schema": dialect, "properties": properties("minLength")}).schema
    assert left == {"$schema": dialect, "properties": properties()}
    left = Counted.tolerant({"$schema": dialect, "properties": properties("pattern", "minLength")}).schema
    assert left == {"$schema": dialect, "properties": {str(number): {} for number in range(40)}}
    assert Counted.compiled <= 6


@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-04/schema#",
    ],
)
def test_valid_patterns_stay_beside_an_invalid_one(dialect: str) -> None:
    rest: JSON = {"$schema": dialect, "type": "object", "additionalProperties": False}
    schema = {**rest, "properties": {"a": {"type": "x"}}, "patternProperties": {"(": {}, "^x-": {"type": "string"}}}
    left = SchemaValidator.tolerant(schema).schema
    assert left == {**rest, "properties": {"a": {}}, "patternProperties": {"^x-": {"type": "string"}}}


def test_a_dialect_without_a_metaschema_of_its_name_needs_none_or_is_a_reason() -> None:
    schema: JSON = {"properties": {"a": {"type": "string", "pattern": "("}}}
    alias = {"$schema": "http://json-schema.org/schema#"}  # names the latest, for engines that know it
    left = SchemaValidator.tolerant({**alias, **schema}).schema
    assert left == {**alias, "properties": {"a": {"type": "string"}}}
    with pytest.raises(SchemaError):
        SchemaValidator.tolerant({"$schema": "https://example.com/none", **schema})


def test_more_invalid_keywords_than_anybody_writes_are_a_reason() -> None:
    with pytest.raises(SchemaError, match="more than 100 of its keywords are invalid"):
        SchemaValidator.tolerant({"properties": {str(number): {"type": "x"} for number in range(101)}})
    with pytest.raises(SchemaError, match="at /properties/7/items/type"):  # the engine's name for both
        SchemaValidator.tolerant({"properties": {"7": {"pattern": "^a"}, "007": {"items": {"type": "x"}}}})
    with pytest.raises(SchemaError, match="nowhere"):
        SchemaValidator.tolerant({"$ref": "#/nowhere"})


def test_a_pattern_that_would_take_for_ever_elsewhere_has_a_verdict() -> None:
    problems = SchemaValidator({"pattern": "^(a+)+$"}).errors("a" * 50_000 + "!")
    assert problems is not None


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert SchemaValidator({"$ref": "#"}).errors({}) is None


@given(st.lists(st.text() | st.integers(min_value=0)))
def test_a_pointer_can_be_taken_apart_again(path: list[str | int]) -> None:
    shown = json_pointer(path)
    parts = [] if shown == "(root)" else shown.split("/")[1:]
    assert [part.replace("~1", "/").replace("~0", "~") for part in parts] == [str(part) for part in path]


@given(json_values)
def test_a_preview_is_short_valid_text(value: Any) -> None:
    assert len(preview(value).encode()) <= 4 * 80


@pytest.mark.requirement("S-30", "F-083")
def test_the_errors_of_a_value_that_is_large_for_its_schema_are_not_told_one_by_one() -> None:
    """Each takes the engine some microseconds, and it finds all of them before it tells the first."""
    validator = SchemaValidator({"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]})
    assert validator.errors([None] * 3_000) == (
        "- at (root): it does not fit the schema, and is too large or too nested to say where"
    )
    assert validator.errors([5] * 50_000) is None
    few = validator.errors([None] * 100)
    assert few is not None
    assert few.startswith("- at (root): got [None, ")


@pytest.mark.parametrize(
    ("schema", "reach"),
    [
        ({}, 1),
        ({"properties": {"a": {}, "b": {}}}, 3),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {}}}}, 5),
        ({"$ref": "#"}, 2),
    ],
)
def test_a_schema_reaches_as_far_as_its_references(schema: dict[str, Any], reach: int) -> None:
    assert SchemaCost(schema).reach == reach


def tool(name: Any, schema: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {}, "outputSchema": schema}


def promised(*tools: dict[str, Any]) -> OutputSchemas:
    schemas = OutputSchemas("server")
    schemas.replace(tools)
    return schemas


@pytest.mark.requirement("F-063", "S-29")
@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ({"structuredContent": {"sum": 3}}, True),
        ({"structuredContent": {"sum": "3"}}, False),
        ({"structuredContent": [3]}, False),
        ({"structuredContent": {"sum": "3"}, "isError": False}, False),
        ({"structuredContent": {"sum": "3"}, "isError": True}, True),
        ({"structuredContent": {"sum": "3"}, "resultType": "complete"}, False),
        ({"structuredContent": {"sum": "3"}, "resultType": "input_required"}, True),
        ({"structuredContent": None}, True),
        ({"content": []}, True),
    ],
)
def test_only_structured_content_of_a_complete_success_is_judged(result: dict[str, Any], kept: bool) -> None:
    assert (promised(tool("add", SUM)).problem("add", result) is None) == kept


@pytest.mark.requirement("F-063")
def test_a_problem_names_the_place() -> None:
    problem = promised(tool("add", SUM)).problem("add", {"structuredContent": {"sum": "3"}})
    assert problem is not None
    assert problem.startswith("- at /sum: got '3'; ")


@pytest.mark.parametrize("schema", [None, True, [], "x"])
def test_what_is_no_schema_promises_nothing(schema: Any) -> None:
    schemas = promised(tool("odd", schema), {"name": "none"}, tool(5, SUM))
    assert [schemas.problem(name, {"structuredContent": 5}) for name in ("odd", "none", "5", "unknown")] == [None] * 4


def test_a_promise_holds_until_it_is_replaced_and_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []

    class Counting(SchemaValidator):
        def __init__(self, schema: Any) -> None:
            compiled.append(schema)
            super().__init__(schema)

    monkeypatch.setattr(validation, "SchemaValidator", Counting)
    text = {"type": "string"}
    schemas = promised(tool("a", SUM), tool("b", text))
    assert compiled == []
    for _ in range(3):
        assert schemas.problem("a", {"structuredContent": "x"}) is not None
    schemas.replace([tool("a", dict(SUM)), tool("b", SUM)])
    assert schemas.problem("a", {"structuredContent": "x"}) is not None
    assert schemas.problem("b", {"structuredContent": "x"}) is not None
    assert compiled == [SUM, SUM]
    schemas.replace([tool("a", text)])
    assert schemas.problem("a", {"structuredContent": "x"}) is None
    assert schemas.problem("b", {"structuredContent": "x"}) is None
    assert compiled == [SUM, SUM, text]


def test_a_schema_that_cannot_be_used_is_told_once_and_promises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    schemas = promised(tool("bad\n", {"$ref": "#/nowhere"}))
    assert [schemas.problem("bad\n", {"structuredContent": 5}) for _ in range(3)] == [None] * 3
    [message] = caplog.messages
    assert message.startswith("server: tool 'bad\\n': its output schema cannot be used: at (root): ")


def test_a_keyword_that_cannot_be_used_turns_off_no_other() -> None:
    for bad in ({"pattern": "[a-z"}, {"type": "banana"}, {"minimum": "0"}):
        schemas = promised(tool("a", {"properties": {"x": {"type": "integer"}, "y": bad}}))
        assert schemas.problem("a", {"structuredContent": {"x": "1", "y": "?"}}) is not None
        assert schemas.problem("a", {"structuredContent": {"x": 1, "y": "?"}}) is None


@pytest.mark.requirement("F-105")
def test_text_that_is_no_unicode_is_not_judged() -> None:
    assert promised(tool("add", SUM)).problem("add", {"structuredContent": {"x": "\ud800"}}) is None


@pytest.mark.requirement("S-30", "S-37")
def test_what_would_take_too_long_to_judge_is_let_through() -> None:
    """Thousands of alternatives that each fail at the last of many items: half a minute, in which nobody is served."""
    schema = {"anyOf": [{"items": {"type": "integer", "maximum": limit}} for limit in range(1_600)]}
    assert promised(tool("slow", schema)).problem("slow", {"structuredContent": [0] * 1_000_000 + ["x"]}) is None


@pytest.mark.requirement("S-30", "S-37")
def test_a_large_value_with_errors_everywhere_is_refused_in_one_line() -> None:
    schema = {"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]}
    problem = promised(tool("wrong", schema)).problem("wrong", {"structuredContent": [None] * 3_000})
    assert problem == "- at (root): it does not fit the schema, and is too large or too nested to say where"
