"""HTTP as a client that trusts no server: bounded, without cookies, proxies, or redirects to elsewhere.

One `HttpClient` belongs to one upstream server and keeps its connections. Authorisations are those of httpx2, but what
they want to be sent is sent from here.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable
from urllib.parse import unquote_to_bytes

import httpx2

from gaia_bridge.client.transport import UnreachableError, UpstreamError
from gaia_bridge.client.transports.budgets import Share
from gaia_bridge.client.transports.connections import ConnectError, Connections, ConnectTimeoutError
from gaia_bridge.client.transports.decoding import Decoder, UndecodableError
from gaia_bridge.client.transports.http1 import ClosedError, Http1Error, NotTakenError, Response
from gaia_bridge.client.transports.http_values import (
    LONGEST_WAIT,
    checked_headers,
    named_status,
    origin,
    reason_of,
    retry_after,
    url_for_log,
    usable_url,
)
from gaia_bridge.client.transports.tls import verifying_context
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.sanitize.escaping import one_line
from gaia_bridge.settings import UpstreamLimits

__all__ = ["Authorization", "BrokenOffError", "HttpClient", "Reply"]

Method = Literal["GET", "POST", "DELETE"]

_HOPS: Final = 3
"""Redirects of one request; a server that needs more is going in circles."""
_FOLLOWED: Final = (307, 308)
"""The redirects that keep method and body (RFC 9110, section 15.4)."""
_REDIRECTS: Final = (301, 302, 303, *_FOLLOWED)
_OWN: Final = ("accept-encoding", "connection", "content-length", "host", "transfer-encoding")
"""Headers that requests of httpx2 have by themselves, as do ours."""
_FRAMING: Final = ("content-encoding", "content-length", "transfer-encoding")


class Authorization(Protocol):
    """Says who we are; every `httpx2.Auth` does."""

    def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Say what is sent for a request, given what came of the last one, until there is nothing to add."""
        ...


@runtime_checkable
class _Knowing(Authorization, Protocol):
    """One that may know beforehand."""

    def known_headers(self) -> Mapping[str, str] | None:
        """The header fields that the flow would send a request with, and be content with any answer but 401 and 403.

        `None` if the flow has to be asked.
        """
        ...


