"""Agents follow their files inside of a bridge that goes on running."""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.contract import Publishable
from gaia_bridge.errors import AgentLoadError, PublishError
from gaia_bridge.runtime import file_watch
from gaia_bridge.testing import RecordingClient, connected
from gaia_bridge_cli.serving import agent_reloading as agents
from gaia_bridge_cli.serving.agent_reloading import AgentReloader
from tests.support.waiting import PATIENCE, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fresh_imports")]

LIBRARIES = sysconfig.get_path("purelib")

FUNCTION = """
from gaia_bridge import tool

@tool
def {name}() -> str:
    return "{said}"
"""

AGENT = """
from gaia.agents.base import MCPAgent, tool

class {name}Agent(MCPAgent):
    @tool
    def {tool}(self) -> str:
        return "{said}"
"""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are looked at often, so that nobody waits."""
    monkeypatch.setattr(agents, "_LOOK", 0.01)
    monkeypatch.setattr(file_watch, "_STEP", 0.001)


def write(name: str, text: str) -> None:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


class Reloading:
    """A bridge whose agents can be reloaded, and its client."""

    def __init__(self, bridge: Bridge, reloader: AgentReloader, client: RecordingClient) -> None:
        self.bridge = bridge
        self.client = client
        self._reloader = reloader

    async def reload(self) -> bool:
        return await self._reloader.reload(self.bridge)

    async def tools(self) -> list[str]:
        """Their names, without those of servers."""
        return [tool["name"].rpartition("__")[2] for tool in await self.client.list_tools()]

    async def says(self, tool: str) -> str:
        return (await self.client.call_tool(tool)).text


@asynccontextmanager
async def reloading(*references: str, **options: Any) -> AsyncGenerator[Reloading]:
    reloader = AgentReloader(references)
    loaded = reloader.first()
    async with Bridge(**options) as bridge:
        for name, error in (await bridge.add_agents({found.name: found.agent for found in loaded})).items():
            reloader.left_out(name, error)
        async with connected(bridge) as client:
            yield Reloading(bridge, reloader, client)


async def becomes(ask: Callable[[], Awaitable[object]], expected: object) -> None:
    with anyio.fail_after(PATIENCE):
        while await ask() != expected:  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def test_what_was_saved_is_what_is_called() -> None:
    write("shop.py", FUNCTION.format(name="buy", said="one"))
    async with reloading("shop.py") as running:
        assert await running.says("buy") == "one"
        write("shop.py", FUNCTION.format(name="buy", said="two"))
        assert await running.reload()
        assert await running.says("buy") == "two"


async def test_which_tools_came_and_went_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, agents.__name__)
    write("shop.py", FUNCTION.format(name="buy", said="one"))
    async with reloading("shop.py") as running:
        write("shop.py", FUNCTION.format(name="order", said="one"))
        assert await running.reload()
        assert await running.reload()
    first, second = [record.getMessage() for record in caplog.records if "reloaded in" in record.getMessage()]
    assert first.endswith(" ms: shop; new: order; gone: buy")
    assert second.endswith(" ms: shop")


async def test_a_save_in_the_second_of_the_one_before_is_seen_although_the_length_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Python compiled is known by its second and its length."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    write("shop.py", FUNCTION.format(name="buy", said="one"))
    os.utime("shop.py", (1_000_000_000, 1_000_000_000))
    async with reloading("shop.py") as running:
        write("shop.py", FUNCTION.format(name="buy", said="two"))
        os.utime("shop.py", (1_000_000_000, 1_000_000_000))
        await running.reload()
        assert await running.says("buy") == "two"


async def test_a_module_that_an_agent_imports_is_read_again_and_so_is_its_package() -> None:
    function = FUNCTION.format(name="buy", said="x").replace('"x"', 'f"{goods.NAME} {count()}"')
    write("shop.py", "import goods\nfrom stock.store import count\n" + function)
    write("goods.py", "NAME = 'tea'\n")
    write("stock/__init__.py", "")
    write("stock/store.py", "from stock.shelf import COUNT\ndef count(): return COUNT\n")
    write("stock/shelf.py", "COUNT = 1\n")
    async with reloading("shop.py") as running:
        assert await running.says("buy") == "tea 1"
        write("goods.py", "NAME = 'milk'\n")
        write("stock/shelf.py", "COUNT = 22\n")
        await running.reload()
        assert await running.says("buy") == "milk 22"


async def test_a_library_is_imported_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write("lib/site-packages/slowlib.py", "import builtins\nbuiltins.times = getattr(builtins, 'times', 0) + 1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib/site-packages"), *sys.path])
    monkeypatch.setattr("builtins.times", 0, raising=False)
    function = FUNCTION.format(name="buy", said="").replace('""', "str(builtins.times)")
    write("shop.py", "import builtins, slowlib\n" + function)
    async with reloading("shop.py") as running:
        await running.reload()
        assert await running.says("buy") == "1"


@pytest.mark.parametrize(
    ("broken", "told"),
    [("def (", "syntax error in shop.py:1"), ("1 / 0", "ZeroDivisionError at shop.py:1"), ("", "defines no agent")],
)
async def test_what_cannot_be_imported_keeps_the_last_good_agent(
    broken: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    write("shop.py", FUNCTION.format(name="buy", said="good"))
    async with reloading("shop.py") as running:
        module = sys.modules["shop"]
        write("shop.py", broken)
        assert not await running.reload()
        assert await running.says("buy") == "good"
        (error,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert told in error
        assert sys.modules["shop"] is module or told == "defines no agent"
        write("shop.py", FUNCTION.format(name="buy", said="mended"))
        assert await running.reload()
        assert await running.says("buy") == "mended"


async def test_agents_come_and_go_with_their_classes() -> None:
    tea = AGENT.format(name="Tea", tool="tea", said="")
    write("shop.py", tea + AGENT.format(name="Milk", tool="milk", said=""))
    async with reloading("shop.py") as running:
        assert await running.tools() == ["tea", "milk"]
        write("shop.py", tea + AGENT.format(name="Rice", tool="rice", said=""))
        assert await running.reload()
        assert await running.tools() == ["tea", "rice"]


async def test_files_of_a_folder_come_and_go_and_one_that_is_broken_keeps_its_own_agent_alone() -> None:
    write("all/tea.py", AGENT.format(name="Tea", tool="tea", said="old"))
    write("all/milk.py", AGENT.format(name="Milk", tool="milk", said="old"))
    async with reloading("all/") as running:
        write("all/milk.py", "def (")
        write("all/tea.py", AGENT.format(name="Tea", tool="tea", said="new"))
        assert not await running.reload()
        assert (await running.says("tea"), await running.says("milk")) == ("new", "old")
        os.unlink("all/milk.py")
        write("all/rice.py", AGENT.format(name="Rice", tool="rice", said="new"))
        assert await running.reload()
        assert sorted(await running.tools()) == ["rice", "tea"]


WHOLE = """
from gaia.agents.base import Agent, tool

