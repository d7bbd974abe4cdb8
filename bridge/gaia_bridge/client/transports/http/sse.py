"""HTTP+SSE of 2024-11-05: the server sends all messages in one event stream, and receives ours as POSTs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx2

from gaia_bridge.calls.in_flight import SentRequests, own_id
from gaia_bridge.client.transport import ConnectionLostError, Receiver, UpstreamError
from gaia_bridge.client.transports.http.answers import EVENT_STREAM, is_stream
from gaia_bridge.client.transports.http.http_client import HttpClient, HttpReply, Posted
from gaia_bridge.client.transports.http.http_link import HttpLink, HttpTransport
from gaia_bridge.client.transports.http.http_values import origin, url_for_log
from gaia_bridge.client.transports.http.sse_parser import EventReader, OversizedEventError
from gaia_bridge.client.transports.json_rpc import is_complete, is_response
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON


class _SseLink(HttpLink):
    """A link over HTTP+SSE."""

    def __init__(self, http: HttpClient, receiver: Receiver, limits: UpstreamLimits) -> None:
        super().__init__(http, receiver, limits)
        self._pending = SentRequests()
        self._endpoint = http.url

    async def open(self) -> None:
        """Open the stream, and wait until the server has sent its endpoint for messages."""
        reply = await self._http.send("GET", {"accept": EVENT_STREAM, "cache-control": "no-store"})
        try:
            if not reply.ok:
                raise await self._refused(reply)
            if not is_stream(reply):
                kind = one_line(reply.content_type, 60) or "no content type"
                raise UpstreamError(f"answered with {kind}, where an event stream was expected")
            stream = self._events_of(reply)
            self._endpoint = await self._endpoint_in(stream)
        except BaseException:
            await reply.close()
            raise
        self.spawn(self._read(reply, stream))

    def agree(self, revision: str) -> None:
        """Do nothing: this transport is the same in all revisions."""

    async def request(
        self, message: JSON, headers: Mapping[str, str] | None = None, posted: Posted | None = None
    ) -> JSON:
        """Send a request and wait for its response. See `Link.request`. None is `posted`."""
        request_id: int = message["id"]
        with self._until_closed():
            response = self._pending.add(request_id)
            try:
                await self._deliver(message, headers or {}, self._endpoint)
                return await response
            except asyncio.CancelledError:
                self._tell_cancelled(message, {}, self._endpoint)
                raise
            finally:
                self._pending.forget(request_id)

    async def _tell(self, message: JSON) -> None:
        await self._deliver(message, {}, self._endpoint)

    async def close(self) -> None:
        """Release everything; open requests fail."""
        self._pending.fail(ConnectionLostError())
        await super().close()

    async def _endpoint_in(self, stream: EventReader) -> httpx2.URL:
        """Read the endpoint for messages, which the stream has before its first message; it is of the same origin."""
        try:
            while (event := await stream.next()) is not None and event.type != "endpoint":
                if event.type == "message" and self._messages_in(event.data):
                    event = None
                    break
        except OversizedEventError as error:
            raise UpstreamError(f"sent {error}") from None
        if event is None:
            raise UpstreamError("opened an event stream without saying where it takes messages; is it Streamable HTTP?")
        try:
            endpoint = self._http.url.join(event.data)
        except (httpx2.InvalidURL, ValueError):
            raise UpstreamError("wants messages at what is no URL") from None
        if origin(endpoint) != origin(self._http.url):
            raise UpstreamError(f"wants messages at {url_for_log(endpoint)}, which is another server")
        return endpoint.copy_with(userinfo=b"", fragment=None)

    async def _read(self, reply: HttpReply, stream: EventReader) -> None:
        try:
            reason = await self._receive(stream)
        finally:
            await reply.close()
        if self._lost is None:
            self._lost = ConnectionLostError(reason)
            self._receiver.ended(reason)
            self._pending.fail(self._lost)

    async def _receive(self, stream: EventReader) -> str:
        """Pass on the messages of the stream; return the reason of its end."""
        try:
            while (event := await stream.next()) is not None:
                if event.type == "message":
                    for message in self._messages_in(event.data):
                        self._take(message)
        except UpstreamError as error:
            return str(error)
        except OversizedEventError as error:
            return f"sent {error}"
        return str(ConnectionLostError())

    def _take(self, message: JSON) -> None:
        if not is_response(message):
            self._receiver.message(message, None)
        elif is_complete(message):
            self._pending.resolve(message.get("id"), message)
        elif (number := own_id(message.get("id"))) is not None:
            self._pending.reject(number, UpstreamError("answered with what is no JSON-RPC response"))


class SseTransport(HttpTransport):
    """The transport to a server over HTTP+SSE; created like `HttpTransport`.

    A link is open when the server has sent its endpoint for messages. A server without such a stream is refused.
    """

    link_type = _SseLink
