"""Streamable HTTP in both eras: what is sent, what comes back, and that one broken request breaks nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.calls.cancellation import Cancellation
from gaia_bridge.client.transport import ConnectionLostError, DirectLink, UpstreamError
from gaia_bridge.client.transports.http.http_link import HttpLink
from gaia_bridge.client.transports.http.sse_parser import EventReader
from gaia_bridge.client.transports.http.streamable_http import StreamPosition
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.servers.evil_http import EvilServer, Exchange, Handler, evil_http, good
from tests.support.http_links import (
    INITIALIZED,
    LEGACY,
    LIMITS,
    MODERN,
    Heard,
    SessionServer,
    failure_of,
    give_up,
    linked,
    modern,
    request,
)
from tests.support.on_demand import mcp_inbound
from tests.support.toxic_proxy import Toxic, toxic_proxy
from tests.support.waiting import PATIENCE, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

both_eras = pytest.mark.parametrize("revision", [LEGACY, MODERN])

_RESUMING = UpstreamLimits(retry_floor=0.5, retry_cap=30)


@both_eras
async def test_a_request_is_answered_with_json(revision: str) -> None:
    async with evil_http() as server, linked(server.url(), revision=revision) as link:
        response = await link.request(request(request_id=7))
        assert response == {"jsonrpc": "2.0", "id": 7, "result": {"for": 7}}
        assert server.headers_of("good")["accept"] == "application/json, text/event-stream"
        assert server.headers_of("good")["content-type"] == "application/json"


@both_eras
async def test_messages_in_the_stream_of_a_request_come_first_and_name_it(revision: str) -> None:
    heard = Heard()
    async with evil_http() as server, linked(server.url("streaming"), heard, revision) as link:
        assert (await link.request(request(request_id=7)))["result"] == {"for": 7}
        assert heard.messages == [
            ({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"of": 7}}, 7),
        ]


@pytest.mark.requirement("P-3")
async def test_answers_find_their_requests_whatever_their_order() -> None:
    turns = {number: asyncio.Event() for number in range(20)}

    async def backwards(exchange: Exchange) -> None:
        if exchange.id < 19:
            await turns[exchange.id + 1].wait()
        turns[exchange.id].set()
        await exchange.answer(exchange.result())

    async with evil_http() as server, linked(server.url("backwards")) as link:
        server.faults["backwards"] = backwards
        responses = await asyncio.gather(*(link.request(request(request_id=number)) for number in range(20)))
        assert [response["result"]["for"] for response in responses] == list(range(20))


async def test_answers_in_streams_use_one_or_two_connections() -> None:
    async with evil_http() as server, linked(server.url("streaming")) as link:
        for number in range(20):
            await link.request(request(request_id=number))
        assert server.connections <= 2


async def test_the_response_to_a_request_of_the_server_is_posted() -> None:
    async with evil_http() as server, linked(server.url(), revision=LEGACY) as link:
        await link.notify({"jsonrpc": "2.0", "id": "theirs", "result": {}})
        assert server.seen[-1].message == {"jsonrpc": "2.0", "id": "theirs", "result": {}}


@pytest.mark.requirement("F-370")
@pytest.mark.parametrize("code", [-32601, -32600])
async def test_a_notification_that_the_server_does_not_know_is_no_failure_and_one_that_it_refuses_is(code: int) -> None:
    async def knowing_nothing(exchange: Exchange) -> None:
        await exchange.answer({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "no"}}, 400)

    async with evil_http() as server, linked(server.url("simple"), revision=LEGACY) as link:
        server.faults["simple"] = knowing_nothing
        if code == -32601:
            await link.notify(INITIALIZED)
        else:
            with pytest.raises(UpstreamError, match="HTTP 400"):
                await link.notify(INITIALIZED)


async def test_text_of_any_script_arrives_and_half_a_character_is_replaced() -> None:
    async with evil_http() as server, linked(server.url()) as link:
        await link.request(request(text="né 日本 \ud83d"))
        assert server.seen[-1].message["params"] == {"text": "né 日本 ?"}


async def test_what_json_cannot_say_is_not_sent() -> None:
    async with evil_http() as server, linked(server.url()) as link:
        assert "cannot be sent" in await failure_of(link, request(number=float("nan")))
        assert not server.seen


@pytest.mark.parametrize("status", [400, 404, 500])
@pytest.mark.parametrize("answered_id", [1, None, "server-error"])
async def test_a_json_rpc_error_comes_through_whatever_its_status(status: int, answered_id: int | str | None) -> None:
    error = {"code": -32601, "message": "Method not found"}

    async def refusing(exchange: Exchange) -> None:
        await exchange.answer({"jsonrpc": "2.0", "id": answered_id, "error": error}, status)

    async with evil_http() as server, linked(server.url("refusing"), revision=MODERN) as link:
        server.faults["refusing"] = refusing
        assert await link.request(modern()) == {"jsonrpc": "2.0", "id": 1, "error": error}


@pytest.mark.requirement("F-052")
async def test_a_json_rpc_error_does_not_hide_when_to_ask_again() -> None:
    async def busy(exchange: Exchange) -> None:
        error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "Too many requests"}}
        await exchange.answer(error, 429, headers={"retry-after": "9"})

    async with evil_http() as server, linked(server.url("busy")) as link:
        server.faults["busy"] = busy
        with pytest.raises(UpstreamError) as caught:
            await link.request(request())
        assert caught.value.retry_after == 9


@pytest.mark.parametrize(
    ("path", "failure"),
    [
        ("empty/202", "answered a request with HTTP 202 (Accepted), and so not at all"),
        ("empty/204", "answered a request with HTTP 204 (No Content), and so not at all"),
        ("empty", "answered with an empty body"),
        ("wrong_id/2", "answered another request than was made (id 2)"),
        ("wrong_id/~2~", "answered another request than was made (id '2')"),
        ("wrong_id/true", "answered another request than was made (id True)"),
        ("wrong_id/1.5", "answered another request than was made (id 1.5)"),
        ("wrong_id/null", "answered another request than was made (id None)"),
    ],
)
@both_eras
@pytest.mark.requirement("F-068")
async def test_an_empty_or_misplaced_answer_is_an_error_at_once(path: str, failure: str, revision: str) -> None:
    async with evil_http() as server, linked(server.url(path), revision=revision) as link:
        assert await failure_of(link) == failure


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "application/jsonp", ""])
@pytest.mark.requirement("F-062")
async def test_a_wrong_content_type_is_named(kind: str) -> None:
    async with evil_http() as server, linked(server.url(f"kind/{kind}")) as link:
        assert (kind or "without a content type") in await failure_of(link)


@pytest.mark.requirement("F-062")
async def test_a_content_type_may_have_parameters_and_any_case() -> None:
    async with evil_http() as server, linked(server.url("kind/Application/JSON;~charset=utf-8")) as link:
        assert (await link.request(request()))["result"]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"1", b'{"jsonrpc":', b'{"a":NaN}', b"[" * 100_000, b'{"id":1}'])
async def test_a_body_that_is_no_response_is_an_error(body: bytes) -> None:
    async def odd(exchange: Exchange) -> None:
        await exchange.answer(body)

    async with evil_http() as server, linked(server.url("odd")) as link:
        server.faults["odd"] = odd
        assert await failure_of(link)


@pytest.mark.parametrize(("written", "read"), [(b'"\xff"', "\ufffd"), (b"NaN", None), (b'"\\ud83d"', "?")])
async def test_a_mark_at_the_beginning_and_what_json_does_not_have_are_tolerated(written: bytes, read: object) -> None:
    async def odd(exchange: Exchange) -> None:
        await exchange.answer(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{"is":%s}}' % written)

    async with evil_http() as server, linked(server.url("odd")) as link:
        server.faults["odd"] = odd
        assert (await link.request(request()))["result"] == {"is": read}


@pytest.mark.parametrize("path", ["status/500", "status/503/30", "status/429/junk", "status/418"])
@pytest.mark.requirement("F-051", "F-052")
async def test_a_status_without_a_json_rpc_error_is_named(path: str) -> None:
    async with evil_http() as server, linked(server.url(path)) as link:
        with pytest.raises(UpstreamError, match=f"HTTP {path[7:10]}") as caught:
            await link.request(request())
        assert caught.value.retry_after == (30 if "30" in path else None)


async def test_a_server_that_wants_authorisation_says_so() -> None:
    async with evil_http() as server, linked(server.url("status/401")) as link:
        assert await failure_of(link) == "wants authorisation (HTTP 401): down for maintenance"


async def test_a_server_that_refuses_our_authorisation_says_so() -> None:
    async with evil_http() as server, linked(server.url("status/401").replace("//", "//user:pa55@")) as link:
        assert await failure_of(link) == "does not accept our authorisation (HTTP 401): down for maintenance"


@pytest.mark.requirement("F-059")
async def test_an_event_over_the_limit_is_an_error() -> None:
    async with evil_http() as server, linked(server.url("endless_event")) as link:
        assert "more than 1000000 bytes" in await failure_of(link)
        await server.until_all_closed()


@pytest.mark.requirement("F-060")
async def test_a_body_over_the_limit_is_an_error() -> None:
    async with evil_http() as server, linked(server.url("endless_body")) as link:
        assert "more than 1000000 bytes" in await failure_of(link)
        await server.until_all_closed()


@pytest.mark.parametrize("path", ["reset", "reset_in_body", "drop_in_stream", "garbage", "status/502"])
@both_eras
@pytest.mark.requirement("F-054")
async def test_a_broken_request_is_an_error_of_that_request_only(path: str, revision: str) -> None:
    turn = asyncio.Event()

    async def either(exchange: Exchange) -> None:
        if exchange.message["method"] == "break":
            exchange.path = path.split("/")
            await server.faults[exchange.path[0]](exchange)
        else:
            await turn.wait()
            await good(exchange)

    heard = Heard()
    async with evil_http() as server, linked(server.url("either"), heard, revision) as link:
        server.faults["either"] = either
        siblings = [asyncio.ensure_future(link.request(request(request_id=number))) for number in range(2, 6)]
        assert await failure_of(link, request("break"))
        turn.set()
        assert [response["id"] for response in await asyncio.gather(*siblings)] == [2, 3, 4, 5]
        assert heard.ends == []


@pytest.mark.requirement("F-050")
async def test_a_server_that_is_not_there_shows_with_the_request_and_may_come_back() -> None:
    async with evil_http() as server:
        gone = server.url()
    async with linked(gone) as link:
        assert "Connection refused" in await failure_of(link)
        assert "Connection refused" in await failure_of(link)


@pytest.mark.parametrize("path", ["keep_alives", "drip", "silent"])
@both_eras
@pytest.mark.requirement("F-057", "F-058")
async def test_a_request_that_is_given_up_releases_its_connection(path: str, revision: str) -> None:
    async def slow(exchange: Exchange) -> None:
        await (good if exchange.message["method"].startswith("notifications/") else server.faults[path])(exchange)

    async with evil_http() as server:
        server.faults["slow"] = slow
        async with linked(server.url("slow"), revision=revision) as link:
            await give_up(link, request(), server.until_seen("slow"))
        await server.until_all_closed()


@both_eras
@pytest.mark.requirement("F-027")
async def test_a_message_that_a_server_does_not_take_is_given_up_in_time(revision: str) -> None:
    limits = replace(LIMITS, write_timeout=0.05)
    async with evil_http() as server:
        async with linked(server.url("silent"), revision=revision, limits=limits) as link:
            with pytest.raises(UpstreamError, match=r"did not take a message within 0\.05 s"):
                await link.notify({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
            await server.until_all_closed()


@pytest.mark.parametrize("path", ["good", "streaming"])
@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.requirement("F-073")
async def test_an_answer_that_is_cut_anywhere_never_hangs_and_never_mixes(path: str, reset: bool) -> None:
    async with evil_http() as server, toxic_proxy(server.port) as proxy:
        whole = 0
        cut = 0
        while whole < 2:
            proxy.toxic = Toxic(reset_after=cut) if reset else Toxic(cut_at=cut)
            async with linked(f"http://127.0.0.1:{proxy.port}/{path}") as link:
                both = [link.request(request(request_id=number)) for number in (10 + cut, 1_000 + cut)]
                outcomes = await asyncio.gather(*both, return_exceptions=True)
            for number, outcome in zip((10 + cut, 1_000 + cut), outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    assert isinstance(outcome, UpstreamError)
                else:
                    assert outcome == {"jsonrpc": "2.0", "id": number, "result": {"for": number}}
            whole = sum(not isinstance(outcome, BaseException) for outcome in outcomes)
            cut += 7 if reset else 1  # how it ends matters less than where
        assert cut > 100


@pytest.mark.parametrize(
    "toxic",
    [Toxic(split=1), Toxic(latency=0.05), Toxic(bytes_per_second=20_000, split=64)],
    ids=["split", "late", "slow"],
)
@pytest.mark.parametrize("path", ["good", "streaming"])
@pytest.mark.requirement("F-073")
async def test_a_slow_or_split_answer_is_an_answer(toxic: Toxic, path: str) -> None:
    async with evil_http() as server, toxic_proxy(server.port, toxic) as proxy:
        async with linked(f"http://127.0.0.1:{proxy.port}/{path}") as link:
            assert (await link.request(request()))["result"] == {"for": 1}


@pytest.mark.requirement("F-073")
async def test_garbage_before_the_answer_is_an_error() -> None:
    async with evil_http() as server, toxic_proxy(server.port, Toxic(garbage=b"\x16\x03\x01 what\r\n")) as proxy:
        async with linked(f"http://127.0.0.1:{proxy.port}/good") as link:
            assert "broke off" in await failure_of(link)


@pytest.mark.requirement("F-073")
async def test_a_black_hole_takes_a_request_only_as_long_as_its_caller_waits() -> None:
    async with evil_http() as server, toxic_proxy(server.port, Toxic(blackhole=True)) as proxy:
        async with linked(f"http://127.0.0.1:{proxy.port}/good", revision=MODERN) as link:
            with pytest.raises(TimeoutError), anyio.fail_after(0.05):
                await link.request(modern())


async def test_closing_the_link_fails_what_is_in_flight_and_what_comes_later() -> None:
    heard = Heard()
    async with evil_http() as server:
        async with linked(server.url("silent"), heard, MODERN) as link:
            waiting = asyncio.ensure_future(link.request(modern()))
            await server.until_seen("silent")
        with pytest.raises(ConnectionLostError):
            await waiting
        with pytest.raises(ConnectionLostError):
            await link.request(modern())
        with pytest.raises(ConnectionLostError):
            await link.notify(INITIALIZED)
        assert heard.ends == []
        await server.until_all_closed()


async def _large(exchange: Exchange) -> None:
    await exchange.answer(exchange.result(text="x" * 200_000))


async def _in_chunks(exchange: Exchange) -> None:
    await exchange.chunks("application/json")
    for byte in json.dumps(exchange.result()).encode():
        await exchange.chunk(bytes([byte]))
    await exchange.end()


async def _without_length(exchange: Exchange) -> None:
    body = json.dumps(exchange.result()).encode()
    await exchange.raw(b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n" + body)
    exchange.close()


async def _with_an_end(exchange: Exchange) -> None:
    await exchange.answer(exchange.result(), headers={"connection": "close"})
    exchange.close()


async def _with_an_error(exchange: Exchange) -> None:
    error = {"code": -32603, "message": "no session today"}
    await exchange.answer({"jsonrpc": "2.0", "id": exchange.id, "error": error})


async def _with_a_refusal(exchange: Exchange) -> None:
    await exchange.answer({"jsonrpc": "2.0", "id": exchange.id, "error": {"code": -32603, "message": "no"}}, 400)


async def _in_a_batch(exchange: Exchange) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}}
    await exchange.answer(json.dumps([note, exchange.result()]).encode())


async def _then_more(exchange: Exchange) -> None:
    answer = json.dumps(exchange.result()).encode()
    head = b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
    await exchange.raw(head + answer + b"HTTP/1.1 200 X\r\n")


async def _after_interim_answers(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 103 X\r\nlink: </x>\r\n\r\n")
    await good(exchange)


ODD: dict[str, Handler] = {
    handler.__name__.strip("_"): handler
    for handler in (
        *(_large, _in_chunks, _without_length, _with_an_end, _with_an_error, _with_a_refusal, _in_a_batch),
        *(_then_more, _after_interim_answers),
    )
}
NAMED = (
    *("good", "streaming", "kind/Application/JSON;~charset=utf-8", "kind/text/html", "kind", "empty", "empty/202"),
    *("gzipped/gzip", "gzipped/br", "redirect/307/good", "redirect/307/loop", "redirect/303/good", "status/503/30"),
    *("status/401", "status/404", "wrong_id/2", "wrong_id/null", "reset", "reset_in_body", "drop_in_stream", "garbage"),
    *("endless_body", "endless_event", "bomb/gzip"),
)


def _after_a_good_answer(server: EvilServer, path: str) -> str:
    """Make a server answer well once, so that a connection is idle, and then in another way; return the URL."""
    server.faults.update(ODD)
    answered: list[None] = []

    async def handler(exchange: Exchange) -> None:
        if not answered:
            answered.append(None)
            await good(exchange)
            return
        exchange.path = path.split("/")
        await server.faults[exchange.path[0]](exchange)

    server.faults["then"] = handler
    return server.url("then")


@pytest.mark.parametrize("path", [*NAMED, *ODD])
@both_eras
async def test_a_request_that_no_task_waits_for_has_the_outcome_of_one_that_a_task_waits_for(
    path: str, revision: str
) -> None:
    async def outcome(*, direct: bool) -> list[object]:
        heard, waiter = Heard(), asyncio.get_running_loop().create_future()
        async with evil_http() as server, linked(_after_a_good_answer(server, path), heard, revision) as link:
            assert isinstance(link, DirectLink)
            await link.request(request(request_id=6))
            message = modern(request_id=7) if revision == MODERN else request(request_id=7)
            try:
                if direct:
                    assert link.begin(message, waiter, {"mcp-param-a": "b"})
                    answer: object = await waiter
                else:
                    answer = await link.request(message, {"mcp-param-a": "b"})
            except UpstreamError as error:
                answer = type(error), str(error).replace(str(server.port), "PORT"), error.retry_after
            seen = [(each.method, each.target, each.headers | {"host": ""}, each.body) for each in server.seen]
            return [answer, heard.messages, heard.ends, seen, server.connections]

    assert await outcome(direct=True) == await outcome(direct=False)


@both_eras
async def test_a_plain_answer_on_a_connection_that_was_idle_takes_no_task(revision: str) -> None:
    async with evil_http() as server, linked(server.url(), revision=revision) as link:
        assert isinstance(link, DirectLink)
        await link.request(request(request_id=6))
        waiter, tasks = asyncio.get_running_loop().create_future(), asyncio.all_tasks()
        waiter.add_done_callback(lambda _: tasks.symmetric_difference_update(asyncio.all_tasks()))
        assert link.begin(request(request_id=7), waiter, None)
        assert asyncio.all_tasks() == tasks
        assert (await waiter)["result"] == {"for": 7}
        assert not tasks


@pytest.mark.parametrize("idle", [False, True])
@both_eras
async def test_closing_the_link_fails_a_request_that_no_task_waits_for(idle: bool, revision: str) -> None:
    waiter = asyncio.get_running_loop().create_future()
    async with evil_http() as server:
        url = _after_a_good_answer(server, "silent") if idle else server.url("silent")
        async with linked(url, revision=revision) as link:
            assert isinstance(link, DirectLink)
            if idle:
                await link.request(request(request_id=6))
            assert link.begin(modern(request_id=7), waiter, None)
            await until(lambda: len(server.seen) > idle)
        assert isinstance(waiter.exception(), ConnectionLostError)
        await server.until_all_closed()


@pytest.mark.parametrize("idle", [False, True])
async def test_a_request_that_is_abandoned_is_cancelled_for_the_reason_of_the_client(idle: bool) -> None:
    waiter, request_of_client = asyncio.get_running_loop().create_future(), Cancellation()
    request_of_client.reason = "enough"
    async with evil_http() as server:
        url = _after_a_good_answer(server, "silent") if idle else server.url("silent")
        async with linked(url, revision=LEGACY) as link:
            assert isinstance(link, DirectLink)
            if idle:
                await link.request(request(request_id=6))
            assert link.begin(request(request_id=7), waiter, None)
            await until(lambda: len(server.seen) > idle)
            with request_of_client.entered():
                link.abandon(7)
            await until(lambda: len(server.seen) > 1 + idle)
            assert server.seen[-1].message["params"] == {"requestId": 7, "reason": "enough"}
            assert not waiter.done()


@both_eras
async def test_a_request_can_be_abandoned_just_when_a_task_is_to_read_its_response(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = HttpLink.spawn
    abandoned: list[None] = []

    def spawn_and_abandon(link: HttpLink, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        if not abandoned:
            abandoned.append(None)
            asyncio.get_running_loop().call_soon(link.abandon, 7)  # before the first step of the task
        return spawn(link, work)

    waiter = asyncio.get_running_loop().create_future()
    async with evil_http() as server, linked(_after_a_good_answer(server, "keep_alives"), revision=revision) as link:
        assert isinstance(link, DirectLink)
        await link.request(request(request_id=6))
        monkeypatch.setattr(HttpLink, "spawn", spawn_and_abandon)
        assert link.begin(modern(request_id=7), waiter, None)
        await until(lambda: bool(abandoned))
        if revision == LEGACY:
            await until(lambda: len(server.seen) > 2)
            assert server.seen[-1].message["method"] == "notifications/cancelled"
        else:
            await server.until_all_closed()
        assert not waiter.done()


async def test_what_the_block_raises_comes_out_as_it_was_raised() -> None:
    async with evil_http() as server:
        with pytest.raises(KeyError, match="mine"):
            async with linked(server.url()):
                raise KeyError("mine")


@pytest.mark.parametrize("agreed", [None, MODERN])
@pytest.mark.requirement("S-5")
async def test_a_modern_request_repeats_its_body_in_headers(agreed: str | None) -> None:
    cases: list[tuple[str, JSON, str | None]] = [
        ("server/discover", {}, None),
        ("tools/call", {"name": "add"}, "add"),
        ("prompts/get", {"name": "greet"}, "greet"),
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("completion/complete", {"name": "not one of them"}, None),
        ("tools/call", {"name": 5}, None),
    ]
    async with evil_http() as server, linked(server.url(), revision=agreed) as link:
        for method, params, name in cases:
            await link.request(modern(method, **params))
            headers = server.headers_of("good")
            assert headers["mcp-protocol-version"] == MODERN
            assert headers["mcp-method"] == method
            assert headers.get("mcp-name") == name
            assert "mcp-session-id" not in headers


@pytest.mark.parametrize("name", ["a\r\nx-injected: y", "tab\t", " edge", "日本", "nul\0", "=?base64?eA==?=", "é"])
@pytest.mark.requirement("S-5", "S-6")
async def test_a_name_that_no_header_can_carry_is_encoded(name: str) -> None:
    async with evil_http() as server, linked(server.url(), revision=MODERN) as link:
        await link.request(modern("tools/call", name=name))
        headers = server.headers_of("good")
        assert mcp_inbound.decode_header_value(headers["mcp-name"]) == name
        assert headers["mcp-name"].isascii()
        assert "x-injected" not in headers


@pytest.mark.requirement("S-6")
async def test_parameter_headers_are_sent_as_given_but_none_that_ends_its_line() -> None:
    async with evil_http() as server, linked(server.url(), revision=MODERN) as link:
        await link.request(modern(), {"Mcp-Param-Region": "eu", "Mcp-Method": "forged"})
        headers = server.headers_of("good")
        assert (headers["mcp-param-region"], headers["mcp-method"]) == ("eu", "tools/call")
        sent = len(server.seen)
        for value in ("a\r\nb: c", "a\nb", "a\0b"):
            with pytest.raises(UpstreamError, match="mcp-param-region|Mcp-Param-Region"):
                await link.request(modern(), {"Mcp-Param-Region": value})
        assert len(server.seen) == sent


@pytest.mark.requirement("S-9")
async def test_cancelling_a_modern_request_closes_its_stream_and_says_nothing_more() -> None:
    async with evil_http() as server:
        async with linked(server.url("keep_alives"), revision=MODERN) as link:
            await give_up(link, modern(), server.until_seen("keep_alives"))
            await server.until_all_closed()
        assert [exchange.method for exchange in server.seen] == ["POST"]


@pytest.mark.requirement("F-055")
async def test_a_modern_stream_that_breaks_is_not_asked_for_again() -> None:
    async def dropping(exchange: Exchange) -> None:
        await exchange.chunks()
        await exchange.event("", event_id="7")
        exchange.close()

    async with evil_http() as server, linked(server.url("dropping"), revision=MODERN) as link:
        server.faults["dropping"] = dropping
        assert "whether it did the work is unknown" in await failure_of(link, modern())
        assert len(server.seen) == 1


async def test_a_modern_server_has_no_session_and_no_standing_stream() -> None:
    sessions = SessionServer()
    async with evil_http() as server:
        server.faults["session"] = sessions.serve
        async with linked(server.url("session"), revision=MODERN) as link:
            await link.request(modern())
            await link.notify(INITIALIZED)
        assert (sessions.gets, sessions.deleted) == ([], [])


async def test_a_hanging_server_delays_no_other() -> None:
    async with evil_http() as server:
        async with linked(server.url("silent"), revision=MODERN) as stuck, linked(server.url()) as other:
            waiting = asyncio.ensure_future(stuck.request(modern()))
            with anyio.fail_after(PATIENCE):
                assert (await other.request(request()))["result"]
            waiting.cancel()
            await asyncio.wait([waiting])


async def _nothing() -> bytes:
    return b""


async def place_after(*streams: bytes) -> StreamPosition:
    """The place after streams that said this."""
    place = StreamPosition(_RESUMING)
    for stream in streams:
        chunks = [stream]

        async def read(chunks: list[bytes] = chunks) -> bytes:
            return chunks.pop() if chunks else b""

        events = EventReader(read, 10_000)
        while await events.next() is not None:
            pass
        place.note(events)
    return place


@pytest.mark.parametrize(
    ("said", "seconds"), [(b"", 0.5), (b"retry: 0\n", 0.5), (b"retry: 2000\n", 2), (b"retry: 999999999999\n", 30)]
)
@pytest.mark.requirement("F-056")
async def test_the_time_that_a_server_wants_has_a_floor_and_a_ceiling(said: bytes, seconds: float) -> None:
    assert (await place_after(said)).pause() == seconds


@pytest.mark.requirement("F-056")
async def test_the_time_doubles_with_each_attempt_in_vain() -> None:
    place = await place_after(b"retry: 1000\n")
    assert [place.pause(failures) for failures in (0, 1, 2, 3, 4, 5, 10_000)] == [1, 1, 1, 2, 4, 8, 30]


@pytest.mark.requirement("F-052")
async def test_a_server_that_wants_to_be_asked_later_is_asked_later_but_not_at_any_time() -> None:
    place = await place_after(b"retry: 1000\n")
    for wish, seconds in [(7.0, 7.0), (0.1, 1.0), (None, 1.0), (1e9, 60.0)]:
        place.put_off(wish)
        assert place.pause() == seconds


@pytest.mark.requirement("F-052")
async def test_that_wish_is_over_once_there_was_a_stream() -> None:
    place = StreamPosition(_RESUMING)
    place.put_off(7)
    place.note(EventReader(_nothing, 10))
    assert place.pause() == 0.5


async def test_a_place_stays_what_it_was_until_a_stream_names_another() -> None:
    assert not (await place_after(b"data: x\n\n")).is_resumable
    assert (await place_after(b"id: 1\n\n", b"data: x\n\n")).headers == {"last-event-id": "1"}
    assert (await place_after(b"id: 1\n\n", b"id: 2\n\n")).headers == {"last-event-id": "2"}


@pytest.mark.parametrize("event_id", ["caf\u00e9", "x" * 1_025, " edge", "edge ", "a\x01b", ""])
async def test_an_id_that_no_header_can_carry_is_no_place(event_id: str) -> None:
    place = await place_after(f"id: {event_id}\n\n".encode())
    assert not place.is_resumable
    assert place.headers == {}
