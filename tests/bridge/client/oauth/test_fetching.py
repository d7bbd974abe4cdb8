"""The guarded fetcher: where it goes, and that it goes nowhere else. The canary counts every connection."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import anyio
import httpx2
import pytest
import trustme

from gaia_bridge.client.oauth.errors import FetchError
from gaia_bridge.client.oauth.fetching import Fetcher, Resolver, is_public, resolve, url_problem
from gaia_bridge.settings import UpstreamLimits
from tests.servers.evil_http import EvilServer, Exchange, evil_http

pytestmark = pytest.mark.anyio

LIMITS = UpstreamLimits(fetch_timeout=5.0, fetch_bytes=10_000)
REMOTE = "https://mcp.example.com/mcp"

PUBLIC = ["93.184.216.34", "192.0.78.9", "2606:4700::1111", "64:ff9b::5db8:d822", "2002:5db8:d822::1"]

INTERNAL = [
    "0.0.0.0",
    "10.0.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.192",
    "192.168.1.1",
    "192.88.99.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::10.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::5db8:d822",
    "2001:0:5db8:d822:0:0:f5ff:fffe",
    "2001:0:a00:1::",
    "2001:db8::1",
    "2002:0a00:1::",
    "2002:7f00:1::",
    "2600:1f00::5efe:a00:1",
    "2600:1f00::200:5efe:7f00:1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
]


@pytest.fixture
async def server() -> AsyncGenerator[EvilServer]:
    async with evil_http() as evil:
        with anyio.fail_after(10):
            yield evil


def names(**known: str | Sequence[str]) -> Resolver:
    """A resolver that knows a few names, written with `_` for `.`; what is an address stands for itself."""

    async def found(host: str, port: int) -> Sequence[str]:
        answer = known.get(host.replace(".", "_"))
        if answer is None:
            return await resolve(host, port)
        return [answer] if isinstance(answer, str) else answer

    return found


def get(url: str) -> httpx2.Request:
    return httpx2.Request("GET", url)


async def refusal(fetcher: Fetcher, request: httpx2.Request) -> str:
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(request)
    return str(caught.value)


@pytest.mark.requirement("S-22", "C-15", "C-16")
@pytest.mark.parametrize(
    "place",
    [
        "https://127.0.0.1:{port}/latest/meta-data",
        "http://127.0.0.1:{port}/",
        "https://127.1:{port}/",
        "https://0x7f000001:{port}/",
        "https://2130706433:{port}/",
        "https://localhost:{port}/",
        "https://localhost.:{port}/",
        "https://0.0.0.0:{port}/",
        "https://[::1]:{port}/",
        "https://[::ffff:127.0.0.1]:{port}/",
        "https://[64:ff9b::7f00:1]:{port}/",
        "https://[2002:7f00:1::]:{port}/",
        "https://mcp.example.com@127.0.0.1:{port}/",
        "https://127.0.0.1:{port}#@mcp.example.com/",
        "https://internal.example.com:{port}/",
        "https://half.example.com:{port}/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::a00:1]/",
        "https://[2002:0a00:1::]/",
    ],
)
async def test_a_public_server_leads_to_no_internal_address(server: EvilServer, place: str) -> None:
    resolver = names(internal_example_com="127.0.0.1", half_example_com=("93.184.216.34", "127.0.0.1"))
    fetcher = Fetcher(REMOTE, LIMITS, resolver=resolver)
    assert "it leads to" in await refusal(fetcher, get(place.format(port=server.canary_port)))
    assert server.canary_hits == 0


@pytest.mark.requirement("S-22", "C-16")
async def test_a_name_is_resolved_once_and_the_checked_address_is_used(
    server: EvilServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    sent: list[httpx2.Request] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["93.184.216.34"] if len(asked) == 1 else ["127.0.0.1"]

    async def handle(self: Any, request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, stream=httpx2.ByteStream(b"{}"))

    fetcher = Fetcher(REMOTE, LIMITS, resolver=rebinding)
    url = f"https://as.example.com:{server.canary_port}/x"
    with monkeypatch.context() as patched:
        patched.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", handle)
        assert (await fetcher.fetch(get(url))).status_code == 200
    [request] = sent
    assert asked == ["as.example.com"]
    assert request.url.host == "93.184.216.34"
    assert request.headers["host"] == f"as.example.com:{server.canary_port}"
    assert request.extensions["sni_hostname"] == "as.example.com"
    assert "internal address" in await refusal(fetcher, get(url))
    assert server.canary_hits == 0


@pytest.mark.requirement("S-22")
async def test_the_configured_server_may_be_internal_but_not_become_it(
    server: EvilServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ["10.0.0.1", "93.184.216.34", "127.0.0.1"]
    dialled: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return [answers.pop(0)]

    async def handle(self: Any, request: httpx2.Request) -> httpx2.Response:
        dialled.append(request.url.host)
        return httpx2.Response(404, stream=httpx2.ByteStream(b""))

    place = f"https://mcp.example.com:{server.canary_port}"
    fetcher = Fetcher(f"{place}/mcp", LIMITS, resolver=rebinding)
    with monkeypatch.context() as patched:
        patched.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", handle)
        await fetcher.fetch(get(f"{place}/x"))
        await fetcher.fetch(get(f"{place}/x"))
    assert dialled == ["10.0.0.1", "93.184.216.34"]
    assert "internal address" in await refusal(fetcher, get(f"{place}/x"))
    assert server.canary_hits == 0


@pytest.mark.requirement("S-22")
async def test_tls_is_verified_for_the_name_although_the_address_is_dialled() -> None:
    authority = trustme.CA()
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("mcp.corp.example").configure_cert(ours)  # pyright: ignore[reportUnknownMemberType]
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)  # pyright: ignore[reportUnknownMemberType]
    resolver = names(mcp_corp_example="127.0.0.1", other_corp_example="127.0.0.1")
    async with evil_http(ours) as server:
        server.faults["doc"] = lambda exchange: exchange.answer({"host": exchange.headers["host"]})
        place = f"https://mcp.corp.example:{server.port}"
        fetcher = Fetcher(
            f"{place}/mcp", LIMITS, issuer=f"https://other.corp.example:{server.port}", tls=trusting, resolver=resolver
        )
        answer = await fetcher.fetch(get(f"{place}/doc"))
        assert answer.json() == {"host": f"mcp.corp.example:{server.port}"}
        assert "certificate" in await refusal(fetcher, get(f"https://other.corp.example:{server.port}/doc"))
        assert "internal address" in await refusal(fetcher, get(f"https://mcp.corp.example:{server.canary_port}/doc"))
        assert server.canary_hits == 0
        assert server.hits["doc"] == 1


async def test_a_local_server_may_lead_to_other_ports_of_this_machine(server: EvilServer) -> None:
    server.faults["doc"] = lambda exchange: exchange.answer({"a": 1})
    fetcher = Fetcher("http://127.0.0.1:1/mcp", LIMITS)
    assert (await fetcher.fetch(get(server.url("doc")))).json() == {"a": 1}
    assert (await fetcher.fetch(get(f"http://localhost:{server.port}/doc"))).json() == {"a": 1}
    assert "internal address" in await refusal(fetcher, get("https://10.0.0.1/"))
    assert "internal address" in await refusal(fetcher, get("http://10.0.0.1/"))
    assert "internal address" in await refusal(fetcher, get("http://93.184.216.34/"))


@pytest.mark.requirement("S-18", "S-22")
async def test_nothing_of_the_mcp_server_is_sent_and_no_cookie_is_kept(server: EvilServer) -> None:
    async def doc(exchange: Exchange) -> None:
        await exchange.answer({}, headers={"set-cookie": "a=b"})

    server.faults["doc"] = doc
    fetcher = Fetcher(server.url("mcp"), LIMITS)
    headers = {"cookie": "c=d", "mcp-session-id": "s", "x-api-key": "k", "accept": "application/json"}
    for _ in range(2):
        answer = await fetcher.fetch(httpx2.Request("GET", server.url("doc"), headers=headers))
        assert "set-cookie" not in answer.headers
    assert sorted(server.headers_of("doc")) == ["accept", "accept-encoding", "host"]


@pytest.mark.requirement("S-22")
async def test_a_redirect_is_followed_at_its_origin_and_nowhere_else(server: EvilServer) -> None:
    server.faults["doc"] = lambda exchange: exchange.answer({"a": 1})
    fetcher = Fetcher(server.url("mcp"), LIMITS)

    def to(place: str) -> None:
        server.faults["old"] = lambda exchange: exchange.answer(status=307, headers={"location": place})

    to("/doc")
    assert (await fetcher.fetch(get(server.url("old")))).json() == {"a": 1}
    to(f"http://127.0.0.1:{server.canary_port}/")
    assert (await fetcher.fetch(get(server.url("old")))).status_code == 307
    to("http://user@" + server.url("doc").removeprefix("http://"))
    assert (await fetcher.fetch(get(server.url("old")))).status_code == 307
    to("/old")
    server.hits.clear()
    assert "circles" in await refusal(fetcher, get(server.url("old")))
    assert (server.hits["old"], server.canary_hits) == (4, 0), "one request, and three redirects"


async def test_a_post_is_not_turned_into_a_get(server: EvilServer) -> None:
    server.faults["old"] = lambda exchange: exchange.answer(status=302, headers={"location": "/doc"})
    fetcher = Fetcher(server.url("mcp"), LIMITS)
    answer = await fetcher.fetch(httpx2.Request("POST", server.url("old"), data={"a": "b"}))
    assert (answer.status_code, server.hits["doc"]) == (302, 0)
    assert server.seen[-1].body == b"a=b"


@pytest.mark.requirement("S-22", "F-067")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("endless_body", "sent more than 10000 bytes"),
        ("gzipped/gzip", "encodes its answer as 'gzip'"),
        ("reset", "broke off"),
        ("reset_in_body", "broke off"),
        ("silent", "did not answer within"),
        ("drip", "did not answer within"),
    ],
)
async def test_an_answer_is_bounded_in_size_and_time(server: EvilServer, path: str, expected: str) -> None:
    fetcher = Fetcher(server.url("mcp"), UpstreamLimits(fetch_timeout=0.5, fetch_bytes=10_000))
    text = await refusal(fetcher, get(server.url(path) + "?secret=1"))
    assert expected in text
    assert "secret" not in text


async def test_what_is_not_there_is_said(server: EvilServer) -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert "cannot be found" in await refusal(Fetcher(REMOTE, LIMITS, resolver=unknown), get("https://as.example.com/"))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert "cannot be reached" in await refusal(Fetcher(server.url("mcp"), LIMITS), get(f"http://127.0.0.1:{port}/"))


async def test_the_next_address_is_tried_when_one_does_not_answer(server: EvilServer) -> None:
    server.faults["doc"] = lambda exchange: exchange.answer({"a": 1})
    fetcher = Fetcher("http://localhost:1/", LIMITS, resolver=names(two_localhost=("127.0.0.77", "127.0.0.1")))
    assert (await fetcher.fetch(get(f"http://two.localhost:{server.port}/doc"))).json() == {"a": 1}


async def test_a_local_server_leads_to_no_name_that_is_another_internal_machine_as_well() -> None:
    fetcher = Fetcher("http://localhost:1/", LIMITS, resolver=names(both_localhost=("127.0.0.1", "10.0.0.1")))
    assert "which is an internal address" in await refusal(fetcher, get("https://both.localhost/"))


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.requirement("S-22", "C-15")
@pytest.mark.parametrize("address", INTERNAL)
def test_an_internal_address_is_seen_through_every_disguise(address: str) -> None:
    assert not is_public(address)


@pytest.mark.requirement("S-22")
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "javascript:alert(1)",
        "https:///x",
        "/relative",
        "//example.com/",
        "https://127.1/",
        "https://0/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://127.0.0.1./",
        "https://example.com./",
        "https://good@127.0.0.1/",
        "https://good\\@127.0.0.1/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://[fe80::1%25lo]/",
        "https://exa mple.com/",
        "https://good%00.example.com/",
        "https://1.2.3.4%2f/",
        "https://-x.example.com/",
        "https://example.com/" + "a" * 10_000,
    ],
)
def test_a_url_that_could_be_read_in_two_ways_is_not_followed(url: str) -> None:
    assert url_problem(httpx2.URL(url), allow_http=False)


@pytest.mark.parametrize(
    "url", ["https://example.com/", "https://a_b.example.com:8443/x?y#z", "https://[2606:4700::1]/", "https://1.2.3.4/"]
)
def test_an_ordinary_url_has_no_problem(url: str) -> None:
    assert not url_problem(httpx2.URL(url), allow_http=False)
    assert not url_problem(httpx2.URL(url.replace("https", "http")), allow_http=True)
    assert url_problem(httpx2.URL(url.replace("https", "ftp")), allow_http=True) == "not https"
