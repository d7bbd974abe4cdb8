"""Server objects of the official SDK, published without a process, whatever their author's code does."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from gaia_bridge import Bridge, Client
from gaia_bridge.bridge.chaining.sdk_transport import SdkServerTransport, _SdkLink  # pyright: ignore[reportPrivateUsage]
from gaia_bridge.model import AgentServerSpec, SourceState
from gaia_bridge.settings import AgentLimits, Settings, UpstreamLimits
from tests.interaction.connecting import ERAS, client_of
from tests.support.agents import one_tool
from tests.support.bridges import text_of
from tests.support.on_demand import mcp_lowlevel, mcp_server
from tests.support.waiting import PATIENCE, until

if TYPE_CHECKING:
    import mcp

pytestmark = pytest.mark.anyio

NOTHING: dict[str, Any] = {}

QUICK = Settings(agent=AgentLimits(farewell=1), upstream=UpstreamLimits(backoff_start=0.01, backoff_cap=0.01))


class Sums:
    """A server, and what a test wants to know of it."""

    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.cancelled = threading.Event()
        self.begun = threading.Event()
        self.released = threading.Event()
        self.ended = threading.Event()
        self.lifespans: list[str] = []
        self.server: Any = mcp_server.MCPServer("sums", instructions="Adds.", lifespan=self._lifespan)
        self.server.tool()(self.add)
        self.server.tool()(self.wait)
        self.server.tool()(self.block)
        self.server.resource("sums://{a}/{b}")(self.read)

    @asynccontextmanager
    async def _lifespan(self, server: Any) -> AsyncGenerator[None]:
        self.lifespans.append("begun")
        try:
            yield
        finally:
            self.lifespans.append("ended")

    async def add(self, a: int, b: int) -> int:
        """Add."""
        self.threads.add(threading.current_thread().name)
        return a + b

    async def wait(self) -> None:
        try:
            self.begun.set()
            await anyio.sleep_forever()
        finally:
            self.cancelled.set()

    async def block(self) -> str:
        """Holds the loop that it runs on, as a careless author's code does."""
        self.begun.set()
        released = self.released.wait(PATIENCE)
        self.ended.set()
        return "released" if released else "stuck"

    def read(self, a: str, b: str) -> str:
        return f"{a} and {b}"


@asynccontextmanager
async def connected(era: str, sums: Sums, settings: Settings = QUICK) -> AsyncGenerator[tuple[Bridge, mcp.Client]]:
    async with Bridge(settings=settings) as bridge:
        for source in (one_tool(lambda arguments: arguments, "echo"), sums.server, mcp_lowlevel.Server("empty")):
            await bridge.add_agent(source)
        for added in bridge.sources:
            await added.learn()
        async with client_of(bridge.sdk_server(), era) as client:
            yield bridge, client


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_object_is_published_with_what_it_offers(era: str) -> None:
    sums = Sums()
    async with connected(era, sums) as (bridge, client):
        assert [source.name for source in bridge.sources][1:] == ["sums", "empty"]
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["echo", "sums__add", "sums__wait", "sums__block"]
        assert (await client.call_tool("sums__add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        [read] = (await client.read_resource("sums://1/2")).contents
        assert getattr(read, "text", None) == "1 and 2"
        wrong = await client.call_tool("sums__add", {"a": "x", "b": 2})
        assert wrong.is_error
    assert sums.threads == {"agent sums loop"}
    assert sums.lifespans == ["begun", "ended"]


@pytest.mark.parametrize("era", ERAS)
async def test_giving_up_a_call_reaches_the_server_object(era: str) -> None:
    sums = Sums()
    async with connected(era, sums) as (_, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "sums__wait", NOTHING)
            assert await anyio.to_thread.run_sync(sums.begun.wait, PATIENCE)
            tasks.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(sums.cancelled.wait, PATIENCE)
        assert (await client.call_tool("sums__add", {"a": 1, "b": 2})).structured_content == {"result": 3}


async def test_a_server_object_that_holds_its_loop_holds_nobody_elses() -> None:
    sums = Sums()
    async with connected("modern", sums) as (_, client):
        answers: list[str] = []

        async def block() -> None:
            answers.append(text_of(await client.call_tool("sums__block", {})))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(block)
            assert await anyio.to_thread.run_sync(sums.begun.wait, PATIENCE)
            assert (await client.call_tool("echo", {"a": 1})).structured_content == {"a": 1}
            sums.released.set()
        assert answers == ["released"]


async def test_a_bridge_ends_in_bounded_time_though_a_server_object_holds_its_loop() -> None:
    sums = Sums()
    try:
        async with connected("modern", sums) as (_, client), anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "sums__block", NOTHING)
            assert await anyio.to_thread.run_sync(sums.begun.wait, PATIENCE)
            tasks.cancel_scope.cancel()
        assert not sums.ended.is_set(), "it waited for the code"
    finally:
        sums.released.set()


class Fragile:
    """A server whose connection breaks as often as a test wants: implements what is run of a `Server`."""

    name = "fragile"

    def __init__(self, breaks: int) -> None:
        self.server: Any = mcp_lowlevel.Server("fragile")
        self.breaks = breaks
        self.runs = 0

    def create_initialization_options(self) -> Any:
        return self.server.create_initialization_options()

    async def run(self, reading: Any, writing: Any, options: Any) -> None:
        self.runs += 1
        if self.runs <= self.breaks:
            raise RuntimeError("secret reason")
        await self.server.run(reading, writing, options)


async def test_a_server_object_that_ends_is_run_again() -> None:
    fragile = Fragile(breaks=2)
    async with Bridge(settings=QUICK) as bridge:
        await bridge.add_upstream(AgentServerSpec("fragile", ""), SdkServerTransport(fragile, "fragile"))
        [source] = bridge.sources
        await source.learn()
        await until(lambda: source.status.state is SourceState.READY)
        assert fragile.runs >= 3


def test_what_is_no_server_object_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"42 is no MCP server; expected a FastMCP, an MCPServer, or a Server of the SDK"
    ):
        SdkServerTransport(42, "x")


