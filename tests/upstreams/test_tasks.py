"""A tool of another hand that is run as a task only, for clients that make no tasks, and for one that does."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.model import ServerSpec, StdioServerSpec
from gaia_bridge.settings import Settings
from tests.interaction.connecting import ERAS, client_of, serving
from tests.support.agents import one_tool
from tests.support.bridges import text_of
from tests.support.installed_programs import NodePackages, needs, required
from tests.support.on_demand import mcp, mcp_types
from tests.support.upstreams import PATIENT, raw_server, until_ready
from tests.upstreams.servers import TYPESCRIPT, node, script

FOREIGN = NodePackages(Path(__file__).resolve().parent.parent / "foreign")

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]  # many programs start, on a machine that may be busy


@pytest.fixture
@needs(*TYPESCRIPT)
def everything() -> Generator[ServerSpec]:
    with required("MCP servers written in TypeScript"):
        yield StdioServerSpec("everything", node(), (script("server-everything"), "stdio"))


@pytest.mark.thorough
@pytest.mark.requirement("P-206")
async def test_a_task_of_the_reference_server_is_played_for_clients_of_both_eras_at_once(
    everything: ServerSpec,
) -> None:
    answers: dict[str, str] = {}
    stages: dict[str, list[str | None]] = {mode: [] for mode in ERAS}

    def person(mode: str) -> Any:
        async def answer(context: Any, params: Any) -> mcp_types.ElicitResult:
            return mcp_types.ElicitResult(action="accept", content={"interpretation": mode})

        return answer

    async def ask(client: mcp.Client, mode: str) -> None:
        async def hear(progress: float, total: float | None, message: str | None) -> None:
            stages[mode].append(message)

        arguments = {"topic": mode, "ambiguous": True}
        tool = "everything__simulate-research-query"
        answers[mode] = text_of(await client.call_tool(tool, arguments, progress_callback=hear))

    settings = Settings(upstream=replace(PATIENT, call_timeout=20))
    async with serving({"worker": one_tool(lambda _: "worked")}, settings) as (url, bridge):
        await bridge.add_upstream(replace(raw_server(), name="old"))
        await bridge.add_upstream(everything)
        await until_ready(*bridge.sources)
        async with (
            client_of(f"{url}/mcp", "legacy", elicitation_callback=person("legacy")) as old,
            client_of(f"{url}/mcp", "modern", elicitation_callback=person("modern")) as new,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(ask, old, "legacy")
            tasks.start_soon(ask, new, "modern")
    for mode in ERAS:
        assert f'After receiving clarification ("{mode}")' in answers[mode]
        assert "Gathering sources..." in stages[mode]


@pytest.mark.thorough
@pytest.mark.requirement("P-206")
@needs(FOREIGN)
async def test_a_client_of_another_hand_that_makes_a_task_hears_of_it_by_one_id(everything: ServerSpec) -> None:
    with required("the TypeScript SDK"):
        FOREIGN.install()
    async with serving({"worker": one_tool(lambda _: "worked")}, Settings(upstream=PATIENT)) as (url, bridge):
        await bridge.add_upstream(replace(raw_server(), name="old"))
        await bridge.add_upstream(everything)
        await until_ready(*bridge.sources)
        for path, prefix in (("mcp", "everything"), ("servers/everything/mcp", "")):
            tool = "__".join(filter(None, (prefix, "simulate-research-query")))
            command = [node(), str(FOREIGN.folder / "typescript_tasks.mjs"), f"{url}/{path}", tool]
            told = json.loads((await anyio.run_process(command)).stdout)
            made = told["made"]
            assert (made.partition(":")[0] == prefix) is bool(prefix)
            assert told["asked"] == [made]
            assert told["result"][0] == made
            assert 'After receiving clarification ("snake")' in told["result"][1]
            assert {identifier for identifier, _ in told["statuses"]} == {made}
            assert "input_required" in [status for _, status in told["statuses"]]
