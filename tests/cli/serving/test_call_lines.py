"""A line for each call, with what was said."""

from __future__ import annotations

import pytest

from gaia_bridge import Bridge, ProtocolError, ToolError, prompt, resource, tool
from gaia_bridge.middleware import CallNext, McpRequest, Middleware
from gaia_bridge.sources.functions.collection import ModuleFunctions
from gaia_bridge.testing import connected
from gaia_bridge.text.json_types import JSON
from gaia_bridge_cli.serving.call_lines import CallLines
from tests.support.agents import one_tool

pytestmark = pytest.mark.anyio


class Shop:
    @tool
    def add(self, a: int, text: str = "") -> int:
        if a < 0:
            raise ToolError("too few\nof them")
        return a

    @prompt
    def greet(self, name: str) -> str:
        return f"Greet {name}"

    @resource("shop://sign", mime_type="text/plain")
    def sign(self) -> str:
        return "open"


async def test_what_was_asked_and_answered_is_one_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    shop = ModuleFunctions(Shop())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    async with Bridge(shop, middleware=[CallLines()]) as bridge, connected(bridge) as client:
        await client.call_tool("add", a=1, text="x" * 500 + "\x1b[31m\n")
        with pytest.raises(ToolError):
            await client.call_tool("add", a=-1)
        with pytest.raises(ProtocolError):
            await client.call_tool("mi\nssing")
        await client.get_prompt("greet", {"name": "Ada"})
        await client.read_resource("shop://sign")
    lines = capsys.readouterr().err.splitlines()
    asked, failed, missing, greeted, read = (line.partition(" ")[2] for line in lines if " -> " in line)
    assert asked.startswith('add(a=1, text="xxxx')
    assert " -> 1  (" in asked
    assert len(asked) < 200
    assert "too few" in failed
    assert "Unknown tool" in missing
    assert greeted.startswith('prompt greet(name="Ada") -> Greet Ada  (')
    assert read.startswith("read shop://sign -> open  (")
    assert all(line.isprintable() for line in (asked, failed, greeted, read, missing))


async def test_what_is_no_text_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    agent = one_tool(lambda arguments: {"content": blocks if arguments else []})
    async with Bridge(agent, middleware=[CallLines()]) as bridge, connected(bridge) as client:
        await client.call_tool("work", a=[1])
        await client.call_tool("work")
    first, second = capsys.readouterr().err.splitlines()
    assert "work(a=[1]) -> [image]  (" in first
    assert "work() -> nothing  (" in second


async def test_secrets_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    token = "ghp_" + "a" * 36
    agent = one_tool(lambda _: f"{'x' * 130} {token}")
    async with Bridge(agent, middleware=[CallLines()]) as bridge, connected(bridge) as client:
        await client.call_tool("work", text="y" * 35 + " " + token, password="hunter2", nested={"api_key": "abcdef"})
    (line,) = capsys.readouterr().err.splitlines()
    for secret in ("ghp_", "hunter2", "abcdef"):
        assert secret not in line
    assert 'password="***"' in line


async def test_what_has_no_content_is_named_too(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[JSON] = [{"content": [], "structuredContent": {"a": 1}}, {"task": {"taskId": "t1"}}, {"content": None}]
    results = iter(told)

    class Answering(Middleware):
        async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
            return next(results)

    agent = one_tool(lambda _: "")
    async with (
        Bridge(agent, middleware=[CallLines(), Answering()]) as bridge,
        connected(bridge, era="legacy") as client,
    ):
        for _ in range(3):
            await client.call_tool("work")
    lines = [line.partition(" -> ")[2].partition("  (")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == ['{"a":1}', "task t1", "nothing"]
