"""One and the same endpoint twice: published by a bridge, and by the server of the official SDK. Both without a socket:
as applications that are called, and on streams of lines.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

import anyio

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.content import input_required
from gaia_bridge.errors import ToolError
from gaia_bridge.model import NamingPolicy
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.probes.reaching import stream as line_stream
from tests.support.on_demand import sdk_server
from tests.support.waiting import PATIENCE

__all__ = [
    "ANY_QUESTION",
    "ANY_STATE",
    "ASKED",
    "HANDSHAKE",
    "MODERN",
    "PORT",
    "PROMPTS",
    "QUESTION",
    "RESOURCES",
    "TEMPLATES",
    "TOOLS",
    "Agent",
    "Endpoint",
    "Lines",
    "Reply",
    "confirmed",
    "hello",
    "meta",
    "our_lines",
    "ours",
    "their_lines",
    "theirs",
]

HANDSHAKE: Final = "2025-11-25"
MODERN: Final = "2026-07-28"

PORT: Final = 8765

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half of a character, which servers do not take for text."""

TOOLS: Final[list[JSON]] = [
    {
        "name": "echo",
        "description": "Says what it was told.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "region": {"type": "string", "x-mcp-header": "Region"}},
        },
    },
    {"name": "return", "description": "Returns this result.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "fail", "description": "Fails.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "ask", "description": "Asks the user.", "inputSchema": {"type": "object", "properties": {}}},
]
QUESTION: Final[JSON] = {
    "message": "Sure?",
    "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]},
}
ASKED: Final = {"sure": {"method": "elicitation/create", "params": {"mode": "form", **QUESTION}}}
ANY_QUESTION: Final = "QUESTION"
"""Stands in a recorded wire for the id of a server's request, and for the key of one."""
ANY_STATE: Final = "STATE"
"""Stands there for the state of a server's request."""
PROMPTS: Final[list[JSON]] = [{"name": "greet", "arguments": [{"name": "whom", "required": True}]}]
RESOURCES: Final[list[JSON]] = [{"uri": "odd://one", "name": "one", "mimeType": "text/plain"}]
TEMPLATES: Final[list[JSON]] = [{"uriTemplate": "odd://{number}", "name": "any"}]


class Agent:
    """What is published."""

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return TOOLS

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> JSON:
        if tool_name == "fail":
            raise ToolError("it failed")
        if tool_name == "return":
            result: JSON = arguments["result"]
            return result
        if tool_name == "ask":
            answers = get_request_context().input_responses
            return confirmed(answers["sure"]) if answers else input_required(ASKED, "asked")
        return {"content": [{"type": "text", "text": str(arguments.get("text", "nothing"))}]}

    def get_mcp_prompts(self) -> list[JSON]:
        return PROMPTS

    def get_mcp_prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        return f"Greet {arguments['whom']}"

    def get_mcp_resources(self) -> list[JSON]:
        return RESOURCES

    def get_mcp_resource_templates(self) -> list[JSON]:
        return TEMPLATES

    def read_mcp_resource(self, uri: str) -> str | None:
        return "one" if uri == "odd://one" else None

    def complete_mcp_argument(self, ref: JSON, argument: str, value: str, context: Mapping[str, str]) -> list[str]:
        return ["world"]


def confirmed(answer: Mapping[str, Any]) -> JSON:
    """What the tool that asks says in the end."""
    return {"content": [{"type": "text", "text": f"{answer['action']} {answer['content']}"}]}


class Reply(NamedTuple):
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def messages(self) -> list[Any]:
        """The JSON-RPC messages: of an answer in JSON, or of an event stream."""
        kind = self.headers.get("content-type", "")
        if kind.startswith("text/event-stream"):
            data = [line[5:].strip() for line in re.split(r"\r?\n", self.body.decode()) if line.startswith("data:")]
            return [json.loads(line) for line in data if line]
        if not kind.startswith("application/json") or not self.body:
            return []
        content = json.loads(self.body)
        return list(content) if is_array(content) else [content]


