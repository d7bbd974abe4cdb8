"""`DetachedConnection`: a connection in separate calls, each of which may come from a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia.mcp.client.transports.detached_connection import DetachedConnection
from gaia_bridge.client import Era
from gaia_bridge.client.transport import ConnectionLostError, Link, Receiver, UpstreamError
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.support.upstreams import FakeRequest
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

HELLO: JSON = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {}, "protocolVersion": "1.0.0"}
Serve = Callable[["Wire", JSON], Awaitable[Any]]
"""Answers a request with a result, or with a whole response if it has an `error`."""


class Wire:
    """A link to a server that is a function."""

    last_words = ""

    def __init__(self, serve: Serve, receiver: Receiver) -> None:
        self.serve = serve
        self.receiver = receiver
        self.requests: list[JSON] = []
        self.notifications: list[JSON] = []
        self.revision = ""

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        self.requests.append(message)
        result = await self.serve(self, message)
        outcome = result if "error" in result else {"result": result}
        return {"jsonrpc": "2.0", "id": message["id"], **outcome}

    async def notify(self, message: JSON) -> None:
        self.notifications.append(message)

    def agree(self, revision: str) -> None:
        self.revision = revision

    def methods(self) -> list[str]:
        return [request["method"] for request in self.requests]


class Server:
    """A transport to a server that is a function; keeps the links that were opened, and counts those that are open."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.wires: list[Wire] = []
        self.open = 0
        self.failure: Exception | None = None
        self.slow = False

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        if self.failure is not None:
            raise self.failure
        if self.slow:
            await anyio.sleep_forever()
        wire = Wire(self.serve, receiver)
        self.wires.append(wire)
        self.open += 1
        try:
            # As our own transports do; it must be left by the task that entered it.
            async with anyio.create_task_group():
                yield wire
        finally:
            self.open -= 1


async def legacy(wire: Wire, request: JSON) -> Any:
    match request["method"]:
        case "initialize":
            revision = request["params"]["protocolVersion"]
            return {
                "protocolVersion": revision,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old"},
                "instructions": "Ask.",
            }
        case "tools/list":
            at = int(request.get("params", {}).get("cursor", 0))
            return {"tools": [{"name": f"t{at}"}], **({"nextCursor": str(at + 1)} if at < 2 else {})}
        case "lost":
            wire.receiver.ended("exited")
            raise ConnectionLostError
        case "broken":
            raise UpstreamError("answered 502 Bad Gateway")
        case "refused":
            return {"error": {"code": -32601, "message": "no such method", "data": {"x": 1}}}
        case "hang":
            await anyio.sleep_forever()
        case _:
            pass
    params = dict(request.get("params", {}))
    params.pop("_meta", None)  # the token that keeps a request alive
    return {"echo": params}


async def modern(wire: Wire, request: JSON) -> Any:
    if request["method"] == "server/discover":
        return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    if request["method"] == "subscriptions/listen":
        await anyio.sleep_forever()
    if "io.modelcontextprotocol/protocolVersion" not in request.get("params", {}).get("_meta", {}):
        return {"error": {"code": -32601, "message": f"no {request['method']}"}}
    return {"resultType": "complete", "echo": request["params"].get("name")}


@asynccontextmanager
async def session(
    serve: Serve,
    seconds: float = 5,
    heard: list[str] | None = None,
    era: Era | None = None,
    introduction: JSON | None = None,
) -> AsyncGenerator[tuple[DetachedConnection, Server]]:
    """A session that is not open yet, and closed at the end."""
    server = Server(serve)
    limits = replace(UpstreamLimits(), connect_timeout=seconds, call_timeout=seconds)

    def notified(method: str, params: JSON) -> None:
        if heard is not None:
            heard.append(method)

    made = DetachedConnection("old", server, limits, notified, era, introduction=introduction)
    with anyio.fail_after(10):
        yield made, server
        await made.close()
    assert server.open == 0


async def in_task(step: Awaitable[Any]) -> Any:
    """Do one step in a task of its own, as calls from other threads do."""

    async def do() -> Any:
        return await step

    return await asyncio.create_task(do())


