"""One line for each call, of every kind and era, of agents and of servers, and nothing of what was said."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx2
import pytest
from msgspec.structs import replace

from gaia_bridge.chat_types import ChatRequest, Reply
from gaia_bridge.settings import AgentLimits, ChatEndpointLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.probes.reaching import hello
from tests.support.bridges import running_bridge
from tests.support.chat_endpoint import ChatAgent, Script, chatting
from tests.support.on_demand import mcp
from tests.support.upstreams import PATIENT, raw_server, until_ready
from tests.support.waiting import PATIENCE, until, wait_in_thread

LOGGER = "gaia_bridge.calls.call_log"


class Told:
    """An agent with something of each kind."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in ("fine", "fails")]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        if tool_name == "fails":
            raise ValueError("a secret reason")
        return "a secret result"

    def get_mcp_prompts(self) -> list[JSON]:
        return [{"name": "greet"}]

    def get_mcp_resource_definitions(self) -> list[JSON]:
        return [{"uri": "note://today", "name": "today"}]

    def get_mcp_resources(self) -> list[JSON]:
        return self.get_mcp_resource_definitions()

    def read_mcp_resource(self, uri: str) -> str:
        return "a secret note"


@pytest.mark.anyio
@pytest.mark.requirement("F-206")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_call_of_an_agent_and_of_a_server_leaves_one_line(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with running_bridge(named={"told": Told()}) as running:
        await running.bridge.add_upstream(raw_server())
        await until_ready(*running.bridge.sources)
        async with running.client(mode) as client:
            await client.call_tool("fine", {"word": "a secret argument"})
            await client.call_tool("fails", {})
            await client.call_tool("up__meta", {})
            await client.get_prompt("greet")
            await client.read_resource("note://today")
            with pytest.raises(mcp.MCPError):
                await client.call_tool("none", {})
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    shapes = [re.sub(r"[\d.e-]+ ms|\d+ B", "N", line.partition(" #")[2][5:]) for line in lines]
    assert shapes == [
        "tools/call fine of told: ok in N, N in, N out",
        "tools/call fails of told: tool error in N, N in, N out",
        "tools/call up__meta of up: ok in N, N in, N out",
        "prompts/get greet of told: ok in N, N in, N out",
        "resources/read note://today of told: ok in N, N in, N out",
        "tools/call none of -: error -32602 in N, N in, N out",
    ]
    assert not [line for line in lines if "secret" in line]
    assert {line.partition("/")[0] for line in lines} == {"mcp"}


@pytest.mark.anyio
@pytest.mark.requirement("F-206")
async def test_where_nobody_listens_nothing_is_measured(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    for name in ("time", "CallRecord", "leave"):
        monkeypatch.setattr(f"gaia_bridge.server.call_log.{name}", None)
    async with running_bridge(Told()) as running, running.client("legacy") as client:
        await client.call_tool("fine", {})
    assert not [record for record in caplog.records if record.name == LOGGER]


def shapes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines without what differs from run to run."""
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    return [re.sub(r"[\d.e+-]+ ms|\b\d+ B\b", "N", re.sub(r"^.+? #[0-9a-f]{4} ", "", line)) for line in lines]


class Everything(Told):
    """Also a model that calls the tools that it is lent, and works as long as a test wants it to."""

    def __init__(self) -> None:
        self.held, self.free = threading.Event(), threading.Event()

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [*super().get_mcp_tool_definitions(), {"name": "hangs", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        if tool_name != "hangs":
            return super().execute_mcp_tool(tool_name, arguments)
        self.held.set()
        self.free.wait(PATIENCE)
        return None


def asking(script: Script) -> ChatAgent:
    return ChatAgent(script, "talker")


async def borrowing(request: ChatRequest) -> AsyncGenerator[str | Reply]:
    for lent in request.lent_tools:
        await lent.call({"word": "a secret argument"})
        await lent.call({})
    yield "a secret "
    yield "answer"
    yield Reply("a secret answer")


async def failing(request: ChatRequest) -> AsyncGenerator[str | Reply]:
    yield "a secret "
    raise RuntimeError("a secret reason")


async def hanging(request: ChatRequest) -> AsyncGenerator[str | Reply]:
    yield "a secret "
    await anyio.sleep_forever()


CALL: JSON = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "fine", "arguments": {"w": "secret"}},
}
META: JSON = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
QUIET = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


async def session_of(client: httpx2.AsyncClient) -> dict[str, str]:
    greeting = (await client.post("/mcp", json=hello("2025-11-25"), headers=QUIET)).headers
    headers = {**QUIET, "mcp-session-id": greeting["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return headers


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("info", "label"),
    [
        ({"name": "test", "version": "1"}, "test/1"),
        ({"name": "test", "version": ""}, "test"),
        (None, "unnamed client"),
        ("at the root", "unnamed client"),
    ],
)
async def test_the_line_of_a_call_begins_with_what_the_client_states(
    info: Any, label: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    meta = {key: value for key, value in META.items() if not key.endswith("clientInfo")}
    if isinstance(info, dict):
        meta["io.modelcontextprotocol/clientInfo"] = info
    names = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "fine"}
    async with chatting(named={"told": Told()}) as server:
        if info == "at the root":
            response = await server.client.post("/", json=CALL, headers=QUIET)
        else:
            call = {**CALL, "params": {**CALL["params"], "_meta": meta}}
            response = await server.client.post("/mcp", json=call, headers={**QUIET, **names})
    assert "a secret result" in response.text
    [line] = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert re.fullmatch(rf"{label} #[0-9a-f]{{4}} tools/call fine .*", line)


@pytest.mark.anyio
@pytest.mark.requirement("F-206")
@pytest.mark.parametrize("way", ["root", "root modern", "modern", "session"])
async def test_a_call_leaves_one_line_whatever_way_it_comes_over_http(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with chatting(named={"told": Told()}) as server:
        call, headers = CALL, QUIET
        if way.endswith("modern"):
            call = {**CALL, "params": {**CALL["params"], "_meta": META}}
            names = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "fine"}
            headers = {**QUIET, **names}
        elif way == "session":
            headers = await session_of(server.client)
        response = await server.client.post("/" if way.startswith("root") else "/mcp", json=call, headers=headers)
        assert "a secret result" in response.text
    assert shapes(caplog) == ["tools/call fine of told: ok in N, N in, N out"]
    assert "secret" not in "".join(record.getMessage() for record in caplog.records if record.name == LOGGER)


@pytest.mark.anyio
@pytest.mark.requirement("F-312")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_that_there_was_no_time_left_is_no_failure_of_a_tool(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    agent = Everything()
    settings = Settings(agent=AgentLimits(call_timeout=0.1), upstream=replace(PATIENT, call_timeout=0.5))
    async with running_bridge(named={"told": agent}, settings=settings) as running:
        await running.bridge.add_upstream(raw_server())
        await until_ready(*running.bridge.sources)
        async with running.client(mode) as client:
            for name in ("hangs", "fails", "up__hang"):
                assert (await client.call_tool(name, {"seconds": 60})).is_error
        agent.free.set()
    assert shapes(caplog) == [
        "tools/call hangs of told: timed out in N, N in, N out",
        "tools/call fails of told: tool error in N, N in, N out",
        "tools/call up__hang of up: timed out in N, N in, N out",
    ]


@pytest.mark.anyio
@pytest.mark.requirement("F-312")
async def test_that_a_client_cancelled_is_no_failure_of_a_tool(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    agent = Everything()
    async with chatting(named={"told": agent}) as server, anyio.create_task_group() as tasks:
        headers = await session_of(server.client)
        call: JSON = {**CALL, "params": {"name": "hangs", "arguments": {}}}
        tasks.start_soon(lambda: server.client.post("/mcp", json=call, headers=headers))
        await wait_in_thread(agent.held.wait)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        await server.client.post("/mcp", json=cancelled, headers=headers)
        await until(lambda: bool(shapes(caplog)))
        agent.free.set()
        tasks.cancel_scope.cancel()
    assert shapes(caplog) == ["tools/call hangs of told: cancelled in N, N in, N out"]


@pytest.mark.anyio
@pytest.mark.requirement("F-311")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
async def test_each_turn_leaves_one_line_with_the_tools_that_were_called_and_so_does_each_of_them(
    path: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    said: JSON = {"messages": [{"role": "user", "content": "a secret question"}], "input": "a secret question"}
    lent = [{"type": "mcp", "server_label": "told", "allowed_tools": ["fine", "fails"]}]
    async with chatting(named={"told": Told(), "chat": asking(borrowing)}) as server:
        body = {"model": "talker", "stream": stream, **said}
        sent = await server.client.post(path, json={**body, "tools": lent}, headers={"user-agent": "test/1"})
        assert "answer" in sent.text
        missing = await server.client.post(path, json={**body, "model": "none"}, headers={"user-agent": "test/1"})
        assert missing.status_code == 404
    fine, fails = (f"tools/call {name} of told: {how} in N, N in, N out" for name, how in TOLD.items())
    assert shapes(caplog) == [
        *(fine, fine, fails, fails),
        f"{path} talker of chat: ok in N, N in, N out, called fine x2, fails x2",
        f"{path} - of -: error 404 model_not_found in N, N in, N out",
    ]
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert not [line for line in lines if "secret" in line]
    assert {line.partition(" ")[0] for line in lines} == {"test/1"}
    sizes = [re.findall(r"(\d+) B", line) for line in lines[-2:]]
    assert sizes[0] == [str(len(sent.request.content)), str(len(sent.content))]
    assert sizes[1] == [str(len(missing.request.content)), str(len(missing.content))]


TOLD = {"fine": "ok", "fails": "tool error"}


@pytest.mark.anyio
@pytest.mark.requirement("F-311", "F-312")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("script", "outcome"), [(failing, "error 500 agent_failed"), (hanging, "timed out"), (hanging, "cancelled")]
)
async def test_a_turn_that_fails_is_late_or_is_left_by_its_client_says_so(
    script: Script, outcome: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    settings = Settings(chats=ChatEndpointLimits(turn_timeout=0.2 if outcome == "timed out" else PATIENCE))
    async with chatting(named={"chat": asking(script)}, settings=settings) as server:
        left = anyio.move_on_after(0.3 if outcome == "cancelled" else PATIENCE)
        with left:
            await server.complete("talker", stream=stream)
        await until(lambda: bool(shapes(caplog)))
    [line] = shapes(caplog)
    assert line.startswith(f"/v1/chat/completions talker of chat: {outcome} in N")
