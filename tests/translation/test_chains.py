"""What comes through one bridge comes through two and three as well: nothing is lost or added on the way.

At the end of a chain a client sees what it sees behind one bridge, which the other comparisons hold against the server.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.model import HttpServerSpec, NamingPolicy, ServerSpec
from tests.bridge.server.test_cancellations import WaitingAgent
from tests.interaction.connecting import ERAS, client_of, serving
from tests.support.on_demand import mcp_streamable_http
from tests.support.upstreams import until_ready
from tests.support.waiting import wait_in_thread
from tests.translation.comparison import differences
from tests.translation.legacy_only import forget_discovery
from tests.translation.neighbours import add_neighbours, neighbour_servers
from tests.translation.recording import Recording, record
from tests.translation.steps import AGENT_STEPS
from tests.translation.through import AT_ONCE, NAME, QUICK, ThroughLink

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

CHAINS = [
    (["modern", "modern"], "modern"),
    (["modern", "modern"], "legacy"),
    (["modern", "modern", "modern"], "modern"),
    (["modern", "legacy", "modern"], "legacy"),
    (["legacy", "modern"], "modern"),
    (["legacy", "legacy", "legacy"], "legacy"),
]
"""The eras of the bridges, from the server on, and that of the client. One that is modern speaks both."""

_AGAIN = re.compile(rf"(## {NAME}\\n\\n|(?<=ui://){NAME}/)\1+")
"""Each bridge that publishes several servers says anew which one instructions and views are of."""


@pytest.mark.parametrize(
    ("bridges", "era", "merged", "server_era"),
    [
        (["modern", "modern"], "modern", True, "legacy"),
        *(
            pytest.param(*chain, merged, server_era, marks=pytest.mark.thorough)
            for chain, merged, server_era in product(CHAINS, [False, True], ERAS)
        ),
    ],
    ids=str,
)
@pytest.mark.requirement("F-373")
async def test_at_the_end_of_a_chain_of_bridges_everything_is_as_it_is_behind_one(
    bridges: Sequence[str], era: str, merged: bool, server_era: str
) -> None:
    # Where a bridge on the way is legacy, no more can be said beyond it than of a legacy server.
    behind_one = "legacy" if "legacy" in bridges else server_era
    async with chain(["modern"], merged, behind_one) as spec:
        one = await recorded(spec, era)
    async with chain(bridges, merged, server_era) as spec:
        several = await recorded(spec, era)
    assert [found._asdict() for found in differences("chain", one, several)] == []


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.requirement("F-373")
async def test_a_cancellation_goes_all_the_way(era: str) -> None:
    agent = WaitingAgent()
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(serving({"agent": agent}))
        spec = HttpServerSpec(NAME, f"{url}/mcp")
        for _ in range(2):
            spec = await _published(stack, spec, "modern", merged=True)
        async with client_of(spec.url, era) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "agent-wait")
                await wait_in_thread(agent.started.wait)
                tasks.cancel_scope.cancel()
            await wait_in_thread(agent.ended.wait)
    assert agent.reason


@asynccontextmanager
async def chain(bridges: Sequence[str], merged: bool, server_era: str) -> AsyncGenerator[HttpServerSpec]:
    """The last of some bridges, of which each publishes the one before it, and the first one an `EverythingAgent`.

    Args:
        bridges: Their eras.
        merged: Whether each publishes an agent and a server of each era on the same endpoint.
        server_era: That of the agent's server.
    """
    async with AsyncExitStack() as stack:
        link = ThroughLink("http", "modern", upstream="http", upstream_era=server_era)
        spec: Any = await stack.enter_async_context(link.server())
        for era in bridges:
            spec = await _published(stack, spec, era, merged)
        yield spec


async def _published(stack: AsyncExitStack, spec: ServerSpec, era: str, merged: bool) -> HttpServerSpec:
    url, bridge = await stack.enter_async_context(serving({}, QUICK, NamingPolicy.BARE))
    if merged:
        await add_neighbours(bridge, await stack.enter_async_context(neighbour_servers()))
    await bridge.add_upstream(replace(spec, options=AT_ONCE))
    await until_ready(*bridge.sources)
    if era == "legacy":
        forget_discovery(bridge)
    return HttpServerSpec(NAME, f"{url}/mcp" if merged else f"{url}/servers/{NAME}/mcp")


async def recorded(spec: HttpServerSpec, era: str) -> Recording:
    """What a client gets, without what the bridges publish beside the server, and how often they say whose it is."""
    recording = await record(mcp_streamable_http.streamable_http_client(spec.url), era, AGENT_STEPS)
    for step in recording.values():
        for answer in step.get("answers", ()):
            for key, items in answer.get("result", {}).items():
                if key in ("tools", "prompts", "resources", "resourceTemplates"):
                    answer["result"][key] = [item for item in items if "near-" not in json.dumps(item)]
    known: Recording = json.loads(_AGAIN.sub(r"\1", json.dumps(recording)))
    return known