class BrokenOffError(UpstreamError):
    """The connection ended in the middle of an answer.

    Args:
        reason: Why, as far as is known.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"broke off before it answered ({reason}); whether it did the work is unknown")


class Reply:
    """The answer to one HTTP request; its body comes in pieces. Has to be finished or closed.

    Args:
        response: With a body that nobody has read.
        limit: Bytes that `body` may take.

    Raises:
        UpstreamError: The body is encoded in a way that nobody asked for.
    """

    def __init__(self, response: Response, limit: int) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        """By names in lower case."""
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.ended = False
        """Whether all of the body was read."""
        self._response = response
        self._limit = limit
        self._read = response.read
        coding = response.headers.get("content-encoding", "").strip().lower()
        if coding not in ("", "identity"):
            if coding not in Decoder.CODINGS:
                response.close()
                raise UpstreamError(f"encodes its answer as {one_line(coding, 40)!r}, though none was asked for")
            self._read = Decoder(coding, response.read).read

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
        try:
            piece = await self._read()
        except UndecodableError:
            raise UpstreamError("sent a body that is not encoded as it says") from None
        except (ClosedError, Http1Error) as error:
            raise BrokenOffError(reason_of(error)) from None
        self.ended = not piece
        return piece

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

    def finish(self, seconds: float) -> asyncio.Future[None]:
        """Let the rest go by; if it ends within some seconds, its connection can be used again.

        Returns:
            Done when the connection is free, or closed. Nobody needs to wait for it.
        """
        return self._response.finish(seconds)

    async def close(self) -> None:
        """Let go of it. A connection that still carries the rest of the body is closed."""
        self._response.close()

    def again(self, body: bytes) -> None:
        """Have the body read anew.

        Args:
            body: All of it.
        """
        pieces = [b"", body]

        async def read() -> bytes:
            return pieces.pop() if pieces else b""

        self._read = read
        self.ended = False

    def refusal(self) -> UpstreamError:
        """What to tell whoever wanted something else than this status."""
        wait = retry_after(self.headers.get("retry-after"))
        hint = ""
        if wait is not None:
            hint = f", and asks to be tried again after {'a day or more' if wait >= LONGEST_WAIT else f'{wait:g} s'}"
        return UpstreamError(f"answered with HTTP {named_status(self.status)}{hint}", wait)


class _Request(NamedTuple):
    """One request."""

    method: str
    url: httpx2.URL
    headers: Mapping[str, str]
    """By names in lower case, checked, without those that frame the message."""
    body: bytes | None

    def encoded(self) -> bytes:
        """As it is sent."""
        url, body = self.url, self.body or b""
        head = f"{self.method} {url.raw_path.decode('ascii')} HTTP/1.1\r\nhost: {url.netloc.decode('ascii')}\r\n"
        fields = "".join([f"{name}: {value}\r\n" for name, value in self.headers.items()])
        length = f"content-length: {len(body)}\r\n" if body or self.method == "POST" else ""
        return f"{head}{fields}{length}\r\n".encode("ascii") + body


class HttpClient:
    """The HTTP connections to one server.

    Args:
        spec: The server.
        limits: Bounds.
        auth: Says who we are, if the server wants to know.

    Raises:
        UpstreamError: The URL, a header, or what certificates are verified with cannot be used.
    """

    def __init__(self, spec: HttpServerSpec, limits: UpstreamLimits, auth: Authorization | None = None) -> None:
        url = usable_url(spec.url)
        self.url = url.copy_with(userinfo=b"", fragment=None)
        self._headers = checked_headers(spec.headers)
        if auth is None and url.userinfo:
            self._headers["authorization"] = _basic(url)
        self.authorises = auth is not None or "authorization" in self._headers
        """Whether a server that wants authorisation was given some."""
        self._headers["accept-encoding"] = "identity"
        self._auth = auth
        self._known_headers = auth.known_headers if isinstance(auth, _Knowing) else _unknown
        self._limits = limits
        self._share = partial(Share, limits.loop_share, limits.loop_burst, asyncio.get_running_loop().time)
        self._own = self._connections(self.url)
        self._others: dict[tuple[str, str, int], Connections] = {}

    async def close(self) -> None:
        """Close all connections."""
        for connections in (self._own, *self._others.values()):
            connections.close()

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
            url: Where to on the server, if not to its own URL.
            insist: Whether `auth` may react to a refusal, by asking a user perhaps. Not for what nobody waits for.

        Raises:
            BrokenOffError: The connection ended before an answer came.
            UnreachableError: There is no connection.
            UpstreamError: There is no answer that we could follow.
        """
        request = _Request(method, url or self.url, {**self._headers, **checked_headers(headers)}, body)
        try:
            if self._auth is None:
                return await self._deliver(request, self._own)
            return await self._authorised(request, self._auth, insist)
        except ConnectTimeoutError:
            seconds = self._limits.http_connect_timeout
            raise UnreachableError(f"took no connection at {url_for_log(self.url)} within {seconds:g} s") from None
        except ConnectError as error:
            raise UnreachableError(f"cannot be reached at {url_for_log(self.url)}: {reason_of(error)}") from None
        except NotTakenError:
            raise UpstreamError(f"did not take the request within {self._limits.write_timeout:g} s") from None
        except (ClosedError, Http1Error, httpx2.HTTPError) as error:  # the last is one of an authorisation
            raise BrokenOffError(reason_of(error)) from None

    def _connections(self, url: httpx2.URL) -> Connections:
        limits = self._limits
        return Connections(
            url.raw_host.decode("ascii"),
            origin(url)[2],
            verifying_context() if url.scheme == "https" else None,
            connect_timeout=limits.http_connect_timeout,
            write_timeout=limits.write_timeout,
            keep_alive=limits.http_keep_alive,
            alive_after=limits.http_alive_after,
            share=self._share,
        )

    async def _deliver(self, request: _Request, connections: Connections) -> Reply:
        """Send a request, after redirects that stay at its origin."""
        for _ in range(_HOPS + 1):
            response = await connections.send(request.encoded())
            location = response.headers.get("location")
            if response.status not in _REDIRECTS or location is None:
                return Reply(response, self._limits.message_bytes)
            response.close()
            request = _redirected(request, response.status, location)
        raise UpstreamError("redirects in circles")

    async def _authorised(self, request: _Request, auth: Authorization, insist: bool) -> Reply:
        """Send a request as `auth` says; it is asked only where the answer may depend on that."""
        if (known := self._known_headers()) is None:
            return await self._discussed(request, auth, insist, None)
        headers = {name: value for name, value in request.headers.items() if name != "authorization"}
        request = request._replace(headers={**headers, **checked_headers(known)})
        reply = await self._deliver(request, self._own)
        if reply.status not in (401, 403) or not insist:
            return reply
        try:
            return await self._discussed(request, auth, insist, reply)
        except BaseException:
            await reply.close()
            raise

    async def _discussed(self, request: _Request, auth: Authorization, insist: bool, reply: Reply | None) -> Reply:
        """Let `auth` say what is sent, as often as it wants; what it gets to read is bounded.

        Args:
            request: The first one.
            auth: Which says it.
            insist: Whether it may react to a refusal.
            reply: To the first one, if that was sent already.
        """
        first = httpx2.Request(request.method, request.url, headers=request.headers, content=request.body)
        flow = auth.async_auth_flow(first)
        answer: Reply | None = None
        try:
            following = await _step(flow, None)
            if reply is not None and first.headers.get("authorization") != request.headers.get("authorization"):
                await reply.close()
                reply = None
            while following is not None:
                answer, reply = reply or await self._deliver_for(following), None
                if following is first and not insist:
                    return answer
                try:
                    following = await _step(flow, await _readable(answer, following, following is not first))
                except BaseException:
                    await answer.close()
                    raise
                if following is not None:
                    await answer.close()
        finally:
            await flow.aclose()
        if answer is None:
            raise UpstreamError("could not be authorised (nothing was sent)")
        return answer

    async def _deliver_for(self, request: httpx2.Request) -> Reply:
        """Send what an authorisation wants to be sent."""
        place = origin(request.url)
        connections = self._own if place == origin(self.url) else self._others.get(place)
        if connections is None:
            connections = self._others[place] = self._connections(request.url)
        headers = checked_headers({name: value for name, value in request.headers.items() if name not in _OWN})
        headers["accept-encoding"] = "identity"
        return await self._deliver(_Request(request.method, request.url, headers, await request.aread()), connections)


