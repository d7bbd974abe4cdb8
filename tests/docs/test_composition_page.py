"""What `docs/composition.md` shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from gaia_bridge import Composition
from gaia_bridge.model import ServerFeatures, ServerInfo, SourceKind, StdioServerSpec
from gaia_bridge.sources.composition.offer import Offers
from tests.support.agents import tool

PAGE = Path(__file__).parents[2] / "docs" / "composition.md"


def block(kind: str, word: str) -> str:
    """The block of that kind that has a word in it."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    [found] = [text for text in blocks if word in text]
    return str(found)


def test_the_composition_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    file = tmp_path / "composed.py"
    file.write_text(block("python", "source(WeatherAgent()"), "utf-8")
    done = subprocess.run([sys.executable, file], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == (block("text", "weather_tomorrow"), 0), done.stderr


def test_the_server_of_the_page_is_composed_as_its_steps_say() -> None:
    page: dict[str, Any] = {}
    exec(block("python", "mcp-server-time"), page)
    clock: Composition = page["clock"]
    assert isinstance(clock.target, StdioServerSpec)
    zone = {"type": "string"}
    tools = (tool("get_current_time", timezone=zone), tool("convert_time", timezone=zone))
    offers = Offers(ServerFeatures(ServerInfo("time", "1"), tools=tools), clock.steps, SourceKind.SERVER)
    [definition] = offers.features.tools
    assert (definition["name"], definition["inputSchema"]["required"]) == ("now", [])
    assert offers.of_era(modern=True).tool("now", {}) == ("get_current_time", {"timezone": "UTC"})
    assert offers.features.left_out == ()
