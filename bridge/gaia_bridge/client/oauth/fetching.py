"""Fetching what a server's words lead to, and never what only we can reach.

Everything that OAuth needs besides the MCP server itself goes through here: metadata documents, registration, tokens.
The name is resolved once, its addresses are checked, and the connection goes to a checked address, so that a name that
stands for something else a moment later changes nothing. TLS still verifies the name.

By way of a proxy, it is the proxy that resolves the name, and decides what it reaches. What this machine knows for an
internal address is refused all the same.

IPv6 has several ways to carry an IPv4 address to where it came from, so the carried one counts too. The tables are
those of IANA's special-purpose address registries, where Python's `ipaddress` is behind them.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal

import anyio
import httpx2

from gaia_bridge.client.oauth.errors import FetchError
from gaia_bridge.client.transport import LaunchError
from gaia_bridge.client.transports.http.http_client import proxy_to
from gaia_bridge.client.transports.http.http_values import origin, reason_of, url_for_log
from gaia_bridge.client.transports.http.tls import verifying_context
from gaia_bridge.client.transports.http.tunnel import refusal_of
from gaia_bridge.config.proxies import Proxy
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.web_addresses import is_loopback_address, is_loopback_host

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Looks up the addresses of a host, in order of preference. Raises `OSError` if it has none."""
_HOPS: Final = 3
"""The most redirects of one request; more are a loop."""
_ADDRESSES: Final = 4
"""The most addresses of one host that are tried."""
_KEEPING_METHOD: Final = (307, 308)
_REDIRECTS: Final = (301, 302, 303, *_KEEPING_METHOD)
_SENT: Final = ("accept", "authorization", "content-type", "mcp-protocol-version")
"""The only headers of a request that are sent. `Authorization` is for a client at its own token endpoint."""
_FRAMING: Final = ("connection", "content-length", "set-cookie", "set-cookie2", "transfer-encoding")
"""Headers of an answer that are left out, since its body was read whole and there are no cookies."""
LONGEST_URL: Final = 8_192
"""The most characters of a URL; more than any server's metadata needs."""

_NEVER: Final = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments; metadata services of some clouds
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv4Network("168.63.129.16/32"),  # looks public, is the host of every Azure machine
    IPv6Network("3fff::/20"),  # documentation (RFC 9637)
)
_UNICAST: Final = IPv6Network("2000::/3")
"""The part of IPv6's global unicast space that IANA has assigned."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""The addresses of IPv4 hosts in networks without IPv4 (RFC 6052). The local variant, 64:ff9b:1::/48, is never
global."""
_ISATAP: Final = 0x0000_5EFE
_UNIVERSAL: Final = 0x0200_0000
"""The bit of an ISATAP interface identifier that marks the carried address as unique (RFC 5214)."""
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, from the system's resolver."""
    entries = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class _UnknownHostError(FetchError):
    """The system's resolver knows no such host."""


