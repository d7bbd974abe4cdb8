"""Whichever way a tool is called, middleware is around the call: a refusing hook sees the tool, and it never runs."""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

import gaia_bridge
from gaia_bridge import Bridge, ToolError, tool
from gaia_bridge.chat_types import ChatRequest, Reply
from gaia_bridge.constants import BRIDGE_PACKAGES
from gaia_bridge.middleware import CallNext, McpRequest, Middleware
from gaia_bridge.model import ToolSearchPolicy
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.settings import Settings
from gaia_bridge.testing import connected
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.chat_endpoint import QUESTION, ChatAgent

pytestmark = pytest.mark.anyio

TO_SOURCES: Final = {
    "gaia_bridge/sources/composition/composed.py": "a source that delegates to the one inside of it",
    "gaia_bridge/server/methods.py": "what answers requests, which the middleware is around",
    "gaia_bridge/server/skill_methods.py": "the files of a skill, for those methods",
}
"""The modules that ask sources, and why these may."""

HOST: Final = "bridge.example"
REFUSED: Final = "refused by the policy"


class Refusing(Middleware):
    """Refuses one tool by its name and by what it says of itself."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        self.seen.append((request.name, request.annotations.get("destructiveHint")))
        if request.annotations.get("destructiveHint"):
            raise ToolError(REFUSED)
        return await call_next(request)


async def lending(request: ChatRequest) -> AsyncGenerator[str | Reply]:
    """An agent that calls what it is lent."""
    yield Reply(json.dumps([await lent.call({"x": "1"}) for lent in request.lent_tools]))


Post = Callable[[str, JSON], Awaitable[str]]
CALL: Final[JSON] = {"name": "danger", "arguments": {"x": "1"}}
BY_NAME: Final[JSON] = {"name": "call_tool", "arguments": CALL}
TOOLS: Final[JSON] = {"tools": [{"type": "mcp", "server_label": "*"}]}


def rpc(path: str, params: JSON) -> Callable[[Bridge, Post], Awaitable[str]]:
    """A door that takes a single JSON-RPC call."""
    return lambda _, post: post(path, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def embedded(era: Any, params: JSON, endpoint: str | None = None) -> Callable[[Bridge, Post], Awaitable[str]]:
    """A client of this process."""

    async def call(bridge: Bridge, post: Post) -> str:
        async with connected(bridge, era=era, endpoint=endpoint) as client:
            return str((await client.call_tool(params["name"], params["arguments"], raise_on_error=False)).text)

    return call


DOORS: Final[dict[str, Callable[[Bridge, Post], Awaitable[str]]]] = {
    "a call without a session": rpc("/", CALL),
    "by name, without a session": rpc("/", BY_NAME),
    "chat completions": lambda _, post: post("/v1/chat/completions", {"model": "m", "messages": [QUESTION], **TOOLS}),
    "responses": lambda _, post: post("/v1/responses", {"model": "m", "input": "x", **TOOLS}),
    "a client of the handshake era": embedded("legacy", CALL),
    "by name, in the handshake era": embedded("legacy", BY_NAME),
    "a modern client": embedded("modern", CALL),
    "by name, of a modern client": embedded("modern", BY_NAME),
    "an endpoint of its own": embedded("modern", CALL, "danger"),
    "by name, at an endpoint of its own": embedded("modern", BY_NAME, "danger"),
}
"""Every way to a tool; those of editors are in `tests/doors/acp`."""


@pytest.mark.parametrize("name", DOORS)
async def test_a_tool_that_a_hook_refuses_runs_by_no_door(name: str) -> None:
    ran: list[str] = []

    @tool(annotations={"destructiveHint": True, "readOnlyHint": False})
    def danger(x: str) -> str:
        ran.append(x)
        return "ran"

    hook, settings = Refusing(), Settings(tool_search=ToolSearchPolicy.ALWAYS)
    async with Bridge(ChatAgent(lending, "m"), middleware=[hook], settings=settings) as bridge:
        await bridge.add(danger, "danger")
        app = bridge.asgi(AccessPolicy.for_hosts([HOST]))
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://{HOST}") as http:

            async def post(path: str, body: JSON) -> str:
                return (await http.post(path, json=body)).text

            assert REFUSED in await DOORS[name](bridge, post)
    assert hook.seen == [("danger", True)]
    assert ran == []


async def test_a_call_by_name_of_a_tool_that_there_is_not_is_seen_as_it_came() -> None:
    hook, settings = Refusing(), Settings(tool_search=ToolSearchPolicy.ALWAYS)
    async with Bridge(one_tool(lambda _: "ran"), middleware=[hook], settings=settings) as bridge:
        async with connected(bridge) as client:
            result = await client.call_tool("call_tool", {"name": "none"}, raise_on_error=False)
            assert "Unknown tool: none" in result.text
    assert hook.seen == [("call_tool", None)]


def test_nobody_asks_a_source_beside_what_answers_requests() -> None:
    root = Path(gaia_bridge.__file__).parents[1]
    asked = ("call_tool", "get_prompt", "read_resource")
    found = {
        str(file.relative_to(root).as_posix())
        for package in BRIDGE_PACKAGES
        for file in (root / package).rglob("*.py")
        if any(f".{name}" in (text := file.read_text("utf-8")) for name in asked)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and node.attr in asked
        and ast.unparse(node.value).endswith(("source", "wrapped"))
    }
    assert found == TO_SOURCES.keys()
