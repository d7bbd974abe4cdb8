"""What is typed after a tool's name becomes what the tool takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.text.json_types import JSON
from gaia_bridge_cli.servers.arguments import ArgumentsError, tool_arguments

SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "tags": {"type": "array"},
        "either": {"type": ["string", "integer"]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "zone": {"enum": ["a", "b"]},
        "free": {},
        "mixed": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/x"}]},
    },
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=7", "7"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ('text={"a": 1}', '{"a": 1}'),
        ("count=3", 3),
        ("ratio=0.5", 0.5),
        ("deep=true", True),
        ('tags=["x"]', ["x"]),
        ("either=3", 3),
        ("either=three", "three"),
        ("either=0.5", "0.5"),
        ("maybe=7", "7"),
        ("maybe=null", None),
        ("zone=a", "a"),
        ("free=7", 7),
        ("free=seven", "seven"),
        ("mixed=7", 7),
        ("unknown=[1]", [1]),
        ("text:=7", 7),
        ('count:="x"', "x"),
    ],
)
def test_a_value_is_read_as_the_tool_wants_it(word: str, value: Any) -> None:
    key = word.partition("=")[0].removesuffix(":")
    assert tool_arguments([word], SCHEMA) == {key: value}


@given(st.dictionaries(st.text(), VALUES))
def test_one_json_object_is_taken_as_it_is(arguments: JSON) -> None:
    assert tool_arguments([json.dumps(arguments)], SCHEMA) == arguments


@given(st.text())
def test_a_text_stays_the_text_that_was_typed(text: str) -> None:
    assert tool_arguments([f"text={text}"], SCHEMA) == {"text": text}


@given(st.from_regex(r"[a-z]+", fullmatch=True), VALUES)
def test_a_json_value_stays_what_was_typed_whatever_the_schema_says(key: str, value: Any) -> None:
    assert tool_arguments([f"{key}:={json.dumps(value)}"], SCHEMA) == {key: value}


def test_no_words_are_no_arguments() -> None:
    assert tool_arguments([], SCHEMA) == {}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["count"], "'count' is no argument; expected key=value"),
        (["=3"], "'=3' is no argument"),
        (["count=three"], "count='three' is not what the tool takes: integer; write count=1"),
        (["text=a", "text=b"], "'text' is there twice; a list is one argument, in JSON: text='[1, 2]'"),
        (["{"], "not valid JSON"),
        (['{"a": 1, "b": {"c": 1, "c": 2}}'], "the key 'c' appears twice"),
        (['{"text": "x", "text": "y"}'], "the key 'text' appears twice"),
        (['x:={"a": 1, "a": 1}'], "the key 'a' appears twice"),
        (['free={"a": 1, "a": 1}'], "the value of free= is not clear: the key 'a' appears twice"),
        (["x:={"], "the value of x:= is not valid JSON"),
        (["[" * 100_000], "is no argument"),
        (["count=" + "[" * 100_000], "is not what the tool takes"),
    ],
)
def test_words_that_are_no_arguments_are_refused_with_what_was_expected(words: list[str], complaint: str) -> None:
    with pytest.raises(ArgumentsError) as refusal:
        tool_arguments(words, SCHEMA)
    assert complaint in str(refusal.value)
