"""The client's reading of an entry of `mcp_servers.json`: its transport, and which of the server's tools it uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from gaia.mcp.client.transports.agent import AgentTransport
from gaia.mcp.client.transports.base import MCPTransport
from gaia.mcp.client.transports.http import HTTPTransport
from gaia.mcp.client.transports.stdio import StdioTransport
from gaia_bridge.config import parse_entry
from gaia_bridge.contract import AgentLike
from gaia_bridge.model import HttpServerSpec, ServerOptions, ServerSpec, StdioServerSpec
from gaia_bridge.text.json_types import is_object

__all__ = ["ConfiguredServer", "check_server_config", "client_spec", "configured_server"]

_WAYS: Final = ("command", "url", "agent")
"""The three ways to name a server."""


class ConfiguredServer(NamedTuple):
    """The transport and the tools of a server, as its entry has them."""

    transport: MCPTransport
    offers: Callable[[str], bool]
    """Whether a tool of that name is used: one of `allowed_tools`, if there are any, and not of `disabled_tools`."""


def check_server_config(config: object) -> None:
    """Refuse what does not name exactly one server.

    Args:
        config: An entry of `mcp_servers.json`, or one made in code.

    Raises:
        ValueError: It is no dictionary, or has none or more than one of `command`, `url` and `agent`.
    """
    if not is_object(config):
        raise ValueError(f"Config: expected a config dict with a 'command' field, got {type(config).__name__}")
    if config.get("openapi") is not None:
        raise ValueError("Config: 'openapi' is for gaia-bridge and gaia.mcp.aio; expected 'command', 'url' or 'agent'")
    given = [way for way in _WAYS if config.get(way) is not None]
    if not given:
        raise ValueError("Config must include 'command' field (or 'url' for a server that is reached over HTTP)")
    if len(given) > 1:
        raise ValueError(f"Config has {' and '.join(repr(way) for way in given)}; keep one of them")


def configured_server(
    name: str, config: Mapping[str, Any], timeout: float, debug: bool, folder: Path | None = None
) -> ConfiguredServer:
    """Understand an entry. References such as `${env:TOKEN}` are filled in, and `~/` where a path begins.

    Args:
        name: What the server is called here.
        config: The entry.
        timeout: Seconds for the connection and for each request, where the entry does not say.
        debug: Whether requests are logged.
        folder: Where relative paths in `${file:...}` begin; the current folder if not given.

    Raises:
        ValueError: The entry cannot be used; says why.
    """
    check_server_config(config)
    agent = config.get("agent")
    if agent is not None:
        if not isinstance(agent, AgentLike | str):
            raise ValueError(
                f"Config: 'agent' is a {type(agent).__name__}; expected the methods of an MCP agent, or a name"
            )
        return ConfiguredServer(AgentTransport(name, agent, timeout, debug), _offered(ServerOptions()))
    spec = client_spec(name, config, folder)
    timeout = spec.options.timeout or timeout
    transport: HTTPTransport | StdioTransport
    if isinstance(spec, HttpServerSpec):
        transport = HTTPTransport.from_spec(spec, timeout, debug)
    else:
        assert isinstance(spec, StdioServerSpec)  # agents are above, and APIs refused
        transport = StdioTransport.from_spec(spec, timeout, debug)
        if config.get("args") is None and not spec.args:
            transport.args = None
        if config.get("env") is None:
            transport.env = None
    transport.startup_timeout = spec.options.startup_timeout
    return ConfiguredServer(transport, _offered(spec.options))


def client_spec(name: str, config: object, folder: Path | None = None) -> ServerSpec:
    """Understand an entry as a client does: its process inherits our environment, unless the entry says otherwise.

    Args:
        name: What the server is called here.
        config: The entry.
        folder: Where relative paths in `${file:...}` begin; the current folder if not given.

    Raises:
        EntryError: The entry cannot be used; says why.
    """
    spec = parse_entry(name, config, folder or Path()).spec
    # The specification wants the environment inherited; the bridge itself passes on much less.
    if isinstance(spec, StdioServerSpec) and not (is_object(config) and "inherit_env" in config):
        return replace(spec, inherit_env=True)
    return spec


def _offered(options: ServerOptions) -> Callable[[str], bool]:
    allowed, disabled = options.allowed_tools, options.disabled_tools
    return lambda tool_name: (allowed is None or tool_name in allowed) and tool_name not in disabled
