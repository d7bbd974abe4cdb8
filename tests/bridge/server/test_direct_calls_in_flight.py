"""Something happens while a direct call is in flight: the client and the server see the same as on the ordinary way."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.deadlines import Clock, Clocks, Deadline
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.errors import ToolError
from gaia_bridge.model import ServerOptions, StdioServerSpec
from gaia_bridge.server.http.access_policy import AccessPolicy, LiveToken
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import HttpLimits, Settings, UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.test_direct_calls import ERAS, META
from tests.bridge.server.test_direct_calls import began as began  # a fixture
from tests.interaction.connecting import serving
from tests.support.agents import one_tool
from tests.support.upstreams import TESTS
from tests.support.waiting import PATIENCE, until, wait_in_thread

pytestmark = pytest.mark.anyio

DO: Final = "up__do"
LATER: Final = [["hold", "it"], ["text", "later"]]
ALSO: Final[JSON] = {"name": "also", "inputSchema": {"type": "object"}}
NOW: Final = [["text", "now"]]


class Client:
    """One client with one kept connection, whose requests of one tool have the same head."""

    def __init__(self, http: httpx2.AsyncClient, url: str, revision: str, session: str = "") -> None:
        self._http = http
        self.url = url
        self.modern = revision == "2026-07-28"
        self.headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": revision}
        if session:
            self.headers["mcp-session-id"] = session

    @property
    def session(self) -> str:
        return self.headers["mcp-session-id"]

    async def greet(self, capabilities: JSON) -> None:
        revision = self.headers["mcp-protocol-version"]
        about = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": META_INFO}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}
        answer = await self._http.post(self.url, json=message, headers=self.headers)
        self.headers["mcp-session-id"] = answer.headers["mcp-session-id"]

    def message(self, steps: list[Any], tag: str = "", number: int = 5, name: str = DO, **meta: Any) -> JSON:
        params: JSON = {"name": name, "arguments": {"steps": steps, "tag": tag}}
        if self.modern or meta:
            params["_meta"] = {**(META if self.modern else {}), **meta}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    async def send(self, message: JSON) -> list[Any]:
        """Return the messages that answer a message, and the status if that is no success."""
        named: dict[str, str] = {}
        if self.modern and "id" in message:
            name = message["params"].get("name")
            named = {"mcp-method": message["method"], **({} if name is None else {"mcp-name": name})}
        headers = {**self.headers, **named, "content-type": "application/json"}
        answer = await self._http.post(self.url, content=json.dumps(message).ljust(900), headers=headers)
        lines = [line.removeprefix("data: ") for line in answer.text.split("\r\n") if line.startswith("data: {")]
        said = [json.loads(line) for line in lines or ([answer.text] if answer.text else [])]
        return said if answer.is_success else [answer.status_code, *said]

    async def call(self, steps: list[Any], tag: str = "", number: int = 5, **more: Any) -> list[Any]:
        return await self.send(self.message(steps, tag, number, **more))

    async def listed(self) -> list[Any]:
        params = {"_meta": META} if self.modern else {}
        return await self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params})

    async def received(self) -> list[Any]:
        """Return what the server was sent, except calls like this one."""
        [answer] = await self.call([["received"]])
        received: list[Any] = json.loads(answer["result"]["content"][0]["text"])
        return [item for item in received if item != ""]

    async def question(self, steps: list[Any], take: Callable[[JSON], Awaitable[object]]) -> list[Any]:
        """Make a call during which the server asks; return all messages."""
        said: list[Any] = []
        message, headers = self.message(steps), {**self.headers, "content-type": "application/json"}
        content = json.dumps(message).ljust(900)
        async with self._http.stream("POST", self.url, content=content, headers=headers) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    said.append(json.loads(line.removeprefix("data: ")))
                    if "method" in said[-1] and "id" in said[-1]:
                        await take(said[-1])
        return said

    async def end_session(self) -> None:
        assert (await self._http.delete(self.url, headers=self.headers)).status_code == 200


META_INFO: Final = META["io.modelcontextprotocol/clientInfo"]


class World:
    """A bridge with a scripted server, and its clients."""

    def __init__(self, url: str, bridge: Bridge, revision: str, stack: AsyncExitStack) -> None:
        self.url = url
        self.bridge = bridge
        self.modern = revision == "2026-07-28"
        self._revision = revision
        self._stack = stack

    async def client(self, session: str = "", capabilities: JSON | None = None) -> Client:
        """Return one whose next call is direct, unless it has the session of another."""
        http = await self._stack.enter_async_context(httpx2.AsyncClient())
        client = Client(http, f"{self.url}/mcp", self._revision, session)
        if not session:
            if not self.modern:
                await client.greet(capabilities or {})
            for _ in range(2):
                await client.call(NOW)
        return client

    async def in_flight(self, tasks: TaskGroup, answer: list[Any], client: Client) -> None:
        """Make a call whose answer is to come later, and wait until the server has it."""

        async def call() -> None:
            answer.extend(await client.call(LATER, "held", number=7))

        tasks.start_soon(call)
        other = await self.client()
        with anyio.fail_after(PATIENCE):
            while "held" not in await other.received():
                pass


@asynccontextmanager
async def world(
    revision: str,
    *,
    direct: bool,
    limits: UpstreamLimits | None = None,
    quick_answer: float = 1.0,
    options: ServerOptions | None = None,
    servers: str = "",
    sessions: int = 256,
) -> AsyncGenerator[World]:
    """A bridge whose clients have a revision, with a server of that revision, or of another (`servers`)."""
    upstream = limits or UpstreamLimits()
    http = HttpLimits(quick_answer=quick_answer, sessions=sessions)
    settings = Settings(direct_calls=direct, upstream=upstream, http=http)
    env = {"DIRECT": str(direct)}  # another server: the lists of a server are remembered
    more = ("modern",) if (servers or revision) == "2026-07-28" else ()
    script = str(TESTS / "servers" / "scripted_server.py")
    spec = StdioServerSpec("up", sys.executable, ("-S", script, *more), env, options=options or ServerOptions())
    async with serving({}, settings) as (url, bridge), AsyncExitStack() as stack:
        await bridge.add_upstream(spec)
        yield World(url, bridge, revision, stack)


Scene = Callable[[World, list[Any]], Awaitable[None]]
"""Plays something, and notes what clients and server see."""


async def an_ordinary_call_reports_progress_and_logs(world: World, seen: list[Any]) -> None:
    held: list[Any] = []
    async with anyio.create_task_group() as tasks:
        await world.in_flight(tasks, held, await world.client())
        other = await world.client()
        seen += await other.call([["progress", 1], ["progress", 2], ["text", "done"]], progressToken="mine")
        await other.call([["release", "it"], *NOW])
    seen.append(held)


async def it_is_cancelled_by_its_client(world: World, seen: list[Any]) -> None:
    client = await world.client()
    held: list[Any] = []
    async with anyio.create_task_group() as tasks:
        await world.in_flight(tasks, held, client)
        if not world.modern:
            other = await world.client(client.session)
            cancel = {"requestId": 7, "reason": "enough"}
            await other.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel})
        else:
            tasks.cancel_scope.cancel()
    other = await world.client()
    with anyio.fail_after(PATIENCE):
        while "cancelled" not in await other.received():
            pass
    seen += [held, await other.received()]


async def its_session_ends(world: World, seen: list[Any]) -> None:
    client = await world.client()
    held: list[Any] = []
    async with anyio.create_task_group() as tasks:
        await world.in_flight(tasks, held, client)
        if world.modern:
            await (await world.client()).call([["release", "it"], *NOW])
        else:
            await (await world.client(client.session)).end_session()
    seen += [held, await client.call(NOW), await (await world.client()).received()]


async def its_server_dies(world: World, seen: list[Any]) -> None:
    held: list[Any] = []
    async with anyio.create_task_group() as tasks:
        await world.in_flight(tasks, held, await world.client())
        seen += await (await world.client()).call([["die"]])
    seen += [held, await (await world.client()).call(NOW)]


async def its_tool_is_removed(world: World, seen: list[Any]) -> None:
    held: list[Any] = []
    async with anyio.create_task_group() as tasks:
        await world.in_flight(tasks, held, await world.client())
        other = await world.client()
        seen += await other.call([["list", ALSO], *NOW])
        seen += await other.call([["release", "it"], *NOW], name="up__also")
    seen.append(held)


async def its_id_is_used_again(world: World, seen: list[Any]) -> None:
    client = await world.client()
    held: list[Any] = []
    async with anyio.create_task_group() as tasks:
        await world.in_flight(tasks, held, client)
        other = await world.client("" if world.modern else client.session)
        await other.call(NOW)
        seen += await other.call(NOW, "second", number=7)
        await other.call([["release", "it"], *NOW], number=8)
    seen += [held, await (await world.client()).received()]


async def its_server_logs_and_answers(world: World, seen: list[Any]) -> None:
    client = await world.client()
    if not world.modern:
        await client.send({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "debug"}})
        await client.call(NOW)
    for _ in range(2):
        seen += await client.call([["log", "one"], ["log", "two"], ["text", "done"]])


async def its_server_asks(world: World, seen: list[Any]) -> None:
    if world.modern:
        return
    declared: list[JSON] = [{"roots": {}}, {}]
    for capabilities in declared:
        client = await world.client(capabilities=capabilities)
        other = await world.client(client.session)

        async def answer(question: JSON, other: Client = other) -> None:
            await other.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})

        steps: list[Any] = [["ask", "roots/list", {}], ["text", "asked"]]
        seen += await client.question(steps, answer) if capabilities else await client.call(steps)
        seen += await client.received()


async def its_tool_wants_a_header_since_the_last_call(world: World, seen: list[Any]) -> None:
    client, other = await world.client(), await world.client()
    schema = {"type": "object", "properties": {"tag": {"type": "string", "x-mcp-header": "Tag"}}}
    seen += await other.call([["list", ALSO, {"name": "do", "inputSchema": schema}], *NOW], name="up__also")
    with anyio.fail_after(PATIENCE):
        while "x-mcp-header" not in str(await other.listed()):
            pass
    for _ in range(2):
        seen += await client.call(NOW, "tag")


SCENES: Final[tuple[Scene, ...]] = (
    an_ordinary_call_reports_progress_and_logs,
    it_is_cancelled_by_its_client,
    its_session_ends,
    its_server_dies,
    its_tool_is_removed,
    its_id_is_used_again,
    its_server_logs_and_answers,
    its_server_asks,
    its_tool_wants_a_header_since_the_last_call,
)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_while_a_direct_call_is_in_flight(scene: Scene, revision: str, began: list[DirectCall]) -> None:
    seen: list[list[Any]] = []
    with anyio.fail_after(2 * PATIENCE):
        for direct in (True, False):
            seen.append([])
            async with world(revision, direct=direct) as place:
                await scene(place, seen[-1])
            assert bool(began) is direct or (scene is its_server_asks and revision == "2026-07-28")
            began.clear()
    assert seen[0] == seen[1]


async def test_a_direct_call_ends_at_the_deadline_of_its_server_however_long_clients_wait(
    began: list[DirectCall],
) -> None:
    limits = UpstreamLimits(call_timeout=0.2)
    async with world("2025-11-25", direct=True, limits=limits, quick_answer=1e6) as place:
        client = await place.client()
        with anyio.fail_after(PATIENCE):
            [answer] = await client.call(LATER)
    assert began
    assert "did not answer tools/call within 0.2 s" in answer["result"]["content"][0]["text"]


async def test_the_time_without_a_sign_of_life_counts_from_the_beginning_of_a_request() -> None:
    clocks = Clocks()
    with Clock(clocks, 1, Deadline(10, 100), age=4) as old, Clock(clocks, 2, Deadline(10, 100)) as new:
        assert 3.9 < new.ends_at - old.ends_at < 4.1
        old.restart()
        assert old.ends_at >= new.ends_at
    clocks.close()


class Waiting:
    """An agent that is held until the test lets it go, and then says that it failed."""

    def __init__(self) -> None:
        self.works = threading.Event()
        self.may_end = threading.Event()

    def work(self, arguments: JSON) -> str:
        if arguments["tag"] == "held":
            self.works.set()
            self.may_end.wait(PATIENCE)
            raise ToolError("no luck")
        return "yes"


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("change", ["its agent is removed", "the token of the bridge changes"])
async def test_a_call_that_has_begun_is_answered_though(change: str, revision: str, began: list[DirectCall]) -> None:
    agent, token = Waiting(), LiveToken("first-token")
    async with Bridge() as bridge, anyio.create_task_group() as tasks, httpx2.AsyncClient() as http:
        await bridge.add_agent(one_tool(agent.work), "one")
        sockets = bind("127.0.0.1", 0)
        port: int = sockets[0].getsockname()[1]
        app = bridge.asgi(AccessPolicy.for_address("127.0.0.1", port, token=token))
        server = HttpServer(app, sockets=sockets, limits=bridge.settings.http, on_shutdown=[bridge.close_streams])
        await tasks.start(server.run)
        client = Client(http, f"http://127.0.0.1:{port}/mcp", revision)
        client.headers["authorization"] = "Bearer first-token"
        if not client.modern:
            await client.greet({})
        for _ in range(2):
            await client.call([], name="work")
        seen: list[Any] = []

        async def call() -> None:
            seen.extend(await client.call([], "held", name="work"))

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await wait_in_thread(agent.works.wait)
            if change == "its agent is removed":
                await bridge.remove("one")
            else:
                token.exchange("second-token")
            agent.may_end.set()
        assert began
        assert seen[0]["result"]["isError"] is True, seen
        words = "no longer published" if change == "its agent is removed" else "no luck"
        assert words in seen[0]["result"]["content"][0]["text"]
        server.stop()


@pytest.mark.parametrize("revision", ERAS)
async def test_a_call_that_is_cancelled_has_a_line_in_the_log(
    revision: str, began: list[DirectCall], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "gaia_bridge.calls.call_log"):
        async with world(revision, direct=True) as place:
            seen: list[Any] = []
            await it_is_cancelled_by_its_client(place, seen)
    assert began
    assert len([line for line in caplog.messages if f"{DO} of up: cancelled" in line]) == 1


async def test_names_that_nobody_lists_are_not_remembered() -> None:
    async with serving({"one": one_tool(lambda _: "yes")}) as (url, bridge), httpx2.AsyncClient() as http:
        client = Client(http, f"{url}/mcp", "2025-11-25")
        await client.greet({})
        message = client.message([])
        for name in ("work", "work", "ab01", "ab02", "ab03", "work"):
            message["params"]["name"] = name
            await client.send(message)
        direct = bridge._endpoints["", ""].dispatcher.direct  # pyright: ignore[reportPrivateUsage]
        assert direct is not None
        assert direct.routes.keys() == {"work"}


async def test_calls_beyond_the_limit_of_a_server_wait_for_their_turn_in_order(began: list[DirectCall]) -> None:
    async with world("2025-11-25", direct=True, limits=UpstreamLimits(max_concurrency=1)) as place:
        clients = [await place.client() for _ in range(4)]
        others = [await place.client(client.session) for client in clients]
        answers: dict[str, list[Any]] = {}

        async def call(number: int, steps: list[Any]) -> None:
            answers[str(number)] = await clients[number].call(steps, str(number), number=7)

        async def cancel(number: int) -> None:
            params = {"requestId": 7, "reason": "enough"}
            await others[number].send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

        began.clear()
        async with anyio.create_task_group() as tasks:
            for number, steps in enumerate((LATER, NOW, NOW, NOW)):
                tasks.start_soon(call, number, steps)
                await until(lambda number=number: len(began) > number)  # type: ignore[misc]
            assert [waiting.is_unsent for waiting in began] == [False, True, True, True]
            await cancel(3)
            await until(lambda: "3" in answers)
            assert list(answers) == ["3"]
            await cancel(0)
        assert [answers[number][0].get("error", {}).get("message") for number in "03"] == ["Request cancelled"] * 2
        assert [answers[number][0]["result"]["content"][0]["text"] for number in "12"] == ["now", "now"]
        received = await clients[0].received()
        assert [item for item in received if item in ("1", "2", "3")] == ["1", "2"]


async def test_a_call_that_waits_longer_than_a_quick_answer_is_an_ordinary_one(
    began: list[DirectCall],
) -> None:
    limits = UpstreamLimits(max_concurrency=1)
    async with world("2025-11-25", direct=True, limits=limits, quick_answer=0.05) as place:
        clients = [await place.client() for _ in range(2)]
        other = await place.client(clients[0].session)
        answers: list[Any] = []
        began.clear()

        async def call(number: int, steps: list[Any]) -> None:
            answers.append(await clients[number].call(steps, number=7))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, 0, LATER)
            await until(lambda: len(began) == 1)
            tasks.start_soon(call, 1, NOW)
            await until(lambda: len(began) == 2 and began[1].is_withdrawn)
            await other.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        assert sorted("result" in answer[0] for answer in answers) == [False, True]


async def log_for_a_cancelled_call(world: World, seen: list[Any]) -> None:
    """Cancel a call, after which the server logs for it while a call of another client is in flight."""
    client, other = await world.client(), await world.client()
    await other.send({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "debug"}})
    second = await world.client(client.session)
    steps: list[Any] = [["hold", "it"], ["log", "of the cancelled call"], ["text", "late"]]
    async with anyio.create_task_group() as tasks:

        async def call() -> None:
            seen.extend(await client.call(steps, "held", number=7))

        tasks.start_soon(call)
        with anyio.fail_after(PATIENCE):
            while "held" not in await other.received():
                pass
        await second.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    seen += await other.call([["release", "it"], ["text", "mine"]])


async def test_a_log_message_of_a_cancelled_call_reaches_no_other_client() -> None:
    seen: list[list[Any]] = []
    for direct in (True, False):
        seen.append([])
        async with world("2025-11-25", direct=direct, limits=UpstreamLimits(answered_grace=0)) as place:
            await log_for_a_cancelled_call(place, seen[-1])
    assert seen[0] == seen[1]
    assert "of the cancelled call" not in str(seen)
