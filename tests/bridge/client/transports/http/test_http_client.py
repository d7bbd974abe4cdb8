"""One HTTP client for one server: bounded, verified, and blind to cookies, proxies and redirects elsewhere."""

from __future__ import annotations

import asyncio
import gzip
import sys
import tracemalloc
import zlib
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio
import httpx2
import pytest
from msgspec.structs import replace

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports.http.http_client import BrokenOffError, HttpClient, HttpReply
from gaia_bridge.client.transports.http.http_values import retry_after
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import UpstreamLimits
from tests.servers.evil_http import EvilServer, Exchange, evil_http
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

LIMITS = UpstreamLimits(http_connect_timeout=4, message_bytes=1_000_000)
BODY = b'{"jsonrpc":"2.0","id":1,"method":"m"}'


@asynccontextmanager
async def client_of(
    url: str,
    auth: httpx2.Auth | None = None,
    headers: Mapping[str, str] | None = None,
    limits: UpstreamLimits = LIMITS,
) -> AsyncGenerator[HttpClient]:
    client = HttpClient(HttpServerSpec("up", url, headers or {}), limits, auth)
    try:
        with anyio.fail_after(PATIENCE):
            yield client
    finally:
        await client.close()


@asynccontextmanager
async def evil_client(path: str, **headers: str) -> AsyncGenerator[tuple[EvilServer, HttpClient]]:
    async with evil_http() as server, client_of(server.url(path), headers=headers) as client:
        yield server, client


async def body_of(client: HttpClient) -> bytes:
    reply = await client.send("POST", {}, BODY)
    try:
        return await reply.body()
    finally:
        await reply.close()


async def failure_of(client: HttpClient) -> str:
    with pytest.raises(UpstreamError) as caught:
        await body_of(client)
    return str(caught.value)


# Connections


async def test_one_connection_serves_request_after_request() -> None:
    async with evil_client("good") as (server, client):
        for _ in range(5):
            assert await body_of(client)
        assert server.connections == 1


async def test_a_reply_that_ends_soon_leaves_its_connection_for_the_next_request() -> None:
    async with evil_client("streaming") as (server, client):
        for _ in range(5):
            reply = await client.send("POST", {}, BODY)
            assert await reply.read()
            await reply.finish(1)
        assert server.connections == 1


async def test_a_reply_that_does_not_end_is_closed_with_its_connection() -> None:
    async with evil_client("keep_alives") as (server, client):
        reply = await client.send("POST", {}, BODY)
        await reply.finish(0.02)
        await server.until_all_closed()


async def test_a_cancelled_request_releases_its_connection() -> None:
    async with evil_client("silent") as (server, client):
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                await client.send("POST", {}, BODY)

            tasks.start_soon(send)
            await server.until_seen("silent")
            tasks.cancel_scope.cancel()
        await server.until_all_closed()


ESTABLISHED = "01"
"""The state of a connection in /proc; one that another test has just closed may be there, too."""


@pytest.mark.skipif(sys.platform != "linux", reason="the state of a connection is read from /proc")
async def test_the_other_end_of_a_silent_connection_is_asked_whether_it_is_there() -> None:
    async with evil_client("keep_alives") as (server, client):
        reply = await client.send("POST", {}, BODY)
        connections = (await anyio.Path("/proc/self/net/tcp").read_text("ascii")).splitlines()[1:]
        fields = [line.split() for line in connections]
        [timer] = [line[5] for line in fields if line[2].endswith(f":{server.port:04X}") and line[3] == ESTABLISHED]
        await reply.close()
    assert timer.startswith("02:")  # the timer that is set is the one that keeps connections alive


@pytest.mark.requirement("F-050")
async def test_a_refused_connection_names_the_place_and_the_reason() -> None:
    async with evil_http() as server:
        port = server.port
    async with client_of(f"http://user:pa55@127.0.0.1:{port}/mcp?key=s3cret") as client:
        failure = await failure_of(client)
    assert failure == f"cannot be reached at http://127.0.0.1:{port}/mcp: Connection refused"


@pytest.mark.requirement("F-050")
async def test_a_name_that_is_not_known_is_an_error() -> None:
    async with client_of("http://nowhere.invalid/mcp") as client:
        assert "cannot be reached at http://nowhere.invalid/mcp" in await failure_of(client)


