"""What is published of an object: its own methods, its decorated functions, and what it says are parts of it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, Final, cast

from gaia_bridge.contract import AgentLike, HasParts, Republishes
from gaia_bridge.functions.collection import decorated_functions
from gaia_bridge.sources.agent.ask_tool import AskTool
from gaia_bridge.sources.agent.registry_tools import RegistryTools

__all__ = ["GAIA_METHODS", "is_of_gaia", "parts_of"]

GAIA_METHODS: Final = ("process_query", "_register_tools")
"""What agents of amd-gaia have that are neither MCP servers nor chat models."""

_GAIA_TOOLS: Final = "gaia.agents.base.tools"


def parts_of(agent: Any) -> tuple[Any, ...]:
    """The objects that are published beside an agent, under its name; each has the methods of an agent.

    Raises:
        TypeError: Two of its decorated functions have one name, or one cannot be published.
    """
    decorated = decorated_functions(agent)
    parts: list[Any] = [] if decorated is None else [decorated]
    if isinstance(agent, HasParts):
        parts += agent.get_mcp_parts()
    elif is_of_gaia(agent) and not isinstance(agent, AgentLike):
        parts += [RegistryTools(lambda: _gaia_tools(agent)), AskTool(agent, description=_documentation(agent))]
    republished = agent.get_mcp_republished() if isinstance(agent, Republishes) else None
    return (*parts, republished) if republished is not None else tuple(parts)


def is_of_gaia(agent: object) -> bool:
    """Whether something is an agent of amd-gaia's kind, or a class of such agents."""
    return all(callable(getattr(agent, name, None)) for name in GAIA_METHODS)


def _gaia_tools(agent: Any) -> Mapping[str, Any]:
    """The tools of an agent of amd-gaia: its own registry, or the one that all share."""
    own: object = getattr(agent, "_tools_registry", None)
    shared: object = getattr(sys.modules.get(_GAIA_TOOLS), "_TOOL_REGISTRY", None)
    for registry in (own, shared):
        if isinstance(registry, Mapping):
            return dict(cast("Mapping[str, Any]", registry))
    return {}


def _documentation(agent: object) -> str:
    return (inspect.getdoc(type(agent)) or "").partition("\n\n")[0]
