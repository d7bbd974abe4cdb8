"""One agent, as one file, through each of its four doors: MCP, OpenAI's API, an editor (ACP), an Agent Plugin."""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge import Client
from gaia_bridge_desk.bundles import PluginForm, gathered, plugin_files, written
from tests.support.bundled import ABOUT, document, stand_ins
from tests.support.chat_endpoint import chatting
from tests.support.editors import editing
from tests.support.fake_model import FakeModel, call, say
from tests.support.on_demand import mcp, mcp_stdio

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

FILE = """
from gaia.agents.base import ApiAgent, MCPAgent, tool


class GreeterAgent(MCPAgent, ApiAgent):
    def _get_system_prompt(self) -> str:
        return "You greet."

    @tool
    def greet(self, name: str) -> str:
        '''Greet somebody by name.'''
        return f"Hello, {name}!"
"""


def agent_of(file: Path) -> tuple[Any, FakeModel]:
    """The agent in a file, and a model that calls its tool once in each of two turns."""
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    model = FakeModel(call("greet", name="Ada"), say("Done."), call("greet", name="Bob"), say("Done."))
    return module.GreeterAgent(model=model, silent_mode=True), model


async def through_a_plugin(file: Path, folder: Path) -> str:
    """What the tool says where an editor has installed the plugin of that file."""
    (folder / "bin").mkdir()
    stand_ins(folder / "bin")
    root = folder / "installed"
    found = gathered([file.name], file.parent, {}, file.parent / "servers.json")
    written(root, plugin_files(ABOUT, found, PluginForm.AGENT_PLUGIN), force=False)
    [server] = document((root / "mcp.json").read_bytes())["mcpServers"].values()
    path = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
    parameters = mcp_stdio.StdioServerParameters(
        command=server["command"],
        args=[word.replace("${PLUGIN_ROOT}", str(root)) for word in server["args"]],
        env={**os.environ, "PATH": path},
        cwd=root,
    )
    async with (
        mcp_stdio.stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr) as (read, write),
        mcp.ClientSession(read, write) as session,
    ):
        await session.initialize()
        result = await session.call_tool("greet", {"name": "Cid"})
    [said] = result.content
    assert said.type == "text"
    return said.text


async def test_one_agent_has_four_doors(tmp_path: Path) -> None:
    file = tmp_path / "source" / "greeter_agent.py"
    file.parent.mkdir()
    file.write_text(FILE, encoding="utf-8")
    agent, model = agent_of(file)
    async with chatting(named={"greeter": agent}) as server:
        async with Client(str(server.client.base_url.join("/mcp"))) as client:
            assert (await client.call_tool("greet", {"name": "Eve"})).text == "Hello, Eve!"
        assert await server.text(model="gaia-greeter") == "Done."
    assert model.asked[1].results() == ["Hello, Ada!"]
    agent.close()

    agent, model = agent_of(file)
    async with editing(agent) as editor:
        session = await editor.begin(cwd=tmp_path)
        await editor.ask(session, "Greet Ada")
        [shown] = editor.client.shown("tool_call_update")
    assert (shown["status"], shown["rawOutput"]) == ("completed", "Hello, Ada!")

    assert await through_a_plugin(file, tmp_path) == "Hello, Cid!"
