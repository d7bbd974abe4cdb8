"""A server that does what a test says, message by message, and a role that remembers what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gaia_bridge.calls.in_flight import SentRequests
from gaia_bridge.client import ClientDelegate, Connection, Era, connect
from gaia_bridge.client.transport import ConnectionLostError, Link, Receiver, UpstreamError
from gaia_bridge.client.transports.json_rpc import cancellation
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON, is_object
from tests.support.on_demand import mcp_types, mcp_versions
from tests.support.waiting import PATIENCE

__all__ = [
    "QUICK",
    "Role",
    "Script",
    "ScriptedTransport",
    "Wire",
    "connected",
    "discovered",
    "initialized",
    "legacy",
    "modern",
    "serving",
]

QUICK = UpstreamLimits(backoff_start=0, backoff_cap=0, retry_floor=0, retry_cap=0)
"""Nothing is waited for before it is tried again."""

INFO: JSON = {"name": "scripted", "version": "1"}


class Wire:
    """The server's end of one link.

    Args:
        receiver: The client's end.
    """

    last_words = "scripted"

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._pending = SentRequests()
        self.unexpected = 0
        """Responses that nobody waited for."""
        self._send, self._receive = anyio.create_memory_object_stream[JSON](10_000)
        self.received: list[JSON] = []
        """Everything that came from the client, in order."""
        self.headers: list[Mapping[str, str] | None] = []
        """The headers of each request."""
        self.agreed: list[str] = []
        self.failure: UpstreamError | None = None
        """Raised to whoever sends anything but a request."""
        self.closed = anyio.Event()

    # The script's side.

    async def next(self, method: str | None = None) -> JSON:
        """The client's next message; a notification of its own accord or a request must have that method."""
        message = await self._receive.receive()
        if method is not None:
            assert message.get("method") == method, message
        return message

    def answer(self, request: JSON, result: object) -> None:
        """Answer a request."""
        self.respond({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: JSON, code: int = -32601, message: str = "no", data: Any = None) -> None:
        """Answer a request with an error."""
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.respond({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def respond(self, response: JSON) -> None:
        """Send a response, whatever it looks like."""
        self.unexpected += not self._pending.resolve(response.get("id"), response)

    def notify(self, method: str, params: JSON | None = None, during: int | None = None) -> None:
        """Send a notification."""
        message: JSON = {"jsonrpc": "2.0", "method": method}
        self._receiver.message(message if params is None else message | {"params": params}, during)

    def ask(self, number: Any, method: str, params: JSON | None = None, during: int | None = None) -> None:
        """Send a request."""
        message: JSON = {"jsonrpc": "2.0", "id": number, "method": method}
        self._receiver.message(message if params is None else message | {"params": params}, during)

    def progress(self, request: JSON, progress: Any, **fields: Any) -> None:
        """Report progress of a request."""
        token = request["params"]["_meta"]["progressToken"]
        self.notify("notifications/progress", {"progressToken": token, "progress": progress, **fields})

    def end(self, reason: str = "exited") -> None:
        """End the link, as a process does that exits."""
        self._receiver.ended(reason)
        self._pending.fail(ConnectionLostError(reason))

    # The client's side: implements `transport.Link`.

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        future = self._pending.add(message["id"])
        self._take(message)
        self.headers.append(headers)
        try:
            response = await future
        except anyio.get_cancelled_exc_class():
            if message["method"] != "initialize" and not self.closed.is_set():
                self._take(cancellation(message["id"]))
            raise
        finally:
            self._pending.forget(message["id"])
        if "failure" in response:
            raise response["failure"]
        return response

    async def notify_(self, message: JSON) -> None:
        if self.failure is not None:
            raise self.failure
        self._take(message)

    def fail(self, request: JSON, error: UpstreamError) -> None:
        """Let one request fail; the link goes on."""
        self.respond({"id": request["id"], "failure": error})

    def agree(self, revision: str) -> None:
        self.agreed.append(revision)

    def _take(self, message: JSON) -> None:
        self.received.append(message)
        self._send.send_nowait(message)

    def close(self) -> None:
        self.closed.set()
        self._send.close()
        self._receive.close()


class _Link:
    """The client's view of a wire: `notify` means something else on either side."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.request = wire.request
        self.notify = wire.notify_
        self.agree = wire.agree

    @property
    def last_words(self) -> str:
        return self._wire.last_words


Script = Callable[[Wire], Coroutine[Any, Any, None]]


class ScriptedTransport:
    """Reaches servers that follow a script; the first connection the first one, and so on.

    Args:
        scripts: What each server does. One that returns is silent from then on.
    """

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.wires: list[Wire] = []

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        script = self._scripts.pop(0)
        wire = Wire(receiver)
        self.wires.append(wire)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(script, wire)
                yield _Link(wire)
                tasks.cancel_scope.cancel()
        finally:
            wire.close()


class Role(ClientDelegate):
    """Remembers what it was told, and answers what it was given answers for.

    Args:
        capabilities: What it declares.
        answers: What it says to each method: a result, or a coroutine function.
    """

    def __init__(self, capabilities: JSON | None = None, **answers: Any) -> None:
        self.info = {"name": "tester", "version": "2"}
        self.capabilities = capabilities or {}
        self.server = "scripted"
        self._answers = answers
        self.asked: list[tuple[str, JSON]] = []
        self.heard: list[tuple[str, JSON]] = []
        self.endings: list[str] = []
        self._more = anyio.Event()

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        self.asked.append((method, params))
        answer: Any = self._answers[method.partition("/")[0]]
        if is_object(answer):
            return answer
        result: JSON = await answer(params)
        return result

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        self.heard.append((method, params))
        self._more.set()
        self._more = anyio.Event()

    def ended(self, reason: str) -> None:
        self.endings.append(reason)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; looks after every notification."""
        while not holds():
            await self._more.wait()


async def initialized(wire: Wire, capabilities: JSON | None = None, **fields: Any) -> None:
    """Shake hands, as servers of the earlier revisions do; a probe is refused."""
    request = await wire.next()
    if request["method"] == "server/discover":
        wire.refuse(request)
        request = await wire.next("initialize")
    assert request["method"] == "initialize", request
    version = request["params"]["protocolVersion"]
    result = {"protocolVersion": version, "capabilities": capabilities or {}, "serverInfo": INFO}
    wire.answer(request, result | fields)
    await wire.next("notifications/initialized")


async def discovered(wire: Wire, capabilities: JSON | None = None, **fields: Any) -> None:
    """Answer the probe, as servers of 2026-07-28 do."""
    request = await wire.next("server/discover")
    result = {
        "resultType": "complete",
        "supportedVersions": [mcp_versions.LATEST_MODERN_VERSION],
        "capabilities": capabilities or {},
        "_meta": {mcp_types.SERVER_INFO_META_KEY: INFO},
    }
    wire.answer(request, result | fields)


def legacy(script: Script | None = None, capabilities: JSON | None = None, **fields: Any) -> Script:
    """A legacy server that goes on with a script after the handshake."""

    async def run(wire: Wire) -> None:
        await initialized(wire, capabilities, **fields)
        if script is not None:
            await script(wire)

    return run


def modern(script: Script | None = None, capabilities: JSON | None = None, **fields: Any) -> Script:
    """A modern server that goes on with a script after the probe."""

    async def run(wire: Wire) -> None:
        await discovered(wire, capabilities, **fields)
        if script is not None:
            await script(wire)

    return run


def serving(**results: Callable[[JSON], object] | object) -> Script:
    """Answer every request whose method begins with one of the names; with what a function makes of its parameters."""

    async def run(wire: Wire) -> None:
        while True:
            request = await wire.next()
            if "id" in request and "method" in request:
                result = results[request["method"].partition("/")[0]]
                wire.answer(request, result(request.get("params", {})) if callable(result) else result)

    return run


@asynccontextmanager
async def connected(
    *scripts: Script, delegate: ClientDelegate | None = None, limits: UpstreamLimits = QUICK, era: Era | None = None
) -> AsyncGenerator[tuple[Connection, Wire]]:
    """A connection to the last server that a script was needed for; no task outlives it."""
    transport = ScriptedTransport(*scripts)
    before = asyncio.all_tasks()
    with anyio.fail_after(PATIENCE):
        async with connect(transport, delegate or Role(), limits, era=era) as connection:
            yield connection, transport.wires[-1]
    assert asyncio.all_tasks() <= before
