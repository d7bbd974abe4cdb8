"""An HTTP client that trusts no server: everything is bounded; no cookies, no redirects to other origins.

One `HttpClient` belongs to one upstream server and keeps its connections. Authorisation works as in httpx2
(`httpx2.Auth`), but its requests are sent by this client as well. Whether a proxy is on the way is decided once for
each origin. Bodies that are compressed although it was asked not to be are decoded in pieces of bounded size.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable
from urllib.parse import unquote_to_bytes

import httpx2

from gaia_bridge.client.transport import LaunchError, UnreachableError, UpstreamError
from gaia_bridge.client.transports.budgets import Share
from gaia_bridge.client.transports.http.connections import (
    ConnectError,
    Connections,
    ConnectTimeoutError,
    ProxyError,
    Way,
    connect_directly,
)
from gaia_bridge.client.transports.http.http1 import (
    PIECE,
    ClosedError,
    Http1Error,
    Response,
    SendTimeoutError,
    Watcher,
)
from gaia_bridge.client.transports.http.http_values import (
    LONGEST_WAIT,
    checked_headers,
    named_status,
    origin,
    reason_of,
    retry_after,
    url_for_log,
    usable_url,
)
from gaia_bridge.client.transports.http.tls import verifying_context
from gaia_bridge.config.proxies import Proxy, ProxyAddressError, proxy_for
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import one_line

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"]
_HOPS: Final = 3
"""The most redirects of one request."""
_FOLLOWED: Final = (307, 308)
"""The redirects that keep method and body (RFC 9110, section 15.4)."""
_REDIRECTS: Final = (301, 302, 303, *_FOLLOWED)
_WITHOUT_BODY: Final = ("GET", "HEAD")
"""Methods that every redirect keeps (RFC 9110, section 15.4)."""
_WITH_BODY: Final = ("POST", "PUT", "PATCH")
"""Methods whose requests have a `Content-Length` even without a body (RFC 9110, section 8.6)."""
_LENGTH: Final = b"Content-Length: %d\r\n\r\n"
"""In its usual spelling: proxy.py adds another one to any other, and servers refuse two."""
_OWN: Final = ("accept-encoding", "connection", "content-length", "host", "transfer-encoding")
"""Headers that httpx2 adds to its requests; this client sets its own."""
_FRAMING: Final = ("content-encoding", "content-length", "transfer-encoding")
_EITHER: Final = zlib.MAX_WBITS | 32
"""Lets zlib recognize gzip or its own format."""
_BARE: Final = -zlib.MAX_WBITS
"""The bare format, which some servers send as `deflate`."""


class Authorization(Protocol):
    """Authorises requests; every `httpx2.Auth` implements this."""

    def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the requests to be sent; each yield returns the response. See `httpx2.Auth.async_auth_flow`."""
        ...


@runtime_checkable
class _HeaderSource(Authorization, Protocol):
    """An authorisation that may have the headers of a request in advance."""

    def known_headers(self) -> Mapping[str, str] | None:
        """Return the headers with which the flow would send a request, and accept any response but 401 and 403.

        `None` if the flow has to be run.
        """
        ...


