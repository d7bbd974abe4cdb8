"""What is published of an object: its own methods, its decorated functions, and what it says are parts of it."""

from __future__ import annotations

from typing import Any

from gaia_bridge.contract import HasParts, Republishes
from gaia_bridge.functions.collection import decorated_functions

__all__ = ["parts_of"]


def parts_of(agent: Any) -> tuple[Any, ...]:
    """The objects that are published beside an agent, under its name; each has the methods of an agent.

    Raises:
        TypeError: Two of its decorated functions have one name, or one cannot be published.
    """
    decorated = decorated_functions(agent)
    parts: list[Any] = [] if decorated is None else [decorated]
    if isinstance(agent, HasParts):
        parts += agent.get_mcp_parts()
    republished = agent.get_mcp_republished() if isinstance(agent, Republishes) else None
    return (*parts, republished) if republished is not None else tuple(parts)
