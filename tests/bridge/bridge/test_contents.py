"""What a bridge is made with: agents, decorated functions, servers by name, and a configuration file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import anyio
import pytest

from gaia_bridge import (
    AgentLoadError,
    Bridge,
    Client,
    ConfigError,
    HttpServerSpec,
    NamingPolicy,
    PublishError,
    Settings,
    StdioServerSpec,
    tool,
)
from gaia_bridge.bridge.contents import server_specs, spec_of
from tests.support.waiting import PATIENCE

COMMAND = [sys.executable, "-m", "gaia_bridge", "serve", "--stdio"]


class Sums:
    @tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        return a + b


@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


def agent_file(folder: Path, name: str = "sums") -> Path:
    file = folder / f"{name}.py"
    file.write_text("from gaia_bridge import tool\n@tool\ndef add(a: int, b: int) -> int: return a + b\n")
    return file


@pytest.mark.parametrize(
    ("target", "spec"),
    [
        ("https://api.example/mcp", HttpServerSpec("api.example", "https://api.example/mcp")),
        (" HTTP://[::1]:80/mcp ", HttpServerSpec("1", "HTTP://[::1]:80/mcp")),
        ("uvx mcp-server-time --local 'a b'", StdioServerSpec("uvx", "uvx", ("mcp-server-time", "--local", "a b"))),
        (["/opt/My Server.exe", "-x"], StdioServerSpec("my-server", "/opt/My Server.exe", ("-x",))),
    ],
)
def test_a_server_is_named_by_its_address_or_its_command(target: Any, spec: Any) -> None:
    assert spec_of(target) == spec


def test_servers_are_named_in_each_way() -> None:
    given: dict[str, Any] = {
        "time": "uvx mcp-server-time",
        "api": {"url": "https://api.example/mcp", "headers": {"X-Key": "k"}, "timeout": 5},
        "words": ["run", "it"],
        "made": StdioServerSpec("made", "run"),
    }
    specs = server_specs(given)
    assert [spec.name for spec in specs] == list(given)
    assert isinstance(specs[1], HttpServerSpec)
    assert (specs[1].headers, specs[1].options.timeout) == ({"X-Key": "k"}, 5)
    assert server_specs([specs[0], specs[3]]) == [specs[0], specs[3]]
    assert server_specs(cast(Any, iter(specs))) == specs


@pytest.mark.parametrize(
    ("servers", "kind", "words"),
    [
        ({"a": {}}, ConfigError, "a: .*'command'"),
        ({"a": {"command": "x", "url": "http://x"}}, ConfigError, "both"),
        ({"a": ""}, ConfigError, "a: the command is empty"),
        ({"a\nb": "x"}, ConfigError, "the name of a server has 1 to 128"),
        ({"a": 5}, TypeError, "a: expected an entry .* got 5"),
        ({"a": StdioServerSpec("b", "x")}, ConfigError, "'b'"),
        (["uvx x"], TypeError, "expected a ServerSpec"),
    ],
)
def test_what_is_no_server_is_refused_when_the_bridge_is_made(servers: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        Bridge(servers=servers)


def test_settings_among_the_agents_are_told_where_they_belong() -> None:
    with pytest.raises(TypeError, match="write settings="):
        Bridge(Settings())
    with pytest.raises(TypeError, match="write names="):
        Bridge(Sums(), NamingPolicy.BARE)


@pytest.mark.anyio
async def test_everything_is_there_when_the_bridge_is_open(tmp_path: Path) -> None:
    config = tmp_path / "servers.json"
    entry = {"command": COMMAND[0], "args": [*COMMAND[1:], str(agent_file(tmp_path))]}
    config.write_text(json.dumps({"mcpServers": {"listed": entry}}))
    servers: dict[str, Any] = {"child": entry, "off": {**entry, "disabled": True}}
    bridge = Bridge(Sums(), shout, servers=servers, config=config)
    async with bridge, Client(bridge) as client:
        names = {item["name"] for item in await client.list_tools()}
        assert names == {"add", "shout", "child__add", "listed__add"}
        assert (await client.call_tool("listed__add", a=1, b=2)).text == "3"
        assert [source.name for source in bridge.sources] == ["sums", "shout", "child", "listed"]


@pytest.mark.anyio
async def test_a_configuration_is_followed(tmp_path: Path) -> None:
    config = tmp_path / "servers.json"
    entry = {"command": COMMAND[0], "args": [*COMMAND[1:], str(agent_file(tmp_path))]}
    config.write_text(json.dumps({"mcpServers": {"one": entry}}))
    changed = anyio.Event()
    bridge = Bridge(config=config)
    async with bridge, Client(bridge, on_change=lambda method, _: changed.set()) as client:
        assert {item["name"] for item in await client.list_tools()} == {"one__add"}
        config.write_text(json.dumps({"mcpServers": {"one": entry | {"disabled_tools": ["add"]}}}))
        with anyio.fail_after(PATIENCE):
            await changed.wait()
        assert await client.list_tools() == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("agents", "kind", "words"),
    [
        ((Sums,), AgentLoadError, r"write Sums\(\)"),
        ((len,), AgentLoadError, "decorate it with @tool"),
        (("uvx server",), AgentLoadError, "servers={name"),
        ((Sums(), Sums()), PublishError, "'sums'"),
        ((ModuleType("empty"),), AgentLoadError, "expected an instance"),
    ],
)
async def test_what_is_no_agent_is_refused_and_nothing_is_left_open(agents: Any, kind: Any, words: str) -> None:
    bridge = Bridge(*agents)
    with pytest.raises(kind, match=words):
        await bridge.__aenter__()
    assert not bridge.is_open


@pytest.mark.anyio
async def test_a_configuration_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json"):
        await Bridge(config=tmp_path / "none.json").__aenter__()


@pytest.mark.anyio
async def test_an_open_bridge_is_not_opened_twice() -> None:
    async with Bridge(Sums()) as bridge:
        with pytest.raises(RuntimeError, match="open already"):
            await bridge.__aenter__()


@pytest.mark.anyio
async def test_what_the_program_raises_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with Bridge(Sums()):
            raise KeyError("mine")
