"""HTTP+SSE of 2024-11-05: one stream carries all answers, and its end is the end of the link."""

from __future__ import annotations

import asyncio
import json

import anyio
import pytest

from gaia_bridge.client.transport import ConnectionLostError, UpstreamError
from tests.servers.evil_http import EvilServer, Exchange, evil_http
from tests.support.http_links import INITIALIZED, LEGACY, Heard, give_up, initialize, linked, request
from tests.support.toxic_proxy import Toxic, toxic_proxy

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]


class StreamServer:
    """A server with one stream. Put `stream` and `post` among the faults.

    Args:
        endpoint: What the first event says.
        echo: Whether it answers requests.
    """

    def __init__(self, endpoint: str = "/post?session=s3cret", *, echo: bool = True) -> None:
        self.endpoint = endpoint
        self.echo = echo
        self.opened: Exchange | None = None
        self.hold = asyncio.Event()
        self.hold.set()

    def into(self, server: EvilServer) -> None:
        server.faults |= {"stream": self.stream, "post": self.post}

    async def stream(self, exchange: Exchange) -> None:
        self.opened = exchange
        await exchange.chunks()
        await exchange.event(self.endpoint, event="endpoint")
        await exchange.until_closed()

    async def post(self, exchange: Exchange) -> None:
        assert self.opened is not None
        await exchange.answer(b"Accepted", 202, "text/plain")
        if self.echo and "id" in exchange.message:
            await self.hold.wait()
            await self.opened.event(exchange.result())


async def open_failure(url: str) -> str:
    with pytest.raises(UpstreamError) as caught:
        async with linked(url, sse=True):
            pass
    return str(caught.value)


@pytest.mark.requirement("P-3")
async def test_requests_are_posted_and_answered_in_the_stream() -> None:
    stream = StreamServer()
    async with evil_http() as server:
        stream.into(server)
        async with linked(server.url("stream"), sse=True) as link:
            assert "result" in await link.request(initialize())
            link.agree("2024-11-05")
            await link.notify(INITIALIZED)
            every = [link.request(request(request_id=number)) for number in range(10)]
            responses = await asyncio.gather(*every)
        assert [response["result"]["for"] for response in responses] == list(range(10))
        posts = [exchange for exchange in server.seen if exchange.method == "POST"]
        assert {exchange.target for exchange in posts} == {"/post?session=s3cret"}
        assert server.headers_of("stream")["accept"] == "text/event-stream"
        await server.until_all_closed()


async def test_requests_one_after_the_other_use_one_connection_beside_the_stream() -> None:
    stream = StreamServer()
    async with evil_http() as server:
        stream.into(server)
        async with linked(server.url("stream"), sse=True) as link:
            for number in range(5):
                await link.request(request(request_id=number))
            assert server.connections == 2