def _unknown() -> None:
    """What is known beforehand by an authorisation that has to be asked about every request."""


def _basic(url: httpx2.URL) -> str:
    """What a user and a password in a URL are sent as (RFC 7617)."""
    user, _, password = url.userinfo.partition(b":")
    return "Basic " + b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode("ascii")


def _redirected(request: _Request, status: int, location: str) -> _Request:
    try:
        target = request.url.join(location)
    except (httpx2.InvalidURL, ValueError):
        raise UpstreamError(f"answered with HTTP {named_status(status)}, to no URL") from None
    if status not in _FOLLOWED or origin(target) != origin(request.url):
        raise UpstreamError(
            f"answered with HTTP {named_status(status)}, to {url_for_log(target)}, which is not followed; "
            "if that is the server, configure its URL"
        )
    return request._replace(url=target)


async def _readable(reply: Reply, request: httpx2.Request, whole: bool) -> httpx2.Response:
    """An answer for an authorisation: with its body if it is a refusal, or to something of its own."""
    headers = [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in reply.headers.items()
        if name not in _FRAMING
    ]
    if not whole and reply.status < 400:
        return httpx2.Response(reply.status, headers=headers, request=request)
    try:
        body = await reply.body()
    finally:
        await reply.close()
    reply.again(body)
    return httpx2.Response(reply.status, headers=headers, content=body, request=request)


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
