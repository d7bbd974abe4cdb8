"""A source tells of a resource as long as some client wants to hear of it, whoever that is and whatever changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Change, ChangeKind, NamingPolicy, ServerInfo, SourceKind
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.subscriptions.resources import ResourceInterest
from tests.support.fixed_sources import FixedSource
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

UPDATED = Change(ChangeKind.RESOURCE_UPDATED, "u:1")


class TellingSource(FixedSource):
    """Notes what it is asked."""

    def __init__(self, name: str, *resources: str) -> None:
        super().__init__(name, kind=SourceKind.SERVER, resources=resources)
        self.asked: list[str] = []
        self.refuses = False
        self.answers = anyio.Event()
        self.answers.set()

    async def subscribe(self, uri: str) -> None:
        self.asked.append(f"+{uri}")
        await self.answers.wait()
        if self.refuses:
            raise ProtocolError(-32602, "cannot watch that")

    async def unsubscribe(self, uri: str) -> None:
        self.asked.append(f"-{uri}")


class Interest(ResourceInterest):
    """The interest in some sources."""

    def __init__(self, *sources: FixedSource) -> None:
        self.catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
        for source in sources:
            self.catalog.add(source)
        self.announced: list[Change] = []
        super().__init__(self.catalog, self.announced.append)

    async def hold(self, uri: str) -> None:
        self.add(uri)
        await self.ask(uri)


@asynccontextmanager
async def interest(*sources: FixedSource) -> AsyncGenerator[Interest]:
    made = Interest(*sources)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(made.run)
            yield made
            tasks.cancel_scope.cancel()


@pytest.mark.requirement("P-5")
async def test_a_source_is_asked_once_for_many_clients_and_told_when_the_last_is_gone() -> None:
    source = TellingSource("one", "u:1", "u:2")
    async with interest(source) as interests:
        await interests.hold("u:1")
        await interests.hold("u:1")
        await interests.hold("u:2")
        assert source.asked == ["+u:1", "+u:2"]
        interests.discard("u:1")
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1", "+u:2"]
        interests.discard("u:1")
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1", "+u:2", "-u:1"]
        await interests.hold("u:1")
        assert source.asked[-1] == "+u:1"


async def test_who_leaves_while_the_source_is_being_asked_is_still_given_up_afterwards() -> None:
    source = TellingSource("one", "u:1")
    source.answers = anyio.Event()
    async with interest(source) as interests, anyio.create_task_group() as tasks:
        interests.add("u:1")
        tasks.start_soon(interests.ask, "u:1")
        await anyio.wait_all_tasks_blocked()
        interests.discard("u:1")
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1"]
        source.answers.set()
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1", "-u:1"]


async def test_a_second_client_learns_for_itself_that_the_source_refuses() -> None:
    source = TellingSource("one", "u:1")
    source.refuses = True
    async with interest(source) as interests:
        for _ in range(2):
            interests.add("u:1")
            with pytest.raises(ProtocolError, match="cannot watch that"):
                await interests.ask("u:1")
            interests.discard("u:1")
        source.refuses = False
        await interests.hold("u:1")
        assert source.asked == ["+u:1"] * 3


async def test_what_somebody_else_offers_from_now_on_is_asked_of_them() -> None:
    first, second = TellingSource("one", "u:1"), TellingSource("two", "u:1")
    async with interest(first, second) as interests:
        await interests.hold("u:1")
        interests.catalog.remove("one")
        await anyio.wait_all_tasks_blocked()
        assert (first.asked, second.asked) == (["+u:1", "-u:1"], ["+u:1"])
        interests.discard("u:1")
        await anyio.wait_all_tasks_blocked()
        assert (first.asked, second.asked) == (["+u:1", "-u:1"], ["+u:1", "-u:1"])


async def test_what_nobody_offers_yet_is_asked_for_when_it_appears() -> None:
    source = TellingSource("one", "u:2")
    async with interest(source, TellingSource("two", "u:3")) as interests:
        interests.add("u:1")
        await interests.ask_all(["u:1"], PATIENCE)
        assert source.asked == []
        source.change(Change(ChangeKind.RESOURCES), source.offering(resources=("u:1",)))
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1"]
        source.change(Change(ChangeKind.RESOURCES), source.offering(resources=()))
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1", "-u:1"]


async def test_a_slow_source_is_not_waited_for_and_what_it_may_not_have_told_is_announced() -> None:
    slow, quick = TellingSource("one", "u:1"), TellingSource("two", "u:2")
    slow.answers = anyio.Event()
    async with interest(slow, quick) as interests:
        for uri in ("u:1", "u:2"):
            interests.add(uri)
        await interests.ask_all(["u:1", "u:2"], 0.01)
        assert quick.asked == ["+u:2"]
        slow.answers.set()
        await anyio.wait_all_tasks_blocked()
        assert interests.announced == [UPDATED]


async def test_what_is_asked_for_in_time_is_not_announced() -> None:
    source = TellingSource("one", "u:1")
    async with interest(source) as interests:
        interests.add("u:1")
        await interests.ask_all(["u:1"], PATIENCE)
        assert (source.asked, interests.announced) == (["+u:1"], [])


async def test_one_source_that_refuses_keeps_nobody_from_hearing_of_others(caplog: pytest.LogCaptureFixture) -> None:
    bad, good = TellingSource("one", "u:1"), TellingSource("two", "u:2")
    bad.refuses = True
    async with interest(bad, good) as interests:
        for uri in ("u:1", "u:2"):
            interests.add(uri)
        await interests.ask_all(["u:1", "u:2"], PATIENCE)
        assert good.asked == ["+u:2"]
    assert "no updates of u:1: cannot watch that" in caplog.text


async def test_after_the_end_nobody_is_asked_anything() -> None:
    source = TellingSource("one", "u:1")
    async with interest(source) as interests:
        await interests.hold("u:1")
    interests.discard("u:1")
    interests.add("u:1")
    await interests.ask_all(["u:1"], PATIENCE)
    source.change(Change(ChangeKind.RESOURCES))
    assert source.asked == ["+u:1"]
