"""What a server's configuration says, and what switches it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gaia.mcp.toolset import ALL_SERVERS, FETCH_SERVER, MCPServerConfig, get_enabled_mcp_servers


@pytest.mark.requirement("S4-1")
def test_a_configuration_has_the_fields_and_defaults_of_the_document() -> None:
    config = MCPServerConfig(
        name="fetch",
        env_var="MCP_FETCH",
        command="uvx",
        args=["mcp-server-fetch"],
        transport="stdio",
        env=None,
        url=None,
        allowed_tools=None,
    )
    assert config == MCPServerConfig("fetch", "MCP_FETCH", "uvx", ["mcp-server-fetch"])
    assert (config.transport, config.url, config.allowed_tools, config.env) == ("stdio", None, None, {})
    remote = MCPServerConfig(name="r", command=None, args=[], transport="http", url="https://api.example.com/mcp")
    assert (remote.env_var, remote.args, remote.is_enabled()) == (None, [], True)


@pytest.mark.requirement("S4-1")
@pytest.mark.parametrize("url", [None, ""])
def test_http_needs_a_url(url: str | None) -> None:
    with pytest.raises(ValueError, match="MCP server 'x' with transport='http' requires 'url' parameter"):
        MCPServerConfig("x", "MCP_X", None, [], "http", url=url)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"name": "a\nb"}, r"MCP server name 'a\\nb': the name of a server has 1 to 128 characters"),
        ({"name": "-x"}, "MCP server name '-x'"),
        ({"command": None}, "with transport='stdio' requires 'command', the program to start, and has None"),
        ({"command": " "}, "set transport='http' and 'url'"),
        ({"command": "a | b"}, "cannot be started: the command needs a shell because of its '|'"),
        ({"args": "mcp-server-fetch"}, "has a str as args; expected a list of texts"),
        ({"args": [1]}, "has a list as args; expected a list of texts"),
        ({"allowed_tools": "fetch"}, "has a str as allowed_tools; expected a list of texts"),
        ({"transport": "pigeon"}, "has transport='pigeon'; expected one of stdio, http, sse"),
        ({"transport": "sse", "url": "ftp://x"}, "no address that begins with http:// or https://"),
        ({"transport": "http", "url": "http://user:pa55@:1"}, "requires 'url' parameter"),
        ({"timeout": 0}, "has timeout=0; expected a number of seconds over 0"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_came_and_what_was_expected(facts: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refusal:
        MCPServerConfig(**({"name": "x", "command": "prog"} | facts))
    assert "pa55" not in str(refusal.value)


def test_a_line_without_args_is_split_and_one_with_args_is_not() -> None:
    line = MCPServerConfig("x", command="uvx 'a b' c")
    assert (line.command, line.args) == ("uvx", ["a b", "c"])
    whole = MCPServerConfig("x", command="uvx c", args=[])
    assert (whole.command, whole.args) == ("uvx c", [])


@pytest.mark.requirement("F-112")
def test_what_is_printed_of_a_configuration_has_no_secret_in_it() -> None:
    local = MCPServerConfig("x", command="prog", args=["--key", "secret"], env={"KEY": "secret"})
    remote = MCPServerConfig(
        "y", transport="http", url="https://user:secret@a/?token=secret", headers={"Authorization": "secret"}
    )
    assert "secret" not in f"{local!r} {remote!r}"
    assert repr(local).startswith("MCPServerConfig(name='x', env_var=None, command='prog', transport='stdio'")


def test_a_configuration_does_not_share_what_it_was_given() -> None:
    args = ["a"]
    config = MCPServerConfig("x", command="prog", args=args, allowed_tools=("t",))
    args.append("b")
    assert (config.args, config.allowed_tools) == (["a"], ["t"])


@pytest.mark.requirement("S4-2")
@pytest.mark.parametrize(
    ("value", "on"),
    [("True", True), ("true", True), ("1", True), (" YES ", True), ("on", True), ("False", False), ("", False)]
    + [("0", False), ("enabled", False)],
)
def test_the_environment_switches_a_server_on_when_it_is_asked(
    monkeypatch: pytest.MonkeyPatch, value: str, on: bool
) -> None:
    config = MCPServerConfig("x", "MCP_X", "prog")
    assert not config.is_enabled()
    monkeypatch.setenv("MCP_X", value)
    assert config.is_enabled() is on


@pytest.mark.requirement("S4-2")
def test_a_line_in_the_env_file_switches_a_server_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("MCP_FETCH=True\n", "utf-8")
    assert FETCH_SERVER.is_enabled()
    monkeypatch.setenv("MCP_FETCH", "False")
    assert not FETCH_SERVER.is_enabled()


@pytest.mark.requirement("S4-3")
def test_the_registry_is_filtered_by_what_is_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FETCH_SERVER in ALL_SERVERS
    assert get_enabled_mcp_servers() == []
    weather = MCPServerConfig("weather_api", "MCP_WEATHER_API", "npx", ["-y", "@myorg/mcp-server-weather"])
    ALL_SERVERS.append(weather)
    monkeypatch.setenv("MCP_WEATHER_API", "True")
    assert get_enabled_mcp_servers() == [weather]
    monkeypatch.setenv("MCP_FETCH", "True")
    assert get_enabled_mcp_servers() == [FETCH_SERVER, weather]
