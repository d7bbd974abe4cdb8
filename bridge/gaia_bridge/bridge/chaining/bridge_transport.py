"""A bridge of this process as a server: what it publishes, reached without a socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Protocol

from gaia_bridge.bridge.chaining.agent_transport import DispatcherTransport
from gaia_bridge.client.transport import Link, Receiver, UpstreamError
from gaia_bridge.errors import BridgeError
from gaia_bridge.server.dispatcher import Dispatcher


class Opens(Protocol):
    """What is wanted of a `gaia_bridge.Bridge`."""

    @property
    def is_open(self) -> bool:
        """Whether it publishes."""
        ...

    def dispatcher(self, source: str | None = None) -> Dispatcher:
        """What answers at an endpoint."""
        ...

    async def __aenter__(self) -> object:
        """Open it."""
        ...

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        """Close it."""
        ...


class BridgeTransport:
    """Reaches a bridge, which is opened for that if it is not. Implements `client.transport.Transport`.

    Args:
        bridge: The bridge.
        endpoint: The agent or server whose own endpoint is meant; all that it publishes if `None`.
    """

    def __init__(self, bridge: Opens, endpoint: str | None = None) -> None:
        self._bridge = bridge
        self._endpoint = endpoint

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link to the endpoint."""
        async with AsyncExitStack() as stack:
            try:
                if not self._bridge.is_open:
                    await stack.enter_async_context(self._bridge)
                dispatcher = self._bridge.dispatcher(self._endpoint)
            except BridgeError as error:
                raise UpstreamError(f"cannot be reached: {error}") from error
            yield await stack.enter_async_context(DispatcherTransport(dispatcher).connect(receiver))
