"""Factories of agents that are coroutines: awaited on the loop that the agent runs on, bounded, with good errors."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaia_bridge import Bridge
from gaia_bridge.bridge.discovery import load_agent
from gaia_bridge.errors import AgentLoadError
from gaia_bridge.runtime.own_loop import OwnLoop, own_loop_of
from gaia_bridge.settings import AgentLimits
from gaia_bridge_cli import main
from gaia_bridge_cli.serving.agent_reloading import AgentReloader
from tests.interaction.connecting import ERAS, client_of
from tests.support.agents import one_tool
from tests.support.bridges import text_of
from tests.support.on_demand import mcp_server
from tests.support.processes import threads_named
from tests.support.waiting import PATIENCE, after_collection, until

FACTORIES = """
import asyncio, functools, threading; from mcp.server.mcpserver import MCPServer

from gaia.agents.base import Agent, MCPAgent, tool
from gaia_bridge import tool as decorated

class HomeAgent(MCPAgent):
    def __init__(self, loop=None, **options):
        super().__init__(**options)
        self.loop = loop
        self.ticks = 0

    async def tick(self):
        while True:
            self.ticks += 1
            await asyncio.sleep(0.001)

    @tool
    async def at_home(self) -> bool:
        "Whether it runs where it was made, and so does what was begun there."
        before = self.ticks
        while self.ticks == before:
            await asyncio.sleep(0.001)
        return asyncio.get_running_loop() is self.loop

async def make():
    agent = HomeAgent(asyncio.get_running_loop(), silent_mode=True)
    agent.ticking = asyncio.create_task(agent.tick())
    await asyncio.sleep(0)
    return agent

def logged(function):
    @functools.wraps(function)
    def wrapper():
        return function()
    return wrapper

wrapped = logged(make)
partly = functools.partial(make)

class Factory:
    async def __call__(self):
        return await make()

factory = Factory()

async def server():
    loop = asyncio.get_running_loop()
    made = MCPServer("made")

    @made.tool()
    async def at_home() -> bool:
        return asyncio.get_running_loop() is loop

    return made

async def function():
    loop = asyncio.get_running_loop()

    @decorated
    async def at_home() -> bool:
        return asyncio.get_running_loop() is loop

    return at_home

async def nothing(): ...
def nothing_at_once(): ...
async def a_class(): return HomeAgent
async def a_number(): return 3
async def yields(): yield HomeAgent()
async def breaks(): raise KeyError("wrong")
async def leaves(): raise SystemExit(3)
async def gives_up(): raise asyncio.CancelledError
async def is_late(): raise TimeoutError("the database")

class Slotted:
    __slots__ = ()
    def get_mcp_tool_definitions(self): return []
    def execute_mcp_tool(self, name, arguments): ...

async def slotted(): return Slotted()

cancelled, may_end = threading.Event(), threading.Event()

async def hangs():
    try:
        await asyncio.sleep(3600)
    finally:
        cancelled.set()

async def blocks():
    may_end.wait(60)
