"""What a model is offered when its tools are deferred, and what its searches do."""

from __future__ import annotations

from typing import Any

import pytest

from gaia.agents.base.agent import Agent
from gaia.agents.base.tools import ToolEntry, tool
from gaia.agents.chat.prompts import is_deferred
from gaia.agents.chat.tool_search import MAX_LOADED, ToolSearch
from gaia.agents.chat.toolbox import function_schema

PATTERN_SEARCH = "tool_search_regex"
RANKED_SEARCH = "tool_search"


def entries(*names: str) -> dict[str, ToolEntry]:
    return {name: {"name": name, "description": f"Does what {name} says."} for name in names}


TOOLS: dict[str, ToolEntry] = {
    "write_file": {"name": "write_file", "description": "x" * 200, "annotations": {"destructiveHint": True}},
    "read_file": {"name": "read_file", "description": "Reads a file."},
    "git_log": {"name": "git_log", "description": None},
    "fetch": {"name": "fetch", "description": "Fetches a page, e.g. of Git."},
}


@pytest.mark.parametrize(
    ("total", "deferred"),
    [(0, False), (14, False), (15, True), (200, True)],
)
@pytest.mark.requirement("S2-17", "S2-18")
def test_tools_are_deferred_from_the_threshold_on(total: int, deferred: bool) -> None:
    assert is_deferred(total, 15) is deferred


@pytest.mark.requirement("S2-19")
def test_tools_are_deferred_whatever_their_number_where_that_is_forced() -> None:
    assert is_deferred(1, 15, forced=True)


@pytest.mark.requirement("S2-18")
def test_exactly_the_search_and_what_is_loaded_are_offered_in_the_order_of_loading() -> None:
    search, loaded = ToolSearch(), dict[str, None]()
    assert list(search.offered(TOOLS, loaded)) == [PATTERN_SEARCH]
    search.load("fetch", TOOLS, loaded)
    search.run(PATTERN_SEARCH, {"pattern": "file"}, TOOLS, loaded)
    search.load("fetch", TOOLS, loaded)
    offered = search.offered(TOOLS, loaded)
    assert list(offered) == [PATTERN_SEARCH, "fetch", "write_file", "read_file"]
    assert offered["fetch"] is TOOLS["fetch"]


def test_the_search_has_the_parameters_that_the_document_says() -> None:
    (entry,) = ToolSearch().offered({}, {}).values()
    schema = function_schema(entry)
    parameters = schema["function"]["parameters"]
    assert schema["type"] == "function"
    assert schema["function"]["name"] == PATTERN_SEARCH
    assert {name: facts["type"] for name, facts in parameters["properties"].items()} == {
        "pattern": "string",
        "limit": "integer",
    }
    assert parameters["properties"]["limit"]["default"] == 10
    assert parameters["required"] == ["pattern"]


def test_a_schema_goes_to_the_model_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    assert function_schema({"name": "t", "description": "d", "inputSchema": schema}) == {
        "type": "function",
        "function": {"name": "t", "description": "d", "parameters": schema},
    }
    assert function_schema({"name": "t"})["function"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.requirement("S2-20")
def test_a_search_tells_what_it_found_and_loads_it() -> None:
    search, loaded = ToolSearch(), {"read_file": None}
    answer = search.run(PATTERN_SEARCH, {"pattern": "FILE"}, TOOLS, loaded)
    assert answer == {
        "status": "success",
        "pattern": "FILE",
        "total_matches": 2,
        "tools": [
            {
                "name": "write_file",
                "description": "x" * 150 + "...",
                "dangerous": True,
                "requires_approval": True,
                "loaded": False,
            },
            {
                "name": "read_file",
                "description": "Reads a file.",
                "dangerous": False,
                "requires_approval": False,
                "loaded": True,
            },
        ],
        "newly_loaded": 1,
        "message": "Found 2 tools. Those listed can be called now.",
    }
    assert list(loaded) == ["read_file", "write_file"]


@pytest.mark.requirement("S2-20")
def test_names_and_descriptions_are_searched_in_the_order_of_the_tools() -> None:
    answer = ToolSearch().run(PATTERN_SEARCH, {"pattern": "git|file"}, TOOLS, {})
    assert [found["name"] for found in answer["tools"]] == ["write_file", "read_file", "git_log", "fetch"]


@pytest.mark.parametrize(("limit", "told"), [({}, 10), ({"limit": 3}, 3), ({"limit": 99}, 50)])
@pytest.mark.requirement("S2-20")
def test_ten_tools_are_told_unless_the_model_wants_otherwise_and_never_more_than_fifty(
    limit: dict[str, Any], told: int
) -> None:
    tools, loaded = entries(*(f"tool_{number}" for number in range(60))), dict[str, None]()
    answer = ToolSearch().run(PATTERN_SEARCH, {"pattern": "tool", **limit}, tools, loaded)
    assert (answer["total_matches"], len(answer["tools"]), answer["newly_loaded"]) == (60, told, told)
    assert list(loaded) == list(tools)[:told]
    assert f"{60 - told} more match" in answer["message"]


@pytest.mark.requirement("S2-20")
def test_a_search_that_finds_nothing_says_what_else_to_try() -> None:
    loaded: dict[str, None] = {}
    answer = ToolSearch().run(PATTERN_SEARCH, {"pattern": "zebra"}, TOOLS, loaded)
    assert answer.keys() == {"status", "message", "suggestion"}
    assert answer["status"] == "no_matches"
    assert not loaded


@pytest.mark.parametrize("arguments", [{}, {"limit": 4}, None, {"pattern": None}, {"pattern": "", "limit": "4"}])
@pytest.mark.requirement("S2-23")
def test_without_a_pattern_every_tool_is_found(arguments: Any) -> None:
    answer = ToolSearch().run(PATTERN_SEARCH, arguments, TOOLS, {})
    assert (answer["pattern"], answer["total_matches"], len(answer["tools"])) == (".*", 4, 4)


@pytest.mark.parametrize(("limit", "told"), [(0, 10), (-1, 10), ("3", 3), (3.0, 3), (None, 10), ([], 10)])
@pytest.mark.requirement("S2-23")
def test_a_limit_is_understood_however_the_model_writes_it(limit: Any, told: int) -> None:
    tools = entries(*(f"tool_{number}" for number in range(20)))
    answer = ToolSearch().run(PATTERN_SEARCH, {"pattern": ".*", "limit": limit}, tools, {})
    assert (answer["status"], len(answer["tools"])) == ("success", told)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pattern": "[abc"}, "unterminated character set"),
        ({"pattern": "(?=x)"}, "look-around"),
        ({"pattern": 5}, "pattern has to be text, got int"),
        ({"pattern": "x" * 9_999}, "9,999 characters"),
        (["file"], "have to be an object, got list"),
        ("file", "have to be an object, got str"),
    ],
)
@pytest.mark.requirement("S2-23")
def test_a_bad_search_is_answered_as_data_and_loads_nothing(arguments: Any, error: str) -> None:
    loaded: dict[str, None] = {}
    answer = ToolSearch().run(PATTERN_SEARCH, arguments, TOOLS, loaded)
    assert answer.keys() == {"status", "error", "suggestion"}
    assert answer["status"] == "error"
    assert error in answer["error"]
    assert not loaded


