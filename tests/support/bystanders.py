"""What every fault has to leave alone: the sources beside the one that misbehaves, on an endpoint that publishes all of
them together, and this process itself.

A module that injects faults says `pytest.mark.usefixtures("bystander")`; see `tests/bridge/conftest.py`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import psutil
import pytest
from msgspec.structs import replace

from gaia_bridge.content import resource_link
from gaia_bridge.model import NamingPolicy, ServerInfo
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.support.processes import command_of
from tests.support.upstreams import FakeRequest, raw_server, running, shared_endpoints, text_of

__all__ = ["Holdings", "answering", "nothing_left", "pid_of", "shared_endpoint", "working_server"]

PATIENCE = 1.0
"""Seconds in which a server answers, whatever others do meanwhile."""

_PAUSE = 0.05
"""Seconds between two questions to it."""

SETTLES = 5.0
"""Seconds in which what is being closed is closed."""

_RESOURCE = "beside://1"
_OF_THE_AGENT = {
    "tool": "beside",
    "prompt": "beside-prompt",
    "resource": _RESOURCE,
    "resource template": "beside://{number}",
}

_POOLS = ("AnyIO worker thread", "asyncio_")
"""How the names of threads begin that the loop keeps for the next time."""


@dataclass(frozen=True)
class Holdings:
    """What this process holds: descriptors, children, threads, and the tasks of the running loop."""

    things: Counter[str]
    tasks: frozenset[asyncio.Task[Any]]

    @classmethod
    def now(cls) -> Holdings:
        """What it holds at this moment. Descriptors are told apart by what they are, and children by their commands."""
        things = Counter(f"descriptor of {name}" for name in _descriptors())
        for child in psutil.Process().children(recursive=True) if _has_children() else ():
            things[f"process {command_of(child) or 'that has ended'}"] += 1
        things.update(f"thread {thread.name}" for thread in threading.enumerate() if not thread.name.startswith(_POOLS))
        return cls(things, frozenset(task for task in asyncio.all_tasks() if not _is_of_the_runner(task)))

    def beyond(self, before: Holdings) -> list[str]:
        """What it holds that it did not hold before."""
        return [*(self.things - before.things).elements(), *map(repr, self.tasks - before.tasks)]

    async def nothing_more(self) -> None:
        """Wait until this process holds nothing more than this."""
        with anyio.move_on_after(SETTLES):
            while Holdings.now().beyond(self):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert not (left := Holdings.now().beyond(self)), left


@asynccontextmanager
async def working_server() -> AsyncGenerator[Upstream]:
    """A server that does nothing wrong, in a process of its own."""
    async with running(replace(raw_server(), name="bystander")) as upstream:
        yield upstream


class AgentBeside:
    """An agent that has one of everything that is listed."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """One."""
        return [{"name": "beside", "inputSchema": {}}]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> list[JSON]:
        """A link to its resource."""
        return [resource_link(_RESOURCE, "beside")]

    def get_mcp_prompts(self) -> list[JSON]:
        """One."""
        return [{"name": "beside-prompt"}]

    def get_mcp_resources(self) -> list[JSON]:
        """One."""
        return [{"uri": _RESOURCE, "name": "beside"}]

    def get_mcp_resource_templates(self) -> list[JSON]:
        """One."""
        return [{"uriTemplate": "beside://{number}", "name": "any"}]

    def read_mcp_resource(self, uri: str) -> str:
        """Its URI."""
        return uri


@asynccontextmanager
async def shared_endpoint(server: Upstream) -> AsyncGenerator[Catalog]:
    """An endpoint with an agent, a server, and every upstream that a test starts."""
    source = AgentSource(AgentBeside(), "agent-beside", AgentLimits(threads=1))
    async with anyio.create_task_group() as tasks:
        await tasks.start(source.run)
        catalog = Catalog(ServerInfo("beside", "1"), NamingPolicy.DEFAULT)
        await source.call_tool("beside", {}, FakeRequest())  # now it has the thread that it will need
        catalog.add(source)
        catalog.add(server)
        shared_endpoints.append(catalog)
        try:
            yield catalog
        finally:
            shared_endpoints.remove(catalog)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def answering(server: Upstream, catalog: Catalog) -> AsyncGenerator[None]:
    """See to it that others answer within a second all the while, and that a server is not restarted.

    Args:
        server: It.
        catalog: Publishes it together with an agent and what misbehaves.
    """
    pid = await pid_of(server)
    with _waiting_time("self") as ours, _waiting_time(pid) as its, _stolen_time() as stolen:
        questions = _Questions(catalog, pid, lambda: time.monotonic() - ours() - its() - stolen())
        asking = asyncio.create_task(questions.ask_on(), name="asking the bystander")
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.wait([asking])
        if not asking.cancelled():
            asking.result()
        await questions.ask()


class _Questions:
    """What an endpoint is asked again and again. The time until a question is answered begins when it is due: whatever
    keeps us from asking it counts, but for other programs on the machine.
    """

    def __init__(self, catalog: Catalog, pid: str, now: Callable[[], float]) -> None:
        self._catalog = catalog
        self._pid = pid
        self._now = now
        self._due = now()

    async def ask_on(self) -> None:
        while True:
            await self.ask()
            await anyio.sleep(_PAUSE)

    async def ask(self) -> None:
        with anyio.move_on_after(SETTLES):
            for kind, name in _OF_THE_AGENT.items():
                for modern in (True, False):
                    assert name in map(_name, self._catalog.definitions(kind, modern=modern))
            assert (await self._call("beside"))["content"][0]["uri"] == _RESOURCE
            assert text_of(await self._call("bystander__pid")) == self._pid, "the server beside it was restarted"
        seconds, self._due = self._now() - self._due, self._now() + _PAUSE
        assert seconds < PATIENCE, f"those beside it needed {seconds:.2f} s to answer"

    async def _call(self, tool: str) -> JSON:
        source, name = self._catalog.tool(tool)
        return self._catalog.addresses.outward(source, await source.call_tool(name, {}, FakeRequest()))


@contextmanager
def _waiting_time(process: str) -> Generator[Callable[[], float]]:
    """Seconds that a process wanted to run while others had the processor; 0 where the system does not tell."""
    with _reading(f"/proc/{process}/schedstat") as fields:
        yield lambda: int(fields()[1]) / 1e9


@contextmanager
def _stolen_time() -> Generator[Callable[[], float]]:
    """Seconds that other machines had our processor, where we are a virtual one: no process has that in its own."""
    ticks = os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
    with _reading("/proc/stat") as fields:
        yield lambda: int(fields()[8]) / ticks


def _words(descriptor: int, last: list[bytes]) -> list[bytes]:
    with suppress(ProcessLookupError):  # it has ended: what it said last stands
        last[:] = os.pread(descriptor, 200, 0).split()
    return last


@contextmanager
def _reading(file: str) -> Generator[Callable[[], list[bytes]]]:
    """The words that a file of the system begins with, again and again; zeros where there is none."""
    try:
        descriptor = os.open(file, os.O_RDONLY)  # once: a test may use up all descriptors
    except OSError:
        yield lambda: [b"0"] * 9
        return
    try:
        yield partial(_words, descriptor, [b"0"] * 9)
    finally:
        os.close(descriptor)


def _name(definition: JSON) -> str:
    name: str = definition.get("uri") or definition.get("uriTemplate") or definition["name"]
    return name


async def pid_of(server: Upstream) -> str:
    return text_of(await server.call_tool("pid", {}, FakeRequest()))


def _has_children() -> bool:
    """Whether this process has any. Who they are takes a look at all processes of the machine."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _descriptors() -> list[str]:
    found: list[str] = []
    for number in os.listdir("/dev/fd"):
        try:
            target = os.readlink(f"/dev/fd/{number}")
        except OSError:  # the one that lists them; and not every system can tell
            target = "unknown"
        if target != os.devnull or isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):  # uvloop's has one
            found.append(target.partition(":[")[0])
    return found


def _is_of_the_runner(task: asyncio.Task[Any]) -> bool:
    """Whether it lives as long as the event loop: `sse_starlette` has one task in each that served an event stream."""
    return getattr(task.get_coro(), "__qualname__", "").startswith(("TestRunner.", "_shutdown_watcher"))


@pytest.fixture
async def nothing_left(anyio_backend: Any) -> AsyncGenerator[None]:
    """The test leaves no process, descriptor, thread or task behind."""
    before = Holdings.now()
    yield
    await before.nothing_more()
