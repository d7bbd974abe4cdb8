"""Tools as a model's server wants them described, and back from the names that a model uses."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia.agents.base.tools import ToolEntry, describe_tools, tool_entry
from gaia.agents.chat.toolbox import Toolbox, function_schema
from gaia_bridge.text.json_types import JSON


def entry(name: str, **more: Any) -> ToolEntry:
    return {"name": name, "description": f"Does {name}", "parameters": {}, **more}


def box(*names: str) -> Toolbox:
    return Toolbox({name: entry(name) for name in names})


def of_server(server: str, name: str) -> ToolEntry:
    return entry(f"mcp_{server}_{name}", _mcp_server=server, _mcp_tool_name=name)


def offered(toolbox: Toolbox, taken: tuple[str, ...] = ()) -> list[str]:
    return [schema["function"]["name"] for schema in toolbox.schemas(toolbox.entries, taken)]


@given(names=st.lists(st.text(st.characters(codec=None), max_size=70) | st.from_regex(r"[ab]_?[ .]?", fullmatch=True)))
def test_every_tool_has_a_name_of_its_own_that_servers_accept_and_that_leads_back_to_it(names: list[str]) -> None:
    toolbox = box(*names)
    shown = offered(toolbox)
    assert len(set(shown)) == len(shown) == len(toolbox.entries)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in shown)
    assert [toolbox.find(name) for name in shown] == list(toolbox.entries)


def test_a_name_that_fits_is_never_given_to_another_tool() -> None:
    [made_up] = offered(box("read file"))
    assert made_up.startswith("read_file_")
    toolbox = box("read file", made_up)
    first, second = offered(toolbox)
    assert (second, toolbox.find(second)) == (made_up, made_up)
    assert (toolbox.find(first), toolbox.find("read file")) == ("read file", "read file")


@pytest.mark.requirement("S3-19")
def test_a_name_that_could_mean_tools_of_two_servers_means_none_and_both_are_suggested() -> None:
    toolbox = Toolbox({item["name"]: item for item in (of_server("a", "read"), of_server("b", "read"))})
    assert (toolbox.find("read"), toolbox.find("b_read"), toolbox.find("A_Read")) == (None, "mcp_b_read", "mcp_a_read")
    assert toolbox.similar("read") == ["mcp_a_read", "mcp_b_read"]


def test_similar_names_are_suggested_for_one_that_is_wrong() -> None:
    assert box("count_words", "paint").similar("count_word") == ["count_words"]
    assert box("count_words").similar("zzz") == []


def test_a_tool_whose_name_a_client_has_taken_is_not_offered_twice() -> None:
    assert offered(box("a", "b", "c"), ("b",)) == ["a", "c"]


def test_an_input_schema_is_passed_on_as_it_is() -> None:
    schema: JSON = {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}]}}, "$defs": {"x": {}}}
    function = function_schema(entry("t", inputSchema=schema, strict=True))["function"]
    assert (function["parameters"], function["strict"]) == (schema, True)
    assert function_schema(entry("t", inputSchema={}))["function"]["parameters"] == {"type": "object", "properties": {}}


def test_a_tool_that_was_described_by_hand_has_a_schema_too() -> None:
    written = entry("t", parameters={"city": {"type": "string", "required": True}, "days": {"type": "integer"}})
    assert function_schema(written)["function"]["parameters"] == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    }


def test_a_json_schema_in_the_place_of_the_parameters_is_understood() -> None:
    schema: JSON = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    written = entry("t", parameters=schema)
    assert function_schema(written)["function"]["parameters"] == schema
    assert describe_tools({"t": written}) == "- t(city: string): Does t"


@pytest.mark.parametrize("parameters", [None, [], "none", {"city": "string"}])
def test_parameters_that_say_nothing_useful_are_none(parameters: Any) -> None:
    written = entry("t", parameters=parameters)
    assert function_schema(written)["function"]["parameters"] == {"type": "object", "properties": {}}
    assert describe_tools({"t": written}) == "- t(): Does t"


def test_the_description_does_not_repeat_the_server() -> None:
    described = {**of_server("fs", "read"), "description": "[MCP:fs] Read a file"}
    assert function_schema(described)["function"]["description"] == "Read a file"


def test_a_function_is_described_by_its_hints_and_docstring() -> None:
    def forecast(city: str) -> str:
        """Tell the weather."""
        return city

    function = function_schema(tool_entry(forecast))["function"]
    assert (function["name"], function["description"]) == ("forecast", "Tell the weather.")
    assert function["parameters"]["required"] == ["city"]