async def test_every_step_may_come_from_another_task() -> None:
    async with session(legacy) as (made, server):
        await in_task(made.open())
        assert (made.link, server.open, server.wires[0].requests) == (server.wires[0], 1, [])
        assert await in_task(made.initialize(HELLO)) == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old"},
                "instructions": "Ask.",
            },
        }
        assert await in_task(made.request("x", {"a": 1}, 7)) == {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {"echo": {"a": 1}},
        }
        await in_task(made.close())
        await in_task(made.close())
        assert (made.link, server.open) == (None, 0)


@pytest.mark.requirement("S0-3")
async def test_initialize_is_the_first_message_and_its_confirmation_the_second() -> None:
    async with session(legacy) as (made, server):
        await made.open()
        await made.initialize(HELLO)
        [wire] = server.wires
        assert wire.requests[0]["method"] == "initialize"
        assert wire.requests[0]["params"]["clientInfo"] == HELLO["clientInfo"]
        assert [message["method"] for message in wire.notifications] == ["notifications/initialized"]
        assert wire.revision == "2025-11-25"


async def test_greeting_twice_asks_once() -> None:
    async with session(legacy) as (made, server):
        await made.open()
        assert (await made.initialize(HELLO))["result"] == (await made.initialize(HELLO))["result"]
        assert server.wires[0].methods() == ["initialize"]


async def test_greeting_from_two_tasks_at_once_asks_once() -> None:
    async with session(legacy) as (made, server):
        await made.open()
        first, second = await asyncio.gather(made.initialize(HELLO), made.initialize(HELLO))
        assert first["result"] == second["result"]
        assert server.wires[0].methods() == ["initialize"]


async def test_a_server_that_only_knows_the_modern_era_is_greeted_in_its_own_way_on_a_fresh_link() -> None:
    async with session(modern) as (made, server):
        await made.open()
        response = await made.initialize(HELLO)
        assert response["result"]["protocolVersion"] == "2026-07-28"
        assert [wire.methods()[0] for wire in server.wires] == ["initialize", "server/discover"]
        assert (server.open, made.link) == (1, server.wires[1])
        assert (await made.request("x", {"name": "n"}, 3))["result"]["echo"] == "n"
        assert made.handshake is not None
        assert made.handshake.era is Era.MODERN


async def test_an_era_that_is_known_is_begun_with() -> None:
    async with session(modern, era=Era.MODERN) as (made, server):
        await made.open()
        await made.initialize(HELLO)
        assert [wire.methods()[0] for wire in server.wires] == ["server/discover"]


@pytest.mark.requirement("P-4")
async def test_a_list_without_a_cursor_is_read_to_its_end() -> None:
    async with session(legacy) as (made, _):
        await made.open()
        await made.initialize(HELLO)
        assert (await made.request("tools/list", None, 1))["result"] == {
            "tools": [{"name": "t0"}, {"name": "t1"}, {"name": "t2"}]
        }
        assert (await made.request("tools/list", {"cursor": "2"}, 1))["result"] == {"tools": [{"name": "t2"}]}


async def test_failures_of_one_request_are_error_responses() -> None:
    async with session(legacy) as (made, _):
        await made.open()
        await made.initialize(HELLO)
        assert (await made.request("refused", None, 5)) == {
            "jsonrpc": "2.0",
            "id": 5,
            "error": {"code": -32601, "message": "no such method", "data": {"x": 1}},
        }
        assert (await made.request("broken", None, 6))["error"] == {
            "code": -32603,
            "message": "old answered 502 Bad Gateway",
        }
        assert made.link is not None


@pytest.mark.requirement("S0-5")
@pytest.mark.parametrize("greeted", [True, False])
async def test_a_request_that_is_not_answered_in_time_is_a_timeout(greeted: bool) -> None:
    async with session(legacy, seconds=0.05) as (made, _):
        await made.open()
        if greeted:
            await made.initialize(HELLO)
        with pytest.raises(TimeoutError, match=r"old did not answer hang within 0\.05 s"):
            await made.request("hang", None, 1)
        assert made.link is not None


@pytest.mark.requirement("S0-11", "S0-55")
@pytest.mark.parametrize("greeted", [True, False])
async def test_a_connection_that_ends_is_seen_at_once_and_its_requests_fail(greeted: bool) -> None:
    async with session(legacy) as (made, server):
        await made.open()
        if greeted:
            await made.initialize(HELLO)
        with pytest.raises(RuntimeError, match="old closed the connection before it answered"):
            await made.request("lost", None, 1)
        assert made.link is None
        with pytest.raises(RuntimeError, match="old exited"):
            await made.request("x", None, 2)
        await anyio.wait_all_tasks_blocked()
        assert server.open == 0  # what it held is not kept until somebody closes it
        await made.close()
        assert server.open == 0


