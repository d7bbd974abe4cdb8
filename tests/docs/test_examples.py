"""What the README and the guide show is what happens."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult, ImageContent, TextContent

from gaia_bridge.bridge import Bridge
from gaia_bridge.cli import program
from gaia_bridge.config import load_servers
from gaia_bridge.discovery import load_agent
from gaia_bridge.inbound.agent_source import AgentSource
from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.inbound.server import Endpoint
from gaia_bridge.model import NamingPolicy, ServerInfo

ROOT = Path(__file__).parents[2]
README, GUIDE = ROOT / "README.md", ROOT / "docs" / "guide.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def example(page: Path, word: str) -> str:
    [found] = [block for block in blocks(page, "python") if word in block]
    return found


async def call(code: str, folder: Path, tool: str, arguments: dict[str, Any]) -> Any:
    """Publish the agent of an example and call one of its tools as a client would."""
    file = folder / "example_agent.py"
    file.write_text(code, encoding="utf-8")

    async def user(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"sure": True})

    async with Bridge() as bridge:
        [loaded] = load_agent(str(file))
        await bridge.add_agent(loaded.agent, loaded.name)
        catalog = Catalog(ServerInfo("test", "1"), NamingPolicy.BARE)
        [source] = bridge.sources
        assert isinstance(source, AgentSource)
        catalog.add(source)
        server = Endpoint(catalog, bridge.settings, "test").server
        async with Client(server, elicitation_callback=user) as client:
            return await client.call_tool(tool, arguments)


@pytest.mark.anyio
async def test_the_agent_of_the_readme_greets(tmp_path: Path) -> None:
    result = await call(example(README, "HelloAgent"), tmp_path, "greet", {"name": "Ada"})
    assert result.structured_content == {"greeting": "Hello, Ada!"}


@pytest.mark.anyio
async def test_the_drawing_agent_of_the_guide_returns_an_image(tmp_path: Path) -> None:
    result = await call(example(GUIDE, "DrawAgent"), tmp_path, "draw", {})
    words, picture = result.content
    assert isinstance(words, TextContent) and words.text == "Here it is:"
    assert isinstance(picture, ImageContent) and picture.mime_type == "image/gif"


@pytest.mark.anyio
async def test_the_cleaning_agent_of_the_guide_asks_first(tmp_path: Path) -> None:
    result = await call(example(GUIDE, "CleanerAgent"), tmp_path, "clean", {})
    assert result.structured_content == {"deleted": 3}


def test_the_settings_of_the_guide_are_accepted() -> None:
    names: dict[str, Any] = {}
    exec(example(GUIDE, "AgentLimits"), names)
    assert names["bridge"].settings.agent.threads == 2


def test_the_servers_of_the_readme_are_understood(tmp_path: Path) -> None:
    [text] = blocks(README, "json")
    file = tmp_path / "servers.json"
    file.write_text(text, encoding="utf-8")
    [server] = load_servers(file).servers
    assert server.command == "npx" and json.loads(text)["mcpServers"].keys() == {server.name}


def commands(page: Path) -> list[list[str]]:
    """Every `gaia-bridge ...` of a page's console blocks and code spans."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"`(gaia-bridge [a-z].*?)`", text) + [
        part.strip()
        for block in blocks(page, "console")
        for part in block.split("&&")
        if part.strip().startswith("gaia-bridge ")
    ]
    return [shlex.split(command)[1:] for command in found]


@pytest.mark.parametrize("arguments", commands(README) + commands(GUIDE), ids=" ".join)
def test_a_command_of_the_pages_is_one_of_ours(arguments: list[str]) -> None:
    name, *rest = arguments
    command = program.get_command(click.Context(program), name)
    assert command is not None, f"there is no command {name!r}"
    if "--help" not in rest:
        command.make_context(name, rest, parent=click.Context(program))


def test_every_link_to_a_file_of_the_repository_leads_somewhere() -> None:
    for page in (README, GUIDE, ROOT / "docs" / "architecture.md", ROOT / "vscode-config" / "README.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_method_that_the_guide_names_exists() -> None:
    from gaia_bridge.context import RequestContext
    from gaia_bridge.publishing import AnnouncesChanges

    text = GUIDE.read_text(encoding="utf-8")
    for name in re.findall(r"`(?:self\.)?(notify_mcp_\w+)\(", text):
        assert hasattr(AnnouncesChanges, name)
    table = text.partition("## Inside a call")[2].partition("Questions work")[0].rpartition("| | |")[2]
    first_column = "\n".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    names = re.findall(r"`(\w+)(?:\(|`)", first_column)
    assert len(names) > 10
    for name in names:
        assert hasattr(RequestContext, name), name
