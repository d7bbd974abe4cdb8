"""A result that lacks its list gets one, as far as its meaning is clear."""

from __future__ import annotations

import sys

import pytest

from gaia_bridge.model import StdioServerSpec
from gaia_bridge.sources.upstream.crossing import with_list
from gaia_bridge.text.json_types import JSON
from tests.support.upstreams import FakeRequest, running

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        found = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        found = {"initialize": found, "tools/list": {"tools": []}, "tools/call": {"structuredContent": {"a": 1}}}
        result = found.get(message["method"])
        outcome = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
"""


@pytest.mark.anyio
async def test_structured_content_alone_is_a_result() -> None:
    async with running(StdioServerSpec("go", sys.executable, ("-S", "-c", SERVER))) as upstream:
        result = await upstream.call_tool("any", {}, FakeRequest())
    assert (result["structuredContent"], result["content"]) == ({"a": 1}, [])


@pytest.mark.parametrize(
    ("method", "result", "name"),
    [
        ("tools/call", {}, "content"),
        ("tools/call", {"content": None}, "content"),
        ("prompts/get", {"messages": None}, "messages"),
        ("resources/read", {"contents": None, "resultType": "complete"}, "contents"),
    ],
)
def test_a_list_that_is_missing_or_null_is_empty(method: str, result: JSON, name: str) -> None:
    assert with_list(method, result) == {**result, name: []}


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tools/call", {"content": 5}),
        ("tools/call", {"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": 1}}),
        ("tools/call", {"resultType": "input_required", "requestState": "x"}),
        ("tools/call", {"task": {"taskId": "x"}}),
        ("ping", {}),
    ],
)
def test_all_other_results_stay_as_they_are(method: str, result: JSON) -> None:
    assert with_list(method, result) is result
