"""The programs of the page about embedding do what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gaia_bridge import Bridge, Client

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def module_of(word: str) -> dict[str, Any]:
    """What a program of the page defines, without being run."""
    [program] = [program for program in PROGRAMS if word in program]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(program, "embedding.md", "exec"), names)
    return names


@pytest.mark.anyio
async def test_the_bridge_of_the_page_publishes_agents_and_servers() -> None:
    bridge = module_of("serve_http")["bridge"]
    assert isinstance(bridge, Bridge)
    async with bridge, Client(bridge, endpoint="clerk") as client:
        assert (await client.call_tool("stamp", text="paid")).text == "[paid]"
        assert [source.name for source in bridge.sources] == ["clerk", "time"]


def test_the_application_of_the_page_has_the_bridge_below_its_path() -> None:
    with TestClient(module_of("FastAPI(lifespan")["app"], base_url="http://127.0.0.1:8000") as client:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        answer = client.post("/assistant/", json={**call, "params": {"name": "price", "arguments": {"article": "tea"}}})
        assert answer.json()["result"]["structuredContent"] == {"result": 9.5}
        assert client.get("/assistant/status").json()["sources"][0]["name"] == "price"


def test_the_client_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    [program] = [program for program in PROGRAMS if "async with Client(Clerk())" in program]
    [output] = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "program.py"
    file.write_text(program)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == output
