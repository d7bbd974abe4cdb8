"""Agents made of functions, and bridges that run for the length of one test."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp_types import (
    CallToolResult,
    EmptyResult,
    LoggingLevel,
    PingRequest,
    SetLevelRequest,
    SetLevelRequestParams,
    SubscribeRequest,
    SubscribeRequestParams,
    TextContent,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)

from gaia_bridge.bridge import Bridge
from gaia_bridge.model import NamingPolicy
from gaia_bridge.protocol.json_types import JSON
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.settings import Settings
from tests.support.memory_transport import in_memory

__all__ = [
    "PATIENCE",
    "RunningBridge",
    "ScriptedAgent",
    "both_eras",
    "comes_true",
    "one_tool",
    "ping",
    "running_bridge",
    "set_level",
    "subscribe",
    "text_of",
    "threads_named",
    "tool",
    "unsubscribe",
    "wait_in_thread",
]

PATIENCE = 10.0
"""Seconds after which a test gives up waiting. Nothing waits that long unless it is broken."""

both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])
"""Run a test with a 2026-07-28 client and with one of the handshake revisions."""


def tool(name: str, **properties: Any) -> JSON:
    """A tool definition whose arguments are all required; with none, it takes any object."""
    schema: JSON = {"type": "object", "properties": properties}
    if properties:
        schema["required"] = list(properties)
    return {"name": name, "inputSchema": schema}


class ScriptedAgent:
    """An agent that does what a test says.

    Args:
        execute: What `execute_mcp_tool` does; may be a coroutine function.
        tools: Tool definitions; a name alone stands for a tool that takes any object.
        hooks: Further methods of the agent, by their names.
    """

    def __init__(self, execute: Callable[[str, JSON], Any], *tools: JSON | str, **hooks: Any) -> None:
        self.execute_mcp_tool: Any = execute
        self.tools: list[Any] = [tool(item) if isinstance(item, str) else item for item in tools]
        for name, hook in hooks.items():
            setattr(self, name, hook)

    def get_mcp_tool_definitions(self) -> list[Any]:
        return self.tools


def one_tool(run: Callable[[JSON], Any], name: str = "work", **hooks: Any) -> ScriptedAgent:
    """An agent with a single tool, which takes any object and calls `run` with it."""
    return ScriptedAgent(lambda _, arguments: run(arguments), name, **hooks)


class RunningBridge:
    """A bridge under test, and the in-process clients of its endpoints.

    Args:
        bridge: The bridge, entered.
    """

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge

    def endpoint(self, path: str = "") -> Dispatcher:
        """The endpoint of everything, or of one source: `agents/name`."""
        group, _, name = path.partition("/")
        return self.bridge._endpoints[group, name].dispatcher  # pyright: ignore[reportPrivateUsage]

    def client(self, mode: str = "auto", path: str = "", **options: Any) -> Client:
        """A client, to be entered: `auto` speaks 2026-07-28, `legacy` performs the handshake."""
        return Client(in_memory(self.endpoint(path)), mode=mode, cache=None, **options)


@asynccontextmanager
async def running_bridge(
    *agents: Any,
    settings: Settings | None = None,
    names: NamingPolicy = NamingPolicy.DEFAULT,
    named: Mapping[str, Any] | None = None,
) -> AsyncGenerator[RunningBridge]:
    """A bridge that publishes agents, until the end of the block.

    Args:
        agents: Published under names derived from their position: `a0`, `a1`.
        settings: Limits of the bridge.
        names: Its naming policy.
        named: Further agents, by the names they are published under.
    """
    async with Bridge(settings, names) as bridge:
        for number, agent in enumerate(agents):
            await bridge.add_agent(agent, f"a{number}")
        for name, agent in (named or {}).items():
            await bridge.add_agent(agent, name)
        with anyio.fail_after(PATIENCE * 3):
            yield RunningBridge(bridge)


async def ping(client: Client) -> None:
    """Ask whether the server is there, as only legacy clients do."""
    await client.session.send_request(PingRequest(), EmptyResult)


async def subscribe(client: Client, uri: str) -> None:
    """Ask a legacy client's server to be told of updates of a resource."""
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)


async def unsubscribe(client: Client, uri: str) -> None:
    """Ask a legacy client's server not to be told any more."""
    await client.session.send_request(UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri)), EmptyResult)


async def set_level(client: Client, level: LoggingLevel) -> None:
    """Ask a legacy client's server for log messages of a level and above."""
    await client.session.send_request(SetLevelRequest(params=SetLevelRequestParams(level=level)), EmptyResult)


def text_of(result: CallToolResult) -> str:
    """The text of a result that is one block of text."""
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


def threads_named(start: str, besides: Collection[threading.Thread] = ()) -> list[threading.Thread]:
    """Threads whose names begin like this, besides those that earlier tests may have left to end by themselves."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(start) and thread not in besides]


def comes_true(holds: Callable[[], bool]) -> Callable[[float], bool]:
    """For `wait_in_thread`: something that agent threads bring about and that has no event."""

    def wait(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while not holds():
            if time.monotonic() > deadline:
                return False
            pause.wait(0.001)
        return True

    return wait


async def wait_in_thread(wait: Callable[[float], bool]) -> None:
    """Wait for something that happens in agent threads, such as `threading.Event.wait`, without stopping the loop."""
    assert await anyio.to_thread.run_sync(wait, PATIENCE, abandon_on_cancel=True), "it did not happen in time"
