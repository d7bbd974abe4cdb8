"""Patterns that JavaScript and Python share are told from those of one language."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.json_schema.keyword_values import is_common_pattern

pieces = st.sampled_from(
    [*"ab09-^$.*+?()[]{}|/\\ ,:=!<>é&~#\n", r"\d", r"\w", r"\p{L}", "(?P<n>", "(?<n>", "(?i)", "(?:", "(?=", "(?<="]
    + [r"\z", r"\A", r"\u0041", r"\ud800", r"\1", "[a-z]", r"[^\d-]", r"[a-\d]", "{2}", "{3,2}", "{,3}", "[]", "[^]"]
)


@given(st.lists(pieces, max_size=8).map("".join))
def test_python_compiles_what_is_common(pattern: str) -> None:
    if is_common_pattern(pattern):
        with warnings.catch_warnings(action="error"):
            re.compile(pattern)


def test_usual_patterns_are_common() -> None:
    for pattern in (
        "",
        "^[a-z0-9]+(?:-[a-z0-9]+)*$",
        r"^\d{4}-\d{2}-\d{2}$",
        r"^(?!0+$)[\w.+-]+@[\w-]+\.[\w.-]{2,}$",
        "^#[0-9a-fA-F]{6}$",
        "^[^/]+$",
        "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$",  # of pydantic, for Decimal
        "[ -~]*?",
    ):
        assert is_common_pattern(pattern), pattern


@pytest.mark.parametrize(
    "pattern",
    ["(?P<n>a)", "(?<n>a)", "(?i)a", r"a\z", r"a\Z", r"\Aa", r"\p{L}", "[", "(", ")", "a**", "*", "{2}", "a{3,2}"]
    + ["[b-a]", "[]", "[^]", "[[a]]", "(?<=a)b", r"\1", r"\_", "a" * 2_000, None, 5],
)
def test_a_pattern_of_one_language_is_not_common(pattern: object) -> None:
    assert not is_common_pattern(pattern)
