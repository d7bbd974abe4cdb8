"""Nothing of one window reaches another of the same editor, though both give their requests the same ids."""

from __future__ import annotations

import json
from collections.abc import Sequence

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaia_bridge.text.json_types import JSON
from tests.cli.running import INITIALIZE
from tests.daemon.background.test_fronts import Line, Served, served
from tests.support.turns import STEPS, Worker, in_turns, secret

pytestmark = pytest.mark.anyio

NAMES: tuple[str, str] = ("ada", "bob")
CAPABILITIES: JSON = {"roots": {}, "elicitation": {}}
CALL = 2
"""The id of every call."""


class Window:
    """An editor with one call, which answers with its own secret whatever it is asked.

    Args:
        name: Whose secret it has.
        bridge: Where its front connects.
    """

    def __init__(self, name: str, bridge: Served) -> None:
        self._name = name
        self._bridge = bridge
        self._line: Line
        self._asked = 0
        self.heard: list[str] = []

    async def work(self, steps: Sequence[str]) -> None:
        """Have the tool called, until there is an answer, or none is wanted."""
        await self._connect()
        await self._call(steps)
        while message := await self._next():
            if message.get("id") == CALL and "method" not in message:
                return
            if "id" in message:
                self._asked = message["id"]
                params: JSON = message.get("params") or {}
                match str(params.get("message", "look")).split()[0]:
                    case "cancel":
                        cancelled = {"method": "notifications/cancelled", "params": {"requestId": CALL}}
                        await self._says(cancelled)
                        await self._says({"id": 3, "method": "ping"})
                        while (message := await self._next()).get("id") != 3:
                            pass
                        return
                    case "restart":
                        self._line.writer.transport.abort()
                        await self._connect()
                        await self._answer(self._asked)  # which the bridge before has asked
                        await self._call(())
                    case _:
                        await self._answer(self._asked)

    async def _connect(self) -> None:
        """As a front does, also to the next bridge."""
        self._line = await self._bridge.front(asked=self._asked, folder=f"/{secret(self._name)}")
        await self._says({**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": CAPABILITIES}})
        assert (await self._next())["id"] == INITIALIZE["id"]
        await self._says({"method": "notifications/initialized"})

    async def _call(self, steps: Sequence[str]) -> None:
        arguments = {"who": self._name, "steps": list(steps)}
        params = {"name": "work", "arguments": arguments, "_meta": {"progressToken": 1}}
        await self._says({"id": CALL, "method": "tools/call", "params": params})

    async def _answer(self, number: int) -> None:
        content = {"action": "accept", "content": {"word": secret(self._name)}}
        await self._says({"id": number, "result": {**content, "roots": [{"uri": f"file:///{secret(self._name)}"}]}})

    async def _says(self, message: JSON) -> None:
        await self._line.says(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _next(self) -> JSON:
        line = await self._line.hears()
        self.heard.append(line.decode())
        message: JSON = json.loads(line)
        return message


PLANS: st.SearchStrategy[list[str]] = st.lists(st.sampled_from([*STEPS, "cancel", "restart"]), min_size=1, max_size=4)
PEOPLE: st.SearchStrategy[dict[str, list[str]]] = st.builds(
    lambda *steps: dict(zip(NAMES, steps, strict=True)), PLANS, PLANS
)


@given(plan=PEOPLE.flatmap(in_turns))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_no_secret_of_one_window_is_seen_in_another(plan: tuple[dict[str, list[str]], Sequence[str]]) -> None:
    steps, order = plan
    worker = Worker(order)
    async with served(work=worker.work) as bridge:
        windows = {name: Window(name, bridge) for name in NAMES}
        async with anyio.create_task_group() as tasks:
            for name, window in windows.items():
                tasks.start_soon(window.work, steps[name])
    for name, window in windows.items():
        [other] = windows.keys() - {name}
        assert not [text for text in window.heard if secret(other) in text]
    assert all(secret(name) in answer for name, answer in worker.answered)
