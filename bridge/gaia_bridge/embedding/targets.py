"""What programs name when they mean a server: a URL, a command, an agent, an object of an MCP library, a bridge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct

from gaia_bridge.bridge.contents import SPECS, agent_of, spec_of
from gaia_bridge.chaining import BridgeTransport, PublishedAgent
from gaia_bridge.chaining.sdk_transport import SdkServerTransport
from gaia_bridge.client.transport import Transport
from gaia_bridge.client.transport_factory import transport_for
from gaia_bridge.discovery import load_agent
from gaia_bridge.discovery.classes import clean_name, is_mcp_server, missing_methods, name_of
from gaia_bridge.errors import AgentLoadError
from gaia_bridge.settings import UpstreamLimits

__all__ = ["Reached", "loaded_agent", "reached"]

_EXPECTED: Final = (
    "expected a URL, a command, the path of a file, a Bridge, an agent, an MCP server object (FastMCP, MCPServer), an "
    "entry such as StdioServerSpec, or a transport"
)


class Reached(Struct, frozen=True):
    """A server, and how it is reached."""

    name: str
    """What it is called in errors."""
    transport: Transport


def loaded_agent(path: Path) -> Any:
    """The one agent of a file.

    Raises:
        AgentLoadError: It has none, or several.
    """
    first, *others = load_agent(str(path))
    if others:
        names = ", ".join(each.reference for each in (first, *others))
        raise AgentLoadError(str(path), f"it has several agents: {names}", "make a Bridge of those that are meant")
    return first.agent


def reached(target: Any, limits: UpstreamLimits, **reaching: Any) -> Reached:
    """How to reach something.

    Args:
        target: See `Client`; a bridge is its transport already, and a path was loaded.
        limits: Deadlines and bounds.
        **reaching: As `spec_of` takes it.

    Raises:
        TypeError: It is none of these.
        ConfigError: The text is empty, or no command line.
    """
    if isinstance(target, Sequence):
        target = spec_of(cast("str | Sequence[str]", target), **reaching)
    elif given := [name for name, value in reaching.items() if value is not None]:
        raise TypeError(f"{' and '.join(given)}: only for a URL or a command, got {target!r}")
    if isinstance(target, SPECS):
        return Reached(target.name, transport_for(target, limits))
    if isinstance(target, BridgeTransport):
        return Reached("bridge", target)
    target = agent_of(target)
    if is_mcp_server(target):
        return Reached(name_of(target), SdkServerTransport(target, name_of(target)))
    if not isinstance(target, type):
        if callable(getattr(target, "connect", None)) and missing_methods(target):
            return Reached(clean_name(type(target).__name__), target)
        if not missing_methods(target):
            return Reached(name_of(target), PublishedAgent(name_of(target), lambda: target))
    hint = f"; write {target.__name__}()" if isinstance(target, type) and not missing_methods(target) else ""
    raise TypeError(f"{target!r} is nothing that a client connects to; {_EXPECTED}{hint}")
