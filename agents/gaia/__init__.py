"""Names for authors of agents: consoles here, agents in `gaia.agents.base`, the MCP client in `gaia.mcp`."""

from __future__ import annotations

from gaia_bridge import __version__

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from typing import Any

    from gaia.agents.base.console import AgentConsole, SilentConsole

__all__ = ["AgentConsole", "SilentConsole", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the consoles on first use: the `gaia` command needs this package, but none of them (PEP 562)."""
    if name in ("AgentConsole", "SilentConsole"):
        from gaia.agents.base import console

        return getattr(console, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
