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

from gaia_bridge_desk.editors.vscode import document, to_text
from tests.cli.running import running
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
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the editor, and of what it starts."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def editor(home: Path) -> Generator[str]:
    with required("VS Code"), vscode(home) as url:
        yield url


@pytest.fixture(scope="module")
async def chromium(anyio_backend: Any) -> AsyncGenerator[Browser]:
    async with browser() as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_runs_on(home: Path) -> Generator[None]:
    yield
    program("down", "--all", home=home, cwd=home)


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    return Path(shutil.copy(AGENT, tmp_path / AGENT.name))


def program(*arguments: str, home: Path, cwd: Path) -> str:
    """Run a command of ours as the user of the editor does; returns what it prints."""
    environ = {**os.environ, "HOME": str(home)}
    done = subprocess.run([PROGRAM, *arguments], cwd=cwd, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextmanager
def installed(way: str, agent: Path, home: Path, project: Path) -> Generator[Path]:
    """A folder whose `mcp.json` is written by `gaia-bridge install vscode`, for one way to reach the bridge."""
    project.mkdir()

    def install(*options: str) -> Path:
        program("install", "vscode", "--workspace", "--yes", *options, home=home, cwd=project)
        assert (project / ".vscode" / "mcp.json").is_file()
        return project

    match way:
        case "connect":
            yield install("--agent", str(agent))
        case "mcp-json":
            program("install", "mcp-json", "--yes", "--agent", str(agent), home=home, cwd=project)
            yield project
        case "stdio":
            yield install("--stdio", "--agent", str(agent))
        case "unix":
            program("up", "--agent", str(agent), home=home, cwd=home)
            yield install("--unix", "--agent", str(agent))
        case _:
            with running("serve", str(agent), "--port", "0", cwd=home) as bridge:
                url = url_of(bridge)
                if way == "http":
                    yield install("--http", "--url", f"{url}/mcp")
                else:  # which nobody is given who can have the other
                    config = project / ".vscode" / "mcp.json"
                    config.parent.mkdir()
                    config.write_text(to_text(document({"type": "sse", "url": f"{url}/sse"})), encoding="utf-8")
                    yield project


@pytest.mark.parametrize("way", ["connect", "mcp-json", "stdio", "unix", "http", "sse"])
async def test_it_runs_the_bridge_and_shows_what_is_published(
    way: str, editor: str, chromium: Browser, agent: Path, home: Path, tmp_path: Path
) -> None:
    with installed(way, agent, home, tmp_path / "project") as folder:
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


async def test_two_windows_share_one_bridge(
    editor: str, chromium: Browser, agent: Path, home: Path, tmp_path: Path
) -> None:
    with (
        installed("connect", agent, home, tmp_path / "one") as one,
        installed("connect", agent, home, tmp_path / "two") as two,
    ):
        async with window(chromium, editor, one) as first, window(chromium, editor, two) as second:
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