class Endpoint:
    """An application, and the path at which it serves MCP.

    Args:
        app: An ASGI application.
        path: The path.
        revision: What its client speaks.
    """

    def __init__(self, app: Any, path: str, revision: str) -> None:
        self._app = app
        self._path = path
        self._revision = revision
        self.session: dict[str, str] = {}
        self.asked: asyncio.Queue[JSON] = asyncio.Queue()
        """The requests of the server, of which each waits for an answer."""

    async def open(self) -> None:
        """Shake hands, if that is what is done."""
        self.session = {}
        if self._revision == MODERN:
            return
        opened = await self.send(hello())
        self.session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": HANDSHAKE}
        told = await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert told.status == 202, told

    async def send(
        self,
        content: object,
        headers: Mapping[str, str | None] | None = None,
        method: str = "POST",
        *,
        named: bool = True,
    ) -> Reply:
        """Send one request with the headers that belong to it; `headers` replace them, `None` leaves one out."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        every: dict[str, str | None] = {
            "host": f"127.0.0.1:{PORT}",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **self.session,
            **(_modern_headers(content) if named and self._revision == MODERN else {}),
            **(headers or {}),
        }
        sent = [(name, value) for name, value in every.items() if value is not None]
        if method == "POST":
            sent.append(("content-length", str(len(body))))
        return await _ask(self._app, method, self._path, sent, body if method == "POST" else b"", self.asked)


async def _ask(
    app: Any, method: str, path: str, headers: list[tuple[str, str]], body: bytes, asked: asyncio.Queue[JSON]
) -> Reply:
    """Have an application answer; of a stream that stands, only how it begins."""
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", PORT),
        "state": {},
    }
    incoming: asyncio.Queue[JSON] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})
    complete, parts = asyncio.Event(), [b""]
    start: JSON = {"status": 0, "headers": []}
    stands = method == "GET" or b'"subscriptions/listen"' in body

    async def take(message: JSON) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            is_stream = dict(message["headers"]).get(b"content-type", b"").startswith(b"text/event-stream")
            if is_stream and method == "GET":
                complete.set()
        else:
            parts.append(message.get("body", b""))
            if _is_question(parts[-1]):
                asked.put_nowait(said().messages[-1])
            if not message.get("more_body") or (stands and b"data:" in b"".join(parts)):
                complete.set()

    def said() -> Reply:
        fields = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
        return Reply(start["status"], fields, b"".join(parts))

    async def run() -> None:
        try:
            await app(scope, incoming.get, take)
        finally:
            complete.set()

    task = asyncio.create_task(run())
    with anyio.fail_after(PATIENCE):
        await complete.wait()
        incoming.put_nowait({"type": "http.disconnect"})
        if not stands:
            await task
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return said()


def _is_question(event: bytes) -> bool:
    """Whether an event of a stream is a request of the server; both write one at a time."""
    return event.startswith((b"data:", b"event:", b"id:")) and b'"elicitation/create"' in event


def _modern_headers(content: object) -> dict[str, str]:
    headers = {"mcp-protocol-version": MODERN}
    if not is_object(content):
        return headers
    method, params = content.get("method"), content.get("params")
    if isinstance(method, str) and method.isascii() and method.isprintable():
        headers["mcp-method"] = method
    name = (params.get("uri") if method == "resources/read" else params.get("name")) if is_object(params) else None
    if (
        isinstance(name, str)
        and name.isascii()
        and name.isprintable()
        and name
        and method in ("tools/call", "prompts/get", "resources/read")
    ):
        headers["mcp-name"] = name
    return headers


def hello(**fields: Any) -> JSON:
    """An `initialize` request; further fields replace its parameters."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {**params, **fields}}


def meta() -> JSON:
    """The `_meta` of a request of 2026-07-28."""
    fields = {
        "protocolVersion": MODERN,
        "clientCapabilities": {},
        "clientInfo": {"name": "probe", "version": "1"},
    }
    return {f"io.modelcontextprotocol/{name}": value for name, value in fields.items()}