@pytest.mark.requirement("F-050")
async def test_a_connection_that_is_not_taken_is_given_up_in_time() -> None:
    hurried = replace(LIMITS, http_connect_timeout=0.2)
    async with evil_http() as server, client_of(server.url().replace("http:", "https:"), limits=hurried) as client:
        assert "within 0.2 s" in await failure_of(client)
        await server.until_all_closed()


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "a..example"])
async def test_a_host_that_cannot_be_looked_up_is_an_error(host: str) -> None:
    async with client_of(f"http://{host}/mcp") as client:
        assert "cannot be reached" in await failure_of(client)


@pytest.mark.parametrize("path", ["reset", "reset_in_body", "drop_in_stream"])
@pytest.mark.requirement("F-054")
async def test_a_connection_that_breaks_fails_that_request_only(path: str) -> None:
    async with evil_client(path) as (server, client):
        assert "whether it did the work is unknown" in await failure_of(client)
        reply = await client.send("POST", {}, BODY, httpx2.URL(server.url("good")))
        assert await reply.body()
        await reply.close()


# Bounds


@pytest.mark.requirement("F-060")
async def test_a_body_without_an_end_is_given_up_at_the_limit() -> None:
    async with evil_client("endless_body") as (server, client):
        assert await failure_of(client) == "sent more than 1000000 bytes in one answer"
        await server.until_all_closed()


@pytest.mark.parametrize("encoding", ["gzip", "GZIP"])
@pytest.mark.requirement("F-061")
async def test_a_server_that_compresses_although_it_was_asked_not_to_is_understood(encoding: str) -> None:
    async with evil_client(f"gzipped/{encoding}") as (server, client):
        assert await body_of(client) == b'{"jsonrpc": "2.0", "id": 1, "result": {"for": 1}}'
        assert server.headers_of("gzipped")["accept-encoding"] == "identity"


@pytest.mark.parametrize("window", [zlib.MAX_WBITS, -zlib.MAX_WBITS])
@pytest.mark.requirement("F-061")
async def test_both_formats_that_servers_call_deflate_are_understood(window: int) -> None:
    async def deflated(exchange: Exchange) -> None:
        packer = zlib.compressobj(wbits=window)
        await exchange.answer(packer.compress(b"x" * 500) + packer.flush(), headers={"content-encoding": "deflate"})

    async with evil_client("deflated") as (server, client):
        server.faults["deflated"] = deflated
        assert await body_of(client) == b"x" * 500


@pytest.mark.requirement("F-061")
async def test_a_compressed_bomb_is_given_up_at_the_limit_and_costs_no_memory() -> None:
    async with evil_client("bomb/gzip") as (_, client):
        tracemalloc.start()
        try:
            assert "more than 1000000 bytes" in await failure_of(client)
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.requirement("F-061")
async def test_what_comes_of_a_compressed_body_is_handed_out_in_pieces_between_which_others_have_their_turn() -> None:
    async def compressed(exchange: Exchange) -> None:
        await exchange.answer(gzip.compress(b"x" * 900_000), headers={"content-encoding": "gzip"})

    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with evil_client("compressed") as (server, client):
        server.faults["compressed"] = compressed
        reply = await client.send("POST", {}, BODY)
        sizes, others = [len(await reply.read())], asyncio.create_task(take_turns())
        while size := len(await reply.read()):
            sizes.append(size)
        others.cancel()
        await reply.close()
    assert sum(sizes) == 900_000
    assert max(sizes) <= 65_536
    assert turns >= len(sizes) - 1
    assert reply.ended


@pytest.mark.parametrize("encoding", ["br", "zstd", "x-gzip", "gzip_gzip", "made-up"])
@pytest.mark.requirement("F-061")
async def test_other_and_nested_encodings_are_named_and_refused(encoding: str) -> None:
    async with evil_client(f"bomb/{encoding}") as (_, client):
        assert repr(encoding.replace("_", ", ")) in await failure_of(client)


@pytest.mark.requirement("F-061")
async def test_a_body_that_is_not_encoded_as_it_says_is_an_error() -> None:
    async def lying(exchange: Exchange) -> None:
        await exchange.answer(b"plain", headers={"content-encoding": "gzip"})

    async with evil_client("lying") as (server, client):
        server.faults["lying"] = lying
        assert await failure_of(client) == "sent a body that is not encoded as it says"


@pytest.mark.parametrize("path", ["long_header", "many_headers"])
@pytest.mark.requirement("F-069")
async def test_too_many_headers_are_an_error(path: str) -> None:
    async with evil_client(path) as (_, client):
        assert "broke off" in await failure_of(client)


async def test_what_is_no_http_is_an_error() -> None:
    async with evil_client("garbage") as (_, client):
        assert "broke off" in await failure_of(client)


