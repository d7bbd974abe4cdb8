"""A head that came before on its connection is not looked at again: what is answered is the same as if it were."""

from __future__ import annotations

import json
from typing import Any, Final

import anyio
import pytest
from anyio.abc import SocketStream

from gaia_bridge.errors import ToolError
from gaia_bridge.settings import HttpLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import serving
from tests.support.agents import ScriptedAgent
from tests.support.upstreams import raw_server
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

LENGTH: Final = 600
"""Bytes of every body: with another length, the head is another."""
META: Final[JSON] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "known", "version": "1"},
}
CALL: Final[JSON] = {"name": "work", "arguments": {"word": "yes"}}


def request(params: Any, method: str = "tools/call", **more: Any) -> JSON:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params, **more}


def modern(params: JSON = CALL, meta: Any = META, **more: Any) -> JSON:
    return request({**params, "_meta": meta}, **more)


MODERN: Final[dict[str, Any]] = {
    "the same": modern(),
    "other arguments": modern({**CALL, "arguments": {"word": "no"}}),
    "another id": modern(id="text"),
    "no id": {"jsonrpc": "2.0", "method": "tools/call", "params": {**CALL, "_meta": META}},
    "an id that is none": modern(id=True),
    "an id with a fraction": modern(id=1.5),
    "another tool": modern({**CALL, "name": "two__fail"}),
    "a tool of another source": modern({**CALL, "name": "up__meta"}),
    "a name that is none": modern({**CALL, "name": 1}),
    "no name": modern({"arguments": {}}),
    "another method": modern(method="tools/list"),
    "another method with a name": modern(method="prompts/get"),
    "a method that is none": modern(method=["tools/call"]),
    "another revision": modern(meta={**META, "io.modelcontextprotocol/protocolVersion": "2026-07-29"}),
    "a revision with a handshake": modern(meta={**META, "io.modelcontextprotocol/protocolVersion": "2025-11-25"}),
    "a revision that is none": modern(meta={**META, "io.modelcontextprotocol/protocolVersion": None}),
    "no capabilities": modern(meta={key: META[key] for key in META if not key.endswith("Capabilities")}),
    "other capabilities": modern(meta={**META, "io.modelcontextprotocol/clientCapabilities": {"roots": {}}}),
    "no meta": request(CALL),
    "a meta that is none": modern(meta=[]),
    "a meta of null": modern(meta=None),
    "no params": {"jsonrpc": "2.0", "id": 7, "method": "tools/call"},
    "params that are none": request([]),
    "another JSON-RPC": modern(jsonrpc="1.0"),
    "a response": {"jsonrpc": "2.0", "id": 7, "result": {}},
    "a batch": [modern()],
    "no object": "text",
}
HANDSHAKE: Final[dict[str, Any]] = {
    "the same": request(CALL),
    "other arguments": request({**CALL, "arguments": {"word": "no"}}),
    "another tool": request({**CALL, "name": "two__fail"}),
    "a name that is none": request({**CALL, "name": 1}),
    "another method": request({}, method="tools/list"),
    "no params": {"jsonrpc": "2.0", "id": 7, "method": "ping"},
    "params of null": request(None, method="ping"),
    "an id that is none": request(CALL, id=None),
    "a body of a later revision": modern(),
    "a notification": {"jsonrpc": "2.0", "method": "notifications/initialized"},
    "a response": {"jsonrpc": "2.0", "id": 7, "result": {}},
    "a batch": [request(CALL)],
    "a second handshake": request({"protocolVersion": "2025-11-25"}, method="initialize"),
    "no object": 1,
}


async def post(stream: SocketStream, headers: JSON, content: Any) -> tuple[bytes, bytes]:
    """The status line and the body of an answer."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {LENGTH}\r\n{lines}\r\n"
    await stream.send(head.encode() + json.dumps(content).encode().ljust(LENGTH))
    came = b""
    while b"\r\n\r\n" not in came:
        came += await stream.receive()
    head_came, _, body = came.partition(b"\r\n\r\n")
    [length] = [line for line in head_came.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < int(length.split(b":")[1]):
        body += await stream.receive()
    return head_came.split(b"\r\n")[0], body


def execute(tool: str, arguments: JSON) -> str:
    if tool == "fail":
        raise ToolError("no")
    return f"yes {arguments}"


@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_the_same_head_before_another_body_changes_no_answer(era: str) -> None:
    agent = ScriptedAgent(execute, "work", "fail")
    settings = Settings(http=HttpLimits(quick_answer=PATIENCE))  # however slow the machine, no answer is a stream
    async with serving({"one": agent, "two": agent}, settings) as (url, bridge):
        await bridge.add_upstream(raw_server())
        port = int(url.rpartition(":")[2])
        headers = {"host": f"127.0.0.1:{port}", "accept": "application/json, text/event-stream"}
        messages = MODERN if era == "modern" else HANDSHAKE
        if era == "modern":
            headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "work"}
        else:
            session = await opened(port, headers)
            headers |= {"mcp-protocol-version": "2025-11-25", "mcp-session-id": session}
        for name, message in messages.items():
            async with await anyio.connect_tcp("127.0.0.1", port) as fresh:
                expected = await post(fresh, headers, message)
            async with await anyio.connect_tcp("127.0.0.1", port) as known:
                first = await post(known, headers, messages["the same"])
                assert first[0] == b"HTTP/1.1 200 OK", first
                assert await post(known, headers, message) == expected, name
                assert await post(known, headers, messages["the same"]) == first, f"after {name}"


async def opened(port: int, headers: JSON) -> str:
    """The id of a session."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "known", "version": "1"}}
    body = json.dumps(request(about, method="initialize")).encode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{lines}\r\n"
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(head.encode() + body)
        came = b""
        while b"protocolVersion" not in came:
            came += await stream.receive()
    lines_came = came.lower().split(b"\r\n")
    [session] = [line.split(b":")[1].strip().decode() for line in lines_came if line.startswith(b"mcp-session-id:")]
    return session
