"""The async core of gaia-mcp-bridge: publish agents, consume MCP servers. Its members are loaded on first use."""

from __future__ import annotations

from gaia_bridge.version import __version__, import_member

TYPE_CHECKING = False  # as type checkers know it; `typing` would double the time until Ctrl-C is under control
if TYPE_CHECKING:
    from gaia_bridge.bridge import Bridge
    from gaia_bridge.bridge.embedding.client import Client, ToolResult
    from gaia_bridge.calls.request_context import Elicited, RequestContext, get_request_context
    from gaia_bridge.contract import AgentLike, Publisher
    from gaia_bridge.errors import (
        AgentLoadError,
        BridgeError,
        ConfigError,
        ProtocolError,
        PublishError,
        ResourceNotFoundError,
        ServerUnavailableError,
        SkillChangedError,
        ToolError,
    )
    from gaia_bridge.model import (
        HttpServerSpec,
        NamingPolicy,
        OpenApiServerSpec,
        Progress,
        ServerOptions,
        StdioServerSpec,
        ToolSearchPolicy,
    )
    from gaia_bridge.settings import AgentLimits, HttpLimits, Settings, UpstreamLimits
    from gaia_bridge.sources.composition.description import Composition, source
    from gaia_bridge.sources.functions.marks import completion, prompt, resource, tool
    from gaia_bridge_cli.serving.serve_function import serve

_PLACES = (
    ".errors", ".contract", ".calls.request_context", ".sources.functions.marks", ".model", ".settings", ".bridge",
    ".sources.composition.description", ".bridge.embedding.client", "gaia_bridge_cli.serving.serve_function",
)  # fmt: skip

__all__ = [
    "AgentLike", "AgentLimits", "AgentLoadError", "Bridge", "BridgeError", "Client", "Composition",
    "ConfigError", "Elicited", "HttpLimits", "HttpServerSpec", "NamingPolicy", "OpenApiServerSpec", "Progress",
    "ProtocolError", "PublishError", "Publisher", "RequestContext", "ResourceNotFoundError", "ServerOptions",
    "ServerUnavailableError", "Settings", "SkillChangedError", "StdioServerSpec", "ToolError", "ToolResult",
    "ToolSearchPolicy", "UpstreamLimits", "__version__", "completion", "get_request_context", "prompt", "resource",
    "serve", "source", "tool",
]  # fmt: skip


def __getattr__(name: str) -> object:
    return import_member(__name__, __all__, _PLACES, name)
