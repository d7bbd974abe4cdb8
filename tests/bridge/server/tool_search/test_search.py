"""Answers of searches: limits that models write, order, sizes, and problems as data."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.server.tool_search.search import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Definition,
    Found,
    SearchError,
    as_limit,
    found,
    is_destructive,
    nothing_found,
    refused,
    search_by_pattern,
    search_text,
    summary,
)

TOOLS: dict[str, Definition] = {
    "write_file": {"name": "write_file", "description": "Writes."},
    "alpha": {"name": "alpha", "description": "Reads a FILE."},
    "beta": {"name": "beta", "description": None},
    "gamma": {"name": "gamma"},
}


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (3, 3),
        ("3", 3),
        (" 3 ", 3),
        (3.7, 3),
        ("3.0", 3),
        (1, 1),
        (50, MAX_LIMIT),
        (51, MAX_LIMIT),
        (10**400, MAX_LIMIT),
        (math.inf, MAX_LIMIT),
        ("1e999", MAX_LIMIT),
        (0, DEFAULT_LIMIT),
        (-5, DEFAULT_LIMIT),
        (None, DEFAULT_LIMIT),
        ("many", DEFAULT_LIMIT),
        (math.nan, DEFAULT_LIMIT),
        (True, DEFAULT_LIMIT),
        ([3], DEFAULT_LIMIT),
    ],
)
@pytest.mark.requirement("S2-23")
def test_a_limit_is_understood_however_a_model_writes_it(value: object, limit: int) -> None:
    assert as_limit(value) == limit


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text())
def test_a_limit_is_always_one_that_can_be_kept(value: object) -> None:
    assert 1 <= as_limit(value) <= MAX_LIMIT


def test_names_and_descriptions_are_searched_and_the_order_is_kept() -> None:
    assert search_by_pattern(TOOLS, "file", None) == Found("pattern", "file", 2, ["write_file", "alpha"])


@pytest.mark.parametrize("pattern", [None, "", ".*"])
def test_without_a_pattern_everything_matches(pattern: str | None) -> None:
    assert search_by_pattern(TOOLS, pattern, None) == Found("pattern", ".*", 4, list(TOOLS))


def test_more_match_than_are_told() -> None:
    assert search_by_pattern(TOOLS, "a", 1) == Found("pattern", "a", 3, ["alpha"])


def test_a_bad_pattern_is_refused_with_a_suggestion() -> None:
    with pytest.raises(SearchError, match="unterminated") as caught:
        search_by_pattern(TOOLS, "[abc", 10)
    answer = refused(caught.value)
    assert answer["status"] == "error"
    assert "unterminated character set" in answer["error"]
    assert "'file'" in answer["suggestion"]


@pytest.mark.parametrize("value", [3, ["file"], {"a": 1}, False])
def test_a_text_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(SearchError, match="pattern has to be text, got"):
        search_text({"pattern": value}, "pattern")


def test_a_text_that_is_not_given_is_none() -> None:
    assert search_text({}, "query") is None
    assert search_text({"query": None}, "query") is None
    assert search_text({"query": "x"}, "query") == "x"


def test_a_summary_cuts_what_is_long() -> None:
    assert summary("t", {"description": "x" * 151})["description"] == "x" * 150 + "..."
    assert summary("t", {"description": "x" * 150})["description"] == "x" * 150
    assert summary("t", {"description": "two\n  lines"})["description"] == "two lines"
    assert summary("t", {"description": None}) == {"name": "t", "description": "", "dangerous": False}


@pytest.mark.parametrize(
    ("annotations", "destructive"),
    [({"destructiveHint": True}, True), ({"destructiveHint": False}, False), ({}, False), (None, False), (3, False)],
)
def test_a_tool_is_dangerous_if_it_says_so(annotations: Any, destructive: bool) -> None:
    assert is_destructive({"name": "t", "annotations": annotations}) is destructive


def test_an_answer_says_how_many_are_not_told() -> None:
    answer = found(Found("query", "x", 12, ["a", "b"]), [{"name": "a"}, {"name": "b"}], "Call them.", newly_loaded=1)
    assert answer == {
        "status": "success",
        "query": "x",
        "total_matches": 12,
        "tools": [{"name": "a"}, {"name": "b"}],
        "newly_loaded": 1,
        "message": "Call them. 10 more match: search for something narrower, or with a higher limit.",
    }


def test_an_empty_answer_suggests_what_else_to_try() -> None:
    answer = nothing_found(Found("pattern", "zebra", 0, []))
    assert answer["status"] == "no_matches"
    assert "'zebra'" in answer["message"]
    assert ".*" in answer["suggestion"]
