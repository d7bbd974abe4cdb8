"""One round with a Python client of the second generation: `python2_client.py mcp|fastmcp legacy|auto URL`.

Runs in an environment of its own, which has `mcp` 2.x or FastMCP and nothing of this project. Plays the round of
`python_client.py`, and while a call is on its way it asks four things more, all at once. Prints one JSON document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any

import anyio

PATIENCE = 60.0
LENGTHS = [{"value": 1.5}, {"value": 2}]


class Round:
    """One connection, and what it was told."""

    def __init__(self, library: str, mode: str, url: str) -> None:
        self.told: dict[str, Any] = {}
        self._mode = mode
        self._changes, self._changed = anyio.create_memory_object_stream[None](10)
        options = {"mode": mode, "message_handler": self._notice}
        if library == "mcp":
            self._client: Any = import_module("mcp").Client(url, elicitation_callback=self._answer, **options)
            self._call: Any = self._client.call_tool
            self._reports = "progress_callback"
        else:
            handlers = {"elicitation_handler": self._answer_form, **options}
            self._client = import_module("fastmcp").Client(url, client_info=_unnamed(), **handlers)
            self._call = partial(self._client.call_tool, raise_on_error=False)
            self._reports = "progress_handler"

    async def play(self) -> None:
        """Connect and ask everything."""
        async with self._client:
            for part in ("tools", "prompts", "resources", "resource_templates"):
                await getattr(self._client, f"list_{part}")()
            await self._call("add-lengths", {"unit": "m", "lengths": LENGTHS})
            await self._call("add-lengths", {"unit": "mile", "lengths": LENGTHS})
            with suppress(import_module("mcp").MCPError):
                await self._call("no-such-tool", {})
            await self._ask_at_once()
            self.told["answered"] = (await self._call("ask", {})).structured_content
            await self._client.read_resource("note://monday")
            async with self._told_of_changes():
                for tool in ("learn", "forget"):
                    await self._call(tool, {})
                    await self._changed.receive()
                    await self._client.session.list_tools()

    async def _ask_at_once(self) -> None:
        """The count ends when it is told to, so everything between is asked while it lasts."""
        counted = anyio.Event()

        async def report(progress: float, total: float | None, _message: str | None) -> None:
            if progress == total:
                counted.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(self._call, "count", {}, **{self._reports: report}))
            await counted.wait()
            async with anyio.create_task_group() as others:
                others.start_soon(self._call, "add-lengths", {"unit": "ft", "lengths": LENGTHS})
                others.start_soon(self._client.get_prompt, "greet", {"name": "Ada", "tone": "kindly"})
                others.start_soon(self._client.read_resource, "note://today")
                others.start_soon(self._call, "add-lengths", {"unit": "m", "lengths": LENGTHS})
            await self._call("seen", {})

    @asynccontextmanager
    async def _told_of_changes(self) -> AsyncGenerator[None]:
        if self._mode == "legacy":
            yield
            return
        listen: Any = import_module("mcp.client.subscriptions").listen
        async with listen(self._client.session, tools_list_changed=True) as events, anyio.create_task_group() as tasks:

            async def pass_on() -> None:
                async for _ in events:
                    self._changes.send_nowait(None)

            tasks.start_soon(pass_on)
            yield
            tasks.cancel_scope.cancel()

    async def _answer(self, _context: Any, _params: Any) -> Any:
        return import_module("mcp_types").ElicitResult(action="accept", content={"sure": True})

    async def _answer_form(self, *_: Any) -> Any:
        return {"sure": True}

    async def _notice(self, message: Any) -> None:
        if self._mode == "legacy" and getattr(message, "method", None) == "notifications/tools/list_changed":
            self._changes.send_nowait(None)


def _unnamed() -> Any:
    """FastMCP calls itself otherwise each time."""
    return import_module("mcp_types").Implementation(name="fastmcp", version="0")


async def main(library: str, mode: str, url: str) -> None:
    """Play one round and print what was told."""
    game = Round(library, mode, url)
    with anyio.fail_after(PATIENCE):
        await game.play()
    sys.stdout.write(json.dumps(game.told))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
