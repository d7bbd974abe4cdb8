"""The async core of gaia-mcp-bridge: publish agents as MCP servers, consume MCP servers, translate between them.

What agents use is imported with the package; `Bridge`, and with it the MCP SDK, only when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaia_bridge.context import Elicited, RequestContext, get_request_context
from gaia_bridge.contract import AgentLike, Publisher
from gaia_bridge.errors import BridgeError, ProtocolError, ResourceNotFoundError, ToolError
from gaia_bridge.settings import Settings
from gaia_bridge.version import __version__

if TYPE_CHECKING:
    from gaia_bridge.bridge import Bridge

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
    if name != "Bridge":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gaia_bridge.bridge import Bridge

    return Bridge
