"""Takes the pictures of the documentation anew: `python -m tests.docs.pictures [NAME]...`

It needs the groups `pictures` and `test`, and Debian's packages that `tests/editor/real_vscode.py` names. Each picture
is what a real program showed. In those of terminals, the folders of whoever takes them are written as `/home/you`.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from tests.docs.pages import DOCS, ROOT, blocks
from tests.editor.real_vscode import Window, browser, vscode, window
from tests.editor.terminal_editors import COLUMNS, EDITORS, ROWS, home_of, installed, shown

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["PICTURES", "main"]

PICTURES: Final = DOCS / "pictures"
"""Where they are."""

_PROGRAM: Final = Path(sys.executable).with_name("gaia-bridge")
_COLOURS: Final = 64
_SERVER: Final = "gaia-bridge"
_WIDTH, _HEIGHT = 1200, 750

_BASHRC: Final = "PS1='~/hello$ '\nPATH={folder}:$PATH\n"

_UNKNOWN: Final = re.compile(rb"\x1b\[[<=>?][0-9;]*[a-z]|\x1b\[>[0-9;]*m|\x1b[78]|\x1b\][^\x07]*\x07")
"""Sequences that the emulator of a terminal would show, or that say nothing of what is seen."""

_STYLE: Final = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;"
    "fill:#d4d4d4}"
)
_SHADES: Final = {
    "default": "#d4d4d4", "black": "#8a8a8a", "brightblack": "#8a8a8a", "red": "#f48771", "green": "#89d185",
    "brown": "#e5c07b", "yellow": "#e5c07b", "blue": "#75beff", "magenta": "#d7a3e8", "cyan": "#7fdbca",
    "white": "#ffffff",
}  # fmt: skip


def agent_of_the_page() -> str:
    """The agent of the page that begins with VS Code."""
    [text] = [block.text for block in blocks(DOCS / "five-minutes.md") if "class HelloAgent" in block.text]
    return text


async def of_vscode() -> None:
    """VS Code with the agent of the first page: its tool in the picker, its prompt and its resource in use."""
    async with _vscode_at_work() as shown_:
        page = shown_.page
        await _call_in_the_terminal(shown_)
        await _click(page, '.chat-input-container [aria-label^="Configure Tools"]')
        await page.wait_for_selector(".quick-input-widget input:focus")
        await page.keyboard.type("greet")
        await _click(page, '.quick-input-widget .monaco-list-row:has-text("gaia-bridge") .monaco-tl-twistie')
        await page.locator('.quick-input-widget .monaco-list-row:has-text("Greet somebody by name")').wait_for()
        await _keep(page, "vscode-tools")
        await page.keyboard.press("Escape")
        await shown_.choose("MCP: Browse Resources", "guest_list")
        await page.wait_for_selector('.view-line:has-text("Grace")')
        await _click(page, ".chat-input-container .monaco-editor")
        await page.keyboard.type("/mcp")
        await page.locator(".suggest-widget.visible .monaco-list-row").first.wait_for()
        await _keep(page, "vscode-prompt")


@asynccontextmanager
async def _vscode_at_work() -> AsyncGenerator[Window]:
    home, folder, _ = _project("vscode")
    (home / ".bashrc").write_text(_BASHRC.format(folder=_PROGRAM.parent), "utf-8")
    _run("install", "vscode", "--workspace", "--yes", "--agent", "hello_agent.py", home=home, folder=folder)
    try:
        with vscode(home) as url:
            async with browser() as chromium, window(chromium, url, folder, _WIDTH, _HEIGHT) as shown_:
                await shown_.start(_SERVER)
                await shown_.until(_SERVER, "Running")
                yield shown_
    finally:
        _run("down", "--all", home=home, folder=folder)


async def _call_in_the_terminal(shown_: Window) -> None:
    page = shown_.page
    await page.keyboard.press("Control+p")
    await page.keyboard.type("hello_agent.py")
    await page.wait_for_selector('.quick-input-list .monaco-list-row:has-text("hello_agent.py")')
    await page.keyboard.press("Enter")
    await page.wait_for_selector('.view-line:has-text("HelloAgent")')
    await page.keyboard.press("Control+b")
    await shown_.choose("Terminal: Create New Terminal")
    await page.wait_for_selector(".terminal-wrapper.active .xterm-screen")
    await page.wait_for_timeout(1_000)
    await page.keyboard.type("gaia-bridge call hello_agent.py greet name=Ada\n")
    await page.wait_for_timeout(4_000)


async def _click(page: Page, selector: str) -> None:
    """Click where something is shown; the locator's own click may move the whole window below it."""
    found = page.locator(selector).first
    await found.wait_for()
    box = await found.bounding_box()
    assert box is not None, selector
    await page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


async def _keep(page: Page, name: str) -> None:
    """Keep a picture with few colours: that is a fifth of the bytes, and looks the same."""
    from PIL import Image

    await page.mouse.move(_WIDTH / 2, _HEIGHT - 1)
    await page.wait_for_timeout(1_000)
    taken = Image.open(io.BytesIO(await page.screenshot()))
    taken.convert("RGB").quantize(_COLOURS).save(PICTURES / f"{name}.png", optimize=True)


