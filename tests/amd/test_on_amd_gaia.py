"""Where amd-gaia is installed its `gaia` is the one that is imported: its agents are served, and ours work on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from gaia_bridge.text.json_types import JSON
from tests.amd.travel_agent import PROMPTS, RESOURCES, TOOLS
from tests.cli.running import run
from tests.support.on_demand import mcp

DEADLINE = 20.0
HERE = Path(__file__).parent
TRAVEL_AGENT = HERE / "travel_agent.py"
MODULES = {
    "__init__.py": "",
    "agents/__init__.py": "",
    "agents/base/__init__.py": "from .agent import Agent\nfrom .mcp_agent import MCPAgent\n",
    "agents/base/agent.py": "from .mcp_agent import Agent\n",
    "agents/base/mcp_agent.py": (HERE / "amd_base.py").read_text("utf-8"),
}
STOPS = {"stops": [{"city": "Graz", "nights": 2}, {"city": "Wien", "nights": 3}]}

both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture
def amd(tmp_path: Path) -> Mapping[str, str]:
    """An environment for processes in which `gaia` is amd-gaia's, and the shipped agents work on this folder: it is
    the home folder, which they do not take unless it is named."""
    for name, source in MODULES.items():
        file = tmp_path / "amd" / "gaia" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, "utf-8")
    others = os.environ.get("PYTHONPATH", "")
    path = f"{tmp_path / 'amd'}{os.pathsep}{others}".rstrip(os.pathsep)
    return {**os.environ, "PYTHONPATH": path, "GAIA_WORKSPACE": str(Path.cwd())}


@asynccontextmanager
async def served(mode: str, amd: Mapping[str, str], errors: Path, *agents: str) -> AsyncGenerator[mcp.Client]:
    """A client of `gaia-bridge serve AGENT... --stdio`."""
    command = ["-m", "gaia_bridge", "serve", *agents, "--stdio"]
    server = mcp.StdioServerParameters(command=sys.executable, args=command, env=dict(amd))
    with anyio.fail_after(DEADLINE), errors.open("w", encoding="utf-8") as log:
        async with mcp.Client(mcp.stdio_client(server, log), mode=mode, cache=None) as client:
            yield client


def wire(items: Iterable[BaseModel]) -> list[JSON]:
    return [item.model_dump(by_alias=True, mode="json", exclude_unset=True) for item in items]


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S1-10", "P-12")
async def test_an_agent_on_amds_base_class_is_served_as_it_declares_itself(
    mode: str, amd: Mapping[str, str], tmp_path: Path
) -> None:
    async with served(mode, amd, tmp_path / "errors", f"{TRAVEL_AGENT}:TravelAgent") as client:
        info = client.server_info
        tools = wire((await client.list_tools()).tools)
        prompts = wire((await client.list_prompts()).prompts)
        resources = wire((await client.list_resources()).resources)
        planned = await client.call_tool("plan-trip", STOPS)
        refused = await client.call_tool("plan-trip", {"stops": [], "mode": "boat"})
        advice: Any = (await client.get_prompt("advise", {"city": "Graz"})).messages[0].content
        latest: Any = (await client.read_resource("trip://latest")).contents[0]

    assert info is not None
    assert (info.name, info.version) == ("travel", "3.1")
    assert (tools, prompts, resources) == (TOOLS, PROMPTS, RESOURCES)
    assert (planned.is_error, planned.structured_content) == (False, {"nights": 5})
    assert refused.is_error
    assert advice.text == "What should I see in Graz?"
    assert json.loads(latest.text) == {"nights": 5}
    assert (tmp_path / "errors").read_text("utf-8") == ""


@pytest.mark.anyio
@pytest.mark.requirement("F-113")
async def test_the_log_stays_ours_when_amd_gaia_sets_up_its_own(amd: Mapping[str, str], tmp_path: Path) -> None:
    async with served("legacy", amd, tmp_path / "errors", f"{TRAVEL_AGENT}:TravelAgent") as client:
        await client.call_tool("complain", {})

    (line,) = (tmp_path / "errors").read_text("utf-8").splitlines()
    assert line.endswith("WARNING travel: the train\\nis late")


@both_eras
@pytest.mark.anyio
async def test_the_shipped_agents_work_on_amds_base_class(mode: str, amd: Mapping[str, str], tmp_path: Path) -> None:
    await anyio.Path("hello.py").write_text("answer = 42\n", "utf-8")
    async with served(mode, amd, tmp_path / "errors") as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        found = await client.call_tool("search-code", {"pattern": "answer"})
        status = await client.call_tool("get-status", {})
        tree: Any = (await client.read_resource("code://tree")).contents[0]

    assert tools == ["search-code", "read-file", "create-file", "analyze-code", "get-status"]
    assert found.structured_content is not None
    assert [match["path"] for match in found.structured_content["matches"]] == ["hello.py"]
    assert not status.is_error
    assert "hello.py" in tree.text
    assert (tmp_path / "errors").read_text("utf-8") == ""


def test_the_shipped_agents_derive_from_amds_base_class(amd: Mapping[str, str], tmp_path: Path) -> None:
    code = (
        "import gaia_agents as a, gaia.agents.base.mcp_agent as m; print(m.__file__, m.MCPAgent in a.CodeAgent.__mro__)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=amd, capture_output=True, text=True, check=True)

    assert done.stdout == f"{tmp_path / 'amd' / 'gaia' / 'agents' / 'base' / 'mcp_agent.py'} True\n"


def test_agents_tells_what_amds_base_class_asks_for(amd: Mapping[str, str]) -> None:
    shown = run("agents", f"{TRAVEL_AGENT}:TravelAgent", f"{TRAVEL_AGENT}:UnfinishedAgent", "code", "--json", env=amd)

    travel, unfinished, code = json.loads(shown.stdout)["agents"]
    assert travel["server"] == {"name": "travel", "version": "3.1"}
    assert [tool["name"] for tool in travel["tools"]] == ["plan-trip", "complain"]
    assert "does not implement _register_tools" in unfinished["error"]
    assert code["name"] == "code"
    assert shown.stderr == ""
