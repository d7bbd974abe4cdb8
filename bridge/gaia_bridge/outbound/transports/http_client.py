"""HTTP as a client that trusts no server: bounded, without cookies, proxies, or redirects to elsewhere.

One `HttpClient` belongs to one upstream server and keeps its connections. It stands on `httpx2`'s transport and not on
its `AsyncClient`, which keeps cookies, reads bodies without a bound, and logs whole URLs with what is secret in them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any, Final, Literal

import anyio
import httpx2

from gaia_bridge.model import HttpServerSpec
from gaia_bridge.outbound.transport import UnreachableError, UpstreamError
from gaia_bridge.outbound.transports.budgets import Share
from gaia_bridge.outbound.transports.http_values import (
    LONGEST_WAIT,
    checked_headers,
    named_status,
    origin,
    reason_of,
    retry_after,
    shown,
    usable_url,
)
from gaia_bridge.outbound.transports.pacing import PacedBackend
from gaia_bridge.outbound.transports.tls import verifying_context
from gaia_bridge.settings import KIB, UpstreamLimits
from gaia_bridge.text import one_line

__all__ = ["BrokenOffError", "HttpClient", "Reply"]

Method = Literal["GET", "POST", "DELETE"]

_HOPS: Final = 3
"""Redirects of one request; a server that needs more is going in circles."""
_FOLLOWED: Final = (307, 308)
"""The redirects that keep method and body (RFC 9110, section 15.4)."""
_REDIRECTS: Final = (301, 302, 303, *_FOLLOWED)
_DECODABLE: Final = ("", "identity", "gzip", "deflate")
"""What `httpx2` decodes in pieces of bounded size. We ask for `identity`; some servers do not listen."""
_PIECE: Final = 64 * KIB
"""Bytes that are handed out at once, as many as a connection is read for. A thousand bytes may come of one that was
compressed, and what they say must not keep every other server waiting (F-061)."""
_FRAMING: Final = ("content-encoding", "content-length", "transfer-encoding")


class BrokenOffError(UpstreamError):
    """The connection ended in the middle of an answer.

    Args:
        reason: Why, as far as is known.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"broke off before it answered ({reason}); whether it did the work is unknown")


