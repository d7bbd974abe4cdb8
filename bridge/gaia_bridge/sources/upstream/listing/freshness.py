"""How long a server's lists are trusted. Pure.

Announcements make them newer, and no older: servers of MCPServer (mcp 2.3) and of FastMCP (4.2) declare that they
announce changes, and announce none that their own code makes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gaia_bridge.model import ChangeKind, ServerFeatures
from gaia_bridge.sources.upstream.listing.feature_lists import LISTS, has_list


def outdated(
    features: ServerFeatures, read: Mapping[ChangeKind, float], now: float, usual: float, *, at_least: float
) -> set[ChangeKind]:
    """Which lists are to be read again.

    Args:
        features: What the server offers.
        read: When each was read.
        now: The same for now.
        usual: Seconds that a list is trusted of which the server does not say how long (`ttlMs`).
        at_least: Seconds that any is trusted; all older ones are to be read again if `usual` is no more than that.
    """
    found: set[ChangeKind] = set()
    for listed in LISTS:
        if not has_list(features, listed):
            continue
        said = [page.more["ttlMs"] / 1000 for page in features.pages.get(listed.kind, ()) if "ttlMs" in page.more]
        trusted = at_least if usual <= at_least else max(at_least, min(said, default=usual))
        if now - read.get(listed.change, -math.inf) >= trusted:
            found.add(listed.change)
    return found
