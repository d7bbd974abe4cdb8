"""Direct calls over HTTP: their sessions, their connections, and the end of the program."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.errors import RequestCancelledError, ToolError
from gaia_bridge.server.http.access_policy import AccessPolicy, LiveToken
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import AgentLimits, ClientLimits, HttpLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.test_direct_calls import ERAS, RawClient
from tests.bridge.server.test_direct_calls import began as began  # a fixture
from tests.bridge.server.test_direct_calls_in_flight import Client
from tests.support.agents import ScriptedAgent, one_tool
from tests.support.waiting import PATIENCE, comes_true, until, wait_in_thread

pytestmark = pytest.mark.anyio

LOGGER: Final = "gaia_bridge.calls.call_log"


class Worker:
    """An agent that answers as its caller says, or is held until the test lets it go."""

    def __init__(self) -> None:
        self.works = threading.Event()
        self.may_end = threading.Event()
        self.done: list[str] = []

    def work(self, arguments: JSON) -> Any:
        tag = arguments["tag"]
        self.done.append(tag)
        match tag:
            case "held":
                self.works.set()
                self.may_end.wait(PATIENCE)
            case "wait":
                self._wait()
            case "log":
                get_request_context().log("a message", level="error")
            case "fail":
                raise ToolError("no luck")
            case "roots":
                return str(get_request_context().list_roots())
            case "large":
                return "much " * 1_000
            case "structured":
                return {"a": 1}
            case "odd":
                return {"number": 10**5_000, "text": "\ud800"}
            case _:
                pass
        return f"yes {tag}"

    def _wait(self) -> None:
        request = get_request_context()
        self.works.set()
        request.wait_cancelled(PATIENCE)
        try:
            request.raise_if_cancelled()
        except RequestCancelledError as error:
            self.done.append(error.reason)


class Door:
    """A bridge with one agent behind an HTTP server."""

    server: HttpServer

    def __init__(self, bridge: Bridge, published: ScriptedAgent, agent: Worker, url: str, revision: str) -> None:
        self.bridge = bridge
        self.published = published
        self.agent = agent
        self.url = url
        self.revision = revision
        self.is_ending = anyio.Event()
        """Set when the server begins to end."""

    async def client(self, http: httpx2.AsyncClient, token: str = "") -> Client:
        """Return a client whose next call is direct."""
        client = Client(http, f"{self.url}/mcp", self.revision)
        if token:
            client.headers["authorization"] = f"Bearer {token}"
        if not client.modern:
            await client.greet({})
        for _ in range(2):
            await call(client, "")
        return client


async def call(client: Client, tag: str, number: int = 5) -> list[Any]:
    return await client.call([], tag, number, name="work")


@asynccontextmanager
async def door(
    revision: str = "2025-11-25", *, token: LiveToken | None = None, **settings: Any
) -> AsyncGenerator[Door]:
    agent = Worker()
    async with Bridge(settings=Settings(**settings)) as bridge, anyio.create_task_group() as tasks:
        published = ScriptedAgent(lambda _, given: agent.work(given), "work", "also")
        await bridge.add_agent(published, "one")
        sockets = bind("127.0.0.1", 0)
        port: int = sockets[0].getsockname()[1]
        limits = bridge.settings.http
        app = bridge.asgi(AccessPolicy.for_address("127.0.0.1", port, token=token, limits=limits))
        door = Door(bridge, published, agent, f"http://127.0.0.1:{port}", revision)
        hooks = [bridge.close_streams, door.is_ending.set]
        door.server = server = HttpServer(app, sockets=sockets, limits=limits, on_shutdown=hooks)
        await tasks.start(server.run)
        try:
            yield door
        finally:
            agent.may_end.set()
            server.stop()


async def held(door: Door, client: Client, tasks: TaskGroup, seen: list[Any], tag: str = "held") -> None:
    """Make a call that is held, and wait until the agent works on it."""

    async def make() -> None:
        seen.extend(await call(client, tag))

    tasks.start_soon(make)
    await wait_in_thread(door.agent.works.wait)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("settings", [{}, {"clients": ClientLimits(results=(("direct", 2_048),))}], ids=["all", "few"])
async def test_the_results_of_an_agent_are_those_of_the_ordinary_way(
    settings: Any, revision: str, began: list[DirectCall]
) -> None:
    seen: list[list[Any]] = []
    for direct in (True, False):
        seen.append([])
        async with door(revision, direct_calls=direct, **settings) as entered, httpx2.AsyncClient() as http:
            for tag in ("log", "fail", "roots", "large", "structured", "odd"):
                client = await entered.client(http)
                seen[-1] += [await call(client, tag), await call(client, "again")]
        assert bool(began) is direct
        began.clear()
    assert re.sub(r"[0-9a-f-]{20,}", "ID", str(seen[0])) == re.sub(r"[0-9a-f-]{20,}", "ID", str(seen[1]))


@pytest.mark.parametrize("revision", ERAS)
async def test_each_direct_call_has_its_line_in_the_log(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    lines: list[list[str]] = []
    for direct in (True, False):
        caplog.clear()
        with caplog.at_level("INFO", LOGGER):
            async with door(revision, direct_calls=direct) as entered, httpx2.AsyncClient() as http:
                client = await entered.client(http)
                for tag in ("one", "fail"):
                    await call(client, tag)
        said = [record.getMessage() for record in caplog.records if record.name == LOGGER]
        lines.append([re.sub(r"#[0-9a-f]{4}|[0-9.e-]+ ms", "", line) for line in said])
    assert lines[0] == lines[1]
    assert len(lines[0]) == 4


async def test_a_call_that_ends_at_its_deadline_says_so_in_its_line_in_the_log(
    caplog: pytest.LogCaptureFixture, began: list[DirectCall]
) -> None:
    with caplog.at_level("INFO", LOGGER):
        limits: Any = {"agent": AgentLimits(call_timeout=0.2), "http": HttpLimits(quick_answer=0.1)}
        async with door(**limits) as entered, httpx2.AsyncClient() as http:
            await call(await entered.client(http), "held")
    assert began
    assert "timed out in" in [record.getMessage() for record in caplog.records if record.name == LOGGER][-1]


@pytest.mark.parametrize("arguments", [[1], "text"])
@pytest.mark.parametrize("revision", ERAS)
async def test_arguments_that_are_no_object_are_refused(revision: str, arguments: object) -> None:
    async with door(revision) as entered, httpx2.AsyncClient() as http:
        client = await entered.client(http)
        message = client.message([], name="work")
        message["params"]["arguments"] = arguments
        said = await client.send(message)
    assert said[-1]["error"]["code"] == -32602


async def test_a_call_of_another_tool_than_its_head_names_is_refused() -> None:
    async with door("2026-07-28") as entered, httpx2.AsyncClient() as http:
        client = await entered.client(http)
        for _ in range(2):
            await client.call([], "yes", name="also")
        head = {**client.headers, "content-type": "application/json"}
        head |= {"mcp-method": "tools/call", "mcp-name": "work"}
        statuses: list[int] = []
        for name in ("work", "work", "also"):
            content = json.dumps(client.message([], "named", name=name)).ljust(900)
            statuses.append((await http.post(client.url, content=content, headers=head)).status_code)
    assert statuses == [200, 200, 400]
    assert entered.agent.done.count("named") == 2


async def test_a_call_that_has_begun_is_not_judged_by_a_later_definition_of_its_tool(began: list[DirectCall]) -> None:
    seen: list[Any] = []
    limits, quick = AgentLimits(definitions_max_age=0), HttpLimits(quick_answer=0.5)
    async with door("2026-07-28", agent=limits, http=quick) as entered, httpx2.AsyncClient() as http:
        client = await entered.client(http)
        began.clear()
        async with anyio.create_task_group() as tasks:
            await held(entered, client, tasks, seen)
            schema = {"type": "object", "properties": {"tag": {"type": "string", "x-mcp-header": "Tag"}}}
            entered.published.tools[0] = {"name": "work", "inputSchema": schema}
            while "x-mcp-header" not in str(await client.listed()):
                pass
            await until(lambda: began[0].is_adopted)
            entered.agent.may_end.set()
    assert "yes held" in str(seen)


async def test_a_session_gives_way_once_its_direct_calls_are_over() -> None:
    async with door(http=HttpLimits(sessions=2)) as entered, httpx2.AsyncClient() as http:
        client = await entered.client(http)
        await call(client, "fail")
        await call(client, "yes")
        others = [Client(http, client.url, entered.revision) for _ in range(2)]
        for other in others:
            await other.greet({})
            assert (await call(other, "yes"))[0]["result"]
        assert (await call(client, "late"))[0] == 404


async def test_a_session_does_not_give_way_during_a_direct_call_or_after_one_while_a_stream_is_open() -> None:
    async with door(http=HttpLimits(sessions=2)) as entered, httpx2.AsyncClient() as http:
        client, seen = await entered.client(http), list[Any]()
        await call(client, "yes")
        others = [Client(http, client.url, entered.revision) for _ in range(3)]
        accept = {**client.headers, "accept": "text/event-stream"}
        async with http.stream("GET", client.url, headers=accept):
            for other in others[:2]:
                await other.greet({})
                assert (await call(other, "yes"))[0]["result"]
            assert (await call(client, "still"))[0]["result"]
        async with anyio.create_task_group() as tasks:
            await held(entered, client, tasks, seen)
            await others[2].greet({})
            assert (await call(others[2], "yes"))[0]["result"]
            entered.agent.may_end.set()
        assert "yes held" in str(seen)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_token_that_has_changed_admits_no_direct_call(revision: str) -> None:
    token = LiveToken("first-token")
    async with door(revision, token=token) as entered, httpx2.AsyncClient() as http:
        client = await entered.client(http, "first-token")
        token.exchange("second-token")
        assert (await call(client, "late"))[0] == 401
        assert "late" not in entered.agent.done


@pytest.mark.parametrize("revision", ERAS)
async def test_the_program_ends_after_a_direct_call_is_answered(revision: str, began: list[DirectCall]) -> None:
    seen: list[Any] = []
    async with door(revision) as entered, httpx2.AsyncClient() as http:
        client = await entered.client(http)
        async with anyio.create_task_group() as tasks:
            await held(entered, client, tasks, seen)
            entered.server.stop()
            await entered.is_ending.wait()
            entered.agent.may_end.set()
    assert began
    assert "yes held" in str(seen)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_direct_call_that_outlasts_the_end_of_the_program_gets_an_error(
    revision: str, began: list[DirectCall]
) -> None:
    seen: list[Any] = []
    async with door(revision, http=HttpLimits(shutdown_grace=0.05)) as entered, httpx2.AsyncClient() as http:
        client = await entered.client(http)
        async with anyio.create_task_group() as tasks:
            await held(entered, client, tasks, seen)
            entered.server.stop()
    assert began
    assert seen[0] == 503


@pytest.mark.parametrize("revision", ERAS)
async def test_a_request_behind_a_direct_call_is_answered_after_it(revision: str, began: list[DirectCall]) -> None:
    async with door(revision) as entered:
        port = int(entered.url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            client = RawClient(stream, f"127.0.0.1:{port}", revision)
            await client.greet()
            for _ in range(2):
                await client.call("work", {"tag": "yes"})
            assert began
            bodies: tuple[str, ...] = ()
            async with anyio.create_task_group() as tasks:

                async def let_go() -> None:
                    await wait_in_thread(entered.agent.works.wait)
                    entered.agent.may_end.set()

                tasks.start_soon(let_go)
                bodies = await client.both("work", {"tag": "held"}, {"tag": "second"})
    for body, words in zip(bodies, ("yes held", "yes second"), strict=True):
        assert words in body


@pytest.mark.parametrize("quick", [PATIENCE, 0.01], ids=["direct", "ordinary meanwhile"])
async def test_the_reason_for_cancelling_a_direct_call_reaches_the_agent(quick: float, began: list[DirectCall]) -> None:
    seen: list[Any] = []
    async with door(http=HttpLimits(quick_answer=quick)) as entered, httpx2.AsyncClient() as http:
        client = await entered.client(http)
        began.clear()
        async with anyio.create_task_group() as tasks:
            await held(entered, client, tasks, seen, "wait")
            if quick < PATIENCE:
                await until(lambda: began[0].is_adopted)
            params = {"requestId": 5, "reason": "enough"}
            await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        await wait_in_thread(comes_true(lambda: "enough" in entered.agent.done))
    assert began


@pytest.mark.parametrize("revision", ERAS)
async def test_a_tool_whose_agent_is_another_is_called_there(revision: str) -> None:
    second = Worker()
    async with door(revision) as entered, httpx2.AsyncClient() as http:
        client = await entered.client(http)
        await entered.bridge.remove("one")
        await entered.bridge.add_agent(one_tool(second.work), "one")
        for tag in ("first", "second"):
            assert f"yes {tag}" in str(await call(client, tag))
    assert second.done == ["first", "second"]