async def test_a_server_object_is_spoken_to_in_the_era_of_each_client() -> None:
    """Not every library lets a tool ask in both: FastMCP refuses it on connections of 2026-07-28."""
    spoken: list[str] = []
    server = mcp_server.MCPServer("eras")

    async def say(ctx: Any) -> str:
        spoken.append(str(ctx.request_context.protocol_version))
        return spoken[-1]

    say.__annotations__["ctx"] = mcp_server.Context
    server.tool()(say)
    async with Bridge(settings=QUICK) as bridge:
        await bridge.add_agent(server)
        for era, revision in (("modern", "2026-07-28"), ("legacy", "2025-11-25")):
            async with client_of(bridge.sdk_server(), era) as client:
                assert text_of(await client.call_tool("eras__say", {})) == revision
    assert spoken == ["2026-07-28", "2025-11-25"]


class Database:
    """Belongs to the event loop that opened it, as drivers of databases do."""

    def __init__(self) -> None:
        self.questions: asyncio.Queue[asyncio.Future[str]] = asyncio.Queue()
        self.lifespans: list[str] = []
        self.server: Any = mcp_server.MCPServer("database", lifespan=self._lifespan)

        async def look_up(ctx: Any) -> str:
            questions, answer = ctx.request_context.lifespan_context, asyncio.get_running_loop().create_future()
            await questions.put(answer)
            found: str = await answer
            return found

        look_up.__annotations__["ctx"] = mcp_server.Context
        self.server.tool()(look_up)

    @asynccontextmanager
    async def _lifespan(self, server: Any) -> AsyncGenerator[Any]:
        async def work() -> None:
            while True:
                (await self.questions.get()).set_result("found")

        self.lifespans.append("begun")
        worker = asyncio.create_task(work())
        yield self.questions
        worker.cancel()
        self.lifespans.append("ended")


async def test_clients_of_both_eras_share_the_lifespan_of_a_server_object_and_its_event_loop() -> None:
    database = Database()
    async with Bridge(one_tool(lambda arguments: arguments, "echo"), database.server, settings=QUICK) as bridge:
        await bridge.add_agent(mcp_lowlevel.Server("empty"))
        server = bridge.sdk_server()
        async with client_of(server, "legacy") as legacy, client_of(server, "modern") as modern:
            for client in (legacy, modern, legacy):
                with anyio.fail_after(PATIENCE):
                    assert text_of(await client.call_tool("database__look_up", {})) == "found"
    assert database.lifespans == ["begun", "ended"]


async def test_a_lifespan_that_fails_is_begun_again_with_the_next_connection() -> None:
    begun: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncGenerator[None]:
        begun.append("begun")
        if len(begun) < 3:
            raise RuntimeError("secret reason")
        yield

    server = mcp_server.MCPServer("late", lifespan=lifespan)
    async with Bridge(server, settings=QUICK) as bridge:
        [source] = bridge.sources
        await source.learn()
        await until(lambda: source.status.state is SourceState.READY)
        assert len(begun) == 3
        assert "secret" not in str(bridge.status())


async def test_who_connects_while_the_loop_is_held_is_served_on_another() -> None:
    sums = Sums()
    transport = SdkServerTransport(sums.server, "sums", AgentLimits(farewell=0.05))
    async with Client(transport) as stays:
        assert (await stays.call_tool("add", a=1, b=2)).text == "3"
        async with Client(transport) as leaves, anyio.create_task_group() as tasks:
            tasks.start_soon(leaves.call_tool, "block")
            assert await anyio.to_thread.run_sync(sums.begun.wait, PATIENCE)
            tasks.cancel_scope.cancel()
        async with Client(transport) as comes:
            assert (await comes.call_tool("add", a=1, b=2)).text == "3"
        sums.released.set()
        assert (await stays.call_tool("add", a=1, b=2)).text == "3"
    assert sums.lifespans == ["begun", "begun", "ended", "ended"]


async def test_a_connection_that_was_given_up_before_it_was_served_leaves_no_stream_open() -> None:
    async def serve(reading: Any, writing: Any) -> None:
        raise AssertionError("it was served")

    link = _SdkLink(Silent())
    link.close()
    await link.serve(serve)
    del link
    gc.collect()  # what is not closed warns


class Silent:
    """Implements `client.transport.Receiver`."""

    def message(self, message: Any, during: Any = None) -> None: ...

    def ended(self, reason: str) -> None: ...
