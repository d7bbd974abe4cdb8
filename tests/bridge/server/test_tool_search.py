"""Answers of searches: limits that models write, order, sizes, and problems as data."""

from __future__ import annotations

import gc
import math
import re
import threading
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gaia_bridge.server.tool_search import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_PATTERN,
    Definition,
    Matches,
    Pattern,
    PatternError,
    SearchError,
    ToolRanking,
    as_limit,
    is_destructive,
    no_matches,
    refused,
    search_by_pattern,
    search_text,
    success,
    summary,
    words_of,
)

TOOLS: dict[str, Definition] = {
    "write_file": {"name": "write_file", "description": "Writes."},
    "alpha": {"name": "alpha", "description": "Reads a FILE."},
    "beta": {"name": "beta", "description": None},
    "gamma": {"name": "gamma"},
}

any_text = st.text(st.characters(exclude_categories=()))
letters = st.sampled_from("abcAB12_- .")
pieces = st.sampled_from(
    ["a", "B", "_", "-", "1", ".", r"\.", "[ab]", "[^a]", "(ab)", "(?:a|b1)", r"\d", "a*", "b+", "c?", "a{1,2}", "|"]
)
simple_patterns = st.lists(pieces, min_size=1, max_size=6).map("".join)


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
    assert search_by_pattern(TOOLS, "file", None) == Matches("pattern", "file", 2, ["write_file", "alpha"])


@pytest.mark.parametrize("pattern", [None, "", ".*"])
def test_without_a_pattern_everything_matches(pattern: str | None) -> None:
    assert search_by_pattern(TOOLS, pattern, None) == Matches("pattern", ".*", 4, list(TOOLS))


def test_more_match_than_are_told() -> None:
    assert search_by_pattern(TOOLS, "a", 1) == Matches("pattern", "a", 3, ["alpha"])


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
    answer = success(
        Matches("query", "x", 12, ["a", "b"]), [{"name": "a"}, {"name": "b"}], "Call them.", newly_loaded=1
    )
    assert answer == {
        "status": "success",
        "query": "x",
        "total_matches": 12,
        "tools": [{"name": "a"}, {"name": "b"}],
        "newly_loaded": 1,
        "message": "Call them. 10 more match: search for something narrower, or with a higher limit.",
    }


def test_an_empty_answer_suggests_what_else_to_try() -> None:
    answer = no_matches(Matches("pattern", "zebra", 0, []))
    assert answer["status"] == "no_matches"
    assert "'zebra'" in answer["message"]
    assert ".*" in answer["suggestion"]


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


def tool(name: str, description: Any = "", **parameters: str) -> Definition:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}


def named(*tools: Definition) -> dict[str, Definition]:
    return {tool["name"]: tool for tool in tools}


RANKED = named(
    tool("readFile", "Gives the text of something on the disk.", path="Where it is."),
    tool("git_log", "Shows the commits of a repository.", max_count="How many."),
    tool("http-get", "Fetches a page; the result may be saved in a file.", url="Address of the page."),
    tool("send_mail", "Sends a message.", recipient="Somebody's mail address.", attachment="A file to go with it."),
    tool("undescribed", None),
)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("read a file", "readFile"),
        ("reading files", "readFile"),
        ("READFILE", "readFile"),
        ("show me what was committed to the repo", "git_log"),
        ("get something over http", "http-get"),
        ("recipients", "send_mail"),
        ("mailing", "send_mail"),
        ("undescribed", "undescribed"),
    ],
)
def test_the_tool_that_fits_best_comes_first(query: str, best: str) -> None:
    assert ToolRanking().search(RANKED, query, 10).names[0] == best


def test_a_word_in_the_name_counts_more_than_in_the_description_and_there_more_than_in_a_parameter() -> None:
    assert ToolRanking().search(RANKED, "file", None).names == ["readFile", "http-get", "send_mail"]


