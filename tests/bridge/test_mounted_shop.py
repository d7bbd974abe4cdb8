"""A shop's FastAPI application with a bridge inside (`servers/bookshop.py`), as clients of other hands meet it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import ERAS, client_of
from tests.servers.bookshop import KEY, PAGE, create_app
from tests.support.bridges import text_of
from tests.support.http_apis import served
from tests.support.on_demand import mcp_types
from tests.support.upstreams import text_of as text_of_json
from tests.support.vscode import VsCode
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

EMMA = {"isbn": "1", "title": "Emma", "price": 12.5, "stock": 3}
TOOLS = {
    "recommend", "reserve", "count", "clock__now", "api__get_book", "api__find_books", "api__order_book",
}  # fmt: skip


@pytest.fixture(scope="module")
def shop() -> Generator[str]:
    with served(create_app) as address:
        yield address


async def test_vs_code_uses_all_that_is_published_in_its_own_order(shop: str) -> None:
    async with VsCode.over_http(f"{shop}/ai/mcp", form={"sure": True}) as editor:
        assert set(editor.tools) == TOOLS
        assert set(editor.prompts) == {"review"}
        assert editor.tools["recommend"]["annotations"] == {"readOnlyHint": True}
        assert (await editor.call("recommend", taste="romance"))["structuredContent"] == EMMA
        assert editor.progress() == ["Emma", "Middlemarch"]
        said = [each["params"]["data"] for each in editor.heard if each["method"] == "notifications/message"]
        assert said == ["somebody likes romance"]
        wrong = await editor.call("recommend", taste="x")
        assert wrong["isError"] is True
        assert "/taste" in wrong["content"][0]["text"]
        assert text_of_json(await editor.call("reserve", isbn="1")) == "1 is reserved"
        assert [each["params"]["message"] for each in editor.asked] == ["Reserve Emma?"]
        assert (await editor.call("count"))["structuredContent"] == {"result": 3}
        assert text_of_json(await editor.call("clock__now")) == "noon"
        assert (await editor.call("api__get_book", isbn="1"))["structuredContent"] == EMMA
        assert '"title":"Middlemarch"' in text_of_json(await editor.call("api__find_books", words="march"))
        assert "staff only" in text_of_json(await editor.call("api__order_book", **EMMA))
        assert '"title":"Emma"' in (await editor.open_resource("shop://books/1"))
        told = await editor.request("prompts/get", name="review", arguments={"isbn": "2"})
        assert told["messages"][0]["content"]["text"] == "Write a review of Middlemarch."


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_client_uses_it_in_each_era(era: str, shop: str) -> None:
    asked: list[str] = []
    told: list[str | None] = []

    async def agree(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"sure": True})

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with client_of(f"{shop}/ai/mcp", era, elicitation_callback=agree) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        result = await client.call_tool("recommend", {"taste": "romance"}, progress_callback=on_progress)
        assert result.structured_content == EMMA
        assert told == ["Emma", "Middlemarch"]
        assert text_of(await client.call_tool("reserve", {"isbn": "2"})) == "2 is reserved"
        assert asked == ["Reserve Middlemarch?"]
        assert text_of(await client.call_tool("clock__now", {})) == "noon"
        assert (await client.call_tool("api__get_book", {"isbn": "1"})).structured_content == EMMA
        missing = await client.call_tool("api__get_book", {"isbn": "9"})
        assert missing.is_error
        assert "no book 9" in text_of(missing)
        [contents] = (await client.read_resource("shop://books/1")).contents
        assert '"title":"Emma"' in contents.text  # type: ignore[union-attr]


async def test_its_pages_call_the_bridge_and_its_own_routes_stay_as_they_are(shop: str) -> None:
    origin = {"Origin": PAGE}
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,mcp-method"}
    call: JSON = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count", "arguments": {}}}
    async with httpx2.AsyncClient(base_url=shop) as browser:
        preflight = await browser.options("/ai/mcp", headers={**origin, **wanted})
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, PAGE)
        answer = await browser.post("/ai/", json=call, headers=origin)
        assert answer.json()["result"]["structuredContent"] == {"result": 3}
        assert answer.headers["x-served-by"] == "bookshop"
        assert answer.headers["access-control-allow-origin"] == PAGE
        stranger = await browser.post("/ai/", json=call, headers={"Origin": "https://evil.example"})
        assert stranger.status_code == 403
        assert (await browser.get("/books/1")).json() == EMMA
        assert (await browser.post("/office/orders", json=EMMA)).status_code == 401
        assert (await browser.post("/office/orders", json=EMMA, headers={"X-Key": KEY})).status_code == 201
        assert (await browser.get("/ai/ready")).status_code == 200


@pytest.mark.thorough
async def test_one_signal_ends_it_though_an_editor_is_connected(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        'from tests.servers.bookshop import create_app\n\napp = create_app("http://127.0.0.1:9")\n', "utf-8"
    )
    command = [sys.executable, "-m", "uvicorn", "main:app", "--port", "0", "--no-use-colors"]
    paths = os.pathsep.join((str(tmp_path), *sys.path))
    options: dict[str, Any] = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": paths}, "stdout": None}
    async with await anyio.open_process(command, **options) as process:
        try:
            assert process.stderr is not None
            reading = BufferedByteReceiveStream(process.stderr)
            with anyio.fail_after(PATIENCE):
                said = await reading.receive_until(b" (Press", 1 << 20)
                url = said.decode().rpartition(" ")[2]
                async with httpx2.AsyncClient() as client, client.stream("GET", f"{url}/ai/sse") as stream:
                    assert stream.status_code == 200
                    process.send_signal(signal.SIGINT)
                    assert await process.wait() == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
