"""What programs name when they mean a server: a URL, a command, an agent, an object of an MCP library, a bridge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct

from gaia_bridge.bridge.chaining import BridgeTransport, PublishedAgent
from gaia_bridge.bridge.chaining.sdk_transport import SdkServerTransport
from gaia_bridge.bridge.contents import SPECS, agent_of, spec_of
from gaia_bridge.bridge.discovery import load_agent
from gaia_bridge.bridge.discovery.classes import is_mcp_server, missing_methods, name_of
from gaia_bridge.client.transport import ConnectionLostError, StartTimeoutError, Transport, UpstreamError
from gaia_bridge.client.transport_factory import limits_for, transport_for
from gaia_bridge.errors import AgentLoadError
from gaia_bridge.model import ServerSpec
from gaia_bridge.protocol.names import clean_name
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.error_lines import ErrorLines

_EXPECTED: Final = (
    "expected a URL, a command, the path of a file, a Bridge, an agent, an MCP server object (FastMCP, MCPServer), an "
    "entry such as StdioServerSpec, or a transport"
)

_SHOWN_LINES: Final = 5
"""Lines of error output that an exception repeats: the end of a traceback."""


class Reached(Struct, frozen=True):
    """A server, and how it is reached."""

    name: str
    """What it is called in errors."""
    transport: Transport
    limits: UpstreamLimits
    """Deadlines and bounds, with what its entry says."""
    errors: ErrorLines | None = None
    """What it writes to its error output, if it is a program."""
    spec: ServerSpec | None = None
    """Its entry, if it has one."""

    def described(self, error: UpstreamError) -> str:
        """What failed, and what a program says of it itself."""
        words = f"it {error}"
        if self.errors is None or self.spec is None or not isinstance(error, (ConnectionLostError, StartTimeoutError)):
            return words
        self.errors.explained(self.spec, error, "")
        lines = "".join(f"\n  {line}" for line in [*self.errors.last][-_SHOWN_LINES:])
        said = f"; its last lines of error output:{lines}" if lines else ""
        return "".join((words, f"; {self.errors.cause}" if self.errors.cause else "", said))


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
        bounds, errors = limits_for(limits, target), ErrorLines(None)
        return Reached(target.name, transport_for(target, bounds, errors.note), bounds, errors, target)
    if isinstance(target, BridgeTransport):
        return Reached("bridge", target, limits)
    target = agent_of(target)
    if is_mcp_server(target):
        return Reached(name_of(target), SdkServerTransport(target, name_of(target)), limits)
    if not isinstance(target, type):
        if callable(getattr(target, "connect", None)) and missing_methods(target):
            return Reached(clean_name(type(target).__name__), target, limits)
        if not missing_methods(target):
            return Reached(name_of(target), PublishedAgent(name_of(target), lambda: target), limits)
    hint = f"; write {target.__name__}()" if isinstance(target, type) and not missing_methods(target) else ""
    raise TypeError(f"{target!r} is nothing that a client connects to; {_EXPECTED}{hint}")
