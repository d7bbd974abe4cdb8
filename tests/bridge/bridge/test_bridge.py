"""Agents come and go while clients are connected, and none of them can hurt another."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskStatus

from gaia_bridge.bridge import Bridge
from gaia_bridge.errors import AgentLoadError, PublishError
from gaia_bridge.model import NamingPolicy, StdioServerSpec
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent, one_tool, tool
from tests.support.bridges import RunningBridge, both_eras, ping, running_bridge, text_of
from tests.support.on_demand import mcp, mcp_subscriptions, mcp_types
from tests.support.waiting import PATIENCE, comes_true, wait_in_thread


def saying(word: str, name: str = "work", **hooks: Any) -> ScriptedAgent:
    """An agent whose one tool always says the same."""
    return one_tool(lambda _: word, name, **hooks)


async def names(running: RunningBridge, path: str = "", mode: str = "auto") -> list[str]:
    async with running.client(mode, path) as client:
        return [item.name for item in (await client.list_tools()).tools]


async def say(running: RunningBridge, name: str, path: str = "") -> str:
    async with running.client(path=path) as client:
        return text_of(await client.call_tool(name, {}))


# Coming and going


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("P-10")
async def test_connected_clients_see_agents_come_and_go(mode: str) -> None:
    async with running_bridge() as running, running.client(mode) as client:
        assert (await client.list_tools()).tools == []
        name = await running.bridge.add_agent(saying("hello"), "one")
        assert name == "one"
        assert [item.name for item in (await client.list_tools()).tools] == ["work"]
        assert text_of(await client.call_tool("work", {})) == "hello"
        await running.bridge.remove("one")
        assert (await client.list_tools()).tools == []
        with pytest.raises(mcp.MCPError, match="Unknown tool"):
            await client.call_tool("work", {})
        await running.bridge.add_agent(saying("again"), "one")
        assert text_of(await client.call_tool("work", {})) == "again"


@pytest.mark.anyio
@pytest.mark.requirement("P-10")
async def test_connected_clients_are_told_that_agents_come_and_go() -> None:
    told: list[Any] = []
    more = anyio.Event()

    async def hear(message: Any) -> None:
        told.append(type(message))
        more.set()

    async with running_bridge(saying("first")) as running:
        async with running.client("legacy", message_handler=hear) as legacy, running.client() as modern:
            await ping(legacy)
            async with modern.listen(tools_list_changed=True) as subscription:
                for act in (
                    lambda: running.bridge.add_agent(saying("second", "play"), "second"),
                    lambda: running.bridge.remove("second"),
                ):
                    more = anyio.Event()
                    await cast(Callable[[], Any], act)()
                    assert await anext(aiter(subscription)) == mcp_subscriptions.ToolsListChanged()
                    await more.wait()
    assert set(told) == {mcp_types.ToolListChangedNotification}


@pytest.mark.anyio
async def test_an_agent_has_an_endpoint_of_its_own_for_as_long_as_it_is_published() -> None:
    async with running_bridge(named={"one": saying("1"), "two": saying("2")}) as running:
        assert await names(running) == ["work", "two__work"]
        assert await names(running, "agents/one") == await names(running, "agents/two") == ["work"]
        assert await say(running, "work", "agents/two") == "2"
        await running.bridge.remove("one")
        with pytest.raises(KeyError):
            running.endpoint("agents/one")
        assert await names(running) == ["work"]
        assert await say(running, "work") == "2"


@pytest.mark.anyio
@pytest.mark.requirement("S1-10", "S1-19")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (NamingPolicy.DEFAULT, ["get-it", "two__get-it"]),
        (NamingPolicy.BARE, ["get-it", "two__get-it"]),
        (NamingPolicy.GAIA, ["get-it", "mcp_two_get-it"]),
        (NamingPolicy.DOUBLE, ["one__get-it", "two__get-it"]),
    ],
)
async def test_the_same_tool_of_two_agents_has_two_names_and_each_leads_home(
    policy: NamingPolicy, expected: list[str]
) -> None:
    named = {"one": saying("1", "get-it"), "two": saying("2", "get-it")}
    async with running_bridge(named=named, names=policy) as running:
        assert await names(running) == expected
        assert [await say(running, name) for name in expected] == ["1", "2"]
        assert await names(running, "agents/two") == ["get-it"]


@pytest.mark.anyio
async def test_several_agents_are_read_at_once_and_published_in_their_order() -> None:
    second_read = threading.Event()

    def read_last() -> list[JSON]:
        assert second_read.wait(PATIENCE)
        return [tool("work")]

    def read_first() -> list[JSON]:
        second_read.set()
        return [tool("work")]

    first = ScriptedAgent(lambda name, arguments: "1", get_mcp_tool_definitions=read_last)
    second = ScriptedAgent(lambda name, arguments: "2", get_mcp_tool_definitions=read_first)
    async with running_bridge() as running:
        refused = await running.bridge.add_agents({"one": first, "a/b": saying("x"), "two": second})
        assert list(refused) == ["a/b"]
        assert [source.name for source in running.bridge.sources] == ["one", "two"]
        assert await names(running) == ["work", "two__work"]
        assert await say(running, "work") == "1"


@pytest.mark.anyio
async def test_of_several_agents_those_that_cannot_be_published_are_told_and_the_others_are_published() -> None:
    async with running_bridge(named={"one": saying("1")}) as running:
        refused = await running.bridge.add_agents({"a/b": saying("x"), "two": saying("2"), "one": saying("3")})
        assert list(refused) == ["a/b", "one"]
        assert all(isinstance(error, PublishError) for error in refused.values())
        assert [source.name for source in running.bridge.sources] == ["one", "two"]


@pytest.mark.anyio
async def test_an_agent_is_named_after_its_class_if_nobody_names_it() -> None:
    class WeatherAgent(ScriptedAgent):
        pass

    async with Bridge() as bridge:
        assert await bridge.add_agent(WeatherAgent(lambda name, arguments: None)) == "weather"


@pytest.mark.anyio
@pytest.mark.requirement("C-12")
@pytest.mark.parametrize("name", ["a/b", "..", "a b", "\x1b[2J", "x" * 65, "_x"])
async def test_an_agent_needs_a_name_that_fits_in_a_path(name: str) -> None:
    async with running_bridge() as running:
        with pytest.raises(PublishError, match="1 to 64 characters"):
            await running.bridge.add_agent(saying("x"), name)
        assert running.bridge.sources == []


@pytest.mark.anyio
async def test_an_agent_needs_a_name_of_its_own_and_the_first_keeps_it() -> None:
    async with running_bridge(named={"one": saying("1")}) as running:
        with pytest.raises(PublishError, match="'one': the agent '.*' has that name; give one of them another"):
            await running.bridge.add_agent(saying("2"), "one")
        assert await say(running, "work") == "1"


@pytest.mark.anyio
async def test_the_error_about_a_name_that_is_taken_says_whose_it_is_and_what_to_rename() -> None:
    remedy = "has that name; rename the agent's class, or the server where it is configured"
    async with running_bridge(named={"one": saying("1")}) as running:
        with pytest.raises(PublishError, match=f"the agent 'GAIA .*' {remedy}"):
            await running.bridge.add_upstream(StdioServerSpec("one", "false"))
        await running.bridge.add_upstream(StdioServerSpec("two", "false"))
        with pytest.raises(PublishError, match=f"'two': a server {remedy}"):
            await running.bridge.add_agent(saying("2"), "two")
        with pytest.raises(PublishError, match="'two': a server has that name; give one of them another"):
            await running.bridge.add_upstream(StdioServerSpec("two", "false"))


@pytest.mark.anyio
async def test_only_what_is_published_can_be_removed_and_only_once() -> None:
    async with running_bridge(named={"one": saying("1")}) as running:
        await running.bridge.remove("one")
        for name in ("one", "", "never"):
            with pytest.raises(PublishError, match="nothing is published under that name"):
                await running.bridge.remove(name)


class NoAgent:
    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any: ...


@pytest.mark.anyio
@pytest.mark.parametrize(
    "candidate",
    [None, "module:Class", object(), ScriptedAgent, NoAgent(), lambda: None],
    ids=["none", "text", "an object", "the class", "half an agent", "a function"],
)
async def test_what_is_no_agent_is_refused_with_what_was_expected(candidate: Any) -> None:
    async with running_bridge() as running:
        with pytest.raises(AgentLoadError, match=r"get_mcp_tool_definitions\(\) and execute_mcp_tool\(\)"):
            await running.bridge.add_agent(candidate, "one")
        assert running.bridge.sources == []
        await running.bridge.add_agent(saying("x"), "one")


class ChatModel:
    def get_model_id(self) -> str:
        return "gaia-chat"

    def get_model_info(self) -> JSON:
        return {}


@pytest.mark.anyio
async def test_a_chat_model_that_is_no_server_is_published_without_tools() -> None:
    async with running_bridge(named={"chat": ChatModel(), "one": saying("x")}) as running:
        assert await names(running, "agents/chat") == []
        assert await names(running) == ["work"]


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["get_mcp_tool_definitions", "execute_mcp_tool"])
async def test_half_a_server_is_refused_although_it_is_a_chat_model(method: str) -> None:
    agent: Any = ChatModel()
    setattr(agent, method, saying)
    async with running_bridge() as running:
        with pytest.raises(AgentLoadError, match=r"or with get_model_id\(\) and get_model_info\(\)"):
            await running.bridge.add_agent(agent, "one")
        assert running.bridge.sources == []


def test_a_bridge_over_stdio_loads_neither_the_chat_api_nor_the_sdk() -> None:
    source = (
        "import sys, gaia_bridge.bridge.bridge, gaia_bridge.server.transports.stdio as _; "
        "chats = [f'gaia_bridge_doors.openai_api.{name}' for name in ('app', 'asked', 'lending')]; "
        "print([name for name in (*chats, 'mcp', 'mcp_types', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.anyio
async def test_one_agent_may_be_published_under_two_names() -> None:
    agent = saying("same")
    async with running_bridge(named={"one": agent, "two": agent}) as running:
        assert [await say(running, name) for name in ("work", "two__work")] == ["same", "same"]
        await running.bridge.remove("one")
        assert await say(running, "work") == "same"


# At the same time


class Slow:
    """An agent that takes its time to say what it has."""

    def __init__(self) -> None:
        self.asked, self.release = threading.Event(), threading.Event()

    def get_mcp_tool_definitions(self) -> list[JSON]:
        self.asked.set()
        assert self.release.wait(PATIENCE)
        return [tool("slow")]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        return "slow"


@pytest.mark.anyio
async def test_an_agent_that_takes_its_time_to_load_delays_nobody_and_keeps_its_name() -> None:
    slow = Slow()
    async with running_bridge(saying("quick")) as running:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.bridge.add_agent, slow, "slow")
            await wait_in_thread(slow.asked.wait)
            assert await say(running, "work") == "quick"
            with pytest.raises(PublishError):
                await running.bridge.add_agent(saying("x"), "slow")
            await running.bridge.add_agent(saying("x", "play"), "third")
            assert await names(running) == ["work", "play"]
            slow.release.set()
        assert await names(running) == ["work", "play", "slow"]


@pytest.mark.anyio
async def test_an_agent_may_be_removed_while_it_is_being_added() -> None:
    slow, refused = Slow(), list[PublishError]()

    async def add(bridge: Bridge) -> None:
        try:
            await bridge.add_agent(slow, "slow")
        except PublishError as error:
            refused.append(error)

    async with running_bridge(saying("quick")) as running:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add, running.bridge)
            await wait_in_thread(slow.asked.wait)
            await running.bridge.remove("slow")
            slow.release.set()
        assert "removed while it was being added" in str(refused[0])
        assert await names(running) == ["work"]
        await running.bridge.add_agent(saying("new", "play"), "slow")
        assert await say(running, "play") == "new"


@pytest.mark.anyio
async def test_adding_can_be_given_up() -> None:
    slow = Slow()
    async with running_bridge(saying("quick")) as running:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.bridge.add_agent, slow, "slow")
            await wait_in_thread(slow.asked.wait)
            tasks.cancel_scope.cancel()
        slow.release.set()
        assert await names(running) == ["work"]
        await running.bridge.add_agent(saying("new", "play"), "slow")
        assert await say(running, "play") == "new"


NOT_OPEN = "the bridge is not open; use it inside"


@pytest.mark.anyio
async def test_a_closed_bridge_takes_no_agents_until_it_is_open_again_and_then_under_any_name() -> None:
    bridge = Bridge()
    async with bridge:
        pass
    with pytest.raises(RuntimeError, match=NOT_OPEN):
        await bridge.add_agent(saying("late"), "name")
    async with bridge:
        await bridge.add_agent(saying("new"), "name")
        assert [source.name for source in bridge.sources] == ["name"]


@pytest.mark.anyio
async def test_a_bridge_whose_start_was_cancelled_takes_no_agents_until_it_is_open() -> None:
    slow = Slow()
    bridge = Bridge(slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bridge.__aenter__)
        await wait_in_thread(slow.asked.wait)
        tasks.cancel_scope.cancel()
    slow.release.set()
    with pytest.raises(RuntimeError, match=NOT_OPEN):
        await bridge.add_agent(saying("late"), "name")


@pytest.mark.anyio
async def test_who_adds_an_agent_while_the_bridge_closes_is_told_that_it_is_not_open() -> None:
    slow, bridge, refused = Slow(), Bridge(), list[str]()

    async def add() -> None:
        try:
            await bridge.add_agent(slow, "slow")
        except RuntimeError as error:
            refused.append(str(error))

    async with anyio.create_task_group() as tasks:
        async with bridge:
            tasks.start_soon(add)
            await wait_in_thread(slow.asked.wait)
    slow.release.set()
    assert [NOT_OPEN in error for error in refused] == [True]


class Leaving(ScriptedAgent):
    """An agent that takes its time to go."""

    def __init__(self) -> None:
        super().__init__(lambda name, arguments: "old", "work")
        self.told, self.release = threading.Event(), threading.Event()

    def on_mcp_published(self, publisher: Any) -> None:
        pass

    def on_mcp_unpublished(self, publisher: Any) -> None:
        self.told.set()
        assert self.release.wait(PATIENCE)


@pytest.mark.anyio
async def test_the_next_agent_may_have_the_name_before_the_last_one_is_quite_gone() -> None:
    old = Leaving()
    async with running_bridge(named={"one": old}) as running:
        try:
            await running.bridge.remove("one")
            await wait_in_thread(old.told.wait)
            await running.bridge.add_agent(saying("new"), "one")
        finally:
            old.release.set()
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
            assert await say(running, "work", "agents/one") == "new"


@pytest.mark.anyio
async def test_agents_may_come_and_go_by_the_dozen_and_leave_nothing_behind() -> None:
    before = threading.active_count()

    async def one(bridge: Bridge, number: int) -> None:
        name = f"n{number}"
        await bridge.add_agent(saying(name, name), name)
        await anyio.lowlevel.checkpoint()
        if number % 2:
            await bridge.remove(name)

    async with running_bridge() as running:
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(one, running.bridge, number)
        listed = await names(running)
        assert sorted(listed) == sorted(f"n{number}" for number in range(0, 40, 2))
        assert len(running.bridge.sources) == 20
        for name in listed:
            await running.bridge.remove(name)
        assert running.bridge.sources == []
    await wait_in_thread(comes_true(lambda: threading.active_count() <= before + 1))  # the one that waits


# Isolation


def _fail(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


class _Evil(ScriptedAgent):
    """An agent whose every method fails."""

    def __init__(self, error: BaseException) -> None:
        fail = _fail(error)
        hooks = {
            "get_mcp_prompts": fail,
            "get_mcp_resources": fail,
            "get_mcp_resource_templates": fail,
            "get_mcp_server_info": fail,
            "get_mcp_prompt": fail,
            "read_mcp_resource": fail,
            "complete_mcp_argument": fail,
            "on_mcp_published": fail,
            "on_mcp_unpublished": fail,
        }
        super().__init__(fail, "evil", **hooks)


@pytest.mark.anyio
@pytest.mark.requirement("F-101", "F-107", "S1-20")
@pytest.mark.parametrize(
    "error",
    [RuntimeError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), MemoryError()],
    ids=repr,
)
async def test_an_agent_that_fails_in_every_way_hurts_nobody_else(error: BaseException) -> None:
    async with running_bridge(named={"evil": _Evil(error), "good": saying("good")}) as running:
        for mode in ("auto", "legacy"):
            async with running.client(mode) as client:
                assert (await client.call_tool("evil", {})).is_error
                with pytest.raises(mcp.MCPError):
                    await client.read_resource("u:x")
                assert text_of(await client.call_tool("work", {})) == "good"
                assert [item.name for item in (await client.list_tools()).tools] == ["evil", "work"]
        await running.bridge.remove("evil")
        assert await say(running, "work") == "good"


@pytest.mark.anyio
@pytest.mark.requirement("F-101")
@pytest.mark.parametrize(
    "info",
    [
        {"icons": [{"theme": "dark"}]},
        {"icons": [{"src": 5}], "websiteUrl": 5},
        {"name": "\ud800", "version": float("nan")},
        {"name": {"a": 1}, "instructions": ["x"]},
        object(),
        "Books",
    ],
)
async def test_an_agent_with_an_odd_introduction_is_published_all_the_same(info: Any) -> None:
    async with running_bridge(saying("odd", get_mcp_server_info=lambda: info)) as running:
        for mode in ("auto", "legacy"):
            assert await names(running, mode=mode) == ["work"]


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_an_agent_that_is_stuck_in_every_thread_delays_no_other() -> None:
    release, running_calls = threading.Event(), threading.Semaphore(0)

    def block(arguments: JSON) -> str:
        running_calls.release()
        assert release.wait(PATIENCE)
        return "released"

    results: list[mcp_types.CallToolResult] = []
    settings = Settings(agent=AgentLimits(threads=2, queue=2, definitions_max_age=0))
    async with running_bridge(
        named={"stuck": one_tool(block), "good": saying("good", "play")}, settings=settings
    ) as running:
        async with running.client("legacy") as client, anyio.create_task_group() as tasks:
            await client.list_tools()

            async def call() -> None:
                results.append(await client.call_tool("work", {}))

            for _ in range(4):
                tasks.start_soon(call)
            for _ in range(2):
                await wait_in_thread(lambda seconds: running_calls.acquire(timeout=seconds))
            assert "busy" in text_of(await client.call_tool("work", {}))
            assert text_of(await client.call_tool("play", {})) == "good"
            assert [item.name for item in (await client.list_tools()).tools] == ["work", "play"]
            await running.bridge.add_agent(saying("new", "third"), "third")
            assert text_of(await client.call_tool("third", {})) == "new"
            release.set()
    assert [text_of(result) for result in results] == ["released"] * 4


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_a_coroutine_that_blocks_stops_only_its_own_agent() -> None:
    blocking, release = threading.Event(), threading.Event()

    async def block(arguments: JSON) -> str:
        blocking.set()
        assert release.wait(PATIENCE)
        return "released"

    async def quick(arguments: JSON) -> str:
        return "quick"

    results: list[str] = []
    async with running_bridge(one_tool(block), one_tool(quick, "play")) as running:
        async with running.client() as client, anyio.create_task_group() as tasks:

            async def call() -> None:
                results.append(text_of(await client.call_tool("work", {})))

            tasks.start_soon(call)
            await wait_in_thread(blocking.wait)
            assert text_of(await client.call_tool("play", {})) == "quick"
            assert len((await client.list_tools()).tools) == 2
            release.set()
    assert results == ["released"]


@pytest.mark.anyio
async def test_a_source_that_breaks_is_no_longer_published_and_the_others_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = anyio.Event()
    run = AgentSource.run

    async def breaking(self: AgentSource, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        if self.name != "fragile":
            return await run(self, task_status=task_status)
        task_status.started()
        await broken.wait()
        raise RuntimeError("a fault of the bridge")

    monkeypatch.setattr(AgentSource, "run", breaking)
    async with running_bridge(named={"good": saying("good"), "fragile": saying("x", "play")}) as running:
        assert len(running.bridge.sources) == 2
        broken.set()
        while len(running.bridge.sources) == 2:
            await anyio.lowlevel.checkpoint()
        with pytest.raises(KeyError):
            running.endpoint("agents/fragile")
        assert await say(running, "work") == "good"
        await running.bridge.add_agent(saying("x", "play"), "another")
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
        "agent fragile broke and is no longer published"
    ]


@pytest.mark.anyio
async def test_a_source_that_cannot_start_is_an_error_of_whoever_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaking(self: AgentSource, *, task_status: Any = None) -> None:
        raise RuntimeError("a fault of the bridge")

    async with running_bridge(saying("good")) as running:
        with monkeypatch.context() as patch:
            patch.setattr(AgentSource, "run", breaking)
            with pytest.raises(ExceptionGroup) as caught:
                await running.bridge.add_agent(saying("x", "play"), "fragile")
        assert caught.group_contains(RuntimeError, match="a fault of the bridge")
        assert await names(running) == ["work"]
        await running.bridge.add_agent(saying("x", "play"), "fragile")
        assert await names(running) == ["work", "play"]


# The end


@both_eras
@pytest.mark.anyio
@pytest.mark.parametrize("blocking", [True, False])
async def test_a_bridge_ends_at_once_with_calls_in_flight(mode: str, blocking: bool) -> None:
    started, release = threading.Event(), threading.Event()

    def sync(arguments: JSON) -> None:
        started.set()
        release.wait(PATIENCE)

    async def coroutine(arguments: JSON) -> None:
        started.set()
        await asyncio.Event().wait()

    results: list[mcp_types.CallToolResult] = []
    async with anyio.create_task_group() as tasks:
        async with running_bridge(one_tool(sync if blocking else coroutine)) as running:
            client = running.client(mode)

            async def call() -> None:
                async with client:
                    results.append(await client.call_tool("work", {}))

            tasks.start_soon(call)
            await wait_in_thread(started.wait)
    release.set()
    assert results[0].is_error
    assert text_of(results[0]) == "the agent is no longer published"


@pytest.mark.anyio
async def test_two_bridges_in_one_process_know_nothing_of_each_other() -> None:
    async with running_bridge(saying("one")) as one, running_bridge(saying("two", "play")) as two:
        assert (await names(one), await names(two)) == (["work"], ["play"])
        async with one.client() as client:
            with pytest.raises(mcp.MCPError):
                await client.call_tool("play", {})
