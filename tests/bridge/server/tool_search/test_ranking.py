"""Ranked search: names first, words in any spelling, and no query that breaks it."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.server.tool_search.ranking import ToolRanking, words_of
from gaia_bridge.server.tool_search.search import Definition, SearchError

any_text = st.text(st.characters(exclude_categories=()))


def tool(name: str, description: Any = "", **parameters: str) -> Definition:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}


def named(*tools: Definition) -> dict[str, Definition]:
    return {tool["name"]: tool for tool in tools}


TOOLS = named(
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
    assert ToolRanking().search(TOOLS, query, 10).names[0] == best


def test_a_word_in_the_name_counts_more_than_in_the_description_and_there_more_than_in_a_parameter() -> None:
    assert ToolRanking().search(TOOLS, "file", None).names == ["readFile", "http-get", "send_mail"]


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
        ToolRanking().search(TOOLS, query, None)


@pytest.mark.parametrize("query", ['file" OR name:x', "NEAR(file, 2)", "file AND NOT disk", "file*", "{name}: file ^"])
def test_operators_of_the_index_are_words_like_others(query: str) -> None:
    assert "readFile" in ToolRanking().search(TOOLS, query, None).names


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
    ranking, tools = ToolRanking(), dict(TOOLS)
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
    ranking.search(TOOLS, "file", None)
    del ranking
    gc.collect()  # an unclosed database would warn, which is an error here
