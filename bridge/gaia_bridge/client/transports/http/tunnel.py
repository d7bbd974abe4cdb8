"""Connections by way of an HTTP proxy, and sentences about failures.

A server over https is reached through a tunnel (`CONNECT`), in which only that server can read the data; requests to
one over http are sent to the proxy, which reads everything.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar

from gaia_bridge.client.transports.http.connections import ConnectError, Make, ProxyError, first_connected
from gaia_bridge.client.transports.http.http1 import Abortable, Http1Connection
from gaia_bridge.client.transports.http.http_values import named_status, reason_of
from gaia_bridge.client.transports.http.tls import OF_UNKNOWN_AUTHORITY, verifying_context
from gaia_bridge.config.proxies import Proxy
from gaia_bridge.constants import KIB
from gaia_bridge.text.escaping import one_line

C = TypeVar("C", bound=Abortable)
_HEAD: Final = 100 * KIB
"""The most bytes of the head of a proxy's answer."""
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_INTERIM: Final = re.compile(rb"HTTP/1\.[01] 1\d\d\b")
_STATUS: Final = re.compile(r"HTTP/1\.[01] ([1-9]\d\d)(?: .*)?")
_UNREACHED: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
_NO_PROXY: Final = (400, 404, 405, 501)
"""The statuses with which servers answer that are no proxies."""


