"""What is in a bundle is started as its client does it, on a machine where uv fetches packages, and answers the SDK.

The stand-ins for `uv`, `uvx` and `npx` start this bridge and a server that says which token it was given.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge_desk.bundles import PluginForm, mcpb_bytes, mcpb_files, plugin_files, written
from tests.support.bundled import ABOUT, contents, document, stand_ins
from tests.support.on_demand import mcp, mcp_stdio

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


async def answers(command: str, args: list[str], env: Mapping[str, str], cwd: Path) -> list[str]:
    """Start a server and ask the agent and the server that are in it."""
    path = os.pathsep.join((str(cwd.parent / "bin"), os.environ["PATH"]))
    every = {**os.environ, "PATH": path, **env}
    parameters = mcp_stdio.StdioServerParameters(command=command, args=args, env=every, cwd=cwd)
    async with (
        mcp_stdio.stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr) as (read, write),
        mcp.ClientSession(read, write) as session,
    ):
        await session.initialize()
        told: list[str] = []
        for name, arguments in (("greet", {"name": "Bob"}), ("github__read_file", {})):
            result = await session.call_tool(name, arguments)
            [said] = result.content
            assert said.type == "text"
            told.append(said.text)
        return told


def placed(tmp_path: Path, files: Mapping[str, bytes]) -> Path:
    """Where a client has installed it, beside the stand-ins; what it was made of is elsewhere."""
    (tmp_path / "bin").mkdir()
    stand_ins(tmp_path / "bin")
    root = tmp_path / "in stalled"
    written(root, files, force=False)
    return root


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("form", "file", "variable"),
    [
        (PluginForm.AGENT_PLUGIN, "mcp.json", "PLUGIN_ROOT"),
        (PluginForm.CLAUDE, ".mcp.json", "CLAUDE_PLUGIN_ROOT"),
    ],
)
async def test_a_plugin_is_started_where_it_is_installed(
    tmp_path: Path, source: Path, form: PluginForm, file: str, variable: str
) -> None:
    root = placed(tmp_path, plugin_files(ABOUT, contents(source), form))
    [server] = document((root / file).read_bytes())["mcpServers"].values()
    args = [word.replace(f"${{{variable}}}", str(root)) for word in server["args"]]
    told = await answers(server["command"], args, {"GITHUB_TOKEN": "token of Bob"}, root)
    assert told == ["Hello, Bob!", "token of Bob"]


async def test_a_plugin_is_started_by_an_editor_that_fills_nothing_in(tmp_path: Path, source: Path) -> None:
    root = placed(tmp_path, plugin_files(ABOUT, contents(source), PluginForm.AGENT_PLUGIN))
    [server] = document((root / "mcp.json").read_bytes())["mcpServers"].values()
    told = await answers(
        server["command"], server["args"], {"GITHUB_TOKEN": "x", "PLUGIN_ROOT": str(root)}, tmp_path / "bin"
    )
    assert told[0] == "Hello, Bob!"


async def test_a_bundle_is_started_where_claude_desktop_has_unpacked_it(tmp_path: Path, source: Path) -> None:
    packed = mcpb_bytes(mcpb_files(ABOUT, contents(source)))
    root = placed(tmp_path, {})
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extractall(root)
    manifest: dict[str, Any] = document((root / "manifest.json").read_bytes())
    config, said = manifest["server"]["mcp_config"], {"GITHUB_TOKEN": "token of Bob"}
    assert set(said) == {name for name, asked in manifest["user_config"].items() if asked["required"]}

    def filled(text: str) -> str:
        for name, value in said.items():
            text = text.replace(f"${{user_config.{name}}}", value)
        return text.replace("${__dirname}", str(root))

    env = {name: filled(value) for name, value in config["env"].items()}
    told = await answers(config["command"], [filled(word) for word in config["args"]], env, root)
    assert told == ["Hello, Bob!", "token of Bob"]
