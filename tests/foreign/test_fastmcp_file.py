"""A file written for FastMCP (`weather.py`), which `gaia-bridge serve` publishes with two other sources."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio.to_thread
import pytest

from tests.cli.running import running
from tests.interaction.connecting import client_of
from tests.process.driving import url_of
from tests.support.bridges import text_of
from tests.support.installed_programs import WITH_FASTMCP, needs, with_fastmcp
from tests.support.on_demand import mcp_types
from tests.support.upstreams import text_of as text_of_json
from tests.support.vscode import VsCode

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]  # on a busy machine, FastMCP takes long to start

WEATHER: Final = Path(__file__).with_name("weather.py")
CLOCK: Final = Path(__file__).parents[1] / "servers" / "clock.py"
DESK: Final = '''
from gaia_bridge import tool

@tool
def stamp(text: str) -> str:
    """Stamp a text."""
    return f"[{text}]"
'''
TOOLS: Final = {
    "weather__current", "weather__warmest", "weather__plan_trip", "weather__recalibrate", "stamp", "clock__now",
}  # fmt: skip
ROME: Final = {"city": "Rome", "temperature": 75.2, "unit": "fahrenheit"}
STAYS: Final = "How long do you stay in Rome?"


class Served(NamedTuple):
    """How the bridge is started."""

    interpreter: str
    variables: Mapping[str, str]
    arguments: Sequence[str]
    log: Path
    """What the lifespan of the server writes."""


@pytest.fixture
@needs(WITH_FASTMCP)
async def served(tmp_path: Path) -> Served:
    interpreter, variables = with_fastmcp()
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    config, log = tmp_path / "servers.json", tmp_path / "log"
    clock = {"command": sys.executable, "args": [str(CLOCK)]}
    config.write_text(json.dumps({"mcpServers": {"clock": clock}}), "utf-8")
    arguments = ["serve", str(WEATHER), "desk.py", "--config", str(config)]
    return Served(interpreter, {**variables, "WEATHER_LOG": str(log)}, arguments, log)


async def works(editor: VsCode) -> None:
    """What somebody does with it in VS Code."""
    await editor.until_listed(TOOLS)
    assert editor.tools["weather__current"]["annotations"] == {"openWorldHint": False, "readOnlyHint": True}
    assert editor.tools["weather__warmest"]["title"] == "Compare cities"
    assert list(editor.prompts) == ["weather__packing_list"]
    read = await editor.call("weather__current", city="Rome", unit="fahrenheit")
    assert read["structuredContent"] == ROME
    said = [each["params"]["data"] for each in editor.heard if each["method"] == "notifications/message"]
    assert "read the station of Rome" in str(said)
    assert text_of_json(await editor.call("weather__warmest", cities=["Oslo", "Cairo"])) == "Cairo"
    assert editor.progress() == ["Oslo", "Cairo"]
    assert text_of_json(await editor.call("weather__plan_trip", city="Rome")) == "4 days in Rome, by train"
    assert [each["params"]["message"] for each in editor.asked] == [STAYS]
    missing = await editor.call("weather__current", city="Paris")
    assert missing["isError"] is True
    assert "there is no station in Paris" in text_of_json(missing)
    assert (await editor.call("weather__current", city="R"))["isError"] is True
    assert text_of_json(await editor.call("stamp", text="paid")) == "[paid]"
    assert text_of_json(await editor.call("clock__now")) == "noon"
    template = {"type": "ref/resource", "uri": "weather://{city}/current"}
    typed = await editor.request("completion/complete", ref=template, argument={"name": "city", "value": "o"})
    assert typed["completion"]["values"] == ["Oslo"]
    assert json.loads(await editor.open_resource("weather://Oslo/current")) == {"celsius": 9.5}
    given = await editor.request("prompts/get", name="weather__packing_list", arguments={"city": "Rome", "days": "2"})
    assert [each["role"] for each in given["messages"]] == ["user", "assistant"]


@pytest.mark.thorough
async def test_vs_code_uses_a_fastmcp_file_on_pipes(served: Served, tmp_path: Path) -> None:
    command = [served.interpreter, "-W", "ignore", "-m", "gaia_bridge", *served.arguments, "--stdio"]
    options = {"cwd": tmp_path, "env": {**os.environ, **served.variables}}
    async with VsCode.on_pipes(command, {"days": 4}, **options) as editor:
        await works(editor)
    assert served.log.read_text("utf-8").split() == ["opened", "closed"]


@pytest.mark.thorough
async def test_clients_of_both_eras_share_a_fastmcp_file_over_http(served: Served, tmp_path: Path) -> None:
    options: dict[str, Any] = {"interpreter": served.interpreter, "env": served.variables}
    with running(*served.arguments, "--port", "0", cwd=tmp_path, **options) as bridge:
        url = f"{await anyio.to_thread.run_sync(url_of, bridge)}/mcp"
        async with VsCode.over_http(url, {"days": 4}) as editor:
            await works(editor)
            for era in ("legacy", "modern"):
                await used(url, era)
            assert (await editor.call("weather__current", city="Rome", unit="fahrenheit"))["structuredContent"] == ROME
        bridge.process.terminate()
        assert await anyio.to_thread.run_sync(bridge.ended) == 0
    assert served.log.read_text("utf-8").split() == ["opened", "closed"]


async def used(url: str, era: str) -> None:
    """What the official client does with it."""
    asked: list[str] = []
    told: list[str | None] = []

    async def stay(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"days": 2, "by_train": False})

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with client_of(url, era, elicitation_callback=stay) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        read = await client.call_tool("weather__current", {"city": "Rome", "unit": "fahrenheit"})
        assert read.structured_content == ROME
        cities = {"cities": ["Oslo", "Rome"]}
        assert text_of(await client.call_tool("weather__warmest", cities, progress_callback=on_progress)) == "Rome"
        assert told == ["Oslo", "Rome"]
        trip = await client.call_tool("weather__plan_trip", {"city": "Rome"})
        if era == "legacy":
            assert (text_of(trip), asked) == ("2 days in Rome, by plane", [STAYS])
        else:  # FastMCP's own answer: it asks nobody of that era in the middle of a call
            assert trip.is_error
            assert "unavailable on 2026-07-28 connections" in text_of(trip)
        [contents] = (await client.read_resource("weather://Oslo/current")).contents
        assert getattr(contents, "text", None) == '{"celsius": 9.5}'
        given = await client.get_prompt("weather__packing_list", {"city": "Rome"})
        assert [message.role for message in given.messages] == ["user", "assistant"]
        assert text_of(await client.call_tool("stamp", {"text": "paid"})) == "[paid]"
