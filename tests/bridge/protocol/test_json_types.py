"""JSON as plain Python: how deep it is, and what is where in it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.protocol.json_types import MAX_NESTING, at_pointer, is_too_deep

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
