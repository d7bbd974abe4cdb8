"""What is judged without the engine is judged as the engine would: a yes is a yes, and all else is left to it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.json_schema import plain as plain_module
from gaia_bridge.json_schema.parts import SchemaError
from gaia_bridge.json_schema.plain import PlainSchema
from gaia_bridge.json_schema.validation import SchemaValidator

NAMES = st.sampled_from(["a", "b", "é", "\ud800", ""])
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([0.0, 1.0, -2.0, 0.5, math.inf, math.nan, 1e300, 2**53, 2**53 + 1, -(2**64)]),
    NAMES,
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Plain schemas with anything wrong with them that may be."""
    plain: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, max_size=3) | SCALARS,
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=2) | SCALARS,
        "additionalProperties": st.booleans() | inner,
        "items": inner,
        "enum": st.lists(VALUES, max_size=4),
        "const": VALUES,
        "anyOf": st.lists(inner, max_size=3),
        "title": NAMES | SCALARS,
        "default": VALUES,
        "examples": VALUES,
        "readOnly": st.booleans() | SCALARS,
        "$schema": st.sampled_from(
            [
                "https://json-schema.org/draft/2020-12/schema",
                "http://json-schema.org/draft-07/schema#",
                "http://json-schema.org/draft-04/schema#",
            ]
        ),
        "minimum": SCALARS,
        "x-vendor": VALUES,
    }
    return st.lists(st.sampled_from(list(plain)), max_size=4, unique=True).flatmap(
        lambda keywords: st.fixed_dictionaries({str(keyword): plain[keyword] for keyword in keywords})
    )


SCHEMAS = st.recursive(st.builds(dict[str, Any]) | TYPES.map(lambda name: {"type": name}), schemas, max_leaves=6)


@given(SCHEMAS, st.lists(VALUES, max_size=5))
def test_what_surely_fits_fits(schema: Any, values: list[Any]) -> None:
    plain = PlainSchema.of(schema)
    if plain is not None:
        engine = jsonschema_rs.validator_for(schema, offline=True)  # which is a schema, then
        for value in values:
            if plain.fits(value):
                assert engine.is_valid(value)


def fitting(schema: Any) -> st.SearchStrategy[Any]:
    """Values that a plain schema was made for."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([fitting(branch) for branch in schema["anyOf"]])
    if "const" in schema or schema["type"] == "null":
        return st.just(schema.get("const"))
    match schema.get("type"):
        case "object":
            members = schema["properties"]
            needed = {name: fitting(members[name]) for name in schema.get("required", ())}
            others = {name: fitting(inner) for name, inner in members.items() if name not in needed}
            return st.fixed_dictionaries(needed, optional=others)
        case "array":
            return st.lists(fitting(schema["items"]), max_size=5)
        case "integer":
            return st.integers(-(2**53), 2**53)
        case "boolean":
            return st.booleans()
        case _:
            return st.text()


TOOL: Any = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "find",
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where"},
        "depth": {"type": "integer", "default": 3},
        "order": {"anyOf": [{"const": "name", "type": "string"}, {"type": "null"}], "default": None},
        "sizes": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "kinds": {"type": "array", "items": {"enum": ["file", "folder", None, 1]}, "default": []},
        "options": {
            "type": "object",
            "properties": {"hidden": {"type": "boolean"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["hidden"],
            "additionalProperties": False,
        },
    },
    "required": ["path"],
}


@given(fitting(TOOL))
def test_what_tools_are_usually_called_with_needs_no_engine(value: Any) -> None:
    plain = PlainSchema.of(TOOL)
    assert plain is not None
    assert plain.fits(value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "required"),
        ({"path": 5}, "/path"),
        ({"path": "x", "depth": True}, "/depth"),
        ({"path": "x", "kinds": ["link"]}, "/kinds/0"),
        ({"path": "x", "options": {"hidden": True, "more": 1}}, "/options"),
        (["path"], "(root)"),
    ],
)
def test_what_is_wrong_is_told_in_the_words_of_the_engine(value: Any, problem: str) -> None:
    told = SchemaValidator(TOOL).errors(value)
    assert told is not None
    assert problem in told


@pytest.mark.parametrize(
    "value",
    [
        {"path": "x", "depth": 2.0},
        {"path": "x", "more": {"deep": [1]}},
        {"path": "x", "depth": 10**30},
        {"path": "x", "kinds": ["file"] * 2_000},
    ],
)
def test_what_nobody_can_be_sure_of_here_is_left_to_the_engine(value: Any) -> None:
    plain = PlainSchema.of(TOOL)
    assert plain is not None
    assert not plain.fits(value)
    assert SchemaValidator(TOOL).errors(value) is None


class _Compared(int):
    """A whole number that counts how often it is compared."""

    times = 0
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        _Compared.times += 1
        return int(self) == other


def test_a_value_is_looked_up_among_many_choices_and_not_compared_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_module, "_NUMBERS", frozenset({int, _Compared}))
    plain = PlainSchema.of({"items": {"enum": [_Compared(number) for number in range(1_000)]}})
    assert plain is not None
    _Compared.times = 0
    assert plain.fits([_Compared(999)] * 100)
    assert _Compared.times < 1_000


def test_a_schema_that_holds_itself_ends() -> None:
    schema: dict[str, Any] = {"type": "array"}
    schema["items"] = schema
    assert PlainSchema.of(schema) is None
    assert PlainSchema.of(json.loads('{"items":' * 15 + "{}" + "}" * 15)) is not None
    assert PlainSchema.of(json.loads('{"items":' * 16 + "{}" + "}" * 16)) is None


@pytest.mark.parametrize("schema", [{"type": "thing"}, {"required": ["a", "a"]}, {"properties": {"a": {"enum": 5}}}])
def test_what_is_no_schema_is_refused_when_it_is_made(schema: Any) -> None:
    with pytest.raises(SchemaError):
        SchemaValidator(schema)


def test_a_plain_schema_loads_no_engine() -> None:
    code = f"""
import sys
from gaia_bridge.json_schema.validation import SchemaValidator
assert SchemaValidator({TOOL!r}).errors({{"path": "x", "kinds": ["file"]}}) is None
assert "jsonschema_rs" not in sys.modules
assert SchemaValidator({TOOL!r}).errors({{}})
assert "jsonschema_rs" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
