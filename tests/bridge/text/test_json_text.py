"""JSON is read, written and refused as `pydantic_core` does it, also where it is not asked."""

from __future__ import annotations

import math
from typing import Any

import pydantic_core
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.text.json_text import from_json, measure, to_json, valid_json
from gaia_bridge.text.json_types import MAX_NESTING, is_too_deep

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**62).map(lambda number: number**4)
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=("Cs", "Cc", "Ll")))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)

TEXTS = [
    b"",
    b"01",
    b"+1",
    b"-0",
    b"1.",
    b"1e5",
    b"1e999",
    b"-1E400",
    b"0.1000000000000000055511151231257827",
    b"18446744073709551616",
    b"-123456789012345678901234567890",
    b"1" * 5_000,
    b"NaN",
    b"[-Infinity]",
    b'{"a":1,"a":2}',
    b"[1,]",
    b"{} x",
    b" \n{} \n",
    b"\xef\xbb\xbf{}",
    b'"\\ud800"',
    b'{"\\ud800":1}',
    b'"\\ud83d\\ude00"',
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b'"a\x01b"',
    b'"\\u0000"',
    b"[" * 200 + b"]" * 200,
    b"[" * 201 + b"]" * 201,
    b"[" * 50_000,
]


def outcome(read: Any, *arguments: Any, **options: Any) -> str:
    try:
        return repr(read(*arguments, **options))
    except ValueError:
        return "refused"


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:30]))
def test_unusual_texts_get_the_same_verdict(text: bytes) -> None:
    for is_strict in (False, True):
        options = {"allow_inf_nan": not is_strict}
        assert outcome(from_json, text, **options) == outcome(pydantic_core.from_json, text, **options)


def test_text_is_read_as_its_bytes_are() -> None:
    assert from_json('{"a": "é"}') == from_json('{"a": "é"}'.encode()) == {"a": "é"}
    with pytest.raises(ValueError, match="surrogates"):
        from_json('"\ud800"')


@given(VALUES)
def test_a_value_is_written_as_the_same_value_or_refused(value: Any) -> None:
    ours = outcome(lambda: from_json(to_json(value)))
    assert ours == outcome(lambda: from_json(pydantic_core.to_json(value, inf_nan_mode="null")))


class Word(str):
    """Text of a type of its own."""


@pytest.mark.parametrize(
    "value",
    [{1: 2}, {None: 1}, {True: 1}, (1, (2,)), {1}, Word("a"), {"a": object()}, [10**5_000], [math.nan, -math.inf]],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_quite_json_is_written_as_before_or_refused(value: Any) -> None:
    assert outcome(to_json, value) == outcome(pydantic_core.to_json, value, inf_nan_mode="null")


@pytest.mark.parametrize("is_object", [False, True])
@pytest.mark.parametrize("levels", [199, 200, 201, 254, 255, 900, 50_000])
def test_depth_is_bounded_as_before(levels: int, is_object: bool) -> None:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if is_object else [value]
    assert outcome(to_json, value) == outcome(pydantic_core.to_json, value)


OTHERS: list[Any] = [[{}], {"a": []}, 1]


@given(
    st.lists(st.booleans(), min_size=MAX_NESTING - 4, max_size=MAX_NESTING + 4),
    st.sampled_from([[], {}, 1, "\n" + " " * 300, "[" * 300]),
    st.integers(0, 3),
)
def test_depth_is_seen_in_what_is_written(levels: list[bool], innermost: Any, beside: int) -> None:
    value = innermost
    for is_array in levels:
        others = OTHERS[:beside]
        value = [*others, value] if is_array else {"others": others, "last": value}
    assert measure(value)[1] is is_too_deep(value)


def test_many_brackets_are_no_depth() -> None:
    value = [[{"a": "[{" * 10}]] * 500
    assert to_json(value) == pydantic_core.to_json(value)


def test_a_value_that_contains_itself_is_refused_and_one_that_is_there_twice_is_not() -> None:
    endless: dict[str, Any] = {"text": "\ud800"}
    endless["again"] = [endless]
    with pytest.raises(ValueError, match="contains itself"):
        valid_json(endless)
    twice = {"text": "\ud800"}
    assert valid_json([twice, {"a": twice}]) == [{"text": "?"}, {"a": {"text": "?"}}]