async def test_a_server_that_cannot_be_reached_is_an_error_that_says_so() -> None:
    async with session(legacy, seconds=0.05) as (made, server):
        server.failure = UpstreamError("could not be started: no such file")
        with pytest.raises(UpstreamError, match="no such file"):
            await made.open()
        server.failure, server.slow = None, True
        with pytest.raises(UpstreamError, match=r"could not be reached within 0\.05 s"):
            await made.open()
        assert made.link is None


@pytest.mark.requirement("S0-5")
async def test_a_server_that_does_not_answer_the_greeting_is_a_timeout() -> None:
    async def silent(wire: Wire, request: JSON) -> Any:
        await anyio.sleep_forever()

    async with session(silent, seconds=0.05) as (made, _):
        await made.open()
        with pytest.raises(TimeoutError, match=r"old did not answer initialize within 0\.05 s"):
            await made.initialize(HELLO)


@pytest.mark.parametrize("given_up", [True, False])
async def test_closing_does_not_wait_for_a_greeting_that_is_never_answered(given_up: bool) -> None:
    asked = anyio.Event()

    async def silent(wire: Wire, request: JSON) -> Any:
        asked.set()
        await anyio.sleep_forever()

    async with session(silent, seconds=60) as (made, server):
        await made.open()
        handshake = asyncio.create_task(made.initialize(HELLO))
        await asked.wait()
        if given_up:  # as by Ctrl-C
            handshake.cancel()
            await asyncio.wait([handshake])
        with anyio.fail_after(PATIENCE):
            await made.close()
        assert server.open == 0
        if not given_up:
            with pytest.raises(RuntimeError, match="old is no longer connected"):
                await handshake


async def test_what_is_opened_while_the_session_is_closed_does_not_stay_open() -> None:
    async with session(legacy, seconds=60) as (made, server):
        server.slow = True
        opening = asyncio.create_task(made.open())
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(PATIENCE):
            await made.close()
            with pytest.raises(UpstreamError, match="is no longer connected"):
                await opening
        assert (made.link, server.open) == (None, 0)


async def test_a_session_that_is_closed_before_its_connection_takes_a_first_step_keeps_nobody_waiting() -> None:
    async with session(legacy, seconds=60) as (made, server):
        opening, closing = asyncio.create_task(made.open()), asyncio.create_task(made.close())
        with anyio.fail_after(PATIENCE), pytest.raises(UpstreamError, match="is no longer connected"):
            await opening
        await closing
        assert server.wires == []


async def test_an_error_of_a_transport_is_raised_as_it_is() -> None:
    async with session(legacy) as (made, server):
        server.failure = OSError("no such device")
        with pytest.raises(OSError, match="no such device"):
            await made.open()


@pytest.mark.requirement("S0-29")
async def test_a_server_that_refuses_the_greeting_answers_with_an_error() -> None:
    async def refusing(wire: Wire, request: JSON) -> Any:
        return {"error": {"code": -32600, "message": "not today"}}

    async with session(refusing) as (made, _):
        await made.open()
        assert "not today" in (await made.initialize(HELLO))["error"]["message"]


@pytest.mark.requirement("S0-54")
async def test_a_server_that_is_not_greeted_is_sent_what_there_is() -> None:
    async with session(legacy) as (made, server):
        await made.open()
        assert await made.request("x", None, 4) == {"jsonrpc": "2.0", "id": 4, "result": {"echo": {}}}
        assert (await made.request("refused", {}, 5))["error"]["code"] == -32601
        assert (await made.request("broken", {}, 6))["error"]["message"] == "old answered 502 Bad Gateway"
        assert server.wires[0].requests[0] == {"jsonrpc": "2.0", "id": 1, "method": "x", "params": {}}


def held(method: str) -> tuple[Serve, anyio.Event, anyio.Event]:
    """A server that answers one request when it is told to; what says that it was asked, and what tells it."""
    asked, answered = anyio.Event(), anyio.Event()

    async def serve(wire: Wire, request: JSON) -> Any:
        if request["method"] == method:
            asked.set()
            await answered.wait()
        return await legacy(wire, request)

    return serve, asked, answered