class Lines:
    """A server on a stream of lines: what it answers to one of them, without a status.

    Args:
        write: Sends a line.
        read: Waits for the next message.
        revision: What its client speaks.
    """

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], read: Callable[[], Awaitable[Any]], revision: str
    ) -> None:
        self._write = write
        self._read = read
        self._revision = revision
        self._last = 0

    async def open(self) -> None:
        """Shake hands, if that is what is done."""
        if self._revision == MODERN:
            await self._until_answered()
            return
        await self._say(hello())
        with anyio.fail_after(PATIENCE):
            assert "result" in await self._read()
        await self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def send(self, content: object, *_: object) -> Reply:
        """Send one line, and take what comes until a request that is sent after it was answered, and it itself."""
        await self._say(content)
        found = await self._until_answered(expected := _expects_answer(content))
        if expected and is_object(content) and content["method"] == "subscriptions/listen":
            taken_back = {"requestId": content["id"]}
            await self._say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": taken_back})
            await self._until_answered()
        return _line(*found)

    async def send_at_once(self, contents: Sequence[JSON]) -> list[Reply]:
        """Send several lines before the first is answered; answers among them, as soon as the server asked.

        Returns:
            What was said to each line; to an answer, the question.
        """
        requests = [content for content in contents if "method" in content]
        answers = [content for content in contents if "method" not in content]
        for content in requests:
            await self._say(content)
        found = await self._until_answered(len(requests), answers)
        questions = iter([message for message in found if "method" in message])
        said = {message["id"]: message for message in found if "method" not in message}
        return [_line(said[content["id"]] if "method" in content else next(questions)) for content in contents]

    async def _say(self, content: object) -> None:
        await self._write(content if isinstance(content, bytes) else json.dumps(content).encode())

    async def _until_answered(self, expected: int = 0, answers: Sequence[JSON] = ()) -> list[Any]:
        self._last += 1
        sentinel = f"sentinel {self._last}"
        asked: JSON = {"jsonrpc": "2.0", "id": sentinel, "method": "tools/list"}
        if self._revision == MODERN:
            asked |= {"params": {"_meta": meta()}}
        await self._say(asked)
        found: list[Any] = []
        seen, unasked = False, list(answers)
        with anyio.fail_after(PATIENCE):
            while not seen or len(found) < expected + len(answers):
                message = await self._read()
                if is_object(message) and message.get("id") == sentinel:
                    seen = True
                    continue
                found.append(message)
                if unasked and "id" in message and "method" in message:
                    await self._say({**unasked.pop(0), "id": message["id"]})
        return found


def _line(*messages: Any) -> Reply:
    return Reply(0, {"content-type": "application/json"}, json.dumps(messages).encode() if messages else b"")


def _expects_answer(content: object) -> bool:
    """Whether a line is a request of JSON-RPC, to which every server answers something.

    One that is an error as well is answered by ours alone.
    """
    if not is_object(content) or "error" in content:
        return False
    request_id, params = content.get("id"), content.get("params")
    return (
        content.get("jsonrpc") == "2.0"
        and isinstance(request_id, int | str)
        and not isinstance(request_id, bool)
        and isinstance(content.get("method"), str)
        and (params is None or is_object(params))
        and not _SURROGATE.search(json.dumps(content, ensure_ascii=False))
    )


@asynccontextmanager
async def our_lines(revision: str, *, greeted: bool = True) -> AsyncGenerator[Lines]:
    """The bridge's.

    Args:
        revision: What its client speaks.
        greeted: Whether a client has shaken hands already.
    """
    async with Bridge(names=NamingPolicy.BARE) as bridge, anyio.create_task_group() as tasks:
        await bridge.add_agent(Agent(), "odd")
        stream = await line_stream(bridge, tasks)
        lines = Lines(stream.write, stream.next, revision)
        if greeted:
            await lines.open()
        yield lines
        await stream.close()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def their_lines(revision: str, *, greeted: bool = True) -> AsyncGenerator[Lines]:
    """The SDK's, which is handed what its `stdio_server()` makes of a line.

    Args:
        revision: What its client speaks.
        greeted: Whether a client has shaken hands already.
    """
    async with sdk_server.streams() as (write, read):
        lines = Lines(write, read, revision)
        if greeted:
            await lines.open()
        yield lines


@asynccontextmanager
async def ours(revision: str) -> AsyncGenerator[Endpoint]:
    """The bridge's."""
    async with Bridge() as bridge:
        await bridge.add_agent(Agent(), "odd")
        endpoint = Endpoint(bridge.asgi(AccessPolicy.for_address("127.0.0.1", PORT)), "/agents/odd/mcp", revision)
        await endpoint.open()
        yield endpoint


@asynccontextmanager
async def theirs(revision: str) -> AsyncGenerator[Endpoint]:
    """The SDK's."""
    server = sdk_server.make()
    app = server.streamable_http_app()
    async with server.session_manager.run():
        endpoint = Endpoint(app, "/mcp", revision)
        await endpoint.open()
        yield endpoint
