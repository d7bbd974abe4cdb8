"""The MCP servers that an editor names for a conversation, as entries of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from acp.schema import HttpMcpServer, McpServerStdio, SseMcpServer

from gaia_bridge.model import HttpServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge_doors.acp.errors import invalid


def server_specs(servers: Iterable[Any], cwd: str, limit: int) -> list[ServerSpec]:
    """The entries.

    Args:
        servers: What the editor sent, read by the package's models.
        cwd: The folder of the conversation, where servers are launched.
        limit: How many there may be.

    Raises:
        RequestError: One of them cannot be used.
    """
    specs = [_spec(f"mcpServers[{number}]", server, cwd) for number, server in enumerate(servers)]
    if len(specs) > limit:
        raise invalid("mcpServers", f"{len(specs)} servers came", f"at most {limit}")
    names = [spec.name for spec in specs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise invalid("mcpServers", f"two servers are called {twice!r}", "a name of its own for each")
    return specs


def _spec(at: str, server: Any, cwd: str) -> ServerSpec:
    name: str = server.name
    if not name.strip() or not name.isprintable():
        raise invalid(f"{at}.name", f"{name!r} came", "a name that can be seen")
    match server:
        case McpServerStdio():
            if not server.command:
                raise invalid(f"{at}.command", "an empty text came", "a program")
            environment = {variable.name: variable.value for variable in server.env}
            return StdioServerSpec(name, server.command, tuple(server.args), environment, cwd)
        case HttpMcpServer() | SseMcpServer():
            if not _is_http(server.url):
                raise invalid(f"{at}.url", f"{server.url!r:.200} came", "a URL with http or https")
            headers = {header.name: header.value for header in server.headers}
            return HttpServerSpec(name, server.url, headers, sse=isinstance(server, SseMcpServer))
        case _:
            kind = getattr(server, "type", type(server).__name__)
            raise invalid(f"{at}.type", f"{kind!r} came", "stdio, http or sse, as mcpCapabilities says")


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:  # half an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