# Redirects


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.requirement("F-064")
async def test_a_redirect_within_the_server_is_followed_with_the_body(status: int) -> None:
    async with evil_client(f"redirect/{status}/good", Authorization="Bearer x") as (server, client):
        assert await body_of(client)
        assert server.seen[-1].body == BODY
        assert server.headers_of("good")["authorization"] == "Bearer x"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["canary", "host", "tls"])
@pytest.mark.requirement("F-064")
async def test_a_redirect_to_another_server_is_named_and_not_followed(status: int, where: str) -> None:
    async with evil_client(f"redirect/{status}/{where}", Authorization="Bearer x") as (server, client):
        failure = await failure_of(client)
        assert f"HTTP {status}" in failure
        assert "which is not followed" in failure
        assert "t0ken" not in failure
        assert server.canary_hits == 0
        assert len(server.seen) == 1


@pytest.mark.parametrize("status", [301, 302, 303])
@pytest.mark.requirement("F-064")
async def test_a_redirect_that_would_lose_the_body_is_not_followed(status: int) -> None:
    async with evil_client(f"redirect/{status}/good") as (server, client):
        assert "not followed" in await failure_of(client)
        assert server.hits["good"] == 0


@pytest.mark.requirement("F-064")
async def test_redirects_in_circles_are_given_up() -> None:
    async with evil_client("redirect/307/loop") as (server, client):
        assert await failure_of(client) == "redirects in circles"
        assert server.hits["redirect"] == 4


@pytest.mark.requirement("F-064")
async def test_a_redirect_to_no_url_is_an_error() -> None:
    async with evil_client("redirect/307/bad") as (_, client):
        assert "to no URL" in await failure_of(client)


# What is sent


@pytest.mark.requirement("F-069")
async def test_cookies_are_not_kept() -> None:
    async with evil_client("cookie") as (server, client):
        await body_of(client)
        await body_of(client)
        assert "cookie" not in server.headers_of("cookie")


async def test_headers_of_the_server_are_sent_and_those_of_the_request_win() -> None:
    async with evil_client("good", **{"X-Key": "k", "Accept": "nothing"}) as (server, client):
        reply = await client.send("POST", {"accept": "text/event-stream"}, BODY)
        await reply.close()
        headers = server.headers_of("good")
        assert (headers["x-key"], headers["accept"]) == ("k", "text/event-stream")
        assert server.seen[-1].names.count("accept") == 1


@pytest.mark.parametrize("value", ["t0ken ", " t0ken", "\tt0ken \t"])
async def test_blanks_at_the_ends_of_a_header_are_left_out(value: str) -> None:
    async with evil_client("good", **{"X-Key": value}) as (server, client):
        assert await body_of(client)
        assert b"x-key: t0ken\r\n" in server.seen[0].head


async def test_a_user_in_the_url_becomes_basic_authorisation() -> None:
    async with evil_http() as server, client_of(server.url().replace("//", "//us%40er:pa55@")) as client:
        assert await body_of(client)
        assert server.headers_of("good")["authorization"] == httpx2.BasicAuth("us@er", "pa55")._auth_header  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "nul\0", "caf\u00e9"])
@pytest.mark.requirement("S-6")
async def test_a_header_that_could_end_its_line_never_leaves(value: str) -> None:
    async with evil_client("good") as (server, client):
        with pytest.raises(UpstreamError, match="'mcp-param-x'") as caught:
            await client.send("POST", {"mcp-param-x": value}, BODY)
        assert value not in str(caught.value)
        with pytest.raises(UpstreamError, match="header"):
            await client.send("POST", {"x\r\ny": "z"}, BODY)
        assert not server.seen


@pytest.mark.parametrize("headers", [{"X-Key": "s3cret\n"}, {"Content-Length": "3"}, {"Host": "elsewhere"}])
async def test_a_header_that_cannot_be_sent_is_refused_before_anything_is(headers: dict[str, str]) -> None:
    with pytest.raises(UpstreamError, match="cannot be sent") as caught:
        HttpClient(HttpServerSpec("up", "http://localhost/", headers), LIMITS)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "localhost/x", "ftp://host/", "http://", "http://[::1", "http://h:99999/", "http://h:0/", "http:///s3cret"],
)
async def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(UpstreamError, match="has a URL") as caught:
        HttpClient(HttpServerSpec("up", url), LIMITS)
    assert "s3cret" not in str(caught.value)


# Statuses


@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
@pytest.mark.requirement("F-051")
async def test_a_refusal_keeps_its_status(status: int) -> None:
    async with evil_client(f"status/{status}") as (_, client):
        reply = await client.send("POST", {}, BODY)
        assert not reply.ok
        assert f"HTTP {status}" in str(reply.refusal())
        assert reply.refusal().retry_after is None
        await reply.close()