class ByProxy:
    """The way to a server by a proxy; without `tls`, the server has none. Its `connect` is a `connections.Way`.

    Args:
        host: The server, in ASCII.

    Raises:
        LaunchError: The authorities that verify the proxy cannot be read.
    """

    def __init__(self, proxy: Proxy, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._proxy = proxy
        self._proxy_tls = verifying_context() if proxy.scheme == "https" else None
        self._host = host
        self._port = port
        self._tls = tls

    async def connect(self, make: Make, seconds: float) -> Http1Connection:
        """Open a connection; see `connections.Way`."""
        tunnel: _Tunnel | None = None
        try:
            async with asyncio.timeout(seconds):
                if self._tls is None:
                    return await self._at_proxy(make)
                tunnel = await self._at_proxy(lambda: _Tunnel(self._proxy, self._host, self._port))
                connection = make()
                await tunnel.open(connection, self._tls)
                return connection
        except TimeoutError as error:
            if error.errno is not None:
                raise self._failure(error, tunnel) from error
            what = "takes no connection" if tunnel is None else "opened no connection to it"
            raise ProxyError(f"the proxy {what} within {seconds:g} s; {self._doubt}") from None
        except (OSError, ValueError, OverflowError) as error:  # also of a host that the system cannot look up
            raise self._failure(error, tunnel) from error

    async def _at_proxy(self, make: Callable[[], C]) -> C:
        return await first_connected(self._proxy.host, self._proxy.port, self._proxy_tls, make)

    def _failure(self, error: Exception, tunnel: _Tunnel | None) -> ConnectError:
        if tunnel is None:
            return ProxyError(f"the proxy takes no connection ({reason_of(error)}); {self._doubt}")
        if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in OF_UNKNOWN_AUTHORITY:
            return ProxyError(f"{reason_of(error)}; a proxy that reads what passes has an authority of its own")
        return ConnectError(str(error))

    @property
    def _doubt(self) -> str:
        return f"does it run, is this its network, and is {self._proxy.named_by} right?"


class _Tunnel(Abortable):
    """A connection to a proxy that carries bytes to one server, once the proxy has agreed (RFC 9110, section 9.3.6)."""

    def __init__(self, proxy: Proxy, host: str, port: int) -> None:
        self._proxy = proxy
        self._host = host
        self._to = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._transport: Any = None
        self._came = b""
        self._head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def open(self, within: asyncio.Protocol, tls: ssl.SSLContext) -> None:
        """Let the proxy connect to the server, and start TLS with the server. Cancelling closes the connection.

        From then on, `within` is the protocol of the connection. Raises `OSError` or `ProxyError`.
        """
        try:
            await self._agree()
            transport = await asyncio.get_running_loop().start_tls(
                self._transport, within, tls, server_hostname=self._host
            )
        except BaseException:
            self.abort()
            raise
        if transport is None:
            raise ConnectionResetError("the connection was closed")
        within.connection_made(transport)

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _agree(self) -> None:
        who = self._proxy.authorization
        fields = f"host: {self._to}\r\n" + (f"proxy-authorization: {who}\r\n" if who else "")
        self._transport.write(f"CONNECT {self._to} HTTP/1.1\r\n{fields}\r\n".encode("ascii"))
        status, headers = _parsed(await self._head)
        is_page = headers.get("content-type", "").lower().startswith("text/html")
        if not 200 <= status < 300 or self._came or is_page:
            raise ProxyError(refusal_of(self._proxy, self._to, status, headers))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection, which the proxy has accepted."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Collect the head of the proxy's answer; further data is not parsed."""
        self._came += data
        while not self._head.done() and (end := _END_OF_HEAD.search(self._came)):
            head, self._came = self._came[: end.start()], self._came[end.end() :]
            if not _INTERIM.match(head):
                self._head.set_result(head)
        if len(self._came) > _HEAD:
            self._fail(f"the proxy sent more than {_HEAD} bytes of headers")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the tunnel, since the proxy has closed the connection."""
        why = reason_of(exc) if exc else "it closed the connection"
        self._fail(f"the proxy did not answer ({why}); is {self._proxy.named_by} right?")

    def _fail(self, why: str) -> None:
        if not self._head.done():
            self._head.set_exception(ProxyError(why))
        self.abort()


def refusal_of(proxy: Proxy, to: str, status: int, headers: Mapping[str, str]) -> str:
    """Explain why a proxy does not connect to a server, by its answer, with advice.

    The status is 0 if the answer is no HTTP; names of headers are in lower case.
    """
    code = f"HTTP {named_status(status)}"
    if status in (HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, HTTPStatus.UNAUTHORIZED):  # the latter: tinyproxy
        return _login(proxy, status, headers.get("proxy-authenticate", ""))
    if status == HTTPStatus.FORBIDDEN:
        return (
            f"the proxy does not allow a connection to {to} ({code}); ask who runs it, "
            "or name the host in NO_PROXY if it can be reached directly"
        )
    if status in _UNREACHED:
        return f"the proxy does not reach {to} ({code})"
    if 200 <= status < 400:
        return (
            f"the proxy answered with a web page in place of a connection ({code}): log in to this network in a "
            f"browser, or mend {proxy.named_by} if what answers at {proxy} is no proxy"
        )
    if not status or status in _NO_PROXY:
        came = code if status else "something that is no HTTP"
        return f"what answers at {proxy} is no proxy, it seems ({came}); is {proxy.named_by} right?"
    return f"the proxy opened no connection to {to} ({code})"


def _login(proxy: Proxy, code: int, offered: str) -> str:
    """Explain the login that a proxy demands, with advice."""
    status = f"HTTP {code}"
    if offered and not re.search(r"(?i)(?:^|[\s,])basic(?:[\s,]|$)", offered):
        return (
            f"the proxy wants a login of another kind than Basic ({status}: {one_line(offered, 60)}); have a program "
            f"of this machine log in to it, such as px or cntlm, and name that program's address in {proxy.named_by}"
        )
    if proxy.authorization is None:
        return (
            f"the proxy wants to know who asks ({status}); "
            f"add it to {proxy.named_by}: {proxy.scheme}://USER:PASSWORD@HOST:PORT"
        )
    return (
        f"the proxy does not accept the user and password in {proxy.named_by} ({status}); "
        "are they right, and is what is special in them percent-encoded?"
    )


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    """Parse the status and headers of an answer; the status is 0 if it is not HTTP."""
    first, *lines = head.decode("latin-1").splitlines() or [""]
    status = _STATUS.fullmatch(first)
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        key, text = name.strip().lower(), value.strip()
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return (int(status[1]) if status else 0), headers
