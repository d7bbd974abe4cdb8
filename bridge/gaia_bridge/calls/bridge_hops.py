"""The bridges that a request or a definition has passed: recorded so that no bridge publishes itself again.

A bridge makes up an id for itself. Every request that it sends says in `_meta`, under one key, the ids of all bridges
that it has passed; one that comes back is refused. A bridge that is asked by another for a list says the same of each
definition, so that the other leaves out what it would only get back from itself. Other clients see neither. Pure.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

from gaia_bridge.errors import INVALID_PARAMS, INVALID_REQUEST, ProtocolError
from gaia_bridge.text.json_types import JSON, is_array, is_object, value_at

HOPS_META_KEY: Final = "io.gaia-mcp-bridge/hops"
"""The key in `_meta`, of requests and of definitions: a list of ids, in the order in which they were passed."""
_LOOP: Final = {"reason": "io.gaia-mcp-bridge/loop"}
"""The data of the error that refuses a request: sending the request again would change nothing."""
_ID_LENGTH: Final = 64
"""Characters of an id at most; ours have sixteen."""


def new_id() -> str:
    """Return an id for one bridge, for as long as it runs."""
    return secrets.token_hex(8)


def hops_of(meta: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the ids of the bridges that a request with this `_meta` has passed; `None` if its sender is no bridge.

    Raises:
        ProtocolError: The value under the key is no list of ids.
    """
    if HOPS_META_KEY not in meta:
        return None
    hops = _ids(meta[HOPS_META_KEY])
    if hops is None:
        raise ProtocolError(INVALID_PARAMS, f"{HOPS_META_KEY} in _meta must be a list of ids")
    return hops


def check_hops(meta: Mapping[str, Any], own: str, limit: int) -> None:
    """Raise `ProtocolError` for a request with this `_meta` that passed this bridge before, or too many bridges."""
    hops = hops_of(meta) or ()
    if own in hops:
        way = len(hops) - hops.index(own)
        length = "directly" if way == 1 else f"by way of {way - 1} more"
        problem = f"This bridge has sent the request itself, and got it back {length}: it does not publish itself again"
    elif len(hops) > limit:
        problem = f"The request has passed {len(hops)} bridges; more than {limit} are taken for a loop"
    else:
        return
    raise ProtocolError(INVALID_REQUEST, problem, dict(_LOOP))


def is_loop(error: ProtocolError) -> bool:
    """Return whether a bridge refused a request because it goes in a circle."""
    return is_object(error.data) and error.data.get("reason") == _LOOP["reason"]


def passed(params: JSON | None, own: str) -> JSON:
    """Return the parameters of a request that a bridge sends on, or a definition as another bridge is given it.

    `_meta` has the same place in both. Its words about earlier bridges stay.
    """
    params = params or {}
    meta = params.get("_meta")
    return {**params, "_meta": with_hop(meta if is_object(meta) else {}, own)}


def with_hop(meta: Mapping[str, Any], own: str) -> JSON:
    """Return the `_meta` of something that a bridge sends on."""
    return {**meta, HOPS_META_KEY: [*(_ids(meta.get(HOPS_META_KEY)) or ()), own]}


def came_through(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the bridges that a definition came through, as far as they recorded themselves."""
    return _ids(value_at(definition, "_meta", HOPS_META_KEY)) or ()


def _ids(value: object) -> tuple[str, ...] | None:
    if not is_array(value) or not all(isinstance(item, str) and len(item) <= _ID_LENGTH for item in value):
        return None
    return tuple(value)
