"""Three clients that send JSON-RPC as it is written, over each transport, without any MCP library.

An SDK's client offers the newest revision it knows; these offer whatever a test says.
"""

from __future__ import annotations

import itertools
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx2
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from gaia_bridge.text.json_types import JSON

__all__ = ["DEADLINE", "HttpClient", "RawClient", "connect_http", "connect_sse", "connect_stdio"]

DEADLINE = 20.0
"""Seconds for everything that one client does, on a busy machine."""
LINE_BYTES = 8_000_000
"""The views of real servers are longer than a million."""
ACCEPT = "application/json, text/event-stream"
SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
VERSION_HEADER_SINCE = "2025-06-18"


class RawClient(ABC):
    """One connection."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self.version = ""
        """The negotiated revision."""

    @abstractmethod
    def exchange(self, payload: object) -> AsyncGenerator[JSON]:
        """Send something, and yield the messages that follow on the stream where its answer belongs."""

    @abstractmethod
    async def send(self, payload: object) -> None:
        """Send something that is not answered."""

    @abstractmethod
    async def refusal(self, payload: object) -> JSON:
        """Send something that is refused; the JSON-RPC error."""

    async def request(self, method: str, params: JSON | None = None, answers: Mapping[str, JSON] | None = None) -> JSON:
        """Send a request and return the message that answers it.

        Args:
            method: The method.
            params: Its parameters.
            answers: The results for requests of the server that come in between, by method.
        """
        number = next(self._ids)
        async with aclosing(self.exchange(_message(method, params, id=number))) as following:
            async for message in following:
                if "method" not in message:
                    assert message["id"] == number
                    return message
                if "id" in message:
                    result = (answers or {})[message["method"]]
                    await self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        raise AssertionError(f"the stream ended without an answer to {method}")

    async def batch(self, *requests: JSON) -> list[JSON]:
        """Send requests at once; the answers, in any order."""
        found: list[JSON] = []
        async with aclosing(self.exchange(requests)) as following:
            async for message in following:
                content: Any = message
                found += content if isinstance(content, list) else [content]
                if len(found) >= len(requests):
                    return found
        raise AssertionError(f"the stream ended after {len(found)} answers")

    async def result(self, method: str, params: JSON | None = None, answers: Mapping[str, JSON] | None = None) -> JSON:
        """Send a request and return its result, as `request` does."""
        message = await self.request(method, params, answers)
        assert "result" in message, message
        result: JSON = message["result"]
        return result

    async def initialize(self, version: str, capabilities: JSON | None = None) -> JSON:
        """Play the whole handshake with a revision and return the result."""
        client = {"name": "raw", "version": "0"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": client}
        result = await self.result("initialize", params)
        self.version = result["protocolVersion"]
        await self.send(_message("notifications/initialized"))
        return result


class HttpClient(RawClient):
    """Streamable HTTP: every request has a stream of its own."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        super().__init__()
        self._http = http
        self._url = url
        self.headers = {"Accept": ACCEPT}

    async def exchange(self, payload: object) -> AsyncGenerator[JSON]:
        async with self._http.stream("POST", self._url, json=payload, headers=self._headers()) as response:
            assert response.status_code == 200
            if SESSION_HEADER in response.headers:
                self.headers[SESSION_HEADER] = response.headers[SESSION_HEADER]
            async for message in _messages(response):
                yield message

    async def send(self, payload: object) -> None:
        response = await self._http.post(self._url, json=payload, headers=self._headers())
        assert (response.status_code, response.content) == (202, b"")

    async def refusal(self, payload: object) -> JSON:
        response = await self._http.post(self._url, json=payload, headers=self._headers())
        assert response.status_code == 400
        error: JSON = response.json()["error"]
        return error

    async def delete(self) -> int:
        """End the session; the status."""
        return (await self._http.delete(self._url, headers=self._headers())).status_code

    async def post(self, payload: object) -> int:
        """Send something; the status."""
        return (await self._http.post(self._url, json=payload, headers=self._headers())).status_code

    def _headers(self) -> dict[str, str]:
        if self.version >= VERSION_HEADER_SINCE:
            return {**self.headers, VERSION_HEADER: self.version}
        return self.headers


class SseClient(RawClient):
    """HTTP with SSE, the transport of 2024-11-05: one stream down, one POST for every message up."""

    def __init__(self, http: httpx2.AsyncClient, url: str, received: AsyncIterator[JSON]) -> None:
        super().__init__()
        self._http = http
        self._url = url
        self._received = received

    async def exchange(self, payload: object) -> AsyncGenerator[JSON]:
        await self.send(payload)
        while True:
            yield await anext(self._received)

    async def send(self, payload: object) -> None:
        response = await self._http.post(self._url, json=payload)
        assert response.status_code == 202

    async def refusal(self, payload: object) -> JSON:
        response = await self._http.post(self._url, json=payload)
        assert response.status_code == 400
        error: JSON = response.json()["error"]
        return error


class StdioClient(RawClient):
    """One message a line, to and from a child process."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)

    async def exchange(self, payload: object) -> AsyncGenerator[JSON]:
        await self.send(payload)
        while True:
            yield json.loads(await self._stdout.receive_until(b"\n", LINE_BYTES))

    async def send(self, payload: object) -> None:
        await self._stdin.send(json.dumps(payload).encode() + b"\n")

    async def refusal(self, payload: object) -> JSON:
        async with aclosing(self.exchange(payload)) as following:
            error: JSON = (await anext(following))["error"]
            return error


@asynccontextmanager
async def connect_http(url: str) -> AsyncGenerator[HttpClient]:
    """A Streamable HTTP client of the endpoint at a URL."""
    with anyio.fail_after(DEADLINE):
        async with httpx2.AsyncClient(timeout=DEADLINE) as http:
            yield HttpClient(http, url)


@asynccontextmanager
async def connect_sse(url: str) -> AsyncGenerator[SseClient]:
    """An SSE client of the endpoint at a URL."""
    with anyio.fail_after(DEADLINE):
        async with httpx2.AsyncClient(timeout=DEADLINE) as http, http.stream("GET", url) as response:
            events = aiter(httpx2.EventSource(response))
            first = await anext(events)
            assert first.event == "endpoint"
            yield SseClient(http, urljoin(url, first.data), _decoded(events))


@asynccontextmanager
async def connect_stdio(command: Sequence[str]) -> AsyncGenerator[StdioClient]:
    """A client of a server that is started for it; closing its input must end it with success."""
    with anyio.fail_after(DEADLINE):
        async with await anyio.open_process(command, stderr=sys.stderr) as process:
            client = StdioClient(process)
            yield client
            assert process.stdin is not None
            await process.stdin.aclose()
            assert await process.wait() == 0


async def _messages(response: httpx2.Response) -> AsyncGenerator[JSON]:
    if response.headers["content-type"].startswith("application/json"):
        yield json.loads(await response.aread())
        return
    async for message in _decoded(aiter(httpx2.EventSource(response, max_event_size=LINE_BYTES))):
        yield message


async def _decoded(events: AsyncIterator[httpx2.ServerSentEvent]) -> AsyncGenerator[JSON]:
    async for event in events:
        if event.data:
            yield json.loads(event.data)


def _message(method: str, params: JSON | None = None, **fields: Any) -> JSON:
    message: JSON = {"jsonrpc": "2.0", "method": method, **fields}
    return message if params is None else {**message, "params": params}