@pytest.mark.requirement("F-052")
async def test_a_refusal_says_when_the_server_wants_to_be_asked_again() -> None:
    async with evil_client("status/429/7") as (_, client):
        reply = await client.send("POST", {}, BODY)
        await reply.close()
        error = reply.refusal()
    assert str(error) == "answered with HTTP 429 (Too Many Requests), and asks to be tried again after 7 s"
    assert error.retry_after == 7
    async with evil_client("status/429/1000000000") as (_, client):
        reply = await client.send("POST", {}, BODY)
        await reply.close()
        assert str(reply.refusal()).endswith("asks to be tried again after a day or more")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        (" 120 ", 120),
        ("9" * 400, 86_400),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (None, None),
    ]
    + [("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 99 Oct 2015 07:28:00 GMT", None)],
)
@pytest.mark.requirement("F-052")
def test_retry_after_is_seconds_or_a_date_and_anything_else_is_nothing(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after(value) == seconds


@pytest.mark.requirement("F-052")
def test_retry_after_may_be_a_date_to_come() -> None:
    seconds = retry_after(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True))
    assert seconds is not None
    assert 3_500 < seconds <= 3_600


# Authorisation


class TwoStepAuth(httpx2.Auth):
    """Fetches a token when it is told to, as OAuth does."""

    requires_response_body = True

    def __init__(self, token_url: str) -> None:
        self.token_url = token_url
        self.read: list[bytes] = []

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        response = yield request
        if response.status_code == 401:
            self.read.append(response.content)
            token = yield httpx2.Request("GET", self.token_url)
            self.read.append(token.content)
            request.headers["authorization"] = "Bearer fresh"
            yield request


async def protected(exchange: Exchange) -> None:
    if exchange.headers.get("authorization") == "Bearer fresh":
        await exchange.answer(exchange.result())
    else:
        await exchange.answer(b"who are you?", 401, "text/plain")


async def test_an_authorisation_may_send_requests_of_its_own_in_between() -> None:
    async with evil_http() as server:
        server.faults["protected"] = protected
        server.faults["token"] = lambda exchange: exchange.answer(b"the token")
        auth = TwoStepAuth(server.url("token"))
        async with client_of(server.url("protected"), auth) as client:
            reply = await client.send("POST", {}, BODY)
            assert reply.status == 200
            assert b'"for": 1' in await reply.body()
            await reply.close()
        assert auth.read == [b"who are you?", b"the token"]
        assert server.hits == {"protected": 2, "token": 1}
        assert server.connections == 1


async def test_an_authorisation_may_send_requests_to_another_server_that_sees_nothing_of_ours() -> None:
    async with evil_http() as server, evil_http() as other:
        server.faults["protected"] = protected
        other.faults["token"] = lambda exchange: exchange.answer(b"the token")
        auth = TwoStepAuth(other.url("token"))
        async with client_of(server.url("protected"), auth, {"x-key": "s3cret"}) as client:
            assert b'"for": 1' in await body_of(client)
        assert auth.read == [b"who are you?", b"the token"]
        assert "x-key" not in other.headers_of("token")
        await other.until_all_closed()