class Fetcher:
    """Fetches on behalf of one configured server.

    Public addresses may be fetched over https; an internal address only if it is in the configuration itself, as the
    origin of the server or of an issuer that the user has named. A server on loopback, as in development, may lead to
    other ports of this machine, without TLS there.

    Args:
        issuer: The authorization server, if the user has named it.
        tls: The TLS context that verifies servers; the system's authorities if not given.
    """

    def __init__(
        self,
        server_url: str,
        limits: UpstreamLimits,
        *,
        issuer: str | None = None,
        tls: ssl.SSLContext | None = None,
        resolver: Resolver = resolve,
        proxy: str | Literal[False] | None = None,
    ) -> None:
        configured = [httpx2.URL(url) for url in (server_url, issuer) if url]
        self._limits = limits
        self._local = is_loopback_host(configured[0].host)
        self._configured = {origin(url) for url in configured}
        self._public: set[tuple[str, str, int | None]] = set()
        """Configured origins that were public once: later internal addresses are an attack (DNS rebinding)."""
        self._tls = tls
        self._resolver = resolver
        self._proxy: str | Literal[False] | None = proxy

    async def fetch(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and read the whole answer, after redirects that stay at its origin.

        Only the URL, the content and a few headers are sent. The answer may have any status, also that of a redirect.

        Raises:
            FetchError: The address may not be fetched; or the answer is late or too large.
        """
        seconds = self._limits.fetch_timeout
        try:
            with anyio.fail_after(seconds):
                return await self._follow(request)
        except TimeoutError:
            raise FetchError(f"{url_for_log(request.url)} did not answer within {seconds:g} s") from None

    async def _follow(self, request: httpx2.Request) -> httpx2.Response:
        place = request.url
        for _ in range(_HOPS + 1):
            response = await self._send(request)
            if (following := _redirected(request, response)) is None:
                return response
            request = following
        raise FetchError(f"{url_for_log(place)} redirects in circles")

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        try:
            proxy = proxy_to(request.url, self._proxy)
        except LaunchError as error:
            raise FetchError(f"{url_for_log(request.url)} {error}") from None
        if proxy is not None:
            return await self._by_proxy(request, proxy)
        addresses = await self._addresses(request.url)
        share = self._limits.fetch_timeout / len(addresses)
        failure: httpx2.HTTPError | None = None
        for address in addresses:
            try:
                return await self._exchange(request, address, share)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = failure or error
            except httpx2.HTTPError as error:
                raise FetchError(f"{url_for_log(request.url)} broke off ({reason_of(error)})") from None
        assert failure is not None, "a host has at least one address"
        raise FetchError(f"{url_for_log(request.url)} cannot be reached ({reason_of(failure)})") from None

    async def _by_proxy(self, request: httpx2.Request, proxy: Proxy) -> httpx2.Response:
        with anyio.move_on_after(self._limits.fetch_timeout / 2):
            try:
                await self._addresses(request.url)
            except _UnknownHostError:
                pass  # many networks with a proxy cannot resolve outside names
        way = f"{url_for_log(request.url)} cannot be reached by way of the proxy {proxy}"
        try:
            return await self._exchange(request, None, self._limits.fetch_timeout, proxy)
        except httpx2.ProxyError as error:
            status = int(str(error)[:3]) if str(error)[:3].isdecimal() else 0
            raise FetchError(f"{way} ({refusal_of(proxy, request.url.netloc.decode('ascii'), status, {})})") from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise FetchError(f"{way} ({reason_of(error)})") from None
        except httpx2.HTTPError as error:
            raise FetchError(f"{url_for_log(request.url)} broke off ({reason_of(error)})") from None

    async def _addresses(self, url: httpx2.URL) -> Sequence[str]:
        """Return the addresses of a URL's host; raise `FetchError` if there are none, or they may not be fetched."""
        if problem := url_problem(url, allow_http=self._local):
            raise FetchError(f"it leads to {url_for_log(url)}, which is {problem}")
        host = url.raw_host.decode("ascii")
        try:
            addresses = await self._resolver(host, url.port or {"http": 80}.get(url.scheme, 443))
        except (OSError, UnicodeError) as error:
            raise _UnknownHostError(f"{url_for_log(url)} cannot be found ({reason_of(error)})") from None
        if not addresses:
            raise _UnknownHostError(f"{url_for_log(url)} cannot be found")
        if not self._may_reach(url, addresses):
            expected = "a public one, or that of the 'issuer' in the entry's 'oauth'"
            raise FetchError(f"it leads to {url_for_log(url)}, which is an internal address; expected {expected}")
        return addresses[:_ADDRESSES]

    def _may_reach(self, url: httpx2.URL, addresses: Sequence[str]) -> bool:
        if self._local and all(map(is_loopback_address, addresses)):
            return True
        if url.scheme == "http":
            return False
        place = origin(url)
        if all(map(is_public, addresses)):
            if place in self._configured:
                self._public.add(place)
            return True
        return place in self._configured and place not in self._public

    async def _exchange(
        self, request: httpx2.Request, address: str | None, connect_timeout: float, proxy: Proxy | None = None
    ) -> httpx2.Response:
        """Send one request to an address, or to the host by its name where a proxy resolves that."""
        url = request.url
        headers = {name: value for name, value in request.headers.items() if name in _SENT}
        extensions: dict[str, object] = {"timeout": {"connect": connect_timeout}}
        if url.scheme == "https":
            extensions["sni_hostname"] = url.raw_host.decode("ascii")
        sent = httpx2.Request(
            request.method,
            url.copy_with(host=address or url.host, fragment=None),
            headers={**headers, "accept-encoding": "identity", "host": url.netloc.decode("ascii")},
            content=request.content or None,
            extensions=extensions,
        )
        way = None if proxy is None else _outer(proxy)
        if url.scheme == "http":
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used; trusts nobody
        else:
            tls = self._tls or verifying_context()
        async with httpx2.AsyncHTTPTransport(verify=tls, trust_env=False, proxy=way) as transport:
            response = await transport.handle_async_request(sent)
            try:
                body = await self._body(url, response)
            finally:
                await response.aclose()
        fields = [field for field in response.headers.multi_items() if field[0].lower() not in _FRAMING]
        return httpx2.Response(response.status_code, headers=fields, content=body, request=request)

    async def _body(self, url: httpx2.URL, response: httpx2.Response) -> bytes:
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise FetchError(
                f"{url_for_log(url)} encodes its answer as {one_line(encoding, 40)!r}, though none was asked for"
            )
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > self._limits.fetch_bytes:
                raise FetchError(f"{url_for_log(url)} sent more than {self._limits.fetch_bytes} bytes")
        return bytes(body)


def _outer(proxy: Proxy) -> httpx2.Proxy:
    who = {} if proxy.authorization is None else {"proxy-authorization": proxy.authorization}
    return httpx2.Proxy(str(proxy), headers=who, ssl_context=verifying_context() if proxy.scheme == "https" else None)


def _redirected(request: httpx2.Request, response: httpx2.Response) -> httpx2.Request | None:
    """Return the request that a redirect demands, if it changes neither origin nor meaning."""
    location = response.headers.get("location")
    if response.status_code not in _REDIRECTS or location is None:
        return None
    if request.method != "GET" and response.status_code not in _KEEPING_METHOD:
        return None
    try:
        target = request.url.join(location)
    except (httpx2.InvalidURL, ValueError):
        return None
    if origin(target) != origin(request.url) or target.userinfo:
        return None
    return httpx2.Request(request.method, target, headers=request.headers, content=request.content or None)


def is_public(address: str) -> bool:
    """Whether an address in the form of `getaddrinfo` is public, and carries no other that is not."""
    parsed = ip_address(address)
    if any(parsed.version == network.version and parsed in network for network in _NEVER):
        return False
    if isinstance(parsed, IPv4Address):
        return parsed.is_global and not parsed.is_multicast
    if parsed.ipv4_mapped is not None:
        return is_public(str(parsed.ipv4_mapped))
    if parsed in _NAT64:
        return is_public(str(_low_half(parsed)))
    if parsed.scope_id or parsed not in _UNICAST or not parsed.is_global:
        return False
    return all(is_public(str(carried)) for carried in _carried(parsed))


def _carried(address: IPv6Address) -> Iterator[IPv4Address]:
    if address.sixtofour is not None:
        yield address.sixtofour
    if (int(address) >> 32) & 0xFFFF_FFFF & ~_UNIVERSAL == _ISATAP:
        yield _low_half(address)


def _low_half(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)


def url_problem(url: httpx2.URL, *, allow_http: bool) -> str:
    """Return the reason why a URL may not be fetched or opened, whatever its host is; empty if there is none.

    An odd spelling is refused, not interpreted: another program might read it differently than this check.
    """
    if url.scheme != "https" and not (allow_http and url.scheme == "http"):
        return "not https"
    if len(str(url)) > LONGEST_URL:
        return "too long"
    if url.userinfo:
        return "with a user name in it"
    if url.port is not None and not 0 < url.port < 65_536:
        return "with an impossible port"
    return "" if _is_plain_host(url.raw_host.decode("ascii", "replace").lower()) else "with an odd host"


def _is_plain_host(host: str) -> bool:
    """Whether a host is an address in its usual spelling, or a name that no resolver reads as an address."""
    try:
        return "%" not in host and bool(ip_address(host))
    except ValueError:
        pass
    labels = host.split(".")
    # Some resolvers read a host whose last label is a number as an address: 127.1, 0x7f000001 (WHATWG URL, 3.5).
    numeric = labels[-1].isdigit() or labels[-1].startswith("0x")
    return len(host) <= 253 and not numeric and all(_LABEL.fullmatch(label) for label in labels)