async def test_messages_of_the_server_arrive_and_nonsense_does_not() -> None:
    stream, heard = StreamServer(), Heard()
    async with evil_http() as server:
        stream.into(server)
        async with linked(server.url("stream"), heard, sse=True) as link:
            assert stream.opened is not None
            for sent in ("no json", "[]", json.dumps({"jsonrpc": "2.0", "id": 77, "result": {}}), '{"id": 1}'):
                await stream.opened.event(sent)
            await stream.opened.event({"jsonrpc": "2.0", "method": "other"}, event="unknown")
            await stream.opened.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await heard.until(lambda: bool(heard.messages))
            assert heard.messages == [({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, None)]
            assert (await link.request(request()))["result"]


@pytest.mark.requirement("F-068")
async def test_a_response_that_is_none_is_an_error_at_once() -> None:
    stream = StreamServer(echo=False)
    async with evil_http() as server:
        stream.into(server)
        async with linked(server.url("stream"), sse=True) as link:
            waiting = asyncio.ensure_future(link.request(request()))
            await server.until_seen("post")
            assert stream.opened is not None
            await stream.opened.event('{"jsonrpc": "2.0", "id": 1}')
            with pytest.raises(UpstreamError, match="no JSON-RPC response"):
                await waiting


@pytest.mark.parametrize("where", ["", "absolute", "relative"])
async def test_the_endpoint_may_be_given_in_any_form_of_url(where: str) -> None:
    async with evil_http() as server:
        stream = StreamServer({"": "/post", "absolute": server.url("post"), "relative": "post"}[where])
        stream.into(server)
        async with linked(server.url("stream"), sse=True) as link:
            assert (await link.request(request()))["result"]


@pytest.mark.parametrize("where", ["canary", "host", "scheme", "bad"])
@pytest.mark.requirement("F-064")
async def test_an_endpoint_at_another_server_is_refused(where: str) -> None:
    async with evil_http() as server:
        stream = StreamServer(
            {
                "canary": f"http://127.0.0.1:{server.canary_port}/x?token=t0ken",
                "host": f"//localhost:{server.port}/post",
                "scheme": f"https://127.0.0.1:{server.port}/post",
                "bad": "http://host:port/",
            }[where]
        )
        stream.into(server)
        failure = await open_failure(server.url("stream"))
        assert "which is another server" in failure or "what is no URL" in failure
        assert "t0ken" not in failure
        assert server.canary_hits == 0
        await server.until_all_closed()


@pytest.mark.parametrize(
    ("path", "failure"),
    [
        ("status/500", "HTTP 500"),
        ("status/401", "wants authorisation"),
        ("status/405", "HTTP 405"),
        ("kind/text/html", "answered with text/html"),
        ("drop_in_stream", "broke off"),
        ("endless_event", "more than 1000000 bytes"),
        ("reset", "broke off"),
        ("redirect/302/canary", "not followed"),
    ],
)
@pytest.mark.requirement("F-051", "F-059", "F-062")
async def test_a_server_without_such_a_stream_is_refused_when_it_is_opened(path: str, failure: str) -> None:
    async with evil_http() as server:

        async def get(exchange: Exchange) -> None:
            exchange.body = json.dumps(request()).encode()
            exchange.path = path.split("/")
            await server.faults[exchange.path[0]](exchange)

        server.faults["get"] = get
        assert failure in await open_failure(server.url("get"))
        await server.until_all_closed()


async def test_a_stream_that_begins_with_something_else_is_refused() -> None:
    async def other(exchange: Exchange) -> None:
        await exchange.chunks()
        await exchange.event({"jsonrpc": "2.0", "method": "hello"})
        await exchange.until_closed()

    async with evil_http() as server:
        server.faults["other"] = other
        assert "without saying where it takes messages" in await open_failure(server.url("other"))
        await server.until_all_closed()


@pytest.mark.parametrize("way", ["close", "reset", "end", "oversized"])
@pytest.mark.requirement("F-054", "F-055", "F-059")
async def test_the_end_of_the_stream_fails_what_is_in_flight_and_ends_the_link(way: str) -> None:
    stream, heard = StreamServer(echo=False), Heard()
    async with evil_http() as server:
        stream.into(server)
        async with linked(server.url("stream"), heard, sse=True) as link:
            waiting = [asyncio.ensure_future(link.request(request(request_id=number))) for number in range(3)]
            await server.until_seen("post")
            assert stream.opened is not None
            if way == "oversized":
                await stream.opened.chunk(b"data: " + b"x" * 1_000_000)
            elif way == "end":
                await stream.opened.end()
            else:
                getattr(stream.opened, way)()
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(outcome, ConnectionLostError)
            assert len(heard.ends) == 1
            with pytest.raises(ConnectionLostError):
                await link.request(request())
            with pytest.raises(ConnectionLostError):
                await link.notify(INITIALIZED)


@pytest.mark.parametrize("path", ["status/500", "status/404", "reset", "reset_in_body"])
@pytest.mark.requirement("F-054")
async def test_a_message_that_is_not_taken_fails_that_request_only(path: str) -> None:
    stream, heard = StreamServer(), Heard()
    async with evil_http() as server:
        stream.into(server)

        async def post(exchange: Exchange) -> None:
            if exchange.message["method"] == "break":
                exchange.path = path.split("/")
                await server.faults[exchange.path[0]](exchange)
            else:
                await stream.post(exchange)

        server.faults["post"] = post
        async with linked(server.url("stream"), heard, sse=True) as link:
            if path == "reset_in_body":  # its status has said all that counts
                broken = asyncio.ensure_future(link.request(request("break", 9)))
                await server.until_seen("post")
                broken.cancel()
                await asyncio.wait([broken])
            else:
                with pytest.raises(UpstreamError):
                    await link.request(request("break", 9))
            assert (await link.request(request()))["result"]
        assert heard.ends == []


@pytest.mark.requirement("S-9")
async def test_cancelling_a_request_tells_the_server() -> None:
    stream = StreamServer(echo=False)
    async with evil_http() as server:
        stream.into(server)
        async with linked(server.url("stream"), sse=True) as link:
            await give_up(link, request(request_id=5), server.until_seen("post"))
        told = server.seen[-1].message
        assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", 5)


async def test_an_answer_that_comes_after_it_was_given_up_disturbs_nobody() -> None:
    stream = StreamServer()
    stream.hold.clear()
    async with evil_http() as server:
        stream.into(server)
        async with linked(server.url("stream"), sse=True) as link:
            await give_up(link, request(request_id=5), server.until_seen("post"))
            stream.hold.set()
            assert (await link.request(request(request_id=6)))["id"] == 6


async def test_closing_the_link_fails_what_is_in_flight() -> None:
    stream, heard = StreamServer(echo=False), Heard()
    async with evil_http() as server:
        stream.into(server)
        async with linked(server.url("stream"), heard, sse=True) as link:
            waiting = asyncio.ensure_future(link.request(request()))
            await server.until_seen("post")
        with pytest.raises(ConnectionLostError):
            await waiting
        assert heard.ends == []
        await server.until_all_closed()


@pytest.mark.requirement("F-073")
async def test_a_stream_that_is_cut_anywhere_never_hangs_and_never_mixes() -> None:
    async with evil_http() as server, toxic_proxy(server.port) as proxy:
        cut = whole = 0
        while whole < 2:
            stream = StreamServer()
            stream.into(server)
            proxy.toxic = Toxic(cut_at=cut)
            outcomes: list[object] = []
            try:
                async with linked(f"http://127.0.0.1:{proxy.port}/stream", sse=True) as link:
                    proxy.toxic = Toxic()
                    both = [link.request(request(request_id=number)) for number in (cut, 1_000 + cut)]
                    outcomes += await asyncio.gather(*both, return_exceptions=True)
            except UpstreamError:
                pass
            for number, outcome in zip((cut, 1_000 + cut), outcomes, strict=False):
                assert isinstance(outcome, UpstreamError) or outcome == {
                    "jsonrpc": "2.0",
                    "id": number,
                    "result": {"for": number},
                }
            whole = sum(not isinstance(outcome, BaseException) for outcome in outcomes)
            cut += 1
        assert cut > 200


async def test_a_stream_that_never_begins_takes_only_as_long_as_its_caller_waits() -> None:
    async with evil_http() as server:
        with pytest.raises(TimeoutError), anyio.fail_after(0.05):
            async with linked(server.url("silent"), revision=LEGACY, sse=True):
                pass
        await server.until_all_closed()