class Reply:
    """The answer to one HTTP request; its body comes in pieces. Has to be closed.

    Args:
        response: With an open stream.
        limit: Bytes that `body` may take.
    """

    def __init__(self, response: httpx2.Response, limit: int) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.ended = False
        """Whether all of the body was read."""
        self._response = response
        self._limit = limit
        self._pieces = response.aiter_bytes()
        self._decoded = b""

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    async def read(self) -> bytes:
        """Wait for the next bytes of the body, decoded; empty at its end.

        Raises:
            BrokenOffError: The connection ended first.
            UpstreamError: The body cannot be decoded.
        """
        if self._decoded:
            await asyncio.sleep(0)
        else:
            self._decoded = await self._next_piece()
        piece, self._decoded = self._decoded[:_PIECE], self._decoded[_PIECE:]
        self.ended = not piece
        return piece

    async def _next_piece(self) -> bytes:
        try:
            async for piece in self._pieces:
                if piece:
                    return piece
        except httpx2.DecodingError:
            raise UpstreamError("sent a body that is not encoded as it says") from None
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise BrokenOffError(reason_of(error)) from None
        return b""

    async def body(self) -> bytes:
        """Wait for the whole body.

        Raises:
            UpstreamError: It is too large, or did not come.
        """
        parts: list[bytes] = []
        size = 0
        while part := await self.read():
            size += len(part)
            if size > self._limit:
                raise UpstreamError(f"sent more than {self._limit} bytes in one answer")
            parts.append(part)
        return b"".join(parts)

    async def finish(self, seconds: float) -> None:
        """Close it; if it ends by itself within some seconds, its connection can be used again."""
        try:
            with anyio.move_on_after(seconds):
                while await self.read():
                    pass
        except UpstreamError:
            pass
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go of it. A connection that still carries the rest of the body is closed."""
        await self._pieces.aclose()
        await self._response.aclose()

    def refusal(self) -> UpstreamError:
        """What to tell whoever wanted something else than this status."""
        wait = retry_after(self.headers.get("retry-after"))
        hint = ""
        if wait is not None:
            hint = f", and asks to be tried again after {'a day or more' if wait >= LONGEST_WAIT else f'{wait:g} s'}"
        return UpstreamError(f"answered with HTTP {named_status(self.status)}{hint}", wait)


class HttpClient:
    """The HTTP connections to one server.

    Args:
        spec: The server.
        limits: Bounds.
        auth: Says who we are, if the server wants to know.

    Raises:
        UpstreamError: The URL, a header, or what certificates are verified with cannot be used.
    """

    def __init__(self, spec: HttpServerSpec, limits: UpstreamLimits, auth: httpx2.Auth | None = None) -> None:
        url = usable_url(spec.url)
        self.url = url.copy_with(userinfo=b"", fragment=None)
        self._headers = checked_headers(spec.headers)
        self.authorises = auth is not None or bool(url.userinfo) or "authorization" in self._headers
        """Whether a server that wants authorisation was given some."""
        self._auth = httpx2.BasicAuth(url.username, url.password) if auth is None and url.userinfo else auth
        self._limits = limits
        self._extensions = {
            "timeout": {
                "connect": limits.http_connect_timeout,
                "write": limits.write_timeout,
                "read": None,
                "pool": None,
            }
        }
        self._transport = httpx2.AsyncHTTPTransport(
            verify=_tls(url),
            trust_env=False,
            limits=httpx2.Limits(keepalive_expiry=limits.http_keep_alive),
            socket_options=_asking(limits.http_alive_after),
        )
        now = asyncio.get_running_loop().time
        # There is no public way to say how its pool opens connections.
        pool: Any = self._transport._pool  # pyright: ignore[reportPrivateUsage]
        pool._network_backend = PacedBackend(partial(Share, limits.loop_share, limits.loop_burst, now))

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def send(
        self,
        method: Method,
        headers: Mapping[str, str],
        body: bytes | None = None,
        url: httpx2.URL | None = None,
        *,
        insist: bool = True,
    ) -> Reply:
        """Send one request and wait for the head of the answer. Cancelling closes the connection.

        Args:
            method: The HTTP method.
            headers: Header fields of this request; they win over those of the configuration.
            body: The content.
            url: Where to, if not to the server's URL.
            insist: Whether `auth` may react to a refusal, by asking a user perhaps. Not for what nobody waits for.

        Raises:
            BrokenOffError: The connection ended before an answer came.
            UnreachableError: There is no connection.
            UpstreamError: There is no answer that we could follow.
        """
        fields = {**self._headers, **checked_headers(headers), "accept-encoding": "identity"}
        request = httpx2.Request(method, url or self.url, headers=fields, content=body, extensions=self._extensions)
        try:
            if self._auth is None:
                response = await self._deliver(request)
            else:
                response = await self._authorised(request, self._auth, insist)
        except httpx2.ConnectTimeout:
            seconds = self._limits.http_connect_timeout
            raise UnreachableError(f"took no connection at {shown(self.url)} within {seconds:g} s") from None
        except httpx2.ConnectError as error:
            raise UnreachableError(f"cannot be reached at {shown(self.url)}: {reason_of(error)}") from None
        except httpx2.WriteTimeout:
            raise UpstreamError(f"did not take the request within {self._limits.write_timeout:g} s") from None
        except (OverflowError, UnicodeError) as error:  # of a host or a port that the system cannot look up
            raise UnreachableError(f"cannot be reached at {shown(self.url)}: {reason_of(error)}") from None
        except httpx2.HTTPError as error:
            raise BrokenOffError(reason_of(error)) from None
        return Reply(response, self._limits.message_bytes)

    async def _deliver(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, after redirects that stay at its origin (F-064)."""
        for _ in range(_HOPS + 1):
            response = await self._transport.handle_async_request(request)
            response.request = request
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or location is None:
                return await _decodable(response)
            await response.aclose()
            request = self._redirected(request, response.status_code, location)
        raise UpstreamError("redirects in circles")

    def _redirected(self, request: httpx2.Request, status: int, location: str) -> httpx2.Request:
        try:
            target = request.url.join(location)
        except (httpx2.InvalidURL, ValueError):
            raise UpstreamError(f"answered with HTTP {named_status(status)}, to no URL") from None
        if status not in _FOLLOWED or origin(target) != origin(request.url):
            raise UpstreamError(
                f"answered with HTTP {named_status(status)}, to {shown(target)}, which is not followed; "
                "if that is the server, configure its URL"
            )
        return httpx2.Request(
            request.method, target, headers=request.headers, content=request.content, extensions=request.extensions
        )

    async def _authorised(self, request: httpx2.Request, auth: httpx2.Auth, insist: bool) -> httpx2.Response:
        """Let `auth` say what is sent, as often as it wants; what it gets to read is bounded."""
        flow = auth.async_auth_flow(request)
        response: httpx2.Response | None = None
        try:
            following = await _step(flow, None)
            while following is not None:
                response = await self._deliver(following)
                if following is request and not insist:
                    return response
                if following is not request or response.is_error:
                    response = await self._read_whole(response, following)
                try:
                    following = await _step(flow, response)
                except BaseException:
                    await response.aclose()
                    raise
                if following is not None:
                    await response.aclose()
        finally:
            await flow.aclose()
        if response is None:
            raise UpstreamError("could not be authorised (nothing was sent)")
        return response

    async def _read_whole(self, response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
        reply = Reply(response, self._limits.message_bytes)
        try:
            body = await reply.body()
        finally:
            await reply.close()
        headers = [item for item in response.headers.multi_items() if item[0] not in _FRAMING]
        return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


async def _step(
    flow: AsyncGenerator[httpx2.Request, httpx2.Response], response: httpx2.Response | None
) -> httpx2.Request | None:
    """The next request that an authorisation wants to be sent, or `None` when it is done."""
    try:
        return await (anext(flow) if response is None else flow.asend(response))
    except StopAsyncIteration:
        return None
    except (UpstreamError, httpx2.HTTPError):
        raise
    except Exception as error:  # whatever an authorisation does is that server's failure; the text may be secret
        raise UpstreamError(f"could not be authorised ({type(error).__name__})") from error


def _asking(idle: int) -> list[tuple[int, int, int]]:
    """Socket options that have TCP ask a silent peer whether it is there: after `idle` seconds, four times."""
    wanted = {"TCP_KEEPIDLE": idle, "TCP_KEEPALIVE": idle, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
    known = {name: value for name, value in wanted.items() if hasattr(socket, name)}  # systems differ in this
    options = [(socket.IPPROTO_TCP, int(getattr(socket, name)), value) for name, value in known.items()]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *options]


def _tls(url: httpx2.URL) -> ssl.SSLContext:
    if url.scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used; trusts nobody
    return verifying_context()


async def _decodable(response: httpx2.Response) -> httpx2.Response:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in _DECODABLE:
        return response
    await response.aclose()
    raise UpstreamError(f"encodes its answer as {one_line(encoding, 40)!r}, though none was asked for")
