"""Plain calls that are passed on directly: the client and the server see the same as on the ordinary way."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import pytest
from anyio.abc import SocketStream

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import serving
from tests.support.upstreams import raw_server

pytestmark = pytest.mark.anyio

META: Final[JSON] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "direct", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ERAS: Final = ("2025-11-25", "2026-07-28")


class RawClient:
    """One kept connection, whose requests of one tool have the very same head."""

    def __init__(self, stream: SocketStream, host: str, revision: str) -> None:
        self._stream = stream
        self._host = host
        self._revision = revision
        self._session = ""
        self._number = 0
        self._ahead = b""
        """The bytes that came behind the last answer."""

    async def greet(self) -> None:
        """Open a session, in the handshake era."""
        if self._revision != "2026-07-28":
            about = {
                "protocolVersion": self._revision,
                "capabilities": {},
                "clientInfo": {"name": "direct", "version": "1"},
            }
            head, _ = await self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about})
            [line] = [line for line in head.split("\r\n") if line.lower().startswith("mcp-session-id:")]
            self._session = f"{line}\r\n"

    async def call(self, name: str, arguments: JSON, **more: Any) -> tuple[str, Any]:
        """Return the status line and the content of an answer, in which its id is left out."""
        message, headers = self._message(name, arguments, **more)
        head, body = await self.send(message, headers)
        return head, _comparable(body.replace(str(100 + self._number), "ID"))

    async def both(self, name: str, first: JSON, second: JSON) -> tuple[str, str]:
        """Send two calls at once; return the bodies of the answers in the order in which they come."""
        requests = [self._request(*self._message(name, arguments)) for arguments in (first, second)]
        await self._stream.send(b"".join(requests))
        return (await self.answer())[1], (await self.answer())[1]

    def _message(self, name: str, arguments: JSON, **more: Any) -> tuple[JSON, str]:
        self._number += 1
        params: JSON = {"name": name, "arguments": arguments, **more}
        headers = ""
        if self._revision == "2026-07-28":
            params["_meta"] = META
            headers = f"mcp-method: tools/call\r\nmcp-name: {name}\r\n"
        return {"jsonrpc": "2.0", "id": 100 + self._number, "method": "tools/call", "params": params}, headers

    def _request(self, message: JSON, headers: str = "") -> bytes:
        body = json.dumps(message).ljust(900)
        return (
            f"POST /mcp HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {self._revision}\r\n"
            f"{self._session}{headers}content-length: {len(body)}\r\n\r\n{body}"
        ).encode()

    async def send(self, message: JSON, headers: str = "") -> tuple[str, str]:
        await self._stream.send(self._request(message, headers))
        return await self.answer()

    async def answer(self) -> tuple[str, str]:
        came, self._ahead = self._ahead, b""
        while b"\r\n\r\n" not in came:
            came += await self._stream.receive()
        head, _, body = came.partition(b"\r\n\r\n")
        lower = head.lower()
        if b"content-length" in lower:
            length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
            while len(body) < length:
                body += await self._stream.receive()
            body, self._ahead = body[:length], body[length:]
        else:
            while not body.endswith(b"0\r\n\r\n"):
                body += await self._stream.receive()
        kept = [
            line
            for line in head.decode().split("\r\n")
            if not line.lower().startswith(("date:", "mcp-session-id:", "content-length:"))
        ]
        return "\r\n".join(kept) if self._session or self._revision == "2026-07-28" else head.decode(), body.decode()


def _comparable(body: str) -> str:
    """Leave out the numbers of requests to the server, and the id of the bridge."""
    return re.sub(r'progressToken\\": \d+', "TOKEN", re.sub(r"[0-9a-f]{16}", "HOP", body))


@asynccontextmanager
async def bridge_of_raw(
    *, direct: bool, mode: str = "all", limits: UpstreamLimits | None = None
) -> AsyncGenerator[tuple[str, Bridge]]:
    settings = Settings(direct_calls=direct, upstream=limits or UpstreamLimits())
    async with serving({}, settings) as (url, bridge):
        await bridge.add_upstream(raw_server(mode))
        yield url, bridge


@asynccontextmanager
async def raw_client(url: str, revision: str) -> AsyncGenerator[RawClient]:
    port = int(url.rpartition(":")[2])
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        client = RawClient(stream, f"127.0.0.1:{port}", revision)
        await client.greet()
        yield client


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> list[DirectCall]:
    """The direct calls that were begun."""
    calls: list[DirectCall] = []
    original = DirectCall.__init__

    def begin(self: DirectCall, *arguments: Any) -> None:
        original(self, *arguments)
        calls.append(self)

    monkeypatch.setattr(DirectCall, "__init__", begin)
    return calls


BEHAVIOURS: Final[tuple[tuple[str, JSON, JSON], ...]] = (
    ("meta", {}, {}),
    ("refuse", {"once": True}, {"code": -5, "message": "no", "data": {"a": 1}}),
    ("promised", {}, {"isError": True}),
    ("promised", {}, {"isError": False}),
    ("promised", {}, {"structuredContent": {"sum": 1}}),
    ("promised", {"structuredContent": {"a": [1]}}, {"structuredContent": {"b": {"c": 1.0}}, "isError": False}),
    ("promised", {}, {"structuredContent": [1]}),
    ("promised", {}, {"structuredContent": None}),
    ("promised", {}, {"isError": None}),
    ("promised", {}, {"isError": "no"}),
    ("promised", {}, {"_meta": {"a/b": 1}}),
    ("promised", {}, {"x-more": [1]}),
    ("promised", {}, {"content": []}),
    ("promised", {}, {"content": None}),
    ("promised", {}, {"content": [{"type": "text"}]}),
    ("promised", {}, {"content": [{"type": "text", "text": "a", "annotations": {"priority": 1}}]}),
    ("promised", {}, {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}),
    ("promised", {}, {"content": [{"text": "turned \u00e9\u2028", "type": "text"}] * 3}),
    ("promised", {}, {"resultType": "complete"}),
    ("promised", {}, {"resultType": "other"}),
    ("promised", {}, {"task": {"taskId": "1"}}),
    ("log", {}, {}),
    ("progress", {}, {}),
    ("pester", {"times": 0}, {"times": 2}),
    ("unread", {}, {}),
    ("noise", {}, {}),
    ("split", {}, {}),
    ("grow", {"by": 0}, {"by": 2}),
    ("announce", {"uri": "a://b"}, {"uri": "a://b"}),
    ("meta", {}, {"a": float("inf")}),
    ("pid", {}, {"line": "one\ntwo", "number": 1e3, "big": 2**70, "nested": [[[{}]]]}),
)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_direct_call_is_answered_as_on_the_ordinary_way(revision: str, began: list[DirectCall]) -> None:
    answers: list[list[Any]] = []
    for direct in (True, False):
        async with bridge_of_raw(direct=direct) as (url, _):
            answers.append([])
            for tool, usual, arguments in BEHAVIOURS:
                async with raw_client(url, revision) as client:
                    first = await client.call(f"up__{tool}", usual)
                    assert first[0].startswith("HTTP/1.1 200"), first
                    second, third = await client.call(f"up__{tool}", arguments), await client.call(f"up__{tool}", usual)
                    if tool == "pid":
                        second = third = second[0]  # type: ignore[assignment]
                    answers[-1].append((tool, arguments, second, third))
    for ours, expected in zip(*answers, strict=True):
        for one, other in zip(ours, expected, strict=True):
            assert one == other
    assert len(began) > len(BEHAVIOURS)