"""


@pytest.fixture(autouse=True)
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file of factories in the current folder, imported anew."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "homes.py").write_text(textwrap.dedent(FACTORIES), encoding="utf-8")
    path = list(sys.path)
    yield
    sys.modules.pop("homes", None)
    sys.path[:] = path


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["make", "wrapped", "partly", "factory", "server", "function"])
async def test_an_agent_runs_on_the_loop_that_it_was_made_on(era: str, name: str) -> None:
    [loaded] = load_agent(f"homes.py:{name}")
    async with Bridge() as bridge:
        await bridge.add_agent(loaded.agent, "home")
        await bridge.add_agent(one_tool(lambda arguments: arguments, "echo"))
        await bridge.add_agent(mcp_server.MCPServer("other"))
        for source in bridge.sources:
            await source.learn()
        async with client_of(bridge.sdk_server(), era) as client:
            tool = "home__at_home" if name == "server" else "at_home"
            assert text_of(await client.call_tool(tool, {})) == "true"


@pytest.mark.anyio
async def test_the_loop_ends_with_the_last_who_publishes_the_agent_and_is_another_afterwards() -> None:
    [loaded] = load_agent("homes.py:make")
    async with Bridge() as bridge:
        await bridge.add_agent(loaded.agent, "one")
        await bridge.add_agent(loaded.agent, "two")
        async with client_of(bridge.sdk_server("two"), "modern") as client:
            await bridge.remove("one")
            await until(lambda: len(bridge.sources) == 1)
            assert text_of(await client.call_tool("at_home", {})) == "true"
        await bridge.remove("two")
        await until(lambda: not threads_named("agent make loop"))
        await bridge.add_agent(loaded.agent, "three")
        assert [tool["name"] for tool in bridge.sources[0].features.tools] == ["at_home"]


@pytest.mark.anyio
async def test_the_loop_of_a_server_that_is_forgotten_ends() -> None:
    [loaded] = load_agent("homes.py:server")
    assert threads_named("agent server loop")
    del loaded
    sys.modules.pop("homes")
    await until(after_collection(lambda: not threads_named("agent server loop")))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nothing", "nothing() returned None (end it with `return`, and the agent that it makes)"),
        ("nothing_at_once", "nothing_at_once() returned None (end it with `return`"),
        ("a_class", "a_class() returned the class HomeAgent (return HomeAgent())"),
        ("a_number", "int object is not an agent: it has no get_mcp_tool_definitions"),
        ("yields", "yields() returned async_generator object (return the agent instead of yielding it)"),
        ("breaks", "awaiting it raised KeyError at homes.py:"),
        ("leaves", "awaiting it raised SystemExit at homes.py:"),
        ("gives_up", "awaiting it raised CancelledError"),
        ("is_late", "awaiting it raised TimeoutError at homes.py:"),
        ("slotted", "Slotted object takes no attributes"),
        ("hangs", "hangs() has not returned within 0.2 s (it may connect to something later, when a tool first needs"),
        ("blocks", "blocks() has not returned within 0.2 s"),
    ],
)
def test_a_factory_that_makes_no_agent_is_told_of_in_one_line(name: str, problem: str) -> None:
    with pytest.raises(AgentLoadError) as refused:
        load_agent(f"homes.py:{name}", limits=AgentLimits(factory_timeout=0.2, farewell=0.2))
    text = str(refused.value)
    assert text.startswith(f"agent 'homes.py:{name}': {problem}")
    assert "\n" not in text
    homes = sys.modules["homes"]
    if name == "hangs":
        assert homes.cancelled.wait(PATIENCE)
    homes.may_end.set()


def test_commands_take_such_a_factory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "homes.py:make", "at_home"]) == 0
    assert capsys.readouterr().out == "true\n"
    assert main(["tools", "homes.py:nothing"]) == 66
    assert "nothing() returned None" in capsys.readouterr().err


@pytest.mark.anyio
async def test_a_factory_is_awaited_again_when_its_file_is_saved(tmp_path: Path) -> None:
    reloader = AgentReloader(["homes.py:make"])
    [loaded] = reloader.first()
    async with Bridge() as bridge:
        await bridge.add_agent(loaded.agent, loaded.name)
        first = own_loop_of(loaded.agent)
        async with client_of(bridge.sdk_server(), "modern") as client:
            broken = FACTORIES.replace("    await asyncio.sleep(0)\n    return agent", "    raise KeyError")
            (tmp_path / "homes.py").write_text(broken, encoding="utf-8")
            assert not await reloader.reload(bridge)
            assert text_of(await client.call_tool("at_home", {})) == "true"
            (tmp_path / "homes.py").write_text(f"{FACTORIES}\n# saved", encoding="utf-8")
            assert await reloader.reload(bridge)
            assert text_of(await client.call_tool("at_home", {})) == "true"
        [source] = bridge.sources
        second = own_loop_of(getattr(source, "agent"))  # noqa: B009 - of an agent's source
        assert isinstance(first, OwnLoop)
        assert isinstance(second, OwnLoop)
        assert first is not second
        await until(lambda: len(threads_named("agent make loop")) == 1)
    await until(lambda: not threads_named("agent make loop"))
