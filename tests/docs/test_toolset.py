"""What the page about the toolset shows, and those of its examples that need no model."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaia.mcp.toolset import ALL_SERVERS, MCPClientManager, get_enabled_mcp_servers
from tests.support.forking import forked
from tests.support.scripted_model import call, say, scripted_model

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "toolset.md"
EXAMPLES = ROOT / "docs" / "examples" / "toolset"
TEXT = PAGE.read_text("utf-8")
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def uvx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A `uvx` that starts a server of ours in the place of the one that is named; no provider is set."""
    program = tmp_path / "uvx"
    server = shlex.join([sys.executable, *forked("stdio_upstream.py")])
    program.write_text(f"#!/bin/sh\nexec {server}\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("MCP_FETCH", "True")
    monkeypatch.delenv("PROVIDER", raising=False)
    registered = list(ALL_SERVERS)
    yield
    ALL_SERVERS[:] = registered
    MCPClientManager().stop_all()


def block(word: str) -> str:
    [found] = [text for text in BLOCKS if word in text]
    return found


def test_the_servers_of_the_page_are_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [settings] = re.findall(r"^```bash\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(settings + "MCP_WEATHER_API=True\n", "utf-8")
    exec(block("weather_api"), {})
    servers = {server.name: server for server in get_enabled_mcp_servers()}
    assert servers.keys() == {"fetch", "weather_api", "remote_api"}
    assert servers["weather_api"].env == {"API_KEY": "not for everybody"}
    assert servers["remote_api"].url == "https://api.example.com/mcp"


@pytest.mark.requirement("S4-20")
def test_the_converter_of_the_page_is_used() -> None:
    page: dict[str, Any] = {}
    exec(block("class MySchemaConverter"), page)
    assert len(page["tools"]) == 7
    example = runpy.run_path(str(EXAMPLES / "own_converter.py"))["MySchemaConverter"]
    for converter in (page["MySchemaConverter"], example):
        schema = {"properties": {"p": {"type": "array", "items": {"type": "array", "minItems": 1}, "minItems": 2}}}
        assert "minItems" not in str(converter.convert_input_schema(schema))


@pytest.mark.requirement("S4-3")
def test_the_example_that_lists_tools_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "list_tools.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["fetch: uvx mcp-server-fetch", "Created 7 MCP tools", "  fetch__add: Add two numbers...."]


@pytest.mark.requirement("S4-7")
def test_the_example_of_a_home_registers_the_tools_that_are_no_danger() -> None:
    example = runpy.run_path(str(EXAMPLES / "home_agent.py"))
    assert example["ZIGBEE_SERVER"] in ALL_SERVERS
    assert example["ZIGBEE_SERVER"].allowed_tools == ["list_devices", "turn_on_light", "turn_off_light"]
    tool = example["WeatherTool"]()
    assert tool.construct_schema("openai")["strict"] is True
    assert tool.call(city="Paris") == "It is sunny in Paris."


@pytest.mark.requirement("S4-26")
@pytest.mark.parametrize(
    ("file", "agent_class", "tool", "arguments", "answer"),
    [
        ("search_agent.py", "SearchAgent", "fetch__add", {"a": 1, "b": 2}, "3"),
        ("home_agent.py", "HomeAgent", "get_weather", {"city": "Paris"}, "It is sunny in Paris."),
    ],
)
def test_the_agents_of_the_examples_stream_text_while_they_call_their_tools(
    monkeypatch: pytest.MonkeyPatch, file: str, agent_class: str, tool: str, arguments: dict[str, Any], answer: str
) -> None:
    with scripted_model(call(tool, arguments), say("Found: $result")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        agent = runpy.run_path(str(EXAMPLES / file))[agent_class]()
        try:
            chunks = list(agent.stream("Go"))
        finally:
            agent.close()
        assert all(isinstance(chunk, str) for chunk in chunks)
        assert "".join(chunks).endswith(f"Found: {answer}")
        assert tool in server.requests()[0].tool_names


def test_the_agent_of_the_page_calls_its_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    page: dict[str, Any] = {}
    exec(block("class SearchAgent"), page)
    with scripted_model(call("fetch__add", {"a": 1, "b": 2}), say("Found: $result")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        agent = page["SearchAgent"]()
        try:
            assert agent.run("Go") == "Found: 3"
        finally:
            agent.close()
        assert "research assistant with web fetching" in server.requests()[0].system


def test_every_link_of_the_page_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (PAGE.parent / target).exists(), target