async def test_what_is_asked_for_while_the_server_is_greeted_waits_for_that() -> None:
    slow, asked, answered = held("initialize")
    async with session(slow) as (made, server):
        await made.open()
        handshake = asyncio.create_task(made.initialize(HELLO))
        await asked.wait()
        request = asyncio.create_task(made.request("x", {}, 7))
        await anyio.wait_all_tasks_blocked()
        assert server.wires[0].methods() == ["initialize"]
        answered.set()
        assert (await request)["result"] == {"echo": {}}
        assert server.wires[0].methods() == ["initialize", "x"]
        await handshake


@pytest.mark.requirement("S0-54")
async def test_no_two_requests_of_a_link_have_one_id_also_not_before_and_after_the_greeting() -> None:
    slow, started, released = held("early")
    async with session(slow) as (made, server):
        await made.open()
        early = asyncio.create_task(made.request("early", {}, 2))
        await started.wait()
        await made.initialize(HELLO)
        assert (await made.request("late", {}, 2))["id"] == 2
        released.set()
        assert (await early)["id"] == 2
        ids = [request["id"] for request in server.wires[0].requests]
        assert len(set(ids)) == len(ids) == 3


@pytest.mark.parametrize("relayed", [True, False])
@pytest.mark.parametrize("serve", [legacy, modern])
async def test_a_server_that_was_greeted_before_is_greeted_before_anything_else_and_once(
    serve: Serve, relayed: bool
) -> None:
    async with session(serve, introduction=HELLO) as (made, server):
        await made.open()
        if relayed:
            asking = made.relay("x", {"name": "n"}, FakeRequest()), made.relay("y", {"name": "n"}, FakeRequest())
        else:
            asking = made.request("x", {"name": "n"}, 1), made.request("y", {"name": "n"}, 2)
        responses = await asyncio.gather(*asking)
        assert all("echo" in (response if relayed else response["result"]) for response in responses)
        methods = server.wires[-1].methods()
        assert methods[0] == ("initialize" if serve is legacy else "server/discover")
        assert {"x", "y"} <= set(methods)
        assert (await made.initialize(HELLO))["result"]["protocolVersion"]
        assert server.wires[-1].methods() == methods


async def until_asked(made: DetachedConnection, server: Server) -> tuple[asyncio.Task[JSON], asyncio.Task[JSON]]:
    """A request that began the greeting, and one that came later; the server has been greeted and has not answered."""
    await made.open()
    requests = tuple(asyncio.create_task(made.request(name, {}, 1)) for name in ("first", "second"))
    await until(lambda: server.wires[0].methods() == ["initialize"])
    return requests[0], requests[1]


async def never_greets(wire: Wire, request: JSON) -> Any:
    if request["method"] == "initialize":
        await anyio.sleep_forever()
    return await legacy(wire, request)


async def test_what_waits_for_a_greeting_that_takes_too_long_is_not_sent_without_it() -> None:
    async with session(never_greets, seconds=0.2, introduction=HELLO) as (made, server):
        for request in await until_asked(made, server):
            with pytest.raises(TimeoutError, match=r"old did not answer initialize within 0\.2 s"):
                await request
        assert [wire.methods() for wire in server.wires] == [["initialize"]]


async def test_a_request_that_is_cancelled_leaves_the_greeting_that_it_began_to_the_others() -> None:
    slow, _, answered = held("initialize")
    async with session(slow, introduction=HELLO) as (made, server):
        first, second = await until_asked(made, server)
        first.cancel()
        await asyncio.wait([first])
        answered.set()
        assert (await second)["result"] == {"echo": {}}
        assert [wire.methods() for wire in server.wires] == [["initialize", "second"]]


async def test_a_session_that_is_closed_while_the_server_is_greeted_opens_no_link_any_more() -> None:
    async with session(never_greets, seconds=60, introduction=HELLO) as (made, server):
        waiting = [*(await until_asked(made, server)), asyncio.create_task(made.initialize(HELLO))]
        await made.close()
        for request in (*waiting, asyncio.create_task(made.initialize(HELLO))):
            with pytest.raises(RuntimeError, match="old is no longer connected"):
                await request
        assert len(server.wires) == 1


