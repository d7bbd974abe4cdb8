"""The async core of gaia-mcp-bridge: publish agents, consume MCP servers. What is in it is loaded on first use."""

from __future__ import annotations

from gaia_bridge.version import __version__

TYPE_CHECKING = False  # as type checkers know it; `typing` would double the time until Ctrl-C is under control
if TYPE_CHECKING:
    from gaia_bridge.bridge import Bridge
    from gaia_bridge.calls.request_context import Elicited, RequestContext, get_request_context
    from gaia_bridge.contract import AgentLike, Publisher
    from gaia_bridge.errors import BridgeError, ProtocolError, ResourceNotFoundError, ToolError
    from gaia_bridge.settings import Settings

__all__ = [
    "AgentLike",
    "Bridge",
    "BridgeError",
    "Elicited",
    "ProtocolError",
    "Publisher",
    "RequestContext",
    "ResourceNotFoundError",
    "Settings",
    "ToolError",
    "__version__",
    "get_request_context",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    for place in ("errors", "contract", "calls.request_context", "settings", "bridge") if name in __all__ else ():
        module = import_module(f"{__name__}.{place}")
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
