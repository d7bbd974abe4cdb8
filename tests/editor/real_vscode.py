"""A real VS Code: code-server, in a headless Chromium, driven by its keyboard, and read as it is shown.

It is installed on first use and kept (751 MB). What it is built with comes from the system: see `PACKAGES`.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.conformance.runner import CannotRunError
from tests.support.installed_programs import CACHE, HOME, place_for
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

__all__ = ["PACKAGES", "Window", "browser", "vscode", "window"]

CODE_SERVER: Final = "code-server@4.139.1"
"""VS Code 1.139.1."""
NODE: Final = "node@24"
"""What that needs, whatever is on the `PATH`."""

PACKAGES: Final = (
    "chromium",
    "g++",
    "libkrb5-dev",
    "libsecret-1-dev",
    "libx11-dev",
    "libxkbfile-dev",
    "make",
    "pkg-config",
)
"""Debian's packages that are needed beside Node.js."""

_INSTALL_SECONDS: Final = 900
_START_SECONDS: Final = 30.0
_SLOW: Final = 60_000
"""Milliseconds for the editor to show something: it shares two cores with its extension host, a browser and us."""

_BLINK: Final = 3_000
"""Milliseconds for what should appear at once."""

_ROW: Final = '.quick-input-list .monaco-list-row[aria-label*="{}"]'
"""By its label: a row that is used again keeps texts of the list before, where nobody sees them."""

_FLAGS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

_SETTINGS: Final = """{
  "chat.mcp.autostart": "never",
  "remote.autoForwardPorts": false,
  "security.workspace.trust.enabled": false,
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "workbench.quickOpen.closeOnFocusLost": false,
  "workbench.startupEditor": "none"
}
"""


