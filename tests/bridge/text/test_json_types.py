"""JSON as plain Python: how deep it is, and what is where in it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.calls.results.conversion import jsonable
from gaia_bridge.text.json_types import (
    MAX_NESTING,
    SMALL_BYTES,
    at_pointer,
    copied,
    is_array,
    is_larger,
    is_object,
    is_small,
    is_too_deep,
)

DOCUMENT = {"a": [{"b/c": 1}, None], "~": {"": 2}, "0": {"x y": 3}}


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", DOCUMENT),
        ("#", DOCUMENT),
        ("/a/0/b~1c", 1),
        ("#/a/0/b~1c", 1),
        ("#/a/0/b%7E1c", 1),
        ("/~0/", 2),
        ("/0/x%20y", 3),
        ("/a/1", None),
        ("/a/2", None),
        ("/a/-1", None),
        ("/a/x", None),
        ("/a/0/b~1c/d", None),
        ("/missing/a", None),
    ],
)
def test_a_pointer_leads_to_what_is_there_or_to_nothing(pointer: str, found: Any) -> None:
    assert at_pointer(DOCUMENT, pointer) == found


@given(st.lists(st.text(), max_size=5))
def test_every_key_can_be_pointed_at(keys: list[str]) -> None:
    document: Any = 1
    for key in reversed(keys):
        document = {key: document}
    steps = (quote(key.replace("~", "~0").replace("/", "~1"), safe="~") for key in keys)
    assert at_pointer(document, "#" + "".join(f"/{step}" for step in steps)) == 1


def test_what_is_nested_too_deeply_is_told_from_what_is_just_deep_enough() -> None:
    value: Any = []
    for _ in range(MAX_NESTING - 1):
        value = [value]
    assert not is_too_deep(value)
    assert is_too_deep({"a": value})


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=150),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(max_size=120), inner, max_size=10),
    max_leaves=30,
)


@given(PLAIN)
def test_what_is_small_is_no_larger_than_it_may_be_and_is_converted_as_anything_else(value: Any) -> None:
    if is_small(value):
        assert not is_larger(value, SMALL_BYTES)
        assert jsonable(value, SMALL_BYTES) == jsonable(value, SMALL_BYTES - 1), "the last looks at everything"


NOT_SMALL: list[Any] = [
    "x" * 101,
    {"x" * 101: 1},
    {1: 1},
    [[[[]]]],
    [1] * 9,
    (1,),
    b"x",
    object(),
    (item for item in [1]),
    {"a": [(item for item in [1])]},
    type("Text", (str,), {})("x"),
]


@pytest.mark.parametrize("value", NOT_SMALL, ids=lambda value: type(value).__name__)
def test_what_is_long_deep_or_no_plain_json_is_not_small(value: Any) -> None:
    assert not is_small(value)


def test_the_largest_that_is_small_is_within_its_bound() -> None:
    def member(levels: int) -> Any:
        return {f"{number}" + "k" * 99: member(levels - 1) for number in range(8)} if levels else "x" * 100

    assert is_small(member(3))
    assert not is_larger(member(3), SMALL_BYTES)
    assert not is_small(member(4))


@given(PLAIN)
def test_a_copy_says_the_same_and_shares_nothing_that_can_change(value: Any) -> None:
    copy = copied(value)
    assert repr(copy) == repr(value)
    assert {id(item) for item in _containers(copy)}.isdisjoint(id(item) for item in _containers(value))


def test_what_is_no_json_is_copied_too() -> None:
    inner = {"x"}
    copy = copied({"set": inner, "pair": (inner, 1)})
    assert copy == {"set": {"x"}, "pair": ({"x"}, 1)}
    assert copy["set"] is not inner
    assert copy["pair"][0] is not inner


def _containers(value: Any) -> list[Any]:
    if is_object(value):
        return [value, *(found for item in value.values() for found in _containers(item))]
    return [value, *(found for item in value for found in _containers(item))] if is_array(value) else []
