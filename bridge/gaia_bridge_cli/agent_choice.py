"""Which agents `gaia-bridge serve` publishes: those that were named, or of those that ship with it what is fitting."""

from __future__ import annotations

import logging
from typing import Any

from msgspec import Struct

from gaia_bridge.bridge.discovery import LoadedAgent, find_agents
from gaia_bridge.text.json_types import is_object
from gaia_bridge_cli.logs import keep_log
from gaia_bridge_cli.slow_imports import told_of_slow_imports

logger = logging.getLogger(__name__)


class AgentChoice(Struct, frozen=True):
    """What the command line says about agents.

    Args:
        named: The references.
        wanted: Whether there are to be any.
        beyond: Whether other machines can reach the bridge: then nobody's files are written unless that was asked for.
        configured: Whether a configuration was named.
        in_windows: Whether those that ship work in the folder of each window, not in ours.
    """

    named: tuple[str, ...]
    wanted: bool
    beyond: bool
    configured: bool
    in_windows: bool = False

    def load(self, *, others: bool) -> list[LoadedAgent]:
        """Load them.

        Args:
            others: Whether there is something else to serve, so that agents that nobody named can be left out.

        Raises:
            AgentLoadError: One cannot be loaded.
        """
        if not self.wanted or (self.beyond and self.configured and not self.named):
            return []
        with keep_log(), told_of_slow_imports():
            found = find_agents(self.named, in_windows=self.in_windows)
        for entry in found:
            if not entry.agents and (self.named or not others):
                raise entry.failures[0]
            for failure in entry.failures:
                logger.warning("left out: %s", failure)
        agents = [agent for entry in found for agent in entry.agents]
        if not self.beyond or self.named:
            return agents
        for agent in filter(_writes, agents):
            logger.warning(
                "left out: agent %s can write, and other machines can reach it; name it to serve it", agent.name
            )
        return [agent for agent in agents if not _writes(agent)]


def _writes(loaded: LoadedAgent) -> bool:
    """Whether one of its tools does not say of itself that it only reads."""
    agent: Any = loaded.agent
    annotations = [tool.get("annotations") for tool in agent.get_mcp_tool_definitions()]
    return not all(is_object(about) and about.get("readOnlyHint") is True for about in annotations)
