"""The registered MCP servers, and those that are switched on ("Configuration", "Registration")."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

from gaia.environment import setting
from gaia_bridge.config.launching.command_lines import is_program, split_command
from gaia_bridge.protocol.names import SERVER_NAME_RULE, is_server_name
from gaia_bridge.text.json_types import is_array

__all__ = ["ALL_SERVERS", "FETCH_SERVER", "TRANSPORTS", "MCPServerConfig", "get_enabled_mcp_servers"]

TRANSPORTS: Final = ("stdio", "http", "sse")
"""A child process; Streamable HTTP; the older HTTP+SSE."""

_ON: Final = frozenset({"true", "1", "yes", "on"})
"""Values that switch a server on, in any case of letters."""


@dataclass
class MCPServerConfig:
    """How to reach one MCP server, and what to use of it.

    Args:
        name: What the server is called here; the first part of its tools' names.
        env_var: The setting that switches it on when it is `True`, such as `MCP_FETCH`, in the environment or in
            `.env`; a server without one is always on.
        command: With `stdio`, the program that speaks MCP on its standard streams; started without a shell. Without
            `args`, one line is split, as long as there is no program of that very path.
        args: Its arguments.
        transport: One of `TRANSPORTS`.
        env: Variables for the program, over the environment of this process, which it inherits. Values of
            `.env` are not in there: pass on what it needs, `{"API_KEY": setting("WEATHER_API_KEY", "")}`.
        url: With `http` and `sse`, where the server is.
        allowed_tools: The tools that are used, by the server's own names; all if `None`, none if empty.
        headers: With `http` and `sse`, sent with every request, such as `{"Authorization": "Bearer ..."}`.
        timeout: Seconds for the start, and for each call.

    Raises:
        ValueError: These do not say how a server is reached; says which, and what was expected.
    """

    name: str
    env_var: str | None = None
    command: str | None = None
    args: Sequence[str] | None = field(default=None, repr=False)
    transport: str = "stdio"
    env: Mapping[str, str] | None = field(default=None, repr=False)
    url: str | None = field(default=None, repr=False)
    allowed_tools: Sequence[str] | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    timeout: float = 30

    def __post_init__(self) -> None:
        if not is_server_name(str(self.name)):
            raise ValueError(f"MCP server name {self.name!r}: {SERVER_NAME_RULE}")
        self.args = self._texts("args")
        self.allowed_tools = self._texts("allowed_tools")
        self.env, self.headers = dict(self.env or {}), dict(self.headers or {})
        if not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise self._problem(f"has timeout={self.timeout!r}; expected a number of seconds over 0")
        if self.transport not in TRANSPORTS:
            raise self._problem(f"has transport={self.transport!r}; expected one of {', '.join(TRANSPORTS)}")
        if self.transport == "stdio":
            self._check_command()
        else:
            self._check_url()
        self.args = self.args or []

    def is_enabled(self) -> bool:
        """Whether the server is switched on right now."""
        return self.env_var is None or (setting(self.env_var) or "").strip().lower() in _ON

    def _check_command(self) -> None:
        if self.command is None or not self.command.strip():
            raise self._problem(
                f"with transport='stdio' requires 'command', the program to start, and has {self.command!r}; "
                "for a server on the network set transport='http' and 'url'"
            )
        if self.args is None and not is_program(self.command):
            try:
                self.command, *self.args = split_command(self.command)
            except ValueError as error:
                raise self._problem(f"cannot be started: {error}; or give 'args', which keep 'command' whole") from None

    def _check_url(self) -> None:
        kind = f"with transport={self.transport!r} requires 'url' parameter"
        if not self.url:
            raise self._problem(f"{kind}, such as 'https://example.com/mcp', and has {self.url!r}")
        try:
            parts = urlsplit(self.url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except (ValueError, AttributeError, TypeError):
            is_usable = False
        if not is_usable:  # not shown: it may have a password in it
            raise self._problem(f"{kind}, and what it has is no address that begins with http:// or https://")

    def _texts(self, name: str) -> list[str] | None:
        """Return a field that has to be a list of texts, checked: Python takes one text for a list of its letters."""
        value: Any = getattr(self, name)
        kind = type(value).__name__
        if value is None:
            return None
        items: Any = list(cast(Any, value)) if isinstance(value, tuple | set | frozenset) else value
        if not is_array(items) or not all(isinstance(item, str) for item in items):
            raise self._problem(f"has a {kind} as {name}; expected a list of texts")  # not shown: it may be a secret
        return list(items)

    def _problem(self, text: str) -> ValueError:
        return ValueError(f"MCP server '{self.name}' {text}")


FETCH_SERVER: Final = MCPServerConfig(
    name="fetch",
    env_var="MCP_FETCH",
    command="uvx",
    args=["mcp-server-fetch"],
    transport="stdio",
)
"""Reads pages of the web. Off until `MCP_FETCH` is `True`; needs `uvx`, a part of uv."""

ALL_SERVERS: Final[list[MCPServerConfig]] = [FETCH_SERVER]
"""The servers that `create_mcp_tools` knows; append those of your own."""


def get_enabled_mcp_servers() -> list[MCPServerConfig]:
    """Return the registered servers that are switched on right now, in their order."""
    return [server for server in ALL_SERVERS if server.is_enabled()]