class BrokenOffError(UpstreamError):
    """The connection ended before the response was complete."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"broke off before it answered ({reason}); whether it did the work is unknown")


class HttpReply:
    """The response to one HTTP request, with a decoded body of at most `limit` bytes. Must be finished or closed.

    Args:
        proxy: The proxy that received the request, if it was not sent to the server itself.

    Raises:
        UpstreamError: The body has an unsupported content encoding.
    """

    def __init__(self, response: Response, limit: int, proxy: Proxy | None = None) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        """By lowercase names."""
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.ended = False
        """Whether the whole body was read."""
        self._response = response
        self._limit = limit
        self._proxy = proxy
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
        """Wait for the next bytes of the body, decoded; empty at its end. Raises `UpstreamError` as `body` does."""
        try:
            piece = await self._read()
        except UndecodableError:
            raise UpstreamError("sent a body that is not encoded as it says") from None
        except (ClosedError, Http1Error) as error:
            raise BrokenOffError(reason_of(error)) from None
        self.ended = not piece
        return piece

    async def body(self) -> bytes:
        """Wait for the whole body; raise `UpstreamError` if it is too large or incomplete."""
        parts: list[bytes] = []
        size = 0
        while part := await self.read():
            size += len(part)
            if size > self._limit:
                raise UpstreamError(f"sent more than {self._limit} bytes in one answer")
            parts.append(part)
        return b"".join(parts)

    def finish(self, seconds: float) -> asyncio.Future[None]:
        """Discard the rest of the body; see `Response.finish`."""
        return self._response.finish(seconds)

    async def close(self) -> None:
        """Discard the response. If its body is incomplete, the connection is closed."""
        self._response.close()

    def again(self, body: bytes) -> None:
        """Let the body be read once more."""
        pieces = [b"", body]

        async def read() -> bytes:
            return pieces.pop() if pieces else b""

        self._read = read
        self.ended = False

    def refusal(self, words: str = "") -> UpstreamError:
        """Return the error for a status that is not the expected one, with the text of the response on one line."""
        wait = retry_after(self.headers.get("retry-after"))
        hint = ""
        if wait is not None:
            hint = f", and asks to be tried again after {'a day or more' if wait >= LONGEST_WAIT else f'{wait:g} s'}"
        if self._proxy is not None:
            hint += f"; that may be an answer of the proxy {self._proxy} itself"
        return UpstreamError(f"answered with HTTP {named_status(self.status)}{hint}{words and f': {words}'}", wait)


class _Route(NamedTuple):
    """The way to one origin."""

    connections: Connections
    proxy: Proxy | None
    before_path: str = ""
    """The beginning of each request target: the origin, for a proxy that gets the request itself (RFC 9112, 3.2.2)."""
    fields: str = ""
    """Header lines for such a proxy."""


class _Request(NamedTuple):
    """One HTTP request."""

    method: str
    url: httpx2.URL
    headers: Mapping[str, str]
    """By lowercase names; validated, and without `Host` and `Content-Length`."""
    body: bytes | None

    def encoded(self, route: _Route) -> bytes:
        """Return the request as it is sent."""
        body = self.body or b""
        length = _LENGTH % len(body) if body or self.method in _WITH_BODY else b"\r\n"
        return self.head(route) + length + body

    def head(self, route: _Route) -> bytes:
        """Return the lines before that of the length."""
        url = self.url
        target = f"{route.before_path}{url.raw_path.decode('ascii')}"
        head = f"{self.method} {target} HTTP/1.1\r\nhost: {url.netloc.decode('ascii')}\r\n{route.fields}"
        fields = "".join([f"{name}: {value}\r\n" for name, value in self.headers.items()])
        return f"{head}{fields}".encode("ascii")


class Posted(NamedTuple):
    """A request that was sent, whose response has not begun."""

    request: _Request
    """Without its body."""
    body: bytes
    response: Response


class HttpClient:
    """The HTTP connections to one server, whose requests `auth` authorises, if the server needs that.

    Raises:
        UpstreamError: The URL, a header or the TLS configuration is invalid.
    """

    def __init__(self, spec: HttpServerSpec, limits: UpstreamLimits, auth: Authorization | None = None) -> None:
        url = usable_url(spec.url)
        self.url = url.copy_with(userinfo=b"", fragment=None)
        self._headers = checked_headers(spec.headers)
        if auth is None and url.userinfo:
            self._headers["authorization"] = _basic(url)
        self.authorises = auth is not None or "authorization" in self._headers
        """Whether requests are authorised, by `auth` or by a configured header."""
        self.secrets = (*spec.headers.values(), *spec.options.secrets)
        """The configured values that must not be shown."""
        self._headers["accept-encoding"] = "identity"
        self._auth = auth
        self._known_headers = auth.known_headers if isinstance(auth, _HeaderSource) else _unknown
        self._limits = limits
        self._share = partial(Share, limits.loop_share, limits.loop_burst, asyncio.get_running_loop().time)
        self._proxy: str | Literal[False] | None = spec.proxy
        self._own = self._route(self.url)
        self._others: dict[tuple[str, str, int], _Route] = {}
        self._post: tuple[Mapping[str, str], Mapping[str, str] | None, _Request, bytes] | None = None
        """The last request of `post`, with the headers that were given for it, and its head: most have the same."""

    async def close(self) -> None:
        for route in (self._own, *self._others.values()):
            route.connections.close()

    def post(self, headers: Mapping[str, str], body: bytes, watcher: Watcher) -> Posted | None:
        """Send a POST at once, for `reply_to`; return `None` if no connection is idle, or `auth` has to be asked first.

        Raises:
            UpstreamError: A header is invalid.
        """
        proof = self._known_headers()
        if proof is None and self._auth is not None:
            return None
        if self._post is None or self._post[0] != headers or self._post[1] != proof:
            fields = {**self._headers, **checked_headers(headers)}
            request = _Request("POST", self.url, fields if proof is None else _authorised(fields, proof), None)
            self._post = headers, proof, request, request.head(self._own)
        _, _, request, head = self._post
        response = self._own.connections.begin(head + _LENGTH % len(body) + body, watcher)
        return None if response is None else Posted(request, body, response)

    async def reply_to(self, posted: Posted) -> HttpReply:
        """Wait for the head of the response to a request that was sent by `post`. Like `send`."""
        return await self._sent(posted.request._replace(body=posted.body), posted.response, insist=True)

    async def send(
        self,
        method: Method,
        headers: Mapping[str, str],
        body: bytes | None = None,
        url: httpx2.URL | None = None,
        *,
        insist: bool = True,
    ) -> HttpReply:
        """Send one request and wait for the head of the response. Cancelling closes the connection.

        Args:
            headers: Headers of this request; they override configured headers.
            url: The URL, if it is not the configured one; of the same origin.
            insist: Whether `auth` may react to a 401 or 403, which may involve a user. Not for background requests.

        Raises:
            BrokenOffError: The connection ended before the response.
            UnreachableError: No connection could be opened.
            UpstreamError: The request was not received in time, redirected elsewhere, or not authorised.
        """
        request = _Request(method, url or self.url, {**self._headers, **checked_headers(headers)}, body)
        return await self._sent(request, None, insist=insist)

    async def _sent(self, request: _Request, begun: Response | None, *, insist: bool) -> HttpReply:
        try:
            if self._auth is None:
                return await self._deliver(request, self._own, begun)
            return await self._authorised(request, self._auth, insist, begun)
        except SendTimeoutError:
            raise UpstreamError(f"did not take the request within {self._limits.write_timeout:g} s") from None
        except (ClosedError, Http1Error, httpx2.HTTPError) as error:  # the last is one of an authorisation
            raise BrokenOffError(reason_of(error)) from None

    def _route(self, url: httpx2.URL) -> _Route:
        limits = self._limits
        proxy = proxy_to(url, self._proxy)
        host, port = url.raw_host.decode("ascii"), origin(url)[2]
        tls = verifying_context() if url.scheme == "https" else None
        # Some proxies, as proxy.py, relay later requests of a connection unchanged, with the proxy's password in them.
        tells_password = proxy is not None and tls is None and proxy.authorization is not None
        connections = Connections(
            partial(connect_directly, host, port, tls) if proxy is None else _by(proxy, host, port, tls),
            connect_timeout=limits.http_connect_timeout,
            write_timeout=limits.write_timeout,
            keep_alive=0 if tells_password else limits.http_keep_alive,
            alive_after=limits.http_alive_after,
            share=self._share,
        )
        if proxy is None or tls is not None:
            return _Route(connections, proxy)
        who = proxy.authorization
        fields = "" if who is None else f"proxy-authorization: {who}\r\n"
        return _Route(connections, proxy, f"http://{url.netloc.decode('ascii')}", fields)

    async def _deliver(self, request: _Request, route: _Route, begun: Response | None = None) -> HttpReply:
        """Send a request, if that was not begun, and follow redirects within its origin."""
        proxy = route.proxy if route.before_path else None
        try:
            for _ in range(_HOPS + 1):
                if begun is None:
                    response = await route.connections.send(request.encoded(route))
                else:
                    response, begun = begun, None
                    await response.begin()
                if proxy is not None and response.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
                    from gaia_bridge.client.transports.http.tunnel import refusal_of  # most have no proxy

                    response.close()
                    to = request.url.netloc.decode("ascii")
                    raise ProxyError(refusal_of(proxy, to, response.status, response.headers))
                location = response.headers.get("location")
                if response.status not in _REDIRECTS or location is None:
                    return HttpReply(response, self._limits.message_bytes, proxy)
                response.close()
                request = _redirected(request, response.status, location)
        except ConnectError as error:
            raise self._unreachable(error, request.url, route.proxy) from None
        raise UpstreamError("redirects in circles")

    def _unreachable(self, error: ConnectError, url: httpx2.URL, proxy: Proxy | None) -> UnreachableError:
        place = url_for_log(url)
        if isinstance(error, ConnectTimeoutError):
            return UnreachableError(f"took no connection at {place} within {self._limits.http_connect_timeout:g} s")
        way = "" if proxy is None else f" by way of the proxy {proxy}"
        reason = str(error) if isinstance(error, ProxyError) else reason_of(error)
        return UnreachableError(f"cannot be reached at {place}{way}: {reason}")

    async def _authorised(
        self, request: _Request, auth: Authorization, insist: bool, begun: Response | None
    ) -> HttpReply:
        """Send a request with known headers if possible, and run the flow of `auth` only if that is not enough."""
        if begun is None:
            if (fields := self._known_headers()) is None:
                return await self._discussed(request, auth, insist, None)
            request = request._replace(headers=_authorised(request.headers, fields))
        reply = await self._deliver(request, self._own, begun)
        if reply.status not in (401, 403) or not insist:
            return reply
        try:
            return await self._discussed(request, auth, insist, reply)
        except BaseException:
            await reply.close()
            raise

    async def _discussed(
        self, request: _Request, auth: Authorization, insist: bool, reply: HttpReply | None
    ) -> HttpReply:
        """Run the flow of `auth` and send its requests; the bodies that it may read are bounded.

        The reply is the response to the original request, if that was sent already.
        """
        first = httpx2.Request(request.method, request.url, headers=request.headers, content=request.body)
        flow = auth.async_auth_flow(first)
        answer: HttpReply | None = None
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

    async def _deliver_for(self, request: httpx2.Request) -> HttpReply:
        """Send a request of an authorisation flow."""
        place = origin(request.url)
        route = self._own if place == origin(self.url) else self._others.get(place)
        if route is None:
            route = self._others[place] = self._route(request.url)
        headers = checked_headers({name: value for name, value in request.headers.items() if name not in _OWN})
        headers["accept-encoding"] = "identity"
        return await self._deliver(_Request(request.method, request.url, headers, await request.aread()), route)


def _authorised(headers: Mapping[str, str], proof: Mapping[str, str]) -> dict[str, str]:
    """Return headers with those of an authorisation."""
    others = {name: value for name, value in headers.items() if name != "authorization"}
    return {**others, **checked_headers(proof)}


def proxy_to(url: httpx2.URL, named: str | Literal[False] | None) -> Proxy | None:
    """Return the proxy for a URL, if the entry (`named`) or the environment has one; `LaunchError` if it is bad."""
    scheme, _, port = origin(url)
    try:
        return proxy_for(scheme, url.raw_host.decode("ascii"), port, named, os.environ)
    except ProxyAddressError as error:
        raise LaunchError(f"cannot be reached: {error}") from None


def _by(proxy: Proxy, host: str, port: int, tls: ssl.SSLContext | None) -> Way:
    from gaia_bridge.client.transports.http.tunnel import ByProxy  # most have no proxy

    return ByProxy(proxy, host, port, tls).connect


def _unknown() -> None:
    """Return `None`: the known headers of an authorisation whose flow must run for every request."""


def _basic(url: httpx2.URL) -> str:
    """Return the `Authorization` header for a user and a password in a URL (RFC 7617)."""
    user, _, password = url.userinfo.partition(b":")
    return "Basic " + b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode("ascii")


def _redirected(request: _Request, status: int, location: str) -> _Request:
    try:
        target = request.url.join(location)
    except (httpx2.InvalidURL, ValueError):
        raise UpstreamError(f"answered with HTTP {named_status(status)}, to no URL") from None
    is_kept = status in _FOLLOWED or request.method in _WITHOUT_BODY
    if not is_kept or origin(target) != origin(request.url):
        raise UpstreamError(
            f"answered with HTTP {named_status(status)}, to {url_for_log(target)}, which is not followed; "
            "if that is the server, configure its URL"
        )
    return request._replace(url=target)


async def _readable(reply: HttpReply, request: httpx2.Request, whole: bool) -> httpx2.Response:
    """Convert a response for an authorisation flow; its body is read if it is an error, or `whole` is set."""
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
    """Return the next request of an authorisation flow, or `None` at its end."""
    try:
        return await (anext(flow) if response is None else flow.asend(response))
    except StopAsyncIteration:
        return None
    except (UpstreamError, httpx2.HTTPError):
        raise
    except Exception as error:  # any error of an authorisation fails this server only; its text may be secret
        raise UpstreamError(f"could not be authorised ({type(error).__name__})") from error


class UndecodableError(Exception):
    """The body is not in the encoding that its headers declare."""


class Decoder:
    """Decodes a body. One byte may decode to a thousand, so decoding proceeds only as far as the reader asks."""

    CODINGS: Final = ("gzip", "deflate")

    def __init__(self, coding: str, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read_on = read
        self._zlib = zlib.decompressobj(_EITHER)
        self._may_be_bare = coding == "deflate"
        self._rest = b""

    async def read(self) -> bytes:
        """Wait for the next bytes, decoded; empty at the end of the body. Raises `UndecodableError`."""
        while True:
            if self._rest:
                await asyncio.sleep(0)
            elif not (data := await self._read_on()):
                return b""
            else:
                self._rest = data
            if piece := self._decoded():
                return piece

    def _decoded(self) -> bytes:
        data = self._rest
        try:
            try:
                piece = self._zlib.decompress(data, PIECE)
            except zlib.error:
                if not self._may_be_bare:
                    raise
                self._zlib = zlib.decompressobj(_BARE)
                piece = self._zlib.decompress(data, PIECE)
        except zlib.error as error:
            raise UndecodableError(str(error)) from None
        self._may_be_bare = False
        self._rest = self._zlib.unconsumed_tail
        return piece
