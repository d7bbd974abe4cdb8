"""One line for each call: who asked what of whom, how long it took, how it ended, and how much was said, never what.

Every transport and both eras come by here. It costs nothing where nobody listens: a test of a level.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from gaia_bridge.errors import ProtocolError
from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.jsontypes import is_object
from gaia_bridge.server.call import Call
from gaia_bridge.text import one_line

__all__ = ["CallLog"]

logger = logging.getLogger(__name__)

_CALLS: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""What is told, and which parameter says what was wanted."""

_SHOWN: Final = 120
"""Characters of a name that are told."""

_LINE: Final = (
    "%(client)s %(method)s %(target)s of %(source)s: %(outcome)s in %(ms)g ms, %(bytes_in)d B in, %(bytes_out)d B out"
)


class CallLog:
    """The log of one endpoint.

    Args:
        catalog: Knows whose a tool, a prompt or a resource is.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def began(self, call: Call) -> float | None:
        """When a call began; `None` if nothing is told of it."""
        return time.monotonic() if call.method in _CALLS and logger.isEnabledFor(logging.INFO) else None

    def ended(self, call: Call, began: float, outcome: str, size: int) -> None:
        """Tell of a call.

        Args:
            call: The call.
            began: What `began` returned.
            outcome: How it ended.
            size: Bytes of the answer.
        """
        params = call.params
        wanted = str(params.get(_CALLS[call.method]))
        told = {
            "client": _client(call),
            "source": self._source(call.method, wanted),
            "method": call.method,
            "target": one_line(wanted.partition("?")[0], _SHOWN),
            "ms": round((time.monotonic() - began) * 1000, 1),
            "outcome": outcome,
            "bytes_in": call.size,
            "bytes_out": size,
        }
        logger.info(_LINE, told, extra={"call": told})

    def _source(self, method: str, wanted: str) -> str:
        look: Mapping[str, Callable[[str], Any]] = {
            "tools/call": self._catalog.tool,
            "prompts/get": self._catalog.prompt,
            "resources/read": self._catalog.addresses.find,
        }
        try:
            return str(look[method](wanted)[0].name)
        except ProtocolError:
            return "-"


def outcome_of(result: object) -> str:
    """How a call ended that has this result."""
    if not is_object(result):
        return "ok"
    if result.get("resultType") == "input_required":
        return "asked for input"
    return "tool error" if result.get("isError") is True else "ok"


def _client(call: Call) -> str:
    """Name and version of the client, as it says, and a number that tells its connection from others."""
    info = call.client_info
    said = f"{info.get('name', 'unknown')}/{info.get('version', '')}"
    return f"{one_line(said, _SHOWN)} #{id(call.connection) >> 4 & 0xFFFF:04x}"
