"""Servers of before 2026-07-28, made of a bridge."""

from __future__ import annotations

from gaia_bridge.bridge import Bridge
from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.codes import METHOD_NOT_FOUND
from gaia_bridge.server.call import Call
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.text.json_types import JSON

__all__ = ["forget_discovery"]


def forget_discovery(bridge: Bridge) -> None:
    """Make a bridge one of before 2026-07-28, which nothing but the handshake introduces."""
    for endpoint in bridge._endpoints.values():  # pyright: ignore[reportPrivateUsage]
        _forget(endpoint.dispatcher)


def _forget(dispatcher: Dispatcher) -> None:
    result = dispatcher._result  # pyright: ignore[reportPrivateUsage]

    async def result_or_refusal(call: Call) -> JSON:
        if call.method == "server/discover":
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found")
        return await result(call)

    dispatcher._result = result_or_refusal  # type: ignore[method-assign] # pyright: ignore[reportPrivateUsage]
