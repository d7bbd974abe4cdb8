"""The bridge: joins agents, upstream servers and endpoints, for programs that publish with it.

`Bridge` is loaded on first use: the folders in here are needed without it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gaia_bridge.bridge.bridge import Bridge

__all__ = ["Bridge"]


def __getattr__(name: str) -> object:
    if name != "Bridge":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gaia_bridge.bridge.bridge import Bridge

    return Bridge
