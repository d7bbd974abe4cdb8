"""TLS to servers: nobody is told anything who is not verified, and the error says what is wrong and what to do."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx2
import pytest
import trustme

from gaia_bridge.client.oauth.errors import FetchError
from gaia_bridge.client.oauth.fetching import Fetcher
from gaia_bridge.client.transport import LaunchError, UpstreamError
from gaia_bridge.client.transports.http.http_client import HttpClient
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits
from tests.servers.evil_http import evil_http

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

LIMITS = UpstreamLimits(http_connect_timeout=4, fetch_timeout=2)
TOKEN = "t0ken-of-somebody"
HANDSHAKE = b"\x16"
"""What the first record of TLS begins with."""

Certify = Callable[[trustme.CA], trustme.LeafCert]


async def answer_of(url: str, limits: UpstreamLimits = LIMITS) -> int:
    """The status of a request with a token."""
    client = HttpClient(HttpServerSpec("up", url, {"Authorization": f"Bearer {TOKEN}"}), limits)
    try:
        with anyio.fail_after(5):
            reply = await client.send("POST", {}, b"{}")
            await reply.close()
            return reply.status
    finally:
        await client.close()


async def failure_of(url: str, limits: UpstreamLimits = LIMITS) -> str:
    with pytest.raises(UpstreamError) as caught:
        await answer_of(url, limits)
    return str(caught.value)


@asynccontextmanager
async def listening(answer: bytes | None) -> AsyncGenerator[tuple[str, bytearray]]:
    """What listens without TLS: the URL that it does not deserve, and what it was sent.

    Args:
        answer: What it says to the first bytes that come; `None` if it says nothing and waits.
    """
    heard = bytearray()
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(65_536))
        if answer is None:
            await over.wait()
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", heard
    finally:
        over.set()
        server.close()


def tls_of(leaf: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
    return context


@pytest.mark.usefixtures("trusted")
@pytest.mark.requirement("F-065")
async def test_a_certificate_of_a_known_authority_is_accepted(authority: trustme.CA) -> None:
    async with evil_http(tls_of(authority.issue_cert("127.0.0.1"))) as server:
        assert await answer_of(server.url()) == 202


def of_nobody(_: trustme.CA) -> trustme.LeafCert:
    return trustme.CA().issue_cert("127.0.0.1")


def of_yesterday(known: trustme.CA) -> trustme.LeafCert:
    return known.issue_cert("127.0.0.1", not_after=datetime(2020, 1, 1, tzinfo=UTC))


def of_tomorrow(known: trustme.CA) -> trustme.LeafCert:
    return known.issue_cert("127.0.0.1", not_before=datetime(2090, 1, 1, tzinfo=UTC))


def of_another(known: trustme.CA) -> trustme.LeafCert:
    return known.issue_cert("elsewhere.example")


REFUSED: list[tuple[Certify, str, str]] = [
    (of_nobody, "unable to get local issuer certificate", "have SSL_CERT_FILE name a file"),
    (of_yesterday, "certificate has expired", "its operator has to renew it"),
    (of_tomorrow, "certificate is not yet valid", "the clock of this machine"),
    (of_another, "IP address mismatch", "its URL has to name the host"),
]


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(("certify", "reason", "advice"), REFUSED)
@pytest.mark.requirement("F-065", "F-350")
async def test_an_invalid_certificate_is_refused_with_the_reason_and_what_to_do(
    authority: trustme.CA, certify: Certify, reason: str, advice: str
) -> None:
    async with evil_http(tls_of(certify(authority))) as server:
        failure = await failure_of(server.url())
        assert f"its certificate is not valid: {reason}" in failure
        assert advice in failure
        assert TOKEN not in failure
        assert not server.seen


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(("certify", "reason", "advice"), REFUSED)
@pytest.mark.requirement("F-350")
async def test_an_authorization_server_with_an_invalid_certificate_is_sent_nothing(
    authority: trustme.CA, certify: Certify, reason: str, advice: str
) -> None:
    async with evil_http(tls_of(certify(authority))) as server:
        fetcher = Fetcher(server.url(), LIMITS)
        with pytest.raises(FetchError, match=advice):
            await fetcher.fetch(httpx2.Request("POST", server.url("token"), content=f"refresh_token={TOKEN}".encode()))
        assert not server.seen


@pytest.mark.usefixtures("trusted")
@pytest.mark.requirement("F-065", "F-350")
async def test_an_outdated_version_of_tls_is_refused(authority: trustme.CA) -> None:
    context = tls_of(authority.issue_cert("127.0.0.1"))
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with evil_http(context) as server:
        assert "cannot be reached" in await failure_of(server.url())
        assert not server.seen


@pytest.mark.requirement("F-350")
@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"]
)
async def test_what_speaks_no_tls_is_named_and_told_nothing(answer: bytes) -> None:
    async with listening(answer) as (url, heard):
        assert "it does not speak TLS there; the URL of a server without TLS begins with http://" in await failure_of(
            url
        )
    assert heard.startswith(HANDSHAKE)
    assert TOKEN.encode() not in heard


@pytest.mark.requirement("F-350")
@pytest.mark.parametrize("alert", [40, 70])  # handshake_failure, protocol_version (RFC 8446, section 6)
async def test_a_server_that_speaks_another_tls_is_told_from_one_that_speaks_none(alert: int) -> None:
    async with listening(bytes([0x15, 3, 3, 0, 2, 2, alert])) as (url, _):
        assert "no version and cipher of TLS in common with us, who want TLS 1.2 or newer" in await failure_of(url)


@pytest.mark.requirement("F-350")
async def test_a_handshake_that_is_broken_off_is_an_error_of_one_line() -> None:
    async with listening(b"") as (url, heard):
        failure = await failure_of(url)
    assert failure.startswith("cannot be reached at https://127.0.0.1:")
    assert "\n" not in failure
    assert TOKEN.encode() not in heard


@pytest.mark.requirement("F-350")
async def test_a_handshake_that_stands_still_is_given_up() -> None:
    async with listening(None) as (url, heard):
        assert "took no connection at" in await failure_of(url, UpstreamLimits(http_connect_timeout=0.2))
    assert TOKEN.encode() not in heard


@pytest.mark.requirement("F-350")
@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), ("", "it has no certificate"), ("no PEM", "it has no certificate")]
)
async def test_a_file_of_authorities_that_cannot_be_used_is_named(
    content: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_text(content, "utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(LaunchError) as caught:
        await answer_of("https://127.0.0.1:9/mcp")
    assert f"SSL_CERT_FILE is {str(file)!r}, which cannot be used ({reason}" in str(caught.value)
    with pytest.raises(UpstreamError, match="SSL_CERT_FILE"):
        await Fetcher("https://127.0.0.1:9/mcp", LIMITS).fetch(httpx2.Request("GET", "https://127.0.0.1:9/token"))
