"""The bridges that started this process, as the environment lists them: so no configuration starts itself for ever.

A process that launches an MCP server tells it, in one variable, who is above it: what they serve, and the entry that
each of them launched. The server may be a bridge, and would only begin again.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from gaia_bridge.constants import MAX_HOPS
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import is_array, is_object

LINEAGE_VARIABLE: Final = "GAIA_BRIDGE_LINEAGE"
"""The variable in the environment of children: a JSON list of the processes above, the eldest first."""
_ITSELF: Final = "it starts the bridge that it belongs to, which would start itself again, and so on"
_HINT: Final = "take that entry out, or give the bridge that it starts another configuration"


class LineageError(ConfigError):
    """This process would start one of its own ancestors, or is one of them again."""


class Ancestor(Struct, frozen=True):
    """A process above, and the entry that it launched on the way to this one."""

    id: str
    serves: str
    """Fingerprint of the configuration and agents that it serves; empty where that is not known."""
    entry: str
    launch: str
    """Fingerprint of the launch line of that entry."""


class Lineage:
    """This process and those above it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.above = _ancestors(environ.get(LINEAGE_VARIABLE, ""))
        """The processes above that recorded themselves, the eldest first."""
        self._id = secrets.token_hex(8)
        self._serves = ""

    def serve(self, fingerprint: str) -> None:
        """Record the fingerprint of the configuration and agents that this process serves.

        Raises:
            LineageError: A process above serves the same.
        """
        for ancestor in self.above:
            if ancestor.serves == fingerprint:
                raise LineageError(f"server {ancestor.entry!r} of the configuration", _ITSELF, _HINT)
        self._serves = fingerprint

    def is_above(self, text: str) -> bool:
        """Return whether this process is above another one."""
        return any(ancestor.id == self._id for ancestor in _ancestors(text))

    def environment(self, entry: str, launch: str) -> dict[str, str]:
        """Return the environment variable for a child that is launched for an entry of the configuration.

        Raises:
            LineageError: It would be launched by itself, or too many have launched one another.
        """
        if any(ancestor.launch == launch for ancestor in self.above):
            raise LineageError(f"server {entry!r} of the configuration", _ITSELF, _HINT)
        if len(self.above) >= MAX_HOPS:
            problem = f"{len(self.above)} bridges have started one another already; that is taken for a loop"
            raise LineageError(f"server {entry!r} of the configuration", problem, _HINT)
        chain = [*self.above, Ancestor(self._id, self._serves, entry, launch)]
        return {LINEAGE_VARIABLE: json.dumps([asdict(ancestor) for ancestor in chain])}


def _ancestors(text: str) -> tuple[Ancestor, ...]:
    """Return the ancestors that a text lists; none, where the text is not ours."""
    try:
        items: object = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return ()
    if not is_array(items):
        return ()
    keys = ("id", "serves", "entry", "launch")
    return tuple(
        Ancestor(**{key: item[key] for key in keys})
        for item in items
        if is_object(item) and all(isinstance(item.get(key), str) for key in keys)
    )


LINEAGE: Final = Lineage(os.environ)
"""The lineage of this process."""