@contextmanager
def vscode(folder: Path) -> Generator[str]:
    """Run an editor, with settings and a home of its own.

    Args:
        folder: Where these are.

    Returns:
        Its URL.

    Raises:
        CannotRunError: It cannot be installed, or does not start.
    """
    place = _installed()
    settings = folder / "data" / "User" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(_SETTINGS, encoding="utf-8")
    port = _free_port()
    log = folder / "code-server.log"
    entry = place / "node_modules" / "code-server" / "out" / "node" / "entry.js"
    command = [str(_node(place)), str(entry), "--bind-addr", f"127.0.0.1:{port}", "--auth", "none"]
    command += ["--disable-telemetry", "--disable-update-check", "--user-data-dir", str(folder / "data")]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--extensions-dir", str(folder / "extensions")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "HOME": str(folder), "PATH": f"{_node(place).parent}:{os.environ['PATH']}"},
            start_new_session=True,
        )
    try:
        until, pause = time.monotonic() + _START_SECONDS, threading.Event()
        while "HTTP server listening" not in log.read_text("utf-8"):
            if process.poll() is not None or time.monotonic() > until:
                raise CannotRunError(f"code-server does not start:\n{log.read_text('utf-8')[-2000:]}")
            pause.wait(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


@asynccontextmanager
async def browser() -> AsyncGenerator[Browser]:
    """Run a Chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise CannotRunError("there is no Chromium: apt-get install chromium")
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        found = await playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield found
        finally:
            await found.close()


@asynccontextmanager
async def window(
    browser: Browser, editor: str, folder: Path, width: int = 1400, height: int = 900
) -> AsyncGenerator[Window]:
    """Open a folder in a window of its own.

    Args:
        browser: Where.
        editor: The URL of the editor.
        folder: The folder.
        width: How wide the window is.
        height: How high it is.
    """
    context = await browser.new_context(viewport={"width": width, "height": height})
    try:
        page = await context.new_page()
        page.set_default_timeout(_SLOW)
        await page.goto(f"{editor}/?folder={folder}")
        await page.wait_for_selector(".monaco-workbench")
        await page.wait_for_selector(".chat-input-container")
        yield Window(page)
    finally:
        await context.close()


class Window:
    """One window of the editor.

    Args:
        page: Where it is shown.
    """

    def __init__(self, page: Page) -> None:
        self.page = page

    async def states(self) -> dict[str, str]:
        """The servers that it lists, and how it says that they are."""
        await self.choose("MCP: List Servers")
        rows = await self._rows()
        await self.page.keyboard.press("Escape")
        told = (row.split(", ") for row in rows)
        return {name: state for name, state, *_ in told if name != "Add Server"}

    async def start(self, server: str) -> None:
        """Have it start a server, once it has read that there is one: again, if it was reading it anew just then."""
        await self.until(server, "Stopped")
        until = time.monotonic() + _SLOW / 1000
        while (state := (await self.states())[server]) == "Stopped":
            assert time.monotonic() < until, f"{server} is {state} however often it is started"
            await self._of_server(server, "Start Server")

    async def until(self, server: str, state: str) -> None:
        """Wait until it says of a server that it is so: `Stopped`, `Running`."""
        until = time.monotonic() + _SLOW / 1000
        while (states := await self.states()).get(server) != state:
            assert time.monotonic() < until, f"{server} is not {state}: {states}"

    async def output(self, server: str, expected: str) -> str:
        """What it logs of a server, once that has something.

        Args:
            server: Its name.
            expected: The beginning or a part of a line.
        """
        await self._of_server(server, "Show Output")
        lines = self.page.locator(".output-view .view-lines, .part.panel .view-lines").first
        until = time.monotonic() + _SLOW / 1000
        while expected not in (text := (await lines.inner_text()).replace("\xa0", " ")):
            assert time.monotonic() < until, f"no {expected!r} in what {server} did:\n{text}"
            await self.page.wait_for_timeout(50)
        return text

    async def resources(self) -> list[str]:
        """The resources that can be browsed: name, URI, server."""
        await self.choose("MCP: Browse Resources")
        rows = await self._rows()
        await self.page.keyboard.press("Escape")
        return rows

    async def slash_commands(self, typed: str) -> list[str]:
        """What the chat offers where a slash command is typed."""
        await self.page.locator(".chat-input-container .monaco-editor").first.click()
        await self.page.keyboard.type(typed)
        widget = self.page.locator(".suggest-widget.visible .monaco-list-row")
        await widget.first.wait_for()
        found = [str(await row.get_attribute("aria-label")) for row in await widget.all()]
        await self.page.keyboard.press("Escape")
        for _ in typed:
            await self.page.keyboard.press("Backspace")
        return found

    async def picture(self, path: Path) -> None:
        """Keep a picture of it."""
        await self.page.screenshot(path=path)

    async def _of_server(self, server: str, what: str) -> None:
        await self.choose("MCP: List Servers", server, what)

    async def choose(self, *rows: str) -> None:
        """Choose from the palette, and from the lists that follow. What is just being shown may close it, so all of
        it is done until it has worked."""
        from playwright.async_api import TimeoutError as TooLate

        until = time.monotonic() + _SLOW / 1000
        while True:
            await self.page.keyboard.press("Escape")
            await self.page.keyboard.press("F1")
            try:
                await self.page.wait_for_selector(".quick-input-widget input:focus", timeout=_BLINK)
                for row in rows:
                    await self.page.keyboard.type(row)
                    await self.page.wait_for_selector(f"{_ROW.format(row)}.focused", timeout=_BLINK)
                    await self.page.keyboard.press("Enter")
                    await self.page.wait_for_selector(_ROW.format(row), state="hidden", timeout=_BLINK)
            except TooLate:
                assert time.monotonic() < until, f"{', '.join(rows)} cannot be chosen"
            else:
                return

    async def _rows(self) -> list[str]:
        rows = self.page.locator(".quick-input-list .monaco-list-row")
        await rows.first.wait_for()
        return [re.sub(r"\s+", " ", str(await row.get_attribute("aria-label"))) for row in await rows.all()]


def _installed() -> Path:
    place, stamp = CACHE / "vscode-4.139.1", "installed"
    with place_for(place, _INSTALL_SECONDS):
        if not (place / stamp).exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            (place / "package.json").write_text('{"private": true}', encoding="utf-8")
            _npm(place, NODE, os.environ["PATH"])
            _npm(place, CODE_SERVER, f"{_node(place).parent}:{os.environ['PATH']}")
            (place / stamp).touch()
    return place


def _npm(place: Path, package: str, path: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotRunError("npm is not on PATH; install Node.js")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", package],
        cwd=place,
        env={**os.environ, "PATH": path, "HOME": HOME},
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        needed = " ".join(PACKAGES)
        raise CannotRunError(f"npm could not install {package}; is all of {needed} there?\n{done.stderr[-2000:]}")


def _node(place: Path) -> Path:
    return place / "node_modules" / "node" / "bin" / "node"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
