"""What the log tells of each call of an endpoint: see `gaia_bridge.calls.call_log`."""

from __future__ import annotations

import time
from typing import Any

from gaia_bridge.calls.call_log import KEPT, CallRecord, is_wanted, leave
from gaia_bridge.calls.cancellation import was_too_late
from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.headers import NAMED
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.text.json_types import JSON


class CallLog:
    """The log of one endpoint.

    Args:
        catalog: Knows whose a tool, a prompt or a resource is.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def began(self, call: Call) -> float | None:
        """When a call began; `None` if nothing is told of it."""
        return time.monotonic() if call.method in NAMED and is_wanted() else None

    def ended(self, call: Call, began: float, outcome: str, size: int) -> None:
        """Tell of a call.

        Args:
            call: The call.
            began: What `began` returned.
            outcome: How it ended.
            size: Bytes of the answer.
        """
        seconds = time.monotonic() - began
        wanted = str(call.params.get(NAMED[call.method]))
        info = call.client_info
        client = f"{str(info.get('name', 'unknown'))[:KEPT]}/{str(info.get('version', ''))[:KEPT]}"
        source, number = call.served_by or self._source(call.method, wanted), id(call.connection) >> 4
        leave(CallRecord(client, number, call.method, wanted[:KEPT], source, outcome, seconds, call.size, size))

    def _source(self, method: str, wanted: str) -> str:
        catalog = self._catalog
        look: Any
        match method:
            case "tools/call":
                look = catalog.tool
            case "prompts/get":
                look = catalog.prompt
            case _:
                look = catalog.addresses.find
        try:
            return str(look(wanted)[0].name)
        except ProtocolError:
            return "-"


def outcome_of(result: JSON) -> str:
    """How a call ended that has this result."""
    if result.get("resultType") == "input_required":
        return "asked for input"
    if result.get("isError") is not True:
        return "ok"
    return "timed out" if was_too_late() else "tool error"


def outcome_of_error(code: int) -> str:
    """How a call ended that failed with an error."""
    return "timed out" if was_too_late() else f"error {code}"
