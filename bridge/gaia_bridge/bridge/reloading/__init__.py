"""Agents follow their source files: each change is imported, and takes the place of what is published."""

from __future__ import annotations

from gaia_bridge.bridge.reloading.agents import AgentReloader

__all__ = ["AgentReloader"]
