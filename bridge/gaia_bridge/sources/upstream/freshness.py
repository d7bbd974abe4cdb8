"""How long a server's lists are trusted that it announces no changes of. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gaia_bridge.model import ChangeKind, ServerFeatures
from gaia_bridge.protocol.json_types import is_object
from gaia_bridge.sources.upstream.feature_lists import LISTS, has_list

__all__ = ["outdated"]


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
        declared = (features.declared or {}).get(listed.capability)
        announced = not is_object(declared) or declared.get("listChanged") is True
        # Of skills, nothing says that changes are announced.
        if announced and not (listed.kind == "skill" and has_list(features, listed)):
            continue
        said = [page.more["ttlMs"] / 1000 for page in features.pages.get(listed.kind, ()) if "ttlMs" in page.more]
        trusted = at_least if usual <= at_least else max(at_least, min(said, default=usual))
        if now - read.get(listed.change, -math.inf) >= trusted:
            found.add(listed.change)
    return found
