"""An upstream server of the configuration, beside an agent, as clients of both eras see it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import psutil
import pytest

from tests.cli.running import running
from tests.interaction.connecting import DEADLINE, ERAS, client_of
from tests.interaction.results import call, text_of, wire
from tests.process.driving import AGENTS, url_of
from tests.support.on_demand import mcp, mcp_types, stdio_upstream
from tests.support.processes import command_of

pytestmark = pytest.mark.anyio

UPSTREAM = Path(__file__).parents[1] / "servers" / "stdio_upstream.py"
OWN = ["calm", "release"]


def theirs() -> list[str]:
    """The names of the upstream's tools among those of others."""
    return [f"up__{tool.name}" for tool in stdio_upstream.TOOLS]


async def names(client: mcp.Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.requirement("P-11", "P-12")
async def test_its_tools_appear_beside_the_agents_work_in_both_eras_and_outlive_its_process(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": [str(UPSTREAM)]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"up": server}}), encoding="utf-8")
    arguments = ("serve", "--port", "0", f"{AGENTS}:CalmAgent", "--config", "servers.json")
    with running(*arguments, cwd=tmp_path) as bridge, anyio.fail_after(DEADLINE):
        url = url_of(bridge)
        async with client_of(f"{url}/mcp", "modern") as follower:
            async with follower.listen(tools_list_changed=True) as changes:
                while await names(follower) != [*OWN, *theirs()]:
                    await anext(changes)

                for era in ERAS:
                    async with client_of(f"{url}/mcp", era) as client:
                        await use(client, "up__")
                        assert text_of(await call(client, "calm")) == '{"from":"calm"}'
                    async with client_of(f"{url}/servers/up/mcp", era) as client:
                        assert await names(client) == [tool.name for tool in stdio_upstream.TOOLS]
                        await use(client, "")

                await until_connected_in_both_eras(url)
                children = upstream_processes(bridge.process.pid)
                assert len(children) == len(ERAS)  # what it hears first settles the era of its only connection
                for child in children:
                    child.kill()
                await until_stopped(url)
                assert text_of(await call(follower, "calm")) == '{"from":"calm"}'
                assert await names(follower) == [*OWN, *theirs()]
                await use(follower, "up__")
                assert len(upstream_processes(bridge.process.pid) - children) == 1


def upstream_processes(bridge: int) -> set[psutil.Process]:
    """The upstream among the processes of a bridge."""
    return {child for child in psutil.Process(bridge).children() if str(UPSTREAM) in command_of(child)}


async def until_connected_in_both_eras(url: str) -> None:
    """Wait for the second connection: while it is slow to start, its clients are served by the first one."""
    async with httpx2.AsyncClient(base_url=url) as http:
        while True:
            [upstream] = [source for source in (await http.get("/status")).json()["sources"] if source["name"] == "up"]
            if [other["state"] for other in upstream["connection"]["otherEras"]] == ["ready"]:
                return
            await anyio.lowlevel.checkpoint()


async def until_stopped(url: str) -> None:
    """Wait until the bridge knows that its upstream is gone."""
    async with httpx2.AsyncClient(base_url=url) as http:
        while (await http.get("/ready")).json()["sources"]["up"] != "stopped":
            await anyio.lowlevel.checkpoint()


async def use(client: mcp.Client, prefix: str) -> None:
    """Use the upstream, whose tools and prompts have that prefix here."""
    reported: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reported.append((progress, total, message))

    added = await call(client, f"{prefix}add", a=1, b=2)
    assert added == {"content": [{"type": "text", "text": "3"}], "structuredContent": {"sum": 3}, "isError": False}
    mixed = await call(client, f"{prefix}mix")
    assert mixed["content"] == [
        block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in stdio_upstream.MIX
    ]
    await client.call_tool(f"{prefix}progress", {}, progress_callback=on_progress)
    assert reported == [(step, 3, f"step {step}") for step in (1, 2, 3)]
    failed = await call(client, f"{prefix}fail")
    assert (failed["isError"], text_of(failed)) == (True, "it did not work")
    greeting = wire(await client.get_prompt(f"{prefix}greet", {"who": "Ada"}))
    assert greeting["messages"][0]["content"]["text"] == "Greet Ada."
    [note, blob] = wire(await client.read_resource("demo://note/7"))["contents"]
    assert (note["text"], blob["blob"]) == ("noted", "aGk=")
    completed = await client.complete(mcp_types.PromptReference(name=f"{prefix}greet"), {"name": "who", "value": "an"})
    assert completed.completion.values == ["anna", "anton"]
