"""What an agent has now: found when it says nothing, and told when it does."""

from __future__ import annotations

import logging
import threading
from typing import Any

import anyio
import pytest

from gaia_bridge.contract import Publisher
from gaia_bridge.model import Change, ChangeKind
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.announcer import AnnouncesChanges
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import call, nothing, published
from tests.support.agents import ScriptedAgent, one_tool, tool
from tests.support.upstreams import text_of
from tests.support.waiting import PATIENCE, wait_in_thread

ALWAYS = AgentLimits(definitions_max_age=0)
"""Read the definitions again whenever they are asked for."""


class Changes:
    """Listens to a source."""

    def __init__(self, source: AgentSource) -> None:
        self.heard: list[Change] = []
        self._more = anyio.Event()
        self.stop = source.listen(self._hear)

    async def until(self, change: Change) -> None:
        while change not in self.heard:
            await self._more.wait()

    def _hear(self, change: Change) -> None:
        self.heard.append(change)
        self._more.set()
        self._more = anyio.Event()


@pytest.mark.anyio
@pytest.mark.requirement("P-10")
async def test_a_list_that_changed_without_a_word_is_found_and_announced_when_it_is_asked_for() -> None:
    agent = one_tool(lambda _: None, get_mcp_prompts=lambda: list(prompts))
    prompts: list[JSON] = []
    async with published(agent, ALWAYS) as source:
        changes = Changes(source)
        await source.refresh()
        assert changes.heard == []
        agent.tools.append(tool("more"))
        await source.refresh()
        assert changes.heard == [Change(ChangeKind.TOOLS)]
        prompts.append({"name": "p"})
        await source.refresh()
        assert changes.heard[1:] == [Change(ChangeKind.PROMPTS)]
        assert "prompts" in source.features.capabilities
        changes.stop()
        changes.stop()
        agent.tools.clear()
        await source.refresh()
        assert len(changes.heard) == 2


@pytest.mark.anyio
async def test_a_list_is_not_read_again_while_it_is_young() -> None:
    reads: list[int] = []

    def definitions() -> list[JSON]:
        reads.append(1)
        return [tool("work")]

    agent = one_tool(lambda _: None)
    setattr(agent, "get_mcp_tool_definitions", definitions)  # noqa: B010 - a method like any other
    async with published(agent, AgentLimits(definitions_max_age=1_000)) as source:
        for _ in range(3):
            await source.refresh()
    assert len(reads) == 1


@pytest.mark.anyio
async def test_many_who_ask_at_once_read_once() -> None:
    release, reads = threading.Event(), list[int]()

    def definitions() -> list[JSON]:
        reads.append(1)
        assert len(reads) == 1 or release.wait(PATIENCE)
        return [tool("work")]

    agent = one_tool(lambda _: None)
    setattr(agent, "get_mcp_tool_definitions", definitions)  # noqa: B010 - a method like any other
    async with published(agent, ALWAYS) as source:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(source.refresh)
            await anyio.wait_all_tasks_blocked()
            release.set()
    assert len(reads) == 2


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_an_agent_whose_list_hangs_keeps_the_list_it_gave() -> None:
    release, calm = threading.Event(), threading.Event()
    calm.set()

    def definitions() -> list[JSON]:
        if not calm.is_set():
            release.wait(PATIENCE)
        return [tool("work")]

    agent = one_tool(lambda _: "worked")
    setattr(agent, "get_mcp_tool_definitions", definitions)  # noqa: B010 - a method like any other
    async with published(agent, AgentLimits(definitions_max_age=0, definitions_timeout=0.2)) as source:
        changes = Changes(source)
        calm.clear()
        for _ in range(4):
            await source.refresh()
            assert text_of(await call(source)) == "worked"
        assert changes.heard == []
        assert source.features.left_out
        release.set()


class Announcing(AnnouncesChanges, ScriptedAgent):
    pass


