"""What is saved while a bridge serves is what its connected clients call, over HTTP and over stdio, in both eras."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import anyio
import pytest

from gaia_bridge import ToolError
from gaia_bridge.testing import RecordingClient, connected
from tests.cli.running import running
from tests.process.driving import url_of
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

AGENT = """
from gaia_bridge import tool

@tool
def {name}(city: str) -> str:
    if not city:
        raise ValueError("no city")
    return "{said} in " + city
"""

TELLS = "notifications/tools/list_changed"


def write(folder: Path, name: str = "today", said: str = "sunny", more: str = "") -> None:
    (folder / "weather.py").write_text(AGENT.format(name=name, said=said) + more, "utf-8")


async def becomes(client: RecordingClient, said: str) -> None:
    with anyio.fail_after(PATIENCE):
        while (await client.call_tool("today", city="Rome")).text != f"{said} in Rome":  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def follows(folder: Path, client: RecordingClient) -> None:
    """A client that stays connected sees each save."""
    await becomes(client, "sunny")
    write(folder, said="rainy")
    await becomes(client, "rainy")
    write(folder, said="foggy", more="def (")
    await becomes(client, "rainy")
    write(folder, name="tomorrow")
    await client.heard(TELLS)
    assert [tool["name"] for tool in await client.list_tools()] == ["tomorrow"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_dev_shows_calls_and_follows_the_file(tmp_path: Path, era: Literal["legacy", "modern"]) -> None:
    write(tmp_path)
    with running("dev", "weather.py", "--port", "0", cwd=tmp_path) as bridge:
        url = f"{url_of(bridge)}/mcp"
        async with connected(url, era=era) as client:
            with pytest.raises(ToolError):
                await client.call_tool("today", city="")
            await follows(tmp_path, client)
        for shown in ('today(city="") -> ', 'today(city="Rome") -> sunny in Rome', "reloaded in", "-> rainy in Rome"):
            assert "tools/call" not in bridge.until_error(shown)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_editor_on_stdio_stays_connected_too(tmp_path: Path, era: Literal["legacy", "modern"]) -> None:
    write(tmp_path)
    none, file = tmp_path / "none.json", tmp_path / "weather.py"
    none.write_text("{}", "utf-8")
    command = [sys.executable, "-m", "gaia_bridge", "serve", "--stdio", "--reload", "--config", str(none), str(file)]
    async with connected(command, era=era) as client:
        await follows(tmp_path, client)
