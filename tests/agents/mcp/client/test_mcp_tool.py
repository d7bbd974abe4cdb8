"""`MCPTool`: three fields, and an entry of a registry made of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia.mcp.client import MCPTool
from gaia.mcp.client.mcp_tool import MCPToolError, registry_name
from tests.support.gaia_clients import fake_client

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "File path"},
        "encoding": {"type": "string", "description": "Encoding"},
    },
    "required": ["path"],
}


@pytest.mark.requirement("S0-57")
def test_a_tool_takes_its_three_fields_by_position() -> None:
    tool = MCPTool("read_file", "Read", SCHEMA)
    assert (tool.name, tool.description, tool.input_schema) == ("read_file", "Read", SCHEMA)
    assert tool == MCPTool("read_file", "Read", SCHEMA)


@pytest.mark.requirement("S0-58")
def test_the_registry_entry_is_the_specifications_own() -> None:
    assert MCPTool("read_file", "Read file contents", SCHEMA).to_gaia_format("filesystem") == {
        "name": "mcp_filesystem_read_file",
        "description": "[MCP:filesystem] Read file contents",
        "parameters": {
            "path": {"type": "string", "required": True, "description": "File path"},
            "encoding": {"type": "string", "required": False, "description": "Encoding"},
        },
        "atomic": True,
        "_mcp_server": "filesystem",
        "_mcp_tool_name": "read_file",
    }


def test_newer_agents_of_gaia_give_the_prefix_and_the_servers_name() -> None:
    entry = MCPTool("read_file", "Read", SCHEMA).to_gaia_format("my_files", "my files")
    assert (entry["name"], entry["description"]) == ("mcp_my_files_read_file", "[MCP:my_files] Read")
    assert (entry["_mcp_server"], entry["_mcp_tool_name"]) == ("my files", "read_file")
    assert fake_client(name="my files")[0].prefix == "my_files"


@pytest.mark.requirement("S0-58")
def test_missing_types_are_strings_and_missing_descriptions_empty() -> None:
    tool = MCPTool("t", "", {"properties": {"bare": {}, "anything": True}})
    assert tool.to_gaia_format("s")["parameters"] == {
        "bare": {"type": "string", "required": False, "description": ""},
        "anything": {"type": "string", "required": False, "description": ""},
    }
    assert MCPTool("t", "", {}).to_gaia_format("s")["parameters"] == {}


def test_what_else_helps_a_model_is_kept() -> None:
    schema = {
        "properties": {
            "mode": {"type": ["string", "null"], "enum": ["r", "w"], "default": "r"},
            "paths": {"type": "array", "items": {"type": "string"}},
            "place": {"$ref": "#/$defs/Place"},
        },
        "$defs": {"Place": {"type": "object"}},
    }
    assert MCPTool("t", "", schema).to_gaia_format("s")["parameters"] == {
        "mode": {"type": "string", "required": False, "description": "", "enum": ["r", "w"], "default": "r"},
        "paths": {"type": "array", "required": False, "description": "", "items": {"type": "string"}},
        "place": {"type": "object", "required": False, "description": ""},
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"$ref": "#/properties/x"}}},
        {"properties": {"x": {"anyOf": [True, {"type": "integer"}]}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "$defs": 5, "properties": {"x": {"$ref": "#"}}},
        {"type": "string"},
    ],
)
def test_every_schema_that_is_one_can_be_shown(schema: dict[str, Any]) -> None:
    tool = MCPTool.from_definition({"name": "odd", "inputSchema": schema})
    for facts in tool.to_gaia_format("s")["parameters"].values():
        assert isinstance(facts["type"], str)


@pytest.mark.parametrize(
    "schema", [{"properties": []}, {"properties": {"x": 1}}, {"required": "x"}, {"type": 5}, 5, []]
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(MCPToolError, match="tool 'odd': its inputSchema is"):
        MCPTool.from_definition({"name": "odd", "inputSchema": schema})


@pytest.mark.requirement("S3-18")
def test_the_registry_name_has_the_server_in_it() -> None:
    assert registry_name("my-server", "Read-File") == "mcp_my-server_Read-File"


@given(st.text(min_size=1), st.text(min_size=1))
def test_whatever_a_tool_is_called_models_accept_its_registry_name(server: str, tool: str) -> None:
    assert re.fullmatch("[A-Za-z0-9_-]{1,64}", registry_name(server, tool))
