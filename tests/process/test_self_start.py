"""A configuration whose entry starts the very bridge that reads it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import psutil
import pytest

from tests.cli.running import DEADLINE, running
from tests.interaction.connecting import client_of
from tests.process.driving import AGENTS, url_of

pytestmark = pytest.mark.anyio

CALM = f"{AGENTS}:CalmAgent"


async def source(url: str, name: str) -> dict[str, Any]:
    async with httpx2.AsyncClient() as http:
        sources = (await http.get(f"{url}/status")).json()["sources"]
    found: list[dict[str, Any]] = [item for item in sources if item["name"] == name]
    return found[0]


async def until_failed(url: str, name: str) -> dict[str, Any]:
    while (found := await source(url, name))["state"] != "failed":
        await anyio.lowlevel.checkpoint()
    return found


async def test_a_bridge_that_its_own_configuration_starts_ends_and_names_the_entry(tmp_path: Path) -> None:
    arguments = ["serve", CALM, "--config", "servers.json"]
    entry = {"command": sys.executable, "args": ["-m", "gaia_bridge", *arguments, "--stdio"]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"myself": entry}}), encoding="utf-8")
    with running(*arguments, "--port", "0", cwd=tmp_path) as bridge, anyio.fail_after(DEADLINE):
        url = url_of(bridge)
        failed = await until_failed(url, "myself")
        assert "exited with code 78" in failed["reason"]
        said = "\n".join(failed["connection"]["lastErrorLines"])
        assert "server 'myself' of the configuration: it starts the bridge that it belongs to" in said
        async with client_of(f"{url}/mcp", "modern") as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {"calm", "release"}
        [guardian] = psutil.Process(bridge.process.pid).children(recursive=True)
        assert any(word.endswith("guardian.py") for word in guardian.cmdline())


async def test_two_configurations_that_start_each_other_come_to_an_end(tmp_path: Path) -> None:
    for own, other in (("one", "two"), ("two", "one")):
        arguments = ["-m", "gaia_bridge", "serve", CALM, "--config", f"{other}.json", "--stdio"]
        entry = {"command": sys.executable, "args": arguments}
        (tmp_path / f"{own}.json").write_text(json.dumps({"mcpServers": {other: entry}}), encoding="utf-8")
    with running("serve", CALM, "--config", "one.json", "--port", "0", cwd=tmp_path) as bridge:
        with anyio.fail_after(DEADLINE):
            url = url_of(bridge)
            async with client_of(f"{url}/mcp", "modern") as client:
                while len((await client.list_tools()).tools) != 4:
                    await anyio.lowlevel.checkpoint()
                shown = {tool.name for tool in (await client.list_tools()).tools}
            assert shown == {"calm", "release", "two__calm", "two__release"}
