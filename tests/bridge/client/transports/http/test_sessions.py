"""Streamable HTTP up to 2025-11-25: sessions, standing streams, and answers that are taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.client.transport import SessionExpiredError, UpstreamError
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.servers.evil_http import Exchange, evil_http
from tests.support.http_links import (
    INITIALIZED,
    LEGACY,
    LIMITS,
    Heard,
    SessionServer,
    failure_of,
    give_up,
    in_session,
    initialize,
    linked,
    open_session,
    request,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]


async def test_a_session_is_kept_named_in_every_request_and_ended() -> None:
    sessions = SessionServer()
    async with evil_http() as server:
        server.faults["session"] = sessions.serve
        async with linked(server.url("session")) as link:
            await link.request(initialize())
            assert "mcp-session-id" not in server.headers_of("session")
            assert "mcp-protocol-version" not in server.headers_of("session")
            link.agree(LEGACY)
            await link.notify(INITIALIZED)
            await link.request(request())
            headers = server.headers_of("session")
            assert (headers["mcp-session-id"], headers["mcp-protocol-version"]) == ("s-1", LEGACY)
            assert "mcp-method" not in headers
        assert sessions.deleted == ["s-1"]


@pytest.mark.requirement("F-056")
async def test_nothing_is_asked_before_the_standing_stream_stands_since_what_is_said_there_would_be_lost() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()
    sessions = SessionServer()

    async def serve(exchange: Exchange) -> None:
        if exchange.method == "GET":
            asked.set()
            await answered.wait()
        await sessions.serve(exchange)

    async with evil_http() as server:
        server.faults["session"] = serve
        limits = replace(LIMITS, standing_timeout=10)
        async with linked(server.url("session"), limits=limits) as link:
            await link.request(initialize())
            link.agree(LEGACY)
            telling = asyncio.ensure_future(link.notify(INITIALIZED))
            await asked.wait()
            await anyio.wait_all_tasks_blocked()
            assert not telling.done()
            answered.set()
            await telling


@pytest.mark.requirement("F-056")
async def test_a_server_that_never_answers_the_standing_stream_is_asked_all_the_same() -> None:
    sessions = SessionServer()

    async def serve(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await anyio.sleep_forever()
        await sessions.serve(exchange)

    async with evil_http() as server:
        server.faults["session"] = serve
        async with linked(server.url("session"), limits=replace(LIMITS, standing_timeout=0.01)) as link:
            await link.request(initialize())
            link.agree(LEGACY)
            await link.notify(INITIALIZED)
            assert (await link.request(request()))["result"]


@pytest.mark.requirement("F-069")
@pytest.mark.parametrize("name", ["blank", "bytes", "control", "long", "injected"])
async def test_a_session_id_that_cannot_be_sent_back_is_refused(name: str) -> None:
    async with evil_http() as server:
        async with linked(server.url(f"session_id/{name}")) as link:
            assert await failure_of(link, initialize(1))
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, None),
        (404, {"code": -32600, "message": "Session not found"}),
        (410, None),
        (400, {"code": -32000, "message": "Bad Request: No valid session ID provided"}),
    ],
)
@pytest.mark.requirement("F-053")
async def test_a_forgotten_session_ends_the_link_once(status: int, error: JSON | None) -> None:
    async def forgotten(exchange: Exchange) -> None:
        body = b"" if error is None else {"jsonrpc": "2.0", "id": None, "error": error}
        await exchange.answer(body, status, "application/json" if error else None)

    heard, sessions = Heard(), SessionServer(call=forgotten)
    async with in_session(sessions, heard) as link:
        for _ in range(2):
            with pytest.raises(SessionExpiredError):
                await link.request(request())
        assert heard.ends == ["has ended the session"]
    assert sessions.deleted == []


@pytest.mark.parametrize(
    ("status", "code", "text"), [(404, -32601, "Method not found"), (400, -32000, "bad"), (400, -32602, "no session")]
)
async def test_other_errors_do_not_end_the_session(status: int, code: int, text: str) -> None:
    async def refusing(exchange: Exchange) -> None:
        await exchange.answer({"jsonrpc": "2.0", "id": exchange.id, "error": {"code": code, "message": text}}, status)

    heard, sessions = Heard(), SessionServer(call=refusing)
    async with in_session(sessions, heard) as link:
        assert (await link.request(request()))["error"]["code"] == code
    assert heard.ends == []


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (200, -32001, "Session not found"),
        (400, -32001, "Session not found"),
        (500, -32603, "Session expired"),
        (500, -32000, "Server not initialized"),
    ],
)
@pytest.mark.parametrize("is_forgotten", [True, False])
@pytest.mark.requirement("F-053")
async def test_an_error_about_a_session_ends_the_link_if_a_ping_gets_one_as_well(
    status: int, code: int, message: str, is_forgotten: bool
) -> None:
    calls: list[str] = []

    async def refusing(exchange: Exchange) -> None:
        calls.append(exchange.message["method"])
        if calls[-1] == "ping" and not is_forgotten:
            await exchange.answer({"jsonrpc": "2.0", "id": exchange.id, "result": {}})
        else:
            error = {"code": code, "message": message}
            await exchange.answer({"jsonrpc": "2.0", "id": exchange.id, "error": error}, status)

    heard, sessions = Heard(), SessionServer(call=refusing)
    async with in_session(sessions, heard) as link:
        assert (await link.request(request()))["error"]["code"] == code
        assert calls == ["tools/call", "ping"]
        assert heard.ends == (["has ended the session"] if is_forgotten else [])
    assert sessions.deleted == ([] if is_forgotten else ["s-1"])


@pytest.mark.parametrize(
    ("content", "kind", "expired"),
    [
        ("Bad Request: No valid session ID provided", None, True),
        ("Bad Request: No valid session ID provided", "text/plain; charset=utf-8", True),
        ('{"error": {"code": -32000, "message": "Bad Request: Server not initialized"}}', "application/json", True),
        ('{"error": {"code": -32600, "message": "Bad Request: Unknown Session"}}', "application/json", True),
        ('{"error": {"code": -32602, "message": "session must be a string"}}', "application/json", False),
        ('{"error": {"code": -32600, "message": "Unsupported protocol version"}}', "application/json", False),
        ("<p>Your session cannot be found", "text/html", False),
        ("Bad Request", "text/plain", False),
        ("", None, False),
    ],
)
@pytest.mark.requirement("F-053")
async def test_a_session_is_over_where_a_400_says_so(content: str, kind: str | None, expired: bool) -> None:
    heard, sessions = Heard(), SessionServer(call=lambda exchange: exchange.answer(content.encode(), 400, kind))
    async with in_session(sessions, heard) as link:
        outcome = (await asyncio.gather(link.request(request()), return_exceptions=True))[0]
    assert isinstance(outcome, SessionExpiredError) is expired
    assert heard.ends == (["has ended the session"] if expired else [])


@pytest.mark.requirement("F-053")
async def test_a_notification_to_a_forgotten_session_says_so() -> None:
    sessions = SessionServer()
    async with evil_http() as server:
        server.faults["session"] = sessions.serve
        async with linked(server.url("session")) as link:
            await open_session(link)
            server.faults["session"] = lambda exchange: exchange.answer(status=404)
            with pytest.raises(SessionExpiredError):
                await link.notify({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})


@pytest.mark.requirement("S-9")
async def test_cancelling_a_legacy_request_tells_the_server() -> None:
    sessions = SessionServer(hang=True)
    async with in_session(sessions) as link:
        await give_up(link, request(request_id=5), sessions.called.wait())
        await sessions.cancelled.wait()
    assert sessions.posts[-1]["method"] == "notifications/cancelled"
    assert sessions.posts[-1]["params"]["requestId"] == 5


async def test_a_cancellation_is_told_even_if_the_link_closes_at_once() -> None:
    sessions = SessionServer(hang=True)
    async with in_session(sessions) as link:
        await give_up(link, request(), sessions.called.wait())
    assert sessions.cancelled.is_set()
    assert sessions.deleted == ["s-1"]


async def test_initialize_is_never_cancelled_by_a_notification() -> None:
    async with evil_http() as server:
        async with linked(server.url("silent")) as link:
            await give_up(link, initialize(), server.until_seen("silent"))
        assert len(server.seen) == 1


@pytest.mark.parametrize("path", ["silent", "reset", "status/500"])
async def test_a_server_that_does_not_take_leave_is_left_anyway(path: str) -> None:
    sessions = SessionServer()
    limits = UpstreamLimits(farewell=0.05)
    async with evil_http() as server:
        server.faults["session"] = sessions.serve
        with anyio.fail_after(5):
            async with linked(server.url("session"), limits=limits) as link:
                await open_session(link)

                async def rude(exchange: Exchange) -> None:
                    exchange.path = path.split("/")
                    await server.faults[exchange.path[0]](exchange)

                server.faults["session"] = rude
        await server.until_all_closed()


# The standing stream


async def test_what_the_server_says_of_its_own_accord_arrives() -> None:
    async def stand(exchange: Exchange) -> None:
        await exchange.chunks()
        await exchange.event({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        await exchange.until_closed()

    heard, sessions = Heard(), SessionServer(stand)
    async with in_session(sessions, heard):
        await heard.until(lambda: bool(heard.messages))
        assert heard.messages == [({"jsonrpc": "2.0", "id": "q", "method": "ping"}, None)]
        assert sessions.gets[0]["accept"] == "text/event-stream"
        assert sessions.gets[0]["mcp-session-id"] == "s-1"


@pytest.mark.parametrize("status", [405, 404, 400, 200])
async def test_a_server_that_offers_no_stream_is_not_asked_again(status: int) -> None:
    heard, sessions = Heard(), SessionServer(lambda exchange: exchange.answer(status=status))
    async with in_session(sessions, heard) as link:
        await sessions.standing.wait()
        for task in [task for task in asyncio.all_tasks() if "Link._stand" in repr(task)]:
            await asyncio.wait([task])
        assert (await link.request(request()))["result"]
    assert len(sessions.gets) == 1
    assert heard.ends == []


@pytest.mark.requirement("F-056")
async def test_a_stream_that_is_closed_each_time_is_asked_for_less_and_less() -> None:
    fifth = asyncio.Event()

    async def stand(exchange: Exchange) -> None:
        if len(sessions.gets) == 5:
            fifth.set()
        await exchange.chunks()
        await exchange.chunk(b"retry: 0\n\n")
        await exchange.end()

    sessions = SessionServer(stand)
    clock = asyncio.get_running_loop().time
    async with in_session(sessions):
        began = clock()
        await fifth.wait()
        rounded = 4 * 0.001  # uvloop counts in milliseconds
        assert clock() - began >= 0.01 + 0.02 + 0.04 + 0.08 - rounded


@pytest.mark.requirement("F-052", "F-056")
async def test_a_stream_is_asked_for_again_when_the_server_says() -> None:
    async def stand(exchange: Exchange) -> None:
        if len(sessions.gets) == 1:
            await exchange.answer(status=503, headers={"retry-after": "1000"})
        else:
            again.set()
            await exchange.until_closed()

    again = asyncio.Event()
    heard, sessions = Heard(), SessionServer(stand)
    limits = replace(LIMITS, retry_after_cap=0.2)
    clock = asyncio.get_running_loop().time
    async with in_session(sessions, heard, limits=limits):
        began = clock()
        await again.wait()
        assert clock() - began >= 0.15
        assert len(sessions.gets) == 2


async def test_a_broken_stream_goes_on_from_the_last_event() -> None:
    async def stand(exchange: Exchange) -> None:
        await exchange.chunks()
        number = len(sessions.gets)
        await exchange.event({"jsonrpc": "2.0", "method": f"n/{number}"}, event_id=f"e{number}")
        if number < 3:
            exchange.close()
        else:
            await exchange.until_closed()

    heard, sessions = Heard(), SessionServer(stand)
    async with in_session(sessions, heard):
        await heard.until(lambda: len(heard.messages) == 3)
    assert [get.get("last-event-id") for get in sessions.gets] == [None, "e1", "e2"]


async def test_a_stream_whose_session_is_gone_ends_the_link() -> None:
    async def stand(exchange: Exchange) -> None:
        if len(sessions.gets) > 1:
            await exchange.answer(status=404)
        else:
            await exchange.chunks()
            await exchange.end()

    heard, sessions = Heard(), SessionServer(stand)
    async with in_session(sessions, heard) as link:
        await heard.until(lambda: bool(heard.ends))
        with pytest.raises(SessionExpiredError):
            await link.request(request())


async def test_nonsense_in_the_standing_stream_disturbs_no_request() -> None:
    async def stand(exchange: Exchange) -> None:
        await exchange.chunks()
        await exchange.event("no json")
        await exchange.until_closed()

    sessions = SessionServer(stand)
    async with in_session(sessions) as link:
        await sessions.standing.wait()
        assert (await link.request(request()))["result"]


# Streams that are taken up again


def resumable(serve_again: Callable[[Exchange], Awaitable[None]], sessions: list[SessionServer]) -> SessionServer:
    """A server whose answers break off after an event with an id, and go on as told."""

    async def call(exchange: Exchange) -> None:
        await exchange.chunks()
        await exchange.event("", event_id="first", retry="0")
        exchange.close()

    async def stand(exchange: Exchange) -> None:
        if "last-event-id" in exchange.headers:
            await serve_again(exchange)
        else:
            await exchange.answer(status=405, kind=None)

    sessions.append(SessionServer(stand, call))
    return sessions[0]


def resumes_of(server: SessionServer) -> list[str]:
    return [get["last-event-id"] for get in server.gets if "last-event-id" in get]


@pytest.mark.requirement("F-055")
async def test_a_legacy_answer_that_breaks_off_goes_on_in_another_stream() -> None:
    async def again(exchange: Exchange) -> None:
        await exchange.chunks()
        if len(resumes_of(sessions)) == 1:
            await exchange.event({"jsonrpc": "2.0", "method": "n"}, event_id="second")
            exchange.close()
        else:
            await exchange.event({"jsonrpc": "2.0", "id": 1, "result": {}}, event_id="third")
            await exchange.end()

    heard, sessions = Heard(), resumable(again, [])
    async with in_session(sessions, heard) as link:
        assert await link.request(request()) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert resumes_of(sessions) == ["first", "second"]
    assert heard.messages == [({"jsonrpc": "2.0", "method": "n"}, 1)]


@pytest.mark.parametrize("way", ["close", "reset", "status", "new id each time"])
@pytest.mark.requirement("F-055", "F-056")
async def test_an_answer_is_taken_up_again_a_few_times_only(way: str) -> None:
    async def again(exchange: Exchange) -> None:
        if way == "status":
            await exchange.answer(status=503)
        elif way == "reset":
            exchange.reset()
        else:
            await exchange.chunks()
            await exchange.event("", event_id=str(len(sessions.gets)) if way.startswith("new") else None, retry="0")
            await exchange.end()

    sessions = resumable(again, [])
    async with in_session(sessions) as link:
        assert "3 attempts to take it up again were in vain" in await failure_of(link)
    assert len(resumes_of(sessions)) == LIMITS.resumes


@pytest.mark.parametrize("status", [404, 405])
async def test_a_server_that_does_not_go_on_with_an_answer_fails_that_request_only(status: int) -> None:
    heard, sessions = Heard(), resumable(lambda exchange: exchange.answer(status=status), [])
    async with in_session(sessions, heard) as link:
        with pytest.raises(UpstreamError, match=f"refused with HTTP {status}.*is unknown") as caught:
            await link.request(request())
        assert not isinstance(caught.value, SessionExpiredError)  # it may have done the work
    assert heard.ends == []
    assert len(resumes_of(sessions)) == 1


@pytest.mark.parametrize("event_id", ["caf\u00e9", "x" * 2_000, " edge"])
async def test_an_event_id_that_no_header_can_carry_is_no_place_to_go_on_from(event_id: str) -> None:
    async def dropping(exchange: Exchange) -> None:
        await exchange.chunks()
        await exchange.event("", event_id=event_id.replace(" ", "  "))
        exchange.close()

    async with evil_http() as server, linked(server.url("dropping"), revision=LEGACY) as link:
        server.faults["dropping"] = dropping
        assert "its event stream ended" in await failure_of(link) or "broke off" in await failure_of(link)
        assert {exchange.method for exchange in server.seen} == {"POST"}