def test_equals_keep_their_order() -> None:
    tools = named(*(tool(f"tool_{letter}", "Counts words.") for letter in "qbxa"))
    assert ToolRanking().search(tools, "count", None).names == ["tool_q", "tool_b", "tool_x", "tool_a"]


def test_more_tools_match_than_are_told() -> None:
    tools = named(*(tool(f"count_{number}") for number in range(30)))
    found = ToolRanking().search(tools, "count", 3)
    assert (found.by, found.text, found.total, len(found.names)) == ("query", "count", 30, 3)


@pytest.mark.parametrize("query", [None, "", " - _ ", '"', "()*:^"])
def test_a_query_without_words_is_refused(query: str | None) -> None:
    with pytest.raises(SearchError, match="no words"):
        ToolRanking().search(RANKED, query, None)


@pytest.mark.parametrize("query", ['file" OR name:x', "NEAR(file, 2)", "file AND NOT disk", "file*", "{name}: file ^"])
def test_operators_of_the_index_are_words_like_others(query: str) -> None:
    assert "readFile" in ToolRanking().search(RANKED, query, None).names


@given(any_text, any_text, any_text)
def test_whatever_is_asked_of_whatever_tools_is_answered(name: str, description: str, query: str) -> None:
    tools = named(tool(name, description, **{name: description}))
    try:
        found = ToolRanking().search(tools, query, None)
    except SearchError:
        assert not words_of(query)
    else:
        assert found.names in ([], [name])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("readFile", ["read", "file"]),
        ("HTTPServer_start-now", ["http", "server", "start", "now"]),
        ("mcp_git__log2", ["mcp", "git", "log2"]),
        ("Größe", ["größe"]),
        ("", []),
    ],
)
def test_names_are_taken_apart_into_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_parameters_of_nested_objects_and_lists_are_found() -> None:
    point = {"type": "object", "properties": {"latitude": {"type": "number"}}}
    schema = {"type": "object", "properties": {"stops": {"type": "array", "items": {"anyOf": [point, {}, 3]}}}}
    tools = named({"name": "route", "inputSchema": schema}, {"name": "odd", "inputSchema": {"properties": []}})
    assert ToolRanking().search(tools, "latitude", None).names == ["route"]


def test_tools_that_came_and_went_are_seen_at_the_next_search() -> None:
    ranking, tools = ToolRanking(), dict(RANKED)
    assert ranking.search(tools, "calendar", None).names == []
    tools["make_appointment"] = tool("make_appointment", "Writes into the calendar.")
    assert ranking.search(tools, "calendar", None).names == ["make_appointment"]
    tools["make_appointment"] = tool("make_appointment", "Writes into the diary.")
    assert ranking.search(tools, "calendar", None).names == []
    del tools["make_appointment"]
    assert ranking.search(tools, "diary", None).names == []


def test_the_index_is_made_again_only_when_the_tools_changed() -> None:
    class Counting(dict[str, Any]):
        read = 0

        def get(self, key: str, default: Any = None) -> Any:
            self.read += 1
            return super().get(key, default)

    counting = Counting(tool("count"))
    ranking = ToolRanking()
    ranking.search({"count": counting}, "count", None)
    once = counting.read
    ranking.search({"count": counting}, "count", None)
    assert 0 < once == counting.read


def test_one_index_serves_several_threads() -> None:
    ranking = ToolRanking()
    wrong: list[object] = []

    def search(name: str) -> None:
        tools = named(tool(name), tool("other"))
        wrong.extend(found for _ in range(50) if (found := ranking.search(tools, name, None)).names != [name])

    threads = [threading.Thread(target=search, args=[name]) for name in ("alpha", "beta", "gamma")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_index_that_nobody_needs_any_more_is_closed_without_a_warning() -> None:
    ranking = ToolRanking()
    ranking.search(RANKED, "file", None)
    del ranking
    gc.collect()  # an unclosed database would warn, which is an error here
