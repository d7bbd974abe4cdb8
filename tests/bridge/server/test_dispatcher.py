"""What goes out: large results at once hold nobody else up, and an answer is written once for all."""

from __future__ import annotations

import logging
import sys
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gaia_bridge.calls import call_log
from gaia_bridge.contract import ClientRequest
from gaia_bridge.model import NamingPolicy, ServerInfo
from gaia_bridge.protocol.revisions import LATEST_HANDSHAKE
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.connection import NOWHERE, Connection
from gaia_bridge.server.dispatcher import Answer, Dispatcher
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.text import json_text
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge
from tests.support.fixed_sources import FixedSource
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


class Gated(FixedSource):
    """Answers all its calls at once, when it is let.

    Args:
        size: Characters of an answer.
    """

    def __init__(self, size: int) -> None:
        super().__init__("gated", "work")
        self.let = anyio.Event()
        self._size = size

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        await self.let.wait()
        return {"content": [{"type": "text", "text": "x" * self._size}]}


def call(number: int) -> Call:
    params: JSON = {"name": "work", "arguments": {}}
    message: JSON = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return Call(Connection(NOWHERE, LATEST_HANDSHAKE), NOWHERE, message)


@pytest.mark.requirement("F-253")
@pytest.mark.parametrize(("size", "at_once"), [(2_000, 1), (500, 5)])
async def test_others_have_a_turn_between_two_large_results_and_small_ones_wait_for_nobody(
    size: int, at_once: int
) -> None:
    source, turns, released = Gated(size), 0, list[int]()
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.BARE)
    catalog.add(source)
    dispatcher = Dispatcher(catalog, Settings(agent=AgentLimits(large_result_bytes=1_000)), "test")

    async def answered(answer: Answer) -> None:
        assert len(answer.body) > size
        released.append(turns)

    with anyio.fail_after(PATIENCE):
        tasks = [dispatcher.begin(call(number), answered) for number in range(5)]
        await anyio.wait_all_tasks_blocked()
        source.let.set()
        while len(released) < 5:
            await checkpoint()
            turns += 1
        for task in tasks:
            await task
    assert max(released.count(turn) for turn in released) == at_once
    if at_once == 1:
        assert all(later - earlier >= 3 for earlier, later in zip(released, released[1:], strict=False))


@pytest.mark.requirement("F-310")
@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
async def test_an_answer_is_written_once_for_all_who_want_to_know_its_size(
    level: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(level, call_log.__name__)
    written = list[Any]()

    def to_json(value: Any) -> bytes:
        written.append(value)
        return json_text.to_json(value)

    answers = list[Answer]()

    async def answered(answer: Answer) -> None:
        answers.append(answer)

    async with running_bridge(one_tool(lambda _: "found")) as running:
        for name, module in list(sys.modules.items()):
            ours = name.startswith(
                ("gaia_bridge.calls", "gaia_bridge.protocol", "gaia_bridge.server", "gaia_bridge.sources.agent")
            )
            if ours and module is not json_text and hasattr(module, "to_json"):
                monkeypatch.setattr(module, "to_json", to_json)
        await running.endpoint().begin(call(1), answered)
    [answer] = answers
    assert len([value for value in written if "content" in value]) == 1
    told = [record.getMessage() for record in caplog.records if record.name == call_log.__name__]
    assert [line.endswith(f", {len(answer.body)} B out") for line in told] == [True] * (level == logging.INFO)
