"""A browser reads the documentation site, searches in it, and asks for nothing elsewhere: `pytest -m editor`."""

from __future__ import annotations

import threading
from collections.abc import Generator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.docs import site
from tests.editor.real_vscode import browser

pytestmark = [pytest.mark.anyio, pytest.mark.editor, pytest.mark.timeout(300)]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    place = tmp_path_factory.mktemp("site")
    site.build(place)
    return place


@pytest.fixture(scope="module")
def served(place: Path) -> Generator[tuple[str, list[str]]]:
    """The site's address, and its pages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(place))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield (
            f"http://127.0.0.1:{server.server_port}",
            [path.relative_to(place).as_posix() for path in sorted(Path(place).rglob("*.html"))],
        )
        server.shutdown()
        thread.join()


async def test_every_page_is_shown_without_an_error_or_a_request_elsewhere(served: tuple[str, list[str]]) -> None:
    url, names = served
    asked: list[str] = []
    failed: list[str] = []
    async with browser() as chromium:
        page = await chromium.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.on("response", lambda response: failed.append(response.url) if response.status >= 400 else None)
        for name in names:
            await page.goto(f"{url}/{name}", wait_until="networkidle")
            assert await page.locator("article h1").first.inner_text()
        await page.goto(f"{url}/index.html", wait_until="networkidle")
        await page.keyboard.press("/")
        await page.keyboard.type("peer credentials SO_PEERCRED")
        await page.locator('a[href*="security.html"]:visible').last.wait_for()
    assert len(names) > 30 and failed == []
    assert [request for request in asked if not request.startswith((f"{url}/", "data:", "blob:"))] == []


async def test_a_page_that_is_opened_as_a_file_is_searched_in_without_a_request_elsewhere(place: Path) -> None:
    asked: list[str] = []
    async with browser() as chromium:
        page = await chromium.new_page()
        page.on("request", lambda request: asked.append(request.url))
        await page.goto((place / "index.html").as_uri(), wait_until="load")
        await page.keyboard.press("/")
        await page.keyboard.type("stop the bridge")
        await page.locator('a[href*="questions.html"]:visible').last.wait_for()
    assert asked and [request for request in asked if not request.startswith(("file:", "data:", "blob:"))] == []


async def test_no_page_is_wider_than_a_phone(served: tuple[str, list[str]]) -> None:
    url, names = served
    async with browser() as chromium:
        page = await chromium.new_page(viewport={"width": 390, "height": 844})
        for name in names:
            await page.goto(f"{url}/{name}", wait_until="load")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390, name
