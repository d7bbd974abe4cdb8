"""What a client receives and sends, message by message, as its library does not show it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import mcp_message, mcp_types, mcp_versions

__all__ = ["Introduced", "Tapped"]


class Tapped:
    """A transport of the official client that remembers what came and what went.

    Args:
        transport: The transport.
    """

    def __init__(self, transport: Any) -> None:
        self.received: list[JSON] = []
        self.sent: list[JSON] = []
        self._transport = transport

    async def __aenter__(self) -> tuple[Any, Any]:
        incoming, outgoing = await self._transport.__aenter__()
        return _TappedStream(incoming, self.received), _TappedSink(outgoing, self.sent)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        ended: bool | None = await self._transport.__aexit__(exc_type, exc_val, exc_tb)
        return ended


class _TappedStream:
    """The stream of incoming messages."""

    def __init__(self, incoming: Any, received: list[JSON]) -> None:
        self._incoming = incoming
        self._received = received

    @property
    def last_context(self) -> Any:
        """What the client's library looks for."""
        return getattr(self._incoming, "last_context", None)

    async def receive(self) -> mcp_message.SessionMessage | Exception:
        """The next message."""
        item: mcp_message.SessionMessage | Exception = await self._incoming.receive()
        if isinstance(item, mcp_message.SessionMessage):
            self._received.append(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True))
        return item

    async def aclose(self) -> None:
        """Close the stream underneath."""
        await self._incoming.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> mcp_message.SessionMessage | Exception:
        item: mcp_message.SessionMessage | Exception = await self._incoming.__anext__()
        if isinstance(item, mcp_message.SessionMessage):
            self._received.append(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True))
        return item

    async def __aenter__(self) -> Self:
        await self._incoming.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        ended: bool | None = await self._incoming.__aexit__(exc_type, exc_val, exc_tb)
        return ended


class _TappedSink:
    """The stream of outgoing messages."""

    def __init__(self, outgoing: Any, sent: list[JSON]) -> None:
        self._outgoing = outgoing
        self._sent = sent

    async def send(self, item: mcp_message.SessionMessage) -> None:
        """Send a message."""
        self._sent.append(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True))
        await self._outgoing.send(item)

    async def aclose(self) -> None:
        """Close the stream underneath."""
        await self._outgoing.aclose()

    async def __aenter__(self) -> Self:
        await self._outgoing.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        ended: bool | None = await self._outgoing.__aexit__(exc_type, exc_val, exc_tb)
        return ended


class Introduced:
    """A transport to a bridge that has a server to connect to first: opened once the bridge knows what that offers.

    Args:
        transport: The transport, over which `server/discover` may be asked as often as one likes.
        capability: What the server is known by.
    """

    def __init__(self, transport: Any, capability: str) -> None:
        self._transport = transport
        self._capability = capability

    async def __aenter__(self) -> tuple[Any, Any]:
        incoming, outgoing = await self._transport.__aenter__()
        try:
            await self._wait(incoming, outgoing)
        except BaseException as error:
            await self._transport.__aexit__(type(error), error, error.__traceback__)
            raise
        return incoming, outgoing

    async def _wait(self, incoming: Any, outgoing: Any) -> None:
        meta = {
            mcp_types.PROTOCOL_VERSION_META_KEY: mcp_versions.LATEST_MODERN_VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "waiting", "version": "0"},
        }
        look = mcp_types.JSONRPCRequest(jsonrpc="2.0", id="look", method="server/discover", params={"_meta": meta})
        known: JSON = {}
        while self._capability not in known:
            await outgoing.send(mcp_message.SessionMessage(look))
            answer = (await incoming.receive()).message
            assert isinstance(answer, mcp_types.JSONRPCResponse), answer
            known = answer.result["capabilities"]

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        ended: bool | None = await self._transport.__aexit__(exc_type, exc_val, exc_tb)
        return ended
