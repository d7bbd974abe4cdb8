"""A real VS Code uses what it is given: `pytest -m editor`, after `pip install . --group test --group editor`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from gaia_bridge.editors.vscode import document, to_text
from gaia_bridge.protocol.json_types import JSON
from tests.bridge.cli.running import running
from tests.editor.real_vscode import Window, browser, vscode, window
from tests.process.driving import url_of
from tests.support.installed_programs import required

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = [pytest.mark.anyio, pytest.mark.editor, pytest.mark.timeout(600)]

AGENT: Final = Path(__file__).with_name("growing_agent.py")
PROGRAM: Final = str(Path(sys.executable).with_name("gaia-bridge"))
PICTURES: Final = os.environ.get("EDITOR_PICTURES")
"""Where pictures are kept, for the documentation."""


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with required("VS Code"), vscode(tmp_path_factory.mktemp("editor")) as url:
        yield url


@pytest.fixture(scope="module")
async def chromium(anyio_backend: Any) -> AsyncGenerator[Browser]:
    async with browser() as found:
        yield found


@contextmanager
def entry_for(way: str, agent: Path, home: Path) -> Generator[JSON]:
    """What is written into `mcp.json` so that the bridge is reached in one of the ways."""
    environment = {"HOME": str(home)}
    match way:
        case "stdio":
            yield {"type": "stdio", "command": PROGRAM, "args": ["serve", "--stdio", str(agent)], "env": environment}
        case "connect":
            yield {"type": "stdio", "command": PROGRAM, "args": ["connect", "--agent", str(agent)], "env": environment}
        case "unix":
            up = [PROGRAM, "up", "--agent", str(agent)]
            done = subprocess.run(up, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
            yield {"type": "http", "url": done.stdout.strip()}
        case _:
            with running("serve", str(agent), "--port", "0", cwd=home) as bridge:
                url = url_of(bridge)
                yield {"type": way, "url": f"{url}/mcp" if way == "http" else f"{url}/sse"}


@contextmanager
def background_ended(home: Path) -> Generator[None]:
    try:
        yield
    finally:
        subprocess.run(
            [PROGRAM, "down", "--all"], env={**os.environ, "HOME": str(home)}, check=True, capture_output=True
        )


def workspace(folder: Path, entry: JSON) -> Path:
    """A folder that is opened, with the configuration of its servers."""
    config = folder / ".vscode" / "mcp.json"
    config.parent.mkdir(parents=True)
    config.write_text(to_text(document(entry)), encoding="utf-8")
    return folder


@pytest.mark.parametrize("way", ["stdio", "connect", "http", "sse", "unix"])
async def test_it_runs_the_bridge_and_shows_what_is_published(
    way: str, editor: str, chromium: Browser, tmp_path: Path
) -> None:
    agent = tmp_path / AGENT.name
    shutil.copy(AGENT, agent)
    with background_ended(tmp_path), entry_for(way, agent, tmp_path) as entry:
        folder = workspace(tmp_path / "project", entry)
        async with window(chromium, editor, folder) as shown:
            await shown.start("gaia-bridge")
            await shown.output("gaia-bridge", "Discovered 2 tools")
            await shown.until("gaia-bridge", "Running")
            assert await shown.resources() == ["state, How large it is., growing://state, gaia-bridge"]
            [poem] = await shown.slash_commands("/mcp")
            assert "/mcp.gaia-bridge.poem" in poem
            agent.with_name("one-more-tool").touch()
            await shown.output("gaia-bridge", "Discovered 3 tools")
            await _kept(shown, way)


async def test_two_windows_share_one_bridge(editor: str, chromium: Browser, tmp_path: Path) -> None:
    agent = tmp_path / AGENT.name
    shutil.copy(AGENT, agent)
    with background_ended(tmp_path), entry_for("connect", agent, tmp_path) as entry:
        folders = [workspace(tmp_path / name, entry) for name in ("one", "two")]
        async with window(chromium, editor, folders[0]) as first, window(chromium, editor, folders[1]) as second:
            for shown in (first, second):
                await shown.start("gaia-bridge")
                await shown.output("gaia-bridge", "Discovered 2 tools")
            assert _processes(agent) == {"connect": 2, "background": 1}
            agent.with_name("one-more-tool").touch()
            for shown in (first, second):
                await shown.output("gaia-bridge", "Discovered 3 tools")


def _processes(agent: Path) -> dict[str, int]:
    """How many programs of ours run for an agent, by their commands."""
    found: dict[str, int] = {}
    for process in psutil.process_iter(["cmdline"]):
        words: list[str] = process.info["cmdline"] or []
        if str(agent) in words:
            command = next(word for word in ("connect", "background", "serve") if word in words)
            found[command] = found.get(command, 0) + 1
    return found


async def _kept(shown: Window, name: str) -> None:
    if PICTURES:
        await shown.picture(Path(PICTURES, f"vscode-{name}.png"))
