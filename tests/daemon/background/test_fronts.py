"""Who connects to a bridge in the background: fronts, those who ask something of it, and those who do not know how."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.calls.process_ancestry import LINEAGE
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.errors import ListenError
from gaia_bridge.settings import BackgroundLimits, Settings
from gaia_bridge.text.json_types import JSON
from gaia_bridge_daemon.background import fronts
from gaia_bridge_daemon.background.fronts import Fronts
from gaia_bridge_daemon.background.sockets import listening
from gaia_bridge_daemon.background.usage import UserCounter
from gaia_bridge_daemon.front.greeting import DRAIN, KEEP, MOVE, REST, SERVE, STATUS, STOP, read_greeting, written
from gaia_bridge_daemon.front.place import Scope
from tests.cli.running import INITIALIZE
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

SCOPE = Scope("/servers.json")


class Line:
    """A connection to the bridge."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def says(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hears(self) -> bytes:
        """The next line; nothing at the end."""
        with anyio.fail_after(PATIENCE):
            try:
                return await self._reader.readline()
            except ConnectionResetError:
                return b""

    async def asks(self, **fields: object) -> JSON:
        await self.says(written(**fields))
        return read_greeting(await self.hears())


class Served:
    """The fronts of a bridge, and what it was asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[str] = []
        self.lines: list[Line] = []
        self.fronts: Fronts
        self.usage: UserCounter

    async def connect(self) -> Line:
        self.lines.append(Line(*await asyncio.open_unix_connection(self.path, limit=1_000_000)))
        return self.lines[-1]

    async def front(self, **fields: object) -> Line:
        line = await self.connect()
        told = await line.asks(do=SERVE, scope=SCOPE.as_json(), pid=os.getpid(), **fields)
        assert "error" not in told, told
        return line


@asynccontextmanager
async def served(
    settings: Settings | None = None, work: Callable[[JSON], Any] = lambda _: "done"
) -> AsyncGenerator[Served]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="g") as folder:
        made = Served(f"{folder}/a.sock")
        with listening(made.path) as bound:
            async with running_bridge(one_tool(work), settings=settings) as running, anyio.create_task_group() as tasks:
                made.usage = UserCounter(12.0, 0, lambda: None)
                made.fronts = Fronts(
                    SCOPE,
                    running.bridge.dispatcher,
                    lambda: ["a0"],
                    running.bridge.settings,
                    made.usage,
                    lambda: made.asked.append(STOP),
                    lambda: made.asked.append(DRAIN),
                    running.bridge.status,
                )
                await tasks.start(made.fronts.run, bound.socket)
                yield made
                for line in made.lines:
                    line.writer.close()
                    with suppress(ConnectionError):
                        await line.writer.wait_closed()
                await made.fronts.none_left()
                tasks.cancel_scope.cancel()


async def shake_hands(line: Line) -> None:
    await line.says(json.dumps(INITIALIZE).encode() + b"\n")
    assert b'"serverInfo"' in await line.hears()
    await line.says(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')


async def test_a_front_is_a_client_like_any_other() -> None:
    async with served() as it:
        line = await it.front(source="a0", folder="/project")
        await shake_hands(line)
        await line.says(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work"}}\n')
        assert b'"done"' in await line.hears()
        status = await (await it.connect()).asks(do=STATUS)
        [front] = status["fronts"]
        assert (front["client"], front["source"], front["folder"], front["pid"]) == (
            "test 1",
            "a0",
            "/project",
            os.getpid(),
        )
        assert (status["users"], status["keep"]) == (1, 12.0)
        line.writer.close()
        await until(lambda: it.usage.users == 0)


async def test_a_status_that_is_too_long_names_the_sources_and_not_all_that_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as it:
        whole = await (await it.connect()).asks(do=STATUS)
        monkeypatch.setattr(fronts, "STATUS_BYTES", 100)
        brief = await (await it.connect()).asks(do=STATUS)
        [source] = whole["report"]["sources"]
        del source["leftOut"]
        assert brief["report"] == {**whole["report"], "sources": [source], "tools": {}}


async def test_the_questions_of_a_bridge_are_numbered_from_where_the_one_before_it_was() -> None:
    async def work(arguments: JSON) -> str:
        return str(await get_request_context().alist_roots())

    async with served(work=work) as it:
        line = await it.front(asked=41)
        params: JSON = {**INITIALIZE["params"], "capabilities": {"roots": {}}}
        await line.says(json.dumps({**INITIALIZE, "params": params}).encode() + b"\n")
        await line.hears()
        await line.says(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        await line.says(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work"}}\n')
        question = json.loads(await line.hears())
        assert (question["id"], question["method"]) == (42, "roots/list")
        await line.says(b'{"jsonrpc":"2.0","id":41,"result":{"roots":[{"uri":"file:///of-the-one-before"}]}}\n')
        await line.says(b'{"jsonrpc":"2.0","id":42,"result":{"roots":[{"uri":"file:///mine"}]}}\n')
        assert b"file:///mine" in await line.hears()


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\n",
        b"\xff\xfe\n",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        b'{"gaia-bridge":{"version":1}}\n',
        b"[" * 60_000 + b"\n",
        written(do="something else"),
        written(),
        written(do=SERVE, scope={}),
        written(do=SERVE, scope=[]),
        written(do=SERVE, scope=SCOPE.as_json(), source="nobody"),
        written(do=SERVE, scope=SCOPE.as_json(), source={"a": ["\ud800\n"]}),
    ],
    ids=lambda said: repr(said[:40]),
)
async def test_whoever_is_no_front_is_told_so(said: bytes) -> None:
    async with served() as it:
        line = await it.connect()
        await line.says(said)
        told = read_greeting(await line.hears())
        assert "expected" in told["error"] or "something else" in told["error"]
        assert await line.hears() == b""
        assert await it.front()


@pytest.mark.parametrize("said", [b"", b'{"gaia-', b"x" * 600_000], ids=["nothing", "a half", "without an end"])
async def test_whoever_does_not_come_to_the_point_is_left(said: bytes) -> None:
    async with served(Settings(background=BackgroundLimits(greeting_timeout=0.05))) as it:
        line = await it.connect()
        try:
            await line.says(said)
        except ConnectionError:
            pass
        assert await line.hears() == b""
        assert await it.front()


async def test_nonsense_in_a_greeting_is_in_nobodys_way() -> None:
    async with served() as it:
        line = await it.front(folder=[1], asked="many", lineage=[1])
        await shake_hands(line)
        other = await it.connect()
        assert "error" not in await other.asks(do=SERVE, scope=SCOPE.as_json(), pid={"a": 1}, lineage="[[[")


async def test_a_wish_that_is_meant_for_another_one_is_answered_and_not_followed() -> None:
    async with served() as it:
        for what in (STOP, DRAIN):
            told = await (await it.connect()).asks(do=what, pid=os.getpid() + 1)
            assert (told["pid"], told["keep"]) == (os.getpid(), 12.0)
            assert it.asked == []
            await (await it.connect()).asks(do=what, pid=os.getpid())
            await (await it.connect()).asks(do=what)
            assert it.asked == [what, what]
            it.asked.clear()


@pytest.mark.parametrize(("said", "kept"), [(-1.0, None), (0, 0), (5, 5.0), ("for ever", 12.0), (None, 12.0)])
async def test_how_long_it_stays_can_be_said_later(said: object, kept: float | None) -> None:
    async with served() as it:
        front = await it.front()
        told = await (await it.connect()).asks(do=KEEP, keep=said)
        assert told["keep"] == (-1.0 if kept is None else kept)
        assert it.usage.keep == kept
        if kept != 12.0:
            assert read_greeting(await front.hears())["keep"] == said
        front.writer.close()


async def test_while_it_makes_room_nobody_new_is_served_and_it_still_says_how_it_is() -> None:
    async with served() as it:
        front = await it.front()
        it.fronts.move()
        assert read_greeting(await front.hears())["do"] == MOVE
        late = await it.connect()
        await late.says(written(do=SERVE, scope=SCOPE.as_json()))
        assert await late.hears() == b"", "which sends it to the next one"
        assert len((await (await it.connect()).asks(do=STATUS))["fronts"]) == 1
        await front.says(written(do=MOVE))
        assert await front.hears() == b""
        with anyio.fail_after(PATIENCE):
            await it.fronts.none_left()


async def test_when_it_is_ended_its_fronts_are_left_at_once_and_hear_nothing_of_how_it_ends() -> None:
    begun = anyio.Event()

    async def work(arguments: JSON) -> str:
        begun.set()
        await anyio.sleep_forever()
        return "never"

    async with served(work=work) as it:
        front = await it.front()
        await shake_hands(front)
        await front.says(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work"}}\n')
        with anyio.fail_after(PATIENCE):
            await begun.wait()
        it.fronts.rest()
        assert read_greeting(await front.hears())["do"] == REST
        assert await front.hears() == b""
        await until(lambda: it.usage.users == 0)


async def test_the_calls_of_a_front_that_is_gone_are_cancelled_at_once() -> None:
    begun, cancelled = anyio.Event(), anyio.Event()

    async def work(arguments: JSON) -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return "never"

    async with served(Settings(stdio_grace=PATIENCE * 2), work) as it:
        front = await it.front()
        await shake_hands(front)
        await front.says(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work"}}\n')
        with anyio.fail_after(PATIENCE):
            await begun.wait()
            front.writer.transport.abort()
            await cancelled.wait()


async def test_a_front_below_this_bridge_would_be_a_circle() -> None:
    async with served() as it:
        environment = LINEAGE.environment("itself", "launch")
        line = await it.connect()
        [lineage] = environment.values()
        told = await line.asks(do=SERVE, scope=SCOPE.as_json(), lineage=lineage)
        assert "a server of its own" in told["error"]


def test_a_socket_is_its_owners_alone_cannot_be_reached_before_it_is_served_and_is_removed(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="g") as folder:
        path = f"{folder}/a.sock"
        with listening(path) as bound:
            assert os.stat(path).st_mode & 0o777 == 0o600
            with socket.socket(socket.AF_UNIX) as early, pytest.raises(ConnectionRefusedError):
                early.connect(path)
            with pytest.raises(ListenError, match="another bridge runs there"), listening(path):
                pytest.fail("two of them")
            assert os.path.exists(path)
            bound.remove()
            assert not os.path.exists(path)
            Path(path).touch()  # the next one's
        assert os.path.exists(path)
        with pytest.raises(ListenError), listening(f"{folder}/no/such/folder"):
            pytest.fail("nowhere")
