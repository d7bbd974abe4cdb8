"""Many calls at once, calls that are given up, and clients that come and go."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import TaskStatus

from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import Link
from tests.interaction.everything_agent import TOOLS
from tests.interaction.results import call, older, wire_list
from tests.support.on_demand import mcp

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

THREADS = AgentLimits().threads
PROMPT = 8.0
"""Seconds in which everything is answered that need not wait; less than an agent is given to list its tools."""


@pytest.mark.requirement("S1-17", "P-12")
async def test_calls_run_side_by_side_and_every_caller_gets_its_own_answer(link: Link) -> None:
    doubles: dict[int, JSON] = {}
    met: list[JSON] = []

    async def measure(client: mcp.Client, n: int) -> None:
        doubles[n] = (await call(client, "measure", n=n))["structuredContent"]

    async def meet(client: mcp.Client) -> None:
        met.append((await call(client, "meet", n=THREADS))["structuredContent"])

    async with link.client() as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(THREADS):
                tasks.start_soon(meet, client)
        assert met == [{"met": True}] * THREADS
        async with anyio.create_task_group() as tasks:
            for n in range(50):
                tasks.start_soon(measure, client, n)
        assert doubles == {n: {"double": 2 * n} for n in range(50)}


@pytest.mark.requirement("S1-17", "F-107", "P-12")
async def test_an_agent_whose_threads_are_all_taken_keeps_its_lists_and_delays_nobody(link: Link) -> None:
    async with link.client() as client:
        with anyio.fail_after(PROMPT):
            async with anyio.create_task_group() as blocked:
                for n in range(THREADS):
                    await blocked.start(block, client, f"{n}")
                names = [tool["name"] for tool in link.own(wire_list((await client.list_tools()).tools))]
                assert names == [tool["name"] for tool in TOOLS]
                if not link.modern:
                    await older(client).send_ping()
                blocked.cancel_scope.cancel()
        assert (await call(client, "measure", n=1))["structuredContent"] == {"double": 2}


async def block(client: mcp.Client, key: str, *, task_status: TaskStatus[None]) -> None:
    """Take one of the agent's threads until cancelled; started when it is taken."""

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        task_status.started()

    await client.call_tool("wait-for-cancel", {"key": key}, progress_callback=on_progress)


@pytest.mark.requirement("F-086", "P-12")
async def test_giving_up_a_call_reaches_the_agent(link: Link) -> None:
    async with link.client() as client:
        for tool in ("wait-for-cancel", "wait-for-cancel-async"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, tool, {"key": tool})
                assert (await call(client, "started", key=tool))["structuredContent"] == {"started": True}
                tasks.cancel_scope.cancel()
            assert (await call(client, "ended", key=tool))["structuredContent"] == {"cancelled": True}


@pytest.mark.requirement("F-087", "P-12")
async def test_a_client_that_goes_away_is_forgotten_and_the_next_one_is_served(http_link: Link) -> None:
    """Over HTTP; a server over stdio ends with its client (tests/process)."""
    async with http_link.serving() as connect:
        async with anyio.create_task_group() as tasks, connect() as first:
            tasks.start_soon(left_alone, first)
            await call(first, "started", key="left")
        async with connect() as second:
            names = [tool["name"] for tool in http_link.own(wire_list((await second.list_tools()).tools))]
            assert names == [tool["name"] for tool in TOOLS]
            assert (await call(second, "ended", key="left"))["structuredContent"] == {"cancelled": True}


async def left_alone(client: mcp.Client) -> None:
    """A call whose answer nobody is there to take any more."""
    with pytest.raises(mcp.MCPError):
        await call(client, "wait-for-cancel", key="left")
