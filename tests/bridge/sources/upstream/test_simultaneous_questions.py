"""Several clients at one server that does not say for which call it asks, and that asks for all of them at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.model import ServerOptions
from gaia_bridge.settings import Settings
from tests.bridge.sources.upstream.test_eras import reachable
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge, text_of
from tests.support.on_demand import mcp, mcp_types
from tests.support.upstreams import PATIENT, raw_server, until_ready

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

NAMES = ("ada", "ben", "cleo")


class People:
    """Clients at one endpoint, and what each of them was asked."""

    def __init__(self) -> None:
        self.clients: dict[str, mcp.Client] = {}
        self.asked: dict[str, list[str]] = {}

    def answering(self, name: str) -> Any:
        """A user who tells their name."""
        self.asked[name] = []

        async def answer(context: Any, params: Any) -> mcp_types.ElicitResult:
            self.asked[name].append(params.message)
            return mcp_types.ElicitResult(action="accept", content={"name": name})

        return answer

    async def ask_together(self, count: int | None = None) -> dict[str, str]:
        """What each of them is answered, when all call at once."""
        answers: dict[str, str] = {}

        async def call(name: str, client: mcp.Client) -> None:
            arguments = {"who": name, "calls": count or len(self.clients)}
            try:
                answers[name] = text_of(await client.call_tool("ask_together", arguments))
            except mcp.MCPError as error:  # which this server makes of an answer that is one
                answers[name] = error.message

        async with anyio.create_task_group() as tasks:
            for name, client in self.clients.items():
                tasks.start_soon(call, name, client)
        return answers


@asynccontextmanager
async def people(way: str, count: int, mode: str) -> AsyncGenerator[People]:
    """So many clients at the endpoint of a server, beside an agent and another server."""
    there = People()
    agent = one_tool(lambda _: "worked")
    async with reachable(way) as spec, running_bridge(agent, settings=Settings(upstream=PATIENT)) as running_one:
        await running_one.bridge.add_upstream(replace(raw_server(), name="old"))
        await running_one.bridge.add_upstream(replace(spec, options=ServerOptions(era="handshake")))
        await until_ready(*running_one.bridge.sources)
        async with AsyncExitStack() as entered:
            for name in NAMES[:count]:
                client = running_one.client(mode, "servers/push", elicitation_callback=there.answering(name))
                there.clients[name] = await entered.enter_async_context(client)
            yield there


@pytest.mark.requirement("F-340")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_first_questions_at_once_are_for_the_right_client_or_refused_at_once(
    way: str, count: int, mode: str
) -> None:
    async with people(way, count, mode) as there:
        with anyio.fail_after(20):  # a call may take sixty
            answers = await there.ask_together()
        assert len(answers) == count
        greeted = [name for name in answers if answers[name] == f"Hello, {name}"]
        assert len(greeted) == 1
        for name in answers.keys() - set(greeted):
            assert "Call again" in answers[name]
            assert "isolation" in answers[name]
            assert there.asked[name] == []
        assert there.asked[greeted[0]] == [f"Are you {greeted[0]}?"]
        with anyio.fail_after(20):  # now they take turns
            assert await there.ask_together(1) == {name: f"Hello, {name}" for name in there.clients}
        for name in there.clients:
            assert set(there.asked[name]) == {f"Are you {name}?"}
