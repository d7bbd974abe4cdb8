"""What a client hears when something about an agent changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from tests.interaction.connecting import Link
from tests.interaction.results import call, older, wire
from tests.support.on_demand import mcp, mcp_subscriptions, mcp_types

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

WATCHED = "note://1"
OTHER = "note://2"
AGAIN = 0.5
"""Seconds after which a change is made once more. A legacy client over HTTP opens its standing stream some time after
the handshake, and what happens before is not told."""


@dataclass
class Ear:
    """What a client has heard: `tools`, `prompts`, `resources` and the URIs of updated resources."""

    heard: set[str] = field(default_factory=set[str])
    _news: anyio.Event = field(default_factory=anyio.Event)

    def hear(self, item: object) -> None:
        """Take a notification of either era."""
        match item:
            case mcp_types.ResourceUpdatedNotification():
                self.heard.add(item.params.uri)
            case mcp_subscriptions.ResourceUpdated():
                self.heard.add(item.uri)
            case mcp_types.ToolListChangedNotification() | mcp_subscriptions.ToolsListChanged():
                self.heard.add("tools")
            case mcp_types.PromptListChangedNotification() | mcp_subscriptions.PromptsListChanged():
                self.heard.add("prompts")
            case mcp_types.ResourceListChangedNotification() | mcp_subscriptions.ResourcesListChanged():
                self.heard.add("resources")
            case _:
                pass
        self._news.set()

    async def until(self, wanted: set[str], change: Callable[[], Awaitable[object]]) -> None:
        """Make a change until all of it was heard."""
        while not wanted <= self.heard:
            await change()
            with anyio.move_on_after(AGAIN):
                while not wanted <= self.heard:
                    self._news = anyio.Event()
                    await self._news.wait()


@asynccontextmanager
async def listening(link: Link, client: mcp.Client, ear: Ear) -> AsyncGenerator[None]:
    """Hear of everything, and of updates of one resource."""
    if not link.modern:
        await older(client).subscribe_resource(WATCHED)
        yield
        return
    wishes: dict[str, Any] = dict.fromkeys(
        ("tools_list_changed", "prompts_list_changed", "resources_list_changed"), True
    )
    async with client.listen(resource_subscriptions=[WATCHED], **wishes) as events, anyio.create_task_group() as tasks:

        async def listen() -> None:
            async for event in events:
                ear.hear(event)

        tasks.start_soon(listen)
        yield
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("P-12")
async def test_a_client_hears_of_changed_lists_and_of_the_resource_it_subscribed_to(link: Link) -> None:
    ear = Ear()

    async def on_message(message: object) -> None:
        if not link.modern:
            ear.hear(message)

    async with link.client(message_handler=on_message) as client, listening(link, client, ear):
        await ear.until({"tools", "prompts", "resources"}, lambda: call(client, "grow", key="x"))
        assert "tool-x" in {tool.name for tool in (await client.list_tools()).tools}
        assert "prompt-x" in {prompt.name for prompt in (await client.list_prompts()).prompts}
        assert "grown://x" in {resource.uri for resource in (await client.list_resources()).resources}

        await call(client, "touch", key=OTHER)
        await ear.until({WATCHED}, lambda: call(client, "touch", key=WATCHED))
        assert OTHER not in ear.heard
        [content] = wire(await client.read_resource(WATCHED))["contents"]
        assert content["text"] != "1 was updated 0 times"

        if not link.modern:
            await older(client).unsubscribe_resource(WATCHED)
            await older(client).subscribe_resource(OTHER)
            await ear.until({OTHER}, lambda: call(client, "touch", key=OTHER))  # after all that was still on its way
            ear.heard.clear()
            await call(client, "touch", key=WATCHED)
            await ear.until({OTHER}, lambda: call(client, "touch", key=OTHER))
            assert WATCHED not in ear.heard
