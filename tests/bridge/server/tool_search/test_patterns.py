"""Patterns: what models write is understood, what cannot be used is explained, and nothing takes for ever."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gaia_bridge.server.tool_search.patterns import MAX_PATTERN, Pattern, PatternError

any_text = st.text(st.characters(exclude_categories=()))
letters = st.sampled_from("abcAB12_- .")
pieces = st.sampled_from(
    ["a", "B", "_", "-", "1", ".", r"\.", "[ab]", "[^a]", "(ab)", "(?:a|b1)", r"\d", "a*", "b+", "c?", "a{1,2}", "|"]
)
simple_patterns = st.lists(pieces, min_size=1, max_size=6).map("".join)


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("file", "readFile", "folder"),
        ("read|write", "WRITE it", "delete"),
        ("(?i)GIT", "git_log", "svn_log"),
        ("^git_", "Git_log", "a git_log"),
        (r"\bfile\b", "a file.", "files"),
        ("log$", "git_LOG", "git_logs"),
        (r"get_.*_by_(id|name)", "get_user_by_name", "get_user"),
        (r"v\d+", "API V2", "api"),
        ("(?P<verb>read)_file", "read_file", "read"),
        ("größe", "die GRÖSSE, die GRÖßE", "grosse"),
        (".*", "", None),
        ("a(?:b|c){2}", "ABC", "ab"),
        ("[[]", "a [ b", "a ] b"),
    ],
)
def test_what_models_write_is_understood(pattern: str, found: str, not_found: str | None) -> None:
    compiled = Pattern(pattern)
    assert compiled.matches(found)
    assert not_found is None or not compiled.matches(not_found)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[abc", "unterminated character set at position 0"),
        ("*file*", "nothing to repeat at position 0"),
        ("(read", "missing )"),
        ("read)", "unbalanced parenthesis"),
        ("(?=read)x", "look-around"),
        ("(?<!un)read", "look-around"),
        (r"(a)\1", "back references"),
        ("(.{1,400}){1,400}", "multiply"),
        ("x{5,2}", "min repeat greater than max repeat"),
        ("a{99999999999999999999}", "no regular expression"),
        ("\udc80", "not supported"),
        ("(" * MAX_PATTERN, "no regular expression"),
        ("a" * (MAX_PATTERN + 1), f"501 characters; at most {MAX_PATTERN} are allowed"),
    ],
)
@pytest.mark.requirement("S2-23")
def test_a_pattern_that_cannot_be_used_is_explained(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=re.escape(reason)):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a*)*b", "(a|aa)+$", "(.*a){20}b", "(a?){60}a{60}b"])
def test_a_pattern_that_backtracks_elsewhere_takes_time_in_proportion_here(pattern: str) -> None:
    """Python's own engine would need longer than the universe has for the tenth part of it."""
    assert not Pattern(pattern).matches("a" * 100_000 + "!")


@given(simple_patterns, st.text(letters, max_size=12))
@example("|", "")
def test_simple_patterns_mean_what_they_mean_to_python(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern, re.IGNORECASE)
    except re.error:
        with pytest.raises(PatternError):
            Pattern(pattern)
        return
    try:
        compiled = Pattern(pattern)
    except PatternError:
        assert re.search(r"[*+?}][+]", pattern), "only possessive repetition may be unknown here"
        return
    assert compiled.matches(text) == (expected.search(text) is not None)


@given(any_text, any_text)
def test_whatever_is_searched_for_in_whatever_text_is_answered_or_explained(pattern: str, text: str) -> None:
    try:
        compiled = Pattern(pattern)
    except PatternError as error:
        assert str(error)
    else:
        compiled.matches(text)  # what it says is shown above; here, that it says something
