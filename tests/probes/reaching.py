"""Endpoints of one and of three sources, and clients that send them bytes and take what comes back."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import httpx2
from anyio.abc import TaskGroup

from gaia_bridge.bridge import Bridge
from gaia_bridge.model import NamingPolicy, StdioServerSpec
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.server.transports.stdio import ClaimedStdio
from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.bridge.client.scripted import Script, ScriptedTransport, Wire, legacy, modern
from tests.support.on_demand import mcp_types
from tests.support.upstreams import until_ready
from tests.support.waiting import PATIENCE

__all__ = [
    "HANDSHAKE",
    "KINDS",
    "MODERN",
    "REVISIONS",
    "Endpoint",
    "Reply",
    "endpoint",
    "hello",
    "meta",
    "serving_http",
    "stream",
]

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN: Final = "2026-07-28"
REVISIONS: Final = (*HANDSHAKE, MODERN)
KINDS: Final = {"agent": ("agent",), "server": ("old",), "three": ("agent", "old", "new")}
"""The sources of each kind of endpoint."""

_ASKED: Final = {"agent": "agent", "server": "old", "three": "old"}
"""Whose definitions are used at each kind of endpoint."""

_CAPABILITIES: Final[JSON] = {
    "tools": {},
    "prompts": {},
    "resources": {"subscribe": True},
    "completions": {},
    "logging": {},
}
_QUIET: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class ProbedAgent:
    """Has one of each.

    Args:
        name: Begins the names of all that it has.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return _tools(self._name)

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> JSON:
        return {"said": arguments.get("text", "nothing")}

    def get_mcp_prompts(self) -> list[JSON]:
        return _prompts(self._name)

    def get_mcp_prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        return f"Greet {arguments['whom']}"

    def get_mcp_resources(self) -> list[JSON]:
        return _resources(self._name)

    def get_mcp_resource_templates(self) -> list[JSON]:
        return _templates(self._name)

    def read_mcp_resource(self, uri: str) -> str | None:
        return "one" if uri == f"{self._name}://one" else None

    def complete_mcp_argument(self, ref: JSON, argument: str, value: str, context: Mapping[str, str]) -> list[str]:
        return ["world"]


def _tools(name: str) -> list[JSON]:
    properties = {"text": {"type": "string"}}
    return [{"name": f"{name}-echo", "inputSchema": {"type": "object", "properties": properties}}]


def _prompts(name: str) -> list[JSON]:
    return [{"name": f"{name}-greet", "arguments": [{"name": "whom", "required": True}]}]


def _resources(name: str) -> list[JSON]:
    return [{"uri": f"{name}://one", "name": "one"}]


def _templates(name: str) -> list[JSON]:
    return [{"uriTemplate": f"{name}://{{number}}", "name": "any"}]


def _scripted(name: str, missing: int) -> Script:
    """A server that has the same."""

    def read(params: JSON) -> JSON:
        if params["uri"] != f"{name}://one":
            raise LookupError
        return {"contents": [{"uri": params["uri"], "text": "one"}], "ttlMs": 0, "cacheScope": "private"}

    answers: Mapping[str, Callable[[JSON], JSON]] = {
        "tools/list": lambda _: {"tools": _tools(name)},
        "prompts/list": lambda _: {"prompts": _prompts(name)},
        "resources/list": lambda _: {"resources": _resources(name)},
        "resources/templates/list": lambda _: {"resourceTemplates": _templates(name)},
        "tools/call": lambda _: {"content": [{"type": "text", "text": "said"}]},
        "prompts/get": lambda _: {"messages": [{"role": "user", "content": {"type": "text", "text": "Greet"}}]},
        "resources/read": read,
        "resources/subscribe": lambda _: {},
        "resources/unsubscribe": lambda _: {},
        "logging/setLevel": lambda _: {},
        "completion/complete": lambda _: {"completion": {"values": ["world"]}},
        "ping": lambda _: {},
    }

    async def run(wire: Wire) -> None:
        while True:
            request = await wire.next()
            if "id" not in request or "method" not in request:
                continue
            answer = answers.get(request["method"])
            if answer is None:
                wire.refuse(request)
                continue
            if not _is_known(name, request.get("params", {})):
                wire.refuse(request, mcp_types.INVALID_PARAMS, "no such thing")
                continue
            try:
                result = answer(request.get("params", {}))
                wire.answer(request, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} | result)
            except LookupError:
                wire.refuse(request, missing, "no such resource")

    return run


