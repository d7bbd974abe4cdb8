"""Large results keep nobody waiting: another server answers within a second all the while; see `conftest.py`."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import pytest

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.sources.upstream.crossing import ResultChecker
from gaia_bridge.text.json_types import JSON
from tests.support.upstreams import FakeRequest, running, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

SERVER = """
import json, sys
word = {"type": "text", "text": "x" * 30}
RESULTS = {
    "text": {"content": [{"type": "text", "text": "x" * 15_000_000}]},
    "blocks": {"content": [word] * 200_000},
    "rows": {"content": [], "structuredContent": {"rows": [{"id": id, "ok": True} for id in range(200_000)]}},
    "bad": {"content": [word] * 10_000 + [{"type": "text"}]},
    "huge": {"content": [{"type": "text", "text": "x" * 40_000_000}]},
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "big", "version": "1"},
    },
    "tools/list": {"tools": []},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = RESULTS.get(message["params"].get("name", message["method"]))
    outcome = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\\n")
    sys.stdout.flush()
"""

BIG = StdioServerSpec("big", sys.executable, ("-S", "-c", SERVER))


@pytest.mark.requirement("F-304")
@pytest.mark.parametrize(("tool", "calls"), [("text", 8), ("blocks", 1), ("rows", 2)])
async def test_large_results_arrive_whole_and_keep_nobody_waiting(tool: str, calls: int) -> None:
    results: list[JSON] = []
    async with running(BIG) as upstream, anyio.create_task_group() as tasks:

        async def call() -> None:
            results.append(await upstream.call_tool(tool, {}, FakeRequest()))

        for _ in range(calls):
            tasks.start_soon(call)
    sizes = {"text": 15_000_000, "blocks": 200_000, "rows": 200_000}
    for result in results:
        found: Any = result["content"] if tool == "blocks" else result.get("structuredContent", {}).get("rows")
        assert len(found or result["content"][0]["text"]) == sizes[tool]


@pytest.mark.requirement("F-304")
async def test_one_block_that_is_none_is_found_among_thousands() -> None:
    async with running(BIG) as upstream:
        result = await upstream.call_tool("bad", {}, FakeRequest())
    assert result["isError"]
    assert "with a result that MCP does not allow: content" in text_of(result)


@pytest.mark.requirement("F-304")
async def test_a_result_over_the_limit_is_refused_with_its_size_and_keeps_nobody_waiting() -> None:
    async with running(BIG) as upstream:
        for _ in range(3):
            result = await upstream.call_tool("huge", {}, FakeRequest())
            assert "sent a message of 40,000," in text_of(result)


async def test_a_large_result_is_judged_as_a_small_one_is() -> None:
    judge = ResultChecker()
    deep: Any = []
    for _ in range(250):
        deep = [deep]
    block = {"type": "text", "text": "x" * 1_000}
    much = [block] * 1_000
    nulls = await judge.checked("tools/call", {"content": [*much, {**block, "_meta": None}], "_meta": None})
    assert nulls == {"content": [*much, block]}
    for content in ([], much):
        assert await judge.checked("tools/call", result := {"content": content}) == result
        with pytest.raises(
            UpstreamError, match="answered tools/call with a result that is nested deeper than 200 levels"
        ):
            await judge.checked("tools/call", {"content": content, "structuredContent": {"a": deep}})
        with pytest.raises(UpstreamError, match="isError"):
            await judge.checked("tools/call", {"content": content, "isError": []})
