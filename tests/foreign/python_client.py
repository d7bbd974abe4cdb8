"""One round with the Python SDK of the first generation: `python_client.py stdio|sse|http TARGET...`.

Runs in an environment of its own, which has `mcp` 1.x and nothing of this project. Prints one JSON document: what it
was told. `typescript_client.mjs` plays the same round.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import anyio

PATIENCE = 60.0


def of_mcp(module: str, name: str) -> Any:
    """Something of `mcp` 1.x: the type checkers know another generation, whose names are not the same."""
    return getattr(import_module(module), name)


def wire(model: Any) -> Any:
    return model.model_dump(by_alias=True, mode="json", exclude_unset=True)


def wires(models: Iterable[Any]) -> list[Any]:
    return [wire(model) for model in models]


@asynccontextmanager
async def streams(transport: str, target: list[str]) -> AsyncGenerator[tuple[Any, Any]]:
    """The two streams of a session, over that transport."""
    if transport == "stdio":
        parameters = of_mcp("mcp", "StdioServerParameters")(command=target[0], args=target[1:], env=dict(os.environ))
        opened = of_mcp("mcp.client.stdio", "stdio_client")(parameters)
    elif transport == "sse":
        opened = of_mcp("mcp.client.sse", "sse_client")(target[0])
    else:
        opened = of_mcp("mcp.client.streamable_http", "streamable_http_client")(target[0])
    async with opened as (receive, send, *_):
        yield receive, send


class Round:
    """One session, and what it was told."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self._changes, self._changed = anyio.create_memory_object_stream[None](10)

    async def play(self, transport: str, target: list[str]) -> None:
        """Connect and ask everything."""
        client_session = of_mcp("mcp", "ClientSession")
        options = {"elicitation_callback": self._answer, "message_handler": self._notice}
        async with streams(transport, target) as (receive, send), client_session(receive, send, **options) as session:
            await self._introduce(session)
            await self._call(session)
            await self._read(session)
            await self._learn(session)

    async def _introduce(self, session: Any) -> None:
        welcome = await session.initialize()
        self.told["version"] = welcome.protocolVersion
        self.told["server"] = wire(welcome.serverInfo)
        self.told["instructions"] = welcome.instructions
        self.told["tools"] = wires((await session.list_tools()).tools)
        self.told["prompts"] = wires((await session.list_prompts()).prompts)
        self.told["resources"] = wires((await session.list_resources()).resources)
        self.told["templates"] = wires((await session.list_resource_templates()).resourceTemplates)

    async def _call(self, session: Any) -> None:
        lengths = [{"value": 1.5}, {"value": 2}]
        called = await session.call_tool("add-lengths", {"unit": "m", "lengths": lengths})
        self.told["called"] = {
            "structured": called.structuredContent,
            "text": json.loads(called.content[0].text),
            "failed": called.isError,
        }
        invalid = await session.call_tool("add-lengths", {"unit": "mile", "lengths": lengths})
        self.told["invalid"] = {"failed": invalid.isError, "where": re.findall(r"at (/\w+)", invalid.content[0].text)}
        try:
            await session.call_tool("no-such-tool", {})
        except of_mcp("mcp", "McpError") as error:
            self.told["unknown"] = {"code": error.error.code}
        await self._count(session)
        self.told["answered"] = (await session.call_tool("ask", {})).structuredContent

    async def _count(self, session: Any) -> None:
        steps: list[tuple[Any, ...]] = []
        self.told["progress"] = steps
        seen = anyio.Event()

        async def report(*step: Any) -> None:
            steps.append(step)
            if step[0] == step[1]:
                seen.set()

        async def count() -> None:
            counted = await session.call_tool("count", {}, progress_callback=report)
            self.told["counted"] = counted.structuredContent

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            await seen.wait()
            await session.call_tool("seen", {})

    async def _read(self, session: Any) -> None:
        prompt = await session.get_prompt("greet", {"name": "Ada", "tone": "kindly"})
        self.told["prompt"] = wires(prompt.messages)
        self.told["resource"] = wires((await session.read_resource("note://today")).contents)
        self.told["templated"] = wires((await session.read_resource("note://monday")).contents)

    async def _learn(self, session: Any) -> None:
        await session.call_tool("learn", {})
        await self._changed.receive()
        self.told["learned"] = [tool.name for tool in (await session.list_tools()).tools]
        await session.call_tool("forget", {})
        await self._changed.receive()

    async def _answer(self, _context: Any, params: Any) -> Any:
        self.told["asked"] = {"message": params.message, "requestedSchema": params.requestedSchema}
        return of_mcp("mcp.types", "ElicitResult")(action="accept", content={"sure": True})

    async def _notice(self, message: Any) -> None:
        if getattr(getattr(message, "root", None), "method", None) == "notifications/tools/list_changed":
            self._changes.send_nowait(None)


async def main(transport: str, target: list[str]) -> None:
    """Play one round and print what was told."""
    game = Round()
    with anyio.fail_after(PATIENCE):
        await game.play(transport, target)
    sys.stdout.write(json.dumps(game.told))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2:])
