"""A client that says what VS Code 1.139 says: the beginning as it was recorded, then requests in its form and order.

    async with VsCode.over_http(url) as editor:
        assert "greet" in editor.tools
        assert (await editor.call("greet", name="Ada"))["structuredContent"] == {"result": "Hello, Ada!"}

It answers questions as the editor of a person does who agrees to everything.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Set
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, Self

import anyio
import httpx2
from anyio.abc import ByteReceiveStream, ByteSendStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from gaia_bridge.text.json_types import JSON
from tests.support.waiting import PATIENCE, Changing

__all__ = ["VsCode"]

WIRE: Final = Path(__file__).parents[1] / "oracle" / "wires" / "vscode.jsonl"
ROOT: Final = "file:///home/user/project"
"""The folder that is open."""
_LARGEST: Final = 1 << 24


class _Wire(Protocol):
    """How messages travel; what comes is told to `take`."""

    async def say(self, message: JSON) -> None:
        """Send a message."""
        ...

    async def listen(self) -> None:
        """Begin to hear what is said besides, once the server has greeted."""
        ...


class VsCode(Changing):
    """An editor that is connected.

    Args:
        form: What its person fills in, for forms.
    """

    def __init__(self, form: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.tools: dict[str, JSON] = {}
        """What it was listed, by name."""
        self.prompts: dict[str, JSON] = {}
        self.greeting: JSON = {}
        """The result of `initialize`."""
        self.heard: list[JSON] = []
        """Notifications, in order."""
        self.asked: list[JSON] = []
        """What the server asked."""
        self._form = dict(form or {})
        self._ids = itertools.count(5)
        self._answers: dict[Any, JSON] = {}
        self._wire: _Wire

    @classmethod
    @asynccontextmanager
    async def over_http(cls, url: str, form: Mapping[str, Any] | None = None) -> AsyncGenerator[Self]:
        """Connect to a URL."""
        editor = cls(form)
        async with httpx2.AsyncClient(timeout=PATIENCE) as client, anyio.create_task_group() as tasks:
            wire = _HttpWire(client, url, tasks, editor._take)
            await editor._begin(wire)
            yield editor
            assert (await client.delete(url, headers=wire.session)).status_code == 200
            tasks.cancel_scope.cancel()

    @classmethod
    @asynccontextmanager
    async def on_pipes(
        cls, command: list[str], form: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncGenerator[Self]:
        """Start a program and speak with it; it must end by itself when its input is closed."""
        editor = cls(form)
        async with (
            await anyio.open_process(command, stderr=None, **options) as process,
            anyio.create_task_group() as tasks,
        ):
            assert process.stdin is not None and process.stdout is not None
            tasks.start_soon(_read_lines, process.stdout, editor._take)
            await editor._begin(_Pipes(process.stdin))
            yield editor
            await process.stdin.aclose()
            with anyio.fail_after(PATIENCE):
                assert await process.wait() == 0, "it did not end well"

    async def request(self, method: str, **params: Any) -> JSON:
        """Make a request; its result."""
        answer = await self._ask({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})
        assert "result" in answer, answer
        result: JSON = answer["result"]
        return result

    async def call(self, tool: str, **arguments: Any) -> JSON:
        """Call a tool, with a progress token as always; its result."""
        token = f"progress-{next(self._ids)}"
        return await self.request("tools/call", name=tool, arguments=arguments, _meta={"progressToken": token})

    async def until_listed(self, tools: Set[str]) -> None:
        """Wait until it has these tools: of what starts late on a busy machine it is told, and lists anew."""
        seen = [0]
        while self.tools.keys() != tools:
            await self.until(lambda: self._changes() > seen[-1])
            seen.append(self._changes())
            prompts, listed = await self.request("prompts/list"), await self.request("tools/list")
            self.prompts = {each["name"]: each for each in prompts["prompts"]}
            self.tools = {each["name"]: each for each in listed["tools"]}

    def _changes(self) -> int:
        return sum(each["method"] == "notifications/tools/list_changed" for each in self.heard)

    async def open_resource(self, uri: str) -> str:
        """Show a resource to the person: it is read, and then subscribed to."""
        async with anyio.create_task_group() as tasks:
            for kind in ("resources/templates/list", "resources/list"):
                tasks.start_soon(self.request, kind)
        [contents] = (await self.request("resources/read", uri=uri))["contents"]
        await self.request("resources/subscribe", uri=uri)
        return str(contents["text"])

    def progress(self) -> list[Any]:
        """The messages of progress so far."""
        return [each["params"].get("message") for each in self.heard if each["method"] == "notifications/progress"]

    async def _begin(self, wire: _Wire) -> None:
        self._wire = wire
        initialize, level, initialized, prompts, tools = _recorded()
        self.greeting = (await self._ask(initialize))["result"]
        await wire.listen()
        answered: dict[str, JSON] = {}

        async def ask(message: JSON) -> None:
            answered[message["method"]] = (await self._ask(message))["result"]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, level)
            tasks.start_soon(wire.say, initialized)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, prompts)
            tasks.start_soon(ask, tools)
        self.prompts = {each["name"]: each for each in answered["prompts/list"]["prompts"]}
        self.tools = {each["name"]: each for each in answered["tools/list"]["tools"]}

    async def _ask(self, message: JSON) -> JSON:
        await self._wire.say(message)
        await self.until(lambda: message["id"] in self._answers)
        return self._answers.pop(message["id"])

    async def _take(self, message: JSON) -> None:
        if "method" not in message:
            self._answers[message["id"]] = message
        elif "id" not in message:
            self.heard.append(message)
        else:
            self.asked.append(message)
            await self._wire.say({"jsonrpc": "2.0", "id": message["id"], "result": self._answer(message["method"])})
        self._changed()

    def _answer(self, method: str) -> JSON:
        answers: dict[str, JSON] = {
            "roots/list": {"roots": [{"name": "project", "uri": ROOT}]},
            "elicitation/create": {"action": "accept", "content": self._form},
            "sampling/createMessage": {
                "role": "assistant",
                "content": {"type": "text", "text": "Certainly."},
                "model": "copilot",
            },
            "ping": {},
        }
        return answers[method]


class _HttpWire:
    """Implements `_Wire`. As it was recorded, no request says its revision."""

    def __init__(
        self, client: httpx2.AsyncClient, url: str, tasks: TaskGroup, take: Callable[[JSON], Awaitable[None]]
    ) -> None:
        self.session: dict[str, str] = {}
        self._client, self._url, self._tasks, self._take = client, url, tasks, take

    async def say(self, message: JSON) -> None:
        await self._tasks.start(partial(self._exchange, "POST", message))

    async def listen(self) -> None:
        await self._tasks.start(partial(self._exchange, "GET", None))

    async def _exchange(self, method: str, message: JSON | None, *, task_status: Any) -> None:
        accept = {"Accept": "text/event-stream, application/json", **self.session}
        async with self._client.stream(method, self._url, json=message, headers=accept, timeout=None) as response:
            assert response.status_code in (200, 202), await response.aread()
            if session := response.headers.get("mcp-session-id"):
                self.session = {"Mcp-Session-Id": session}
            task_status.started()
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                async for line in response.aiter_lines():
                    if data := line.removeprefix("data:").strip() if line.startswith("data:") else "":
                        await self._take(json.loads(data))
            elif body := await response.aread():
                await self._take(json.loads(body))


class _Pipes:
    """Implements `_Wire`."""

    def __init__(self, stream: ByteSendStream) -> None:
        self._stream = stream

    async def say(self, message: JSON) -> None:
        await self._stream.send(json.dumps(message).encode() + b"\n")

    async def listen(self) -> None:
        pass


async def _read_lines(stream: ByteReceiveStream, take: Callable[[JSON], Awaitable[None]]) -> None:
    buffered = BufferedByteReceiveStream(stream)
    while True:
        try:
            line = await buffered.receive_until(b"\n", _LARGEST)
        except (anyio.IncompleteRead, anyio.EndOfStream):
            return
        await take(json.loads(line))


def _recorded() -> list[JSON]:
    """The five messages that VS Code begins with."""
    notes = map(json.loads, WIRE.read_text("utf-8").splitlines())
    return [note["body"] for note in itertools.islice(notes, 6) if "body" in note]