@pytest.mark.requirement("S-6")
async def test_an_authorisation_cannot_end_the_line_of_a_header() -> None:
    class Breaking(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
            request.headers["authorization"] = "Bearer s3cret\r\nx: y"
            yield request

    async with evil_http() as server, client_of(server.url(), Breaking()) as client:
        assert "'authorization'" in await failure_of(client)
        assert not server.seen


class Knowing(TwoStepAuth):
    """Knows beforehand what is sent, until it was told that this is wrong."""

    def __init__(self, token_url: str, token: str | None) -> None:
        super().__init__(token_url)
        self.token = token
        self.asked = 0

    def known_headers(self) -> dict[str, str]:
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        self.asked += 1
        request.headers.update(self.known_headers())
        return super().auth_flow(request)


async def test_an_authorisation_that_knows_what_is_sent_is_not_asked_as_long_as_that_will_do() -> None:
    async with evil_http() as server:
        server.faults["protected"] = protected
        auth = Knowing(server.url("token"), "fresh")
        async with client_of(server.url("protected"), auth, {"authorization": "of old"}) as client:
            assert b'"for": 1' in await body_of(client)
            assert b'"for": 1' in await body_of(client)
        assert (auth.asked, server.hits) == (0, {"protected": 2})


@pytest.mark.parametrize("token", [None, "stale"])
async def test_an_authorisation_that_knew_wrongly_is_asked_and_nothing_is_sent_twice(token: str | None) -> None:
    async with evil_http() as server:
        server.faults["protected"] = protected
        server.faults["token"] = lambda exchange: exchange.answer(b"the token")
        auth = Knowing(server.url("token"), token)
        async with client_of(server.url("protected"), auth) as client:
            assert b'"for": 1' in await body_of(client)
        assert auth.read == [b"who are you?", b"the token"]
        assert (auth.asked, server.hits, server.connections) == (1, {"protected": 2, "token": 1}, 1)


class Impatient:
    """Wants the responses of a client at once, whole or not."""

    def takes(self, status: int, headers: Mapping[str, str]) -> bool:
        return False

    def ready(self) -> None:
        pass


@pytest.mark.parametrize("token", ["old", "fresh"])
async def test_a_request_that_was_posted_at_once_is_authorised_and_sent_once(token: str) -> None:
    async with evil_http() as server:
        server.faults["protected"] = protected
        server.faults["token"] = lambda exchange: exchange.answer(b"the token")
        auth = Knowing(server.url("token"), "fresh")
        async with client_of(server.url("protected"), auth) as client:
            assert client.post({}, BODY, Impatient()) is None  # no connection is idle
            assert b'"for": 1' in await body_of(client)
            auth.token = token
            posted = client.post({"x-a": "b"}, BODY, Impatient())
            assert posted is not None
            auth.token = None  # which must not count for a request that was sent
            reply = await client.reply_to(posted)
            assert b'"for": 1' in await reply.body()
            await reply.close()
            last = server.headers_of("protected")
        assert (last["x-a"], last["authorization"], server.seen[-1].body) == ("b", "Bearer fresh", BODY)
        assert server.hits["protected"] == (2 if token == "fresh" else 3)
        assert auth.asked == (token == "old")


async def test_an_authorisation_that_has_to_be_asked_first_leaves_nothing_to_be_posted_at_once() -> None:
    async with evil_http() as server:
        server.faults["protected"] = protected
        server.faults["token"] = lambda exchange: exchange.answer(b"the token")
        async with client_of(server.url("protected"), TwoStepAuth(server.url("token"))) as client:
            assert b'"for": 1' in await body_of(client)
            assert client.post({}, BODY, Impatient()) is None


async def test_a_request_is_sent_anew_if_its_authorisation_has_learned_something_meanwhile() -> None:
    class Learning(Knowing):
        def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
            self.token = "fresh"
            return super().auth_flow(request)

    async with evil_http() as server:
        server.faults["protected"] = protected
        auth = Learning(server.url("token"), "stale")
        async with client_of(server.url("protected"), auth) as client:
            assert b'"for": 1' in await body_of(client)
        assert (auth.read, server.hits) == ([], {"protected": 2})


async def test_a_refusal_that_nobody_waits_for_is_no_reason_to_ask_an_authorisation() -> None:
    async with evil_http() as server:
        server.faults["protected"] = protected
        auth = Knowing(server.url("token"), None)
        async with client_of(server.url("protected"), auth) as client:
            reply = await client.send("DELETE", {}, insist=False)
            assert (reply.status, auth.asked) == (401, 0)
            await reply.close()


async def test_nobody_is_asked_for_authorisation_when_nobody_waits() -> None:
    async with evil_http() as server:
        server.faults["protected"] = protected
        async with client_of(server.url("protected"), TwoStepAuth(server.url("token"))) as client:
            reply = await client.send("DELETE", {}, insist=False)
            assert reply.status == 401
            await reply.close()
        assert server.hits == {"protected": 1}


@pytest.mark.requirement("F-060")
async def test_what_an_authorisation_reads_is_bounded_too() -> None:
    async with evil_http() as server:
        server.faults["protected"] = protected
        async with client_of(server.url("protected"), TwoStepAuth(server.url("endless_body"))) as client:
            assert "more than 1000000 bytes" in await failure_of(client)
        await server.until_all_closed()


async def test_an_authorisation_that_fails_is_an_error_that_keeps_its_secrets() -> None:
    class Failing(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
            yield request
            raise RuntimeError("s3cret")

    async with evil_http() as server, client_of(server.url(), Failing()) as client:
        assert await failure_of(client) == "could not be authorised (RuntimeError)"


async def test_a_broken_answer_is_told_from_one_that_cannot_be_used() -> None:
    async with evil_client("reset_in_body") as (_, client):
        reply: HttpReply = await client.send("POST", {}, BODY)
        assert await reply.read()
        with pytest.raises(BrokenOffError, match="Connection reset by peer"):
            await reply.read()
        await reply.close()
