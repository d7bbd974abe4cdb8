"""Frameworks for agents take the tools of several sources from one endpoint, the whole list of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.interaction.connecting import serving
from tests.support.agents import ScriptedAgent
from tests.support.installed_programs import PythonPackages, needs, required
from tests.support.upstreams import raw_server, until_ready
from tests.translation.neighbours import add_neighbours, neighbour_servers

SMOLAGENTS = PythonPackages(("mcpadapt==0.1.19", "smolagents==1.26.0", "mcp==1.30.0", "websockets==15.0.1"))
"""As they were released last; the first does not ask for all that it imports."""
CLIENT = Path(__file__).with_name("smolagents_client.py")
BARE = {"type": "object"}
"""As a schema of what takes no arguments may be written; the other two are `{}` and with `properties`."""


@pytest.mark.anyio
@pytest.mark.thorough
@pytest.mark.timeout(600)  # many programs start, on a machine that may be busy
@pytest.mark.requirement("F-372")
@needs(SMOLAGENTS)
async def test_smolagents_takes_every_tool_of_an_endpoint_also_those_without_properties() -> None:
    with required("smolagents"):
        interpreter = SMOLAGENTS.install()
    agent = ScriptedAgent(lambda name, arguments: f"{name} {arguments}", {"name": "bare", "inputSchema": BARE})
    async with neighbour_servers() as near, serving({"one": agent}) as (url, bridge):
        await add_neighbours(bridge, near)
        await bridge.add_upstream(raw_server())
        await until_ready(*bridge.sources)
        command = [interpreter, str(CLIENT), f"{url}/mcp", "bare"]
        done = await anyio.run_process(command, check=False, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert {"bare", "near_link", "near_modern__near_modern", "near_legacy__near_legacy", "up__pid"} <= set(
        told["tools"]
    )
    assert told["answer"] == "bare {}"