@pytest.mark.anyio
async def test_an_agent_announces_from_its_own_threads_and_the_new_list_is_read_first() -> None:
    def work(name: str, arguments: JSON) -> None:
        agent.tools.append(tool("more"))
        agent.notify_mcp_tools_changed()
        agent.notify_mcp_prompts_changed()
        agent.notify_mcp_resources_changed()
        agent.notify_mcp_resource_updated("book:1")

    agent = Announcing(work, "work")
    seen: list[list[str]] = []
    async with published(agent) as source:
        changes = Changes(source)
        source.listen(lambda _: seen.append([item["name"] for item in source.features.tools]))
        await call(source)
        await changes.until(Change(ChangeKind.RESOURCE_UPDATED, "book:1"))
    kinds = (ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.RESOURCES)
    assert changes.heard == [*map(Change, kinds), Change(ChangeKind.RESOURCE_UPDATED, "book:1")]
    assert seen[0] == ["work", "more"]


@pytest.mark.anyio
@pytest.mark.requirement("S-14")
async def test_a_flood_of_updates_never_swallows_a_changed_list() -> None:
    reading, release = threading.Event(), threading.Event()
    agent = Announcing(nothing, "work")
    first = [True]

    def definitions() -> list[JSON]:
        if not first:
            reading.set()
            assert release.wait(PATIENCE)
        first.clear()
        return agent.tools

    setattr(agent, "get_mcp_tool_definitions", definitions)  # noqa: B010 - a method like any other
    async with published(agent) as source:
        changes = Changes(source)
        agent.notify_mcp_prompts_changed()
        await wait_in_thread(reading.wait)
        for number in range(5_000):
            agent.notify_mcp_resource_updated(f"book:{number}")
        for _ in range(5_000):
            agent.notify_mcp_resource_updated("book:1")
        agent.notify_mcp_tools_changed()
        release.set()
        await changes.until(Change(ChangeKind.TOOLS))
    assert changes.heard.count(Change(ChangeKind.RESOURCE_UPDATED, "book:1")) == 1
    assert len(changes.heard) < 1_100


@pytest.mark.anyio
@pytest.mark.requirement("F-105")
async def test_an_update_of_an_odd_uri_is_told_in_valid_text() -> None:
    agent = Announcing(nothing, "work")
    async with published(agent) as source:
        changes = Changes(source)
        agent.notify_mcp_resource_updated("book:\ud800")
        await changes.until(Change(ChangeKind.RESOURCE_UPDATED, "book:?"))


class Told:
    """An agent that remembers its publishers."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.told: list[str] = []
        self.publisher: Publisher | None = None

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [tool("work")]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        return "worked"

    def on_mcp_published(self, publisher: Publisher) -> None:
        self.told.append("published")
        self.publisher = publisher
        if self.error is not None:
            raise self.error

    def on_mcp_unpublished(self, publisher: Publisher) -> None:
        self.told.append("unpublished" if publisher is self.publisher else "somebody else")
        if self.error is not None:
            raise self.error


@pytest.mark.anyio
async def test_an_agent_is_told_when_it_is_published_and_when_no_longer() -> None:
    agent = Told()
    async with published(agent):
        assert agent.told == ["published"]
    assert agent.told == ["published", "unpublished"]
    assert agent.publisher is not None
    agent.publisher.tools_changed()  # goes nowhere


@pytest.mark.anyio
@pytest.mark.requirement("F-101")
@pytest.mark.parametrize("error", [RuntimeError(), SystemExit(3), KeyboardInterrupt()], ids=repr)
async def test_an_agent_that_fails_to_take_note_is_published_all_the_same(error: BaseException) -> None:
    agent = Told(error)
    async with published(agent) as source:
        assert text_of(await call(source)) == "worked"
    assert agent.told == ["published", "unpublished"]


@pytest.mark.anyio
async def test_a_busy_agent_is_told_that_it_is_no_longer_published() -> None:
    agent, started, release = Told(), threading.Event(), threading.Event()

    def block(tool_name: str, arguments: JSON) -> None:
        started.set()
        release.wait(PATIENCE)

    setattr(agent, "execute_mcp_tool", block)  # noqa: B010 - a method like any other
    try:
        async with anyio.create_task_group() as tasks:
            async with published(agent, AgentLimits(threads=1, queue=0)) as source:
                tasks.start_soon(call, source)
                await wait_in_thread(started.wait)
        assert agent.told == ["published", "unpublished"]
    finally:
        release.set()


@pytest.mark.anyio
@pytest.mark.requirement("S1-20")
async def test_what_is_left_out_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent(nothing, "work", {"name": "bad", "inputSchema": []})
    async with published(agent, ALWAYS) as source:
        await source.refresh()
        await source.refresh()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "test: tool bad is left out" in warnings[0]
