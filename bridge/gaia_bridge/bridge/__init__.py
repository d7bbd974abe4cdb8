"""The bridge: where agents, upstream servers and endpoints meet."""

from gaia_bridge.bridge.bridge import Bridge

__all__ = ["Bridge"]
