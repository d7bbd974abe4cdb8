"""The official client on an endpoint of this process, without a socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.transports.streams import DuplexClient
from tests.support.on_demand import mcp_message, mcp_types

__all__ = ["in_memory"]


class _Channel:
    """Hands messages to the client: implements `gaia_bridge.server.connection.Channel`."""

    can_ask = True

    def __init__(self, to_client: Any) -> None:
        self._to_client = to_client

    async def send(self, message: bytes) -> None:
        try:
            await self._to_client.send(
                mcp_message.SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(message))
            )
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass

    def end(self) -> None:
        pass


@asynccontextmanager
async def in_memory(dispatcher: Dispatcher) -> AsyncGenerator[Any]:
    """A transport for `mcp.Client`: the two streams."""
    to_client, reading = anyio.create_memory_object_stream[mcp_message.SessionMessage | Exception](0)
    writing, from_client = anyio.create_memory_object_stream[mcp_message.SessionMessage](0)
    client = DuplexClient(dispatcher, _Channel(to_client))

    async def pump() -> None:
        async for item in from_client:
            await client.take(item.message.model_dump(by_alias=True, exclude_unset=True, mode="json"))

    async with to_client, reading, writing, from_client, anyio.create_task_group() as tasks:
        tasks.start_soon(pump)
        try:
            yield reading, writing
        finally:
            client.close()
            tasks.cancel_scope.cancel()
