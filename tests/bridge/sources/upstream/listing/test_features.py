"""One change of a list is read at once and announced once, whoever tells of it. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.client import ServerHandshake
from gaia_bridge.client.lists import ReadPage
from gaia_bridge.model import Change, ChangeKind, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.listing.features import FeatureTracker
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

DECLARED = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


class Lists:
    """A connection to a server with lists."""

    def __init__(self, *, modern: bool = False) -> None:
        self.handshake = ServerHandshake("2026-07-28" if modern else "2025-11-25", modern, {}, DECLARED, None)
        self.names = ["first"]
        self.times: list[tuple[str, float]] = []
        """Which list was read when."""

    async def list_pages(self, kind: str) -> list[ReadPage]:
        self.times.append((kind, anyio.current_time()))
        return [ReadPage(None, [{"name": name, "inputSchema": {"type": "object"}} for name in self.names], {})]


class Followed(FeatureTracker):
    """A tracker that remembers what it announced, and when."""

    def __init__(self) -> None:
        super().__init__(StdioServerSpec("up", "none"), UpstreamLimits(), None)
        self.heard: list[tuple[Change, float]] = []
        self.listen(lambda change: self.heard.append((change, anyio.current_time())))


@asynccontextmanager
async def followed(connection: Any) -> AsyncGenerator[Followed]:
    tracker = Followed()
    await tracker.read(connection)
    tracker.connected()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tracker.follow, connection)
        await anyio.sleep(60)
        tracker.heard.clear()
        connection.times.clear()
        yield tracker
        tasks.cancel_scope.cancel()


async def test_a_change_of_one_list_does_not_wait_for_another_list() -> None:
    async with followed(connection := Lists()) as tracker:
        began = anyio.current_time()
        for kind in (ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.TOOLS):
            connection.names.append(f"more{len(connection.names)}")
            tracker.look_again(kind)
            await anyio.sleep(0.1)
        await anyio.sleep(5)
    assert [change.kind for change, _ in tracker.heard] == [ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.TOOLS]
    assert [when - began for _, when in tracker.heard] == pytest.approx([0, 0.1, 1])


@pytest.mark.parametrize("first", ["here", "there"])
async def test_a_change_that_is_told_on_the_connections_of_both_eras_is_announced_once_and_at_once(first: str) -> None:
    async with followed(connection := Lists()) as tracker:
        other = replace(tracker.everything, modern=True)
        tracker.overheard(Change(ChangeKind.TOOLS), other)
        await anyio.sleep(60)
        tracker.heard.clear()
        began = anyio.current_time()
        connection.names.append("second")
        grown = replace(other, tools=(*other.tools, {"name": "second", "inputSchema": {"type": "object"}}))
        for place in (first, "there" if first == "here" else "here"):
            if place == "here":
                tracker.look_again(ChangeKind.TOOLS)
            else:
                tracker.overheard(Change(ChangeKind.TOOLS), grown)
            await anyio.sleep(0.01)
        await anyio.sleep(5)
        assert [(change.kind, when) for change, when in tracker.heard if change.kind.is_list] == [
            (ChangeKind.TOOLS, began)
        ]
        for modern in (True, False):
            assert [tool["name"] for tool in tracker.features.for_era(modern=modern).tools] == ["first", "second"]


async def test_what_the_process_of_the_other_era_announces_is_announced_although_no_list_differs() -> None:
    async with followed(Lists()) as tracker:
        other = replace(tracker.everything, modern=True)
        tracker.overheard(Change(ChangeKind.TOOLS), other)
        await anyio.sleep(60)
        tracker.heard.clear()
        tracker.overheard(Change(ChangeKind.TOOLS, is_repeated=True), other)
        await anyio.sleep(60)
    assert [change for change, _ in tracker.heard if change.kind.is_list] == [
        Change(ChangeKind.TOOLS, is_repeated=True)
    ]
