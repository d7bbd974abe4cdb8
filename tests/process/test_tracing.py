"""Traces go through the bridge: as they came, or with a span of its own where OpenTelemetry is set up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.bridges import running_bridge
from tests.support.upstreams import raw_server, until_ready

ROOT = Path(__file__).parents[2]
TRACE: Any = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"}


def test_each_hop_is_a_span_of_the_clients_trace(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("traced_bridge.py"))]
    env = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    [server] = [span for span in found["spans"] if span["kind"] == "SERVER" and span["name"] == "tools/call up__meta"]
    [client] = [span for span in found["spans"] if span["kind"] == "CLIENT" and span["scope"] == "gaia-mcp-bridge"]
    assert (client["name"], client["kind"]) == ("tools/call meta", "CLIENT")
    assert server["trace"] == client["trace"]
    assert client["parent"] == server["id"]
    assert found["told"]["traceparent"].startswith(f"00-{client['trace']}-{client['id']}-")


@pytest.mark.anyio
async def test_without_opentelemetry_the_trace_goes_on_as_it_came() -> None:
    assert "opentelemetry.sdk" not in sys.modules
    async with running_bridge() as running:
        await running.bridge.add_upstream(raw_server())
        await until_ready(*running.bridge.sources)
        async with running.client("legacy") as client:
            result = await client.call_tool("up__meta", meta=TRACE)
    [block] = result.content
    told = json.loads(getattr(block, "text", "{}"))
    assert {key: told[key] for key in TRACE} == TRACE
