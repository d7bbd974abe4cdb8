"""The agents that ship with the bridge: a package of its own, so that no other `gaia` can hide them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gaia_agents.code_agent import CodeAgent
    from gaia_agents.project_agent import ProjectAgent

__all__ = ["CodeAgent", "ProjectAgent"]

_HOMES = {"CodeAgent": "gaia_agents.code_agent", "ProjectAgent": "gaia_agents.project_agent"}


def __getattr__(name: str) -> object:
    """Import an agent when it is asked for: a co-installed amd-gaia takes a second to import."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