def of_terminal_editors() -> None:
    """What Claude Code, Codex and others say of the bridge that `gaia-bridge install` gave them."""
    home, folder, environ = _project("terminal")
    environ["PATH"] = f"{installed()}{os.pathsep}{environ['PATH']}"
    try:
        for editor in EDITORS:
            _run("install", editor.name, "--yes", "--agent", "hello_agent.py", home=home, folder=folder)
            text = shown(editor.command, folder, {**environ, **editor.variables})
            _draw(editor.name, _typed(" ".join(editor.command)) + text, home)
    finally:
        _run("down", "--all", home=home, folder=folder)


def of_terminal() -> None:
    """The bridge in a terminal: an agent is tried, and served."""
    home, folder, environ = _project("terminal")
    lines = ["gaia-bridge tools hello_agent.py", "gaia-bridge call hello_agent.py greet name=Ada"]
    tried = [_typed(line) + shown(line.split(), folder, environ) for line in lines]
    _draw("terminal", b"".join(tried), home)
    serve = "gaia-bridge serve hello_agent.py"

    def call() -> None:
        _run("call", "hello", "greet", "name=Ada", home=home, folder=folder)

    served = shown(serve.split(), folder, environ, {"asks for one": call, " ms": lambda: None})
    _draw("serve", _typed(serve) + served, home)


def _project(name: str) -> tuple[Path, Path, dict[str, str]]:
    """A home, a folder in it with the agent of the first page, and the environment of its user's terminal."""
    home = home_of(name)
    folder = home / "hello"
    folder.mkdir()
    (folder / "hello_agent.py").write_text(agent_of_the_page(), "utf-8")
    path = f"{_PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    return home, folder, {**os.environ, "HOME": str(home), "PATH": path, "TERM": "xterm-256color"}


def _typed(line: str) -> bytes:
    return f"\x1b[1m$ {line}\x1b[0m\r\n".encode()


def _run(*words: str, home: Path, folder: Path) -> None:
    environ = {**os.environ, "HOME": str(home)}
    subprocess.run([_PROGRAM, *words], cwd=folder, env=environ, check=True, capture_output=True, timeout=60)


def _draw(name: str, written: bytes, home: Path) -> None:
    """Draw what was written to a terminal, as text that can be read at any size."""
    import pyte

    screen: Any = pyte.Screen(COLUMNS, ROWS)
    pyte.ByteStream(screen).feed(_UNKNOWN.sub(b"", written))
    rows = [list(_spans(screen.buffer[row], home)) for row in range(ROWS)]
    while rows and not "".join(text for text, _ in rows[-1]).strip():
        rows.pop()
    width = max(sum(len(text) for text, _ in row) for row in rows)
    (PICTURES / f"{name}.svg").write_text(_svg(rows, width), "utf-8")


def _spans(line: Any, home: Path) -> Iterator[tuple[str, str]]:
    """The texts of a line, each with its style, with nobody's folders in it."""
    cells = [(line[column].data, _style(line[column])) for column in range(COLUMNS)]
    text = "".join(data for data, _ in cells)
    for own, shown_ in ((str(_PROGRAM), "/home/you/.local/bin/gaia-bridge"), (str(home), "/home/you")):
        while (at := text.find(own)) >= 0:
            cells[at : at + len(own)] = [(character, cells[at][1]) for character in shown_]
            text = "".join(data for data, _ in cells)
    while cells and not cells[-1][0].strip():
        cells.pop()
    at = 0
    while at < len(cells):
        end = next((other for other in range(at, len(cells)) if cells[other][1] != cells[at][1]), len(cells))
        yield "".join(data for data, _ in cells[at:end]), cells[at][1]
        at = end


def _style(cell: Any) -> str:
    shade = _SHADES.get(cell.fg, f"#{cell.fg}" if re.fullmatch("[0-9a-f]{6}", cell.fg) else _SHADES["default"])
    return (f' fill="{shade}"' if shade != _SHADES["default"] else "") + (' font-weight="bold"' if cell.bold else "")


def _svg(rows: list[list[tuple[str, str]]], width: int) -> str:
    high, wide, edge = 20, 8.43, 16
    right, bottom = round(width * wide) + 2 * edge, len(rows) * high + 2 * edge
    lines: list[str] = []
    for number, row in enumerate(rows):
        spans = "".join(f"<tspan{style}>{escape(text, quote=False)}</tspan>" for text, style in row)
        if spans:
            length = round(sum(len(text) for text, _ in row) * wide, 1)
            lines.append(
                f'<text x="{edge}" y="{edge + 14 + number * high}" textLength="{length}" '
                f'xml:space="preserve">{spans}</text>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {bottom}" width="{right}" height="{bottom}">\n'
        f'<style>{_STYLE}</style>\n<rect width="100%" height="100%" rx="8" fill="#1e1e1e"/>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


_ALL: Final[dict[str, Callable[[], Any]]] = {
    "vscode": lambda: anyio.run(of_vscode),
    "editors": of_terminal_editors,
    "terminal": of_terminal,
}


def main() -> None:
    """Take those that are named, or all."""
    PICTURES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or _ALL:
        _ALL[name]()
    for file in sorted(PICTURES.iterdir()):
        sys.stdout.write(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