def test_a_ranked_search_is_beside_the_other_only_where_it_is_wanted() -> None:
    assert not ToolSearch().answers(RANKED_SEARCH, TOOLS)
    search, loaded = ToolSearch(ranked=True), dict[str, None]()
    assert list(search.offered(TOOLS, loaded)) == [PATTERN_SEARCH, RANKED_SEARCH]
    answer = search.run(RANKED_SEARCH, {"query": "reading files", "limit": "1"}, TOOLS, loaded)
    assert (answer["query"], answer["tools"][0]["name"]) == ("reading files", "read_file")
    assert list(loaded) == ["read_file"]
    assert search.run(RANKED_SEARCH, {}, TOOLS, loaded)["status"] == "error"
    assert search.run(RANKED_SEARCH, {"query": "zebra"}, TOOLS, loaded)["status"] == "no_matches"


def test_a_tool_that_is_called_is_loaded() -> None:
    search, loaded = ToolSearch(), dict[str, None]()
    search.load("git_log", TOOLS, loaded)
    assert list(search.offered(TOOLS, loaded)) == [PATTERN_SEARCH, "git_log"]


def test_a_tool_that_does_not_exist_is_not_loaded() -> None:
    loaded: dict[str, None] = {}
    ToolSearch().load("zebra", TOOLS, loaded)
    assert not loaded


def test_a_loaded_tool_that_vanished_is_offered_no_more() -> None:
    search, loaded = ToolSearch(), {"read_file": None, "fetch": None}
    assert list(search.offered(entries("fetch"), loaded)) == [PATTERN_SEARCH, "fetch"]
    assert list(loaded) == ["fetch"]


def test_sessions_load_apart() -> None:
    search, one, other = ToolSearch(), dict[str, None](), dict[str, None]()
    search.run(PATTERN_SEARCH, {"pattern": "git_log"}, TOOLS, one)
    assert (list(one), list(other)) == (["git_log"], [])


def test_a_session_never_loads_more_than_a_model_takes() -> None:
    search, loaded = ToolSearch(), dict[str, None]()
    tools = entries(*(f"tool_{number}" for number in range(MAX_LOADED + 5)))
    for name in tools:
        search.load(name, tools, loaded)
    assert list(loaded) == list(tools)[5:]


def test_whether_the_user_is_asked_is_for_the_agent_to_say() -> None:
    search = ToolSearch(needs_approval=lambda entry: entry["name"] == "fetch")
    answer = search.run(PATTERN_SEARCH, {}, TOOLS, {})
    assert [found["name"] for found in answer["tools"] if found["requires_approval"]] == ["fetch"]


def test_an_agents_own_tool_keeps_the_name_of_a_search_tool() -> None:
    tools = TOOLS | entries(PATTERN_SEARCH, f"{PATTERN_SEARCH}_2")
    search, loaded = ToolSearch(), dict[str, None]()
    assert not search.answers(PATTERN_SEARCH, tools)
    (name,) = search.offered(tools, loaded)
    assert name == f"{PATTERN_SEARCH}_3"
    assert search.offered(tools, loaded)[name]["name"] == name
    assert search.answers(name, tools)
    search.run(name, {"pattern": PATTERN_SEARCH}, tools, loaded)
    assert search.offered(tools, loaded)[PATTERN_SEARCH] is tools[PATTERN_SEARCH]


def test_the_tools_of_an_agent_are_searched_as_they_are_registered() -> None:
    class Librarian(Agent):
        def _register_tools(self) -> None:
            @tool
            def find_book(title: str) -> str:  # pyright: ignore[reportUnusedFunction]
                """Find a book by its title."""
                return title

    tools = Librarian(silent_mode=True).tool_registry.snapshot()
    search, loaded = ToolSearch(ranked=True), dict[str, None]()
    assert search.run(RANKED_SEARCH, {"query": "books"}, tools, loaded)["tools"][0]["name"] == "find_book"
    assert function_schema(search.offered(tools, loaded)["find_book"])["function"]["parameters"]["required"] == [
        "title"
    ]