def _is_known(name: str, params: JSON) -> bool:
    """Whether what a request names is there; what it names is for its server to say, where an endpoint is for that."""
    named = params.get("name", params.get("ref", {}).get("name"))
    return named in (None, f"{name}-echo", f"{name}-greet") and params.get("cursor") is None


@dataclass
class Reply:
    """What came back."""

    messages: list[JSON] = field(default_factory=list[JSON])
    """JSON-RPC messages, those of an answered batch one by one."""
    status: int | None = None
    """The HTTP status."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    text: str = ""
    """The HTTP body."""

    @property
    def answers(self) -> list[JSON]:
        """The responses."""
        return [message for message in self.messages if "method" not in message]

    def add(self, content: Any) -> None:
        """Take in a message or an array."""
        self.messages.extend(content if is_array(content) else [content])


@dataclass(frozen=True)
class Endpoint:
    """What is probed.

    Args:
        kind: A key of `KINDS`.
        revision: What its clients speak.
        client: Sends.
    """

    kind: str
    revision: str
    client: HttpClient | StdioClient

    @property
    def modern(self) -> bool:
        return self.revision == MODERN

    @property
    def name(self) -> str:
        """Begins the names of what there is."""
        return _ASKED[self.kind]


class HttpClient:
    """Speaks Streamable HTTP.

    Args:
        http: Sends requests.
        path: Where the endpoint is.
        revision: What it speaks.
    """

    transport = "http"

    def __init__(self, http: httpx2.AsyncClient, path: str, revision: str) -> None:
        self._http = http
        self._path = path
        self._revision = revision
        self._session: dict[str, str] = {}

    async def open(self) -> None:
        """Shake hands anew, if that is what is done."""
        self._session = {}
        if self._revision == MODERN:
            return
        opened = await self.send(hello(self._revision), named=False)
        assert opened.status == 200, opened.text
        self._session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        if self._revision >= "2025-06-18":
            self._session["mcp-protocol-version"] = self._revision
        told = await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert told.status == 202

    async def restart(self) -> None:
        """Be a client that has said nothing yet."""
        self._session = {}

    async def send(
        self,
        content: object,
        headers: Mapping[str, str | None] | None = None,
        method: str = "POST",
        *,
        named: bool = True,
    ) -> Reply:
        """Send one request.

        Args:
            content: The body, as bytes or as JSON.
            headers: Beside those that belong to it; `None` leaves one out.
            method: The HTTP method.
            named: Whether the revision is said, where clients do.
        """
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        every: dict[str, str | None] = {**_QUIET, **self._session}
        if self._revision == MODERN and named:
            every |= _modern_headers(content)
        every |= headers or {}
        sent = {name: value for name, value in every.items() if value is not None}
        response = await self._http.request(
            method, self._path, headers=sent, content=body if method == "POST" else None
        )
        reply = Reply(status=response.status_code, headers=response.headers, text=response.text)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            for line in response.text.splitlines():
                if line.startswith("data: ") and line.removeprefix("data: "):
                    reply.add(json.loads(line.removeprefix("data: ")))
        elif response.content and "json" in response.headers.get("content-type", ""):
            reply.add(response.json())
        return reply


class StdioClient:
    """Speaks in lines.

    Args:
        start: Starts a new server.
        revision: What it speaks.
    """

    transport = "stdio"

    def __init__(self, start: Callable[[], Any], revision: str) -> None:
        self._start = start
        self._revision = revision
        self._lines: Any = None
        self._last = 0

    async def restart(self) -> None:
        """Be a client that has said nothing yet."""
        await self.close()
        self._lines = await self._start()

    async def close(self) -> None:
        """Leave."""
        if self._lines is not None:
            await self._lines.close()

    async def open(self) -> None:
        """Shake hands anew, if that is what is done."""
        await self.restart()
        if self._revision == MODERN:
            return
        assert "result" in (await self.send(hello(self._revision))).answers[-1]
        await self._lines.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def send(self, content: object, *_: object) -> Reply:
        """Send one line, and take what comes until a request that is sent after it was answered."""
        await self._lines.write(content)
        self._last += 1
        sentinel = f"sentinel-{self._last}"
        asked: JSON = {"jsonrpc": "2.0", "id": sentinel, "method": "ping"}
        if self._revision == MODERN:
            asked |= {"method": "server/discover", "params": {"_meta": meta()}}
        reply, expected = Reply(), _expects_answer(content)
        await self._lines.write(asked)
        seen = False
        # Requests are answered in any order.
        while not seen or (expected and not reply.answers):
            message = await self._lines.next()
            if is_object(message) and message.get("id") == sentinel:
                seen = True
            else:
                reply.add(message)
        return reply


def _expects_answer(content: object) -> bool:
    if is_array(content):
        return any(_expects_answer(item) for item in content)
    return is_object(content) and "id" in content and "method" in content


def _modern_headers(content: object) -> dict[str, str | None]:
    headers: dict[str, str | None] = {"mcp-protocol-version": MODERN}
    if is_object(content) and isinstance(method := content.get("method"), str):
        headers["mcp-method"] = method
        params = content.get("params")
        name = (params.get("name") or params.get("uri")) if is_object(params) else None
        if isinstance(name, str) and method in ("tools/call", "prompts/get", "resources/read"):
            headers["mcp-name"] = name
    return headers


def hello(revision: str, **fields: Any) -> JSON:
    """An `initialize` request; further fields replace its parameters."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}} | fields
    kept = {name: value for name, value in params.items() if value is not None}
    return {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": kept}


def meta(**fields: Any) -> JSON:
    """The `_meta` of a modern request; `None` leaves a field out."""
    every = {
        "protocolVersion": MODERN,
        "clientCapabilities": {},
        "clientInfo": {"name": "probe", "version": "1"},
    } | fields
    return {f"io.modelcontextprotocol/{name}": value for name, value in every.items() if value is not None}


class _Lines:
    """A client's end of a stream."""

    def __init__(self, reader: asyncio.StreamReader, *writers: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writers[0]
        self._writers = writers

    async def write(self, content: object) -> None:
        self._writer.write((content if isinstance(content, bytes) else json.dumps(content).encode()) + b"\n")
        await self._writer.drain()

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            await writer.wait_closed()

    async def next(self) -> Any:
        """A message, or the array that a batch is answered with."""
        return json.loads(await self._reader.readline())


@asynccontextmanager
async def endpoint(kind: str, revision: str, transport: str) -> AsyncGenerator[Endpoint]:
    """An endpoint, and a client that has not shaken hands yet.

    Args:
        kind: A key of `KINDS`.
        revision: What the client speaks.
        transport: `http` or `stdio`.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(anyio.fail_after(PATIENCE * 3))
        bridge = await stack.enter_async_context(Bridge(names=NamingPolicy.BARE))
        # Over HTTP, every source has a path; over stdio, what is alone is the endpoint.
        for name in KINDS["three"] if transport == "http" else KINDS[kind]:
            if name == "agent":
                await bridge.add_agent(ProbedAgent(name), name)
                continue
            era, missing = (legacy, -32002) if name == "old" else (modern, mcp_types.INVALID_PARAMS)
            script = era(_scripted(name, missing), _CAPABILITIES)
            await bridge.add_upstream(StdioServerSpec(name, "scripted"), ScriptedTransport(script))
        await until_ready(*bridge.sources)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        if transport == "stdio":
            client = StdioClient(lambda: stream(bridge, tasks), revision)
            stack.push_async_callback(client.close)
            yield Endpoint(kind, revision, client)
        else:
            http = await stack.enter_async_context(serving_http(bridge, tasks))
            path = {"agent": "/agents/agent/mcp", "server": "/servers/old/mcp", "three": "/mcp"}[kind]
            yield Endpoint(kind, revision, HttpClient(http, path, revision))


async def stream(bridge: Bridge, tasks: TaskGroup) -> _Lines:
    # One pair for each direction: what writes to a pipe takes it for closed when there is something to read in it.
    to_server, reading = socket.socketpair()
    from_server, writing = socket.socketpair()
    tasks.start_soon(bridge.serve_stdio, ClaimedStdio(reading.detach(), writing.detach()))
    limit = 2 * Settings().line_bytes
    reader, from_writer = await asyncio.open_connection(sock=from_server, limit=limit)
    _, writer = await asyncio.open_connection(sock=to_server)
    return _Lines(reader, writer, from_writer)


@asynccontextmanager
async def serving_http(bridge: Bridge, tasks: TaskGroup) -> AsyncGenerator[httpx2.AsyncClient]:
    sockets = bind("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    server = HttpServer(bridge.asgi(AccessPolicy.for_address("127.0.0.1", port)), sockets=sockets)
    await tasks.start(server.run)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
        yield client