class ShopAgent(Agent):
    mcp_ask = True

    def _register_tools(self):
        @tool
        def {name}() -> str:
            return "x"

        @tool
        def internal() -> str:
            return "for the model"
"""


async def test_what_is_wanted_of_agents_stays_wanted_and_what_is_not_there_any_more_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    write("shop.py", WHOLE.format(name="buy"))
    write("more.py", FUNCTION.format(name="count", said="x"))
    async with reloading("shop.py", "more.py", agent_tools=["buy", "count"], ask=False) as running:
        assert await running.tools() == ["buy", "count"]
        write("more.py", FUNCTION.format(name="weigh", said="x"))
        await running.reload()
        assert await running.tools() == ["buy"]
        assert "no agent has a tool 'count'; the tools that there are: buy, internal, weigh" in caplog.text
        write("more.py", FUNCTION.format(name="count", said="y"))
        await running.reload()
        assert await running.tools() == ["buy", "count"]


async def test_clients_are_told_once_of_what_differs_and_of_nothing_else() -> None:
    write("shop.py", AGENT.format(name="Tea", tool="tea", said="old"))
    async with reloading("shop.py") as running:
        await running.tools()
        write("shop.py", AGENT.format(name="Tea", tool="tea", said="new"))
        await running.reload()
        write("shop.py", AGENT.format(name="Tea", tool="more_tea", said="new"))
        await running.reload()
        await running.client.heard("notifications/tools/list_changed")
        assert await running.tools() == ["more_tea"]


async def test_a_shared_tool_that_is_no_longer_there_is_no_tool_of_the_agent() -> None:
    shared = "from gaia.agents.base import Agent, tool\n@tool\ndef {name}() -> str:\n    return '{name}'\n"
    agent = "class TeaAgent(Agent):\n    mcp_tools = True\n"
    write("shop.py", shared.format(name="pour") + agent)
    async with reloading("shop.py") as running:
        before = await running.tools()
        write("shop.py", shared.format(name="brew") + agent)
        assert await running.reload()
        assert set(await running.tools()) == {"brew", *before} - {"pour"}
        write("shop.py", shared.format(name="spill") + agent + "1 / 0\n")
        assert not await running.reload()
        assert await running.says("brew") == "brew"
        write("shop.py", shared.format(name="drink") + agent)
        assert await running.reload()
        assert set(await running.tools()) == {"drink", *before} - {"pour"}


async def test_a_server_object_is_replaced_too() -> None:
    server = "from mcp.server.mcpserver import MCPServer\nserver = MCPServer('goods')\n"
    tool = "@server.tool()\ndef {name}() -> str:\n    return '{name}'\n"
    write("shop.py", server + tool.format(name="one"))
    async with reloading("shop.py") as running:
        await becomes(running.tools, ["one"])
        write("shop.py", server + tool.format(name="two"))
        assert await running.reload()
        await becomes(running.tools, ["two"])


async def test_a_saved_file_is_reloaded_by_itself_and_so_is_one_imported_later() -> None:
    write("shop.py", FUNCTION.format(name="buy", said="x").replace('return "x"', "import late; return late.SAID"))
    write("late.py", "SAID = 'one'\n")
    reloader = AgentReloader(["shop.py"])
    (loaded,) = reloader.first()
    async with Bridge() as bridge, connected(bridge) as client, anyio.create_task_group() as tasks:
        await bridge.add(loaded.agent, loaded.name)
        await tasks.start(reloader.watch, bridge)
        running = Reloading(bridge, reloader, client)
        assert await running.says("buy") == "one"
        await until(lambda: Path("late.py").absolute() in reloader._watch._files)  # pyright: ignore[reportPrivateUsage]
        write("late.py", "SAID = 'two'\n")
        await becomes(lambda: running.says("buy"), "two")
        write("shop.py", FUNCTION.format(name="sell", said="sold"))
        await becomes(running.tools, ["sell"])
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("helper", [None, "def ("])
async def test_a_file_that_is_broken_at_the_start_is_waited_for(
    helper: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    write("shop.py", "import helper\n" + FUNCTION.format(name="buy", said="bought"))
    if helper is not None:
        write("helper.py", helper)
    reloader = AgentReloader(["shop.py"])
    assert reloader.first() == []
    assert "waiting for the file to be mended" in caplog.text
    async with Bridge() as bridge, connected(bridge) as client, anyio.create_task_group() as tasks:
        await tasks.start(reloader.watch, bridge)
        write("helper.py", "")
        await becomes(Reloading(bridge, reloader, client).tools, ["buy"])
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("reference", ["missing.py", "missing/", "no_such_module:Agent", "~nobody_here/agent.py"])
async def test_what_is_not_there_is_not_waited_for(reference: str) -> None:
    with pytest.raises(AgentLoadError):
        AgentReloader([reference]).first()


async def test_a_bridge_says_itself_what_it_publishes() -> None:
    write("shop.py", "from gaia_bridge import Bridge\nbridge = Bridge()\n")
    with pytest.raises(AgentLoadError, match="it is a Bridge.*serve it without reloading"):
        AgentReloader(["shop.py"]).first()


async def test_what_cannot_be_published_under_its_new_name_keeps_what_was_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write("shop.py", AGENT.format(name="Shop", tool="buy", said="old"))
    async with reloading("shop.py") as running:
        write("shop.py", "from gaia_bridge import Bridge\nbridge = Bridge()\n")
        assert not await running.reload()
        assert "it is a Bridge" in caplog.text
        assert await running.says("buy") == "old"
        add = Bridge.add

        async def refusing(bridge: Bridge, target: Publishable, name: str | None = None) -> str:
            if name == "market":
                raise PublishError(name, "no room")
            return await add(bridge, target, name)

        monkeypatch.setattr(Bridge, "add", refusing)
        write("shop.py", AGENT.format(name="Market", tool="sell", said="new"))
        assert not await running.reload()
        assert await running.says("buy") == "old"
        write("shop.py", AGENT.format(name="Shop", tool="buy", said="mended"))
        assert await running.reload()
        assert await running.says("buy") == "mended"


async def test_an_agent_whose_definitions_cannot_be_read_takes_no_place(caplog: pytest.LogCaptureFixture) -> None:
    write("shop.py", AGENT.format(name="Tea", tool="tea", said="old"))
    async with reloading("shop.py") as running:
        broken = "    def get_mcp_tool_definitions(self):\n        raise OSError('no kettle')\n"
        broken += "    def execute_mcp_tool(self, tool_name, arguments): ...\n"
        write("shop.py", AGENT.format(name="Tea", tool="tea", said="new") + broken)
        assert not await running.reload()
        assert await running.says("tea") == "old"
        assert "no kettle" in caplog.text


async def test_an_import_without_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(agents, "_LOADING", 0.05)
    write("shop.py", FUNCTION.format(name="buy", said="old"))
    async with reloading("shop.py") as running:
        write("shop.py", f"import threading\nthreading.Event().wait({PATIENCE / 10})\n")
        assert not await running.reload()
        assert "it is not imported after 0.05 s" in caplog.text
        assert await running.says("buy") == "old"


async def test_what_never_ends_is_given_up_once_it_is_mended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(agents, "_STUCK", 0.01)
    write("shop.py", FUNCTION.format(name="buy", said="old"))
    reloader = AgentReloader(["shop.py"])
    (loaded,) = reloader.first()
    async with Bridge() as bridge, connected(bridge) as client, anyio.create_task_group() as tasks:
        await bridge.add(loaded.agent, loaded.name)
        await tasks.start(reloader.watch, bridge)
        running = Reloading(bridge, reloader, client)
        hangs = f"import pathlib, threading\npathlib.Path('began').touch()\nthreading.Event().wait({PATIENCE / 10})\n"
        write("shop.py", hangs)
        await until(Path("began").exists)
        write("shop.py", FUNCTION.format(name="buy", said="mended"))
        await becomes(lambda: running.says("buy"), "mended")
        assert "it was not imported yet when it was saved again" in caplog.text
        tasks.cancel_scope.cancel()