@pytest.mark.parametrize("era", [Era.LEGACY, Era.MODERN])
async def test_a_session_that_was_closed_before_the_greeting_opens_no_link_any_more(era: Era) -> None:
    async with session(modern, era=era, introduction=HELLO) as (made, server):
        await made.open()
        await made.close()
        with pytest.raises(RuntimeError, match="old is no longer connected"):
            await made.request("x", {}, 1)
        assert len(server.wires) == 1


async def test_a_greeting_that_failed_is_not_tried_again_for_each_request() -> None:
    async def dies(wire: Wire, request: JSON) -> Any:
        wire.receiver.ended("exited with code 3")
        raise ConnectionLostError("exited with code 3")

    async with session(dies, introduction=HELLO) as (made, server):
        await made.open()
        requests = [asyncio.create_task(made.request("x", {}, number)) for number in range(3)]
        await asyncio.wait(requests)
        assert [str(request.exception()) for request in requests] == [
            "old exited with code 3 before it completed the handshake"
        ] * 3
        with pytest.raises(RuntimeError, match="before it completed the handshake"):
            await made.initialize(HELLO)
        assert len(server.wires) == 1


async def test_a_server_that_refuses_to_be_greeted_again_answers_the_request_with_that() -> None:
    async def refusing(wire: Wire, request: JSON) -> Any:
        return {"error": {"code": -32600, "message": "not today"}}

    async with session(refusing, introduction=HELLO) as (made, _):
        await made.open()
        response = await made.request("x", {}, 9)
        assert response["id"] == 9
        assert "not today" in response["error"]["message"]


@pytest.mark.parametrize("greeted", [True, False])
async def test_notifications_go_both_ways(greeted: bool) -> None:
    heard: list[str] = []
    async with session(legacy, heard=heard) as (made, server):
        await made.open()
        if greeted:
            await made.initialize(HELLO)
        wire = server.wires[0]
        wire.receiver.message({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, None)
        assert heard == ["notifications/tools/list_changed"]
        await made.notify("notifications/roots/list_changed", {"a": 1})
        assert wire.notifications[-1] == {
            "jsonrpc": "2.0",
            "method": "notifications/roots/list_changed",
            "params": {"a": 1},
        }
    await made.notify("notifications/roots/list_changed", None)


async def test_cancelling_everything_closes_the_link() -> None:
    server = Server(legacy)
    made = DetachedConnection("old", server, UpstreamLimits(), lambda method, params: None)
    await made.open()
    await made.initialize(HELLO)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    [own] = [task for task in others if task.get_name().endswith(" to old")]
    own.cancel()
    await asyncio.wait({own})
    assert server.open == 0
    await made.close()


class Asked(FakeRequest):
    """A request whose client answers every form, on whose behalf another is made."""

    def __init__(self) -> None:
        super().__init__({"progressToken": 1})
        self.client_capabilities = {"elicitation": {"form": {}}}

    def next_round(self, responses: JSON, state: str | None) -> Asked:
        again = Asked()
        again.modern, again.input_responses, again.request_state = True, responses, state
        return again

    async def push(self, method: str, params: JSON) -> JSON:
        return {"action": "accept", "content": {"asked": params["message"]}}


async def ask_in_rounds(wire: Wire, request: JSON) -> Any:
    """A server of 2026-07-28 that asks twice, and answers with what it was told."""
    if request["method"] != "tools/call":
        return await modern(wire, request)
    answers, state = request["params"].get("inputResponses"), request["params"].get("requestState", "")
    if len(state) < 2:
        form: JSON = {"message": f"{len(state) + 1}?", "requestedSchema": {"type": "object", "properties": {}}}
        question: JSON = {"method": "elicitation/create", "params": form}
        return {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": state + "x"}
    return {"resultType": "complete", "content": [], "structuredContent": {"told": answers}}


async def test_a_request_on_behalf_of_another_plays_the_rounds_of_a_modern_server() -> None:
    async with session(ask_in_rounds, era=Era.MODERN) as (made, server):
        await made.open()
        await made.initialize(HELLO)
        result = await made.relay("tools/call", {"name": "t", "arguments": {}}, Asked())
    assert result["structuredContent"]["told"] == {"q": {"action": "accept", "content": {"asked": "2?"}}}
    calls = [message for wire in server.wires for message in wire.requests if message["method"] == "tools/call"]
    assert [call["params"].get("requestState") for call in calls] == [None, "x", "xx"]
