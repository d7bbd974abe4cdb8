"""The everything agent as an MCP server of its own, over stdio. A legacy one knows nothing of 2026-07-28."""

from __future__ import annotations

import anyio

from gaia_bridge.bridge import Bridge
from gaia_bridge.settings import AgentLimits, Settings
from tests.interaction.everything_agent import EverythingAgent
from tests.translation.legacy_only import forget_discovery

__all__ = ["run"]


async def _main(era: str) -> None:
    async with Bridge(settings=Settings(agent=AgentLimits(definitions_max_age=0))) as bridge:
        await bridge.add_agent(EverythingAgent(), "everything")
        if era == "legacy":
            forget_discovery(bridge)
        await bridge.serve_stdio()


def run(era: str) -> None:
    """Serve until the client closes our input."""
    anyio.run(_main, era, backend_options={"use_uvloop": True})
