"""Agents: the classes to derive from are in `gaia.agents.base`."""
