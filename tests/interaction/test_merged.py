"""Several agents behind one bridge, and agents that come and go while clients are connected."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.content import embedded_text, resource_link
from gaia_bridge.errors import PublishError
from tests.interaction.connecting import DEADLINE, ERAS, client_of, serving
from tests.interaction.results import call, text_of, wire
from tests.support.on_demand import mcp, mcp_subscriptions, mcp_types

pytestmark = pytest.mark.anyio


class NamedAgent:
    """An agent whose answers tell which one it is.

    Args:
        name: Which one.
        tools: Its tools.
    """

    def __init__(self, name: str, *tools: str) -> None:
        self._name = name
        self._tools = tools

    def get_mcp_server_info(self) -> dict[str, Any]:
        return {"name": self._name, "version": "1", "instructions": f"I am {self._name}."}

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": tool, "inputSchema": {}} for tool in self._tools]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        if tool_name == "wait":
            request = get_request_context()
            request.report_progress(1)
            request.wait_cancelled(DEADLINE)
            request.raise_if_cancelled()
        return f"{tool_name} of {self._name}"

    def get_mcp_prompts(self) -> list[dict[str, Any]]:
        return [{"name": f"prompt-of-{self._name}"}, {"name": "shared-prompt"}]

    def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return f"{name} of {self._name}"

    def get_mcp_resources(self) -> list[dict[str, Any]]:
        return [{"uri": f"{self._name}://here", "name": self._name}]

    def read_mcp_resource(self, uri: str) -> Any:
        return f"{uri} of {self._name}"


async def tools_of(client: mcp.Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def said(client: mcp.Client, tool: str) -> str:
    return text_of(await call(client, tool))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["mcp", "sse"])
async def test_agents_are_merged_on_one_endpoint_and_alone_on_their_own(era: str, transport: str) -> None:
    with anyio.fail_after(DEADLINE):
        agents = {
            "first": NamedAgent("first", "only-first", "both"),
            "second": NamedAgent("second", "both", "only-second"),
        }
        async with serving(agents) as (url, _):
            async with client_of(f"{url}/{transport}", era) as everything:
                assert everything.server_info is not None
                assert everything.server_info.name == "gaia-mcp-bridge"
                assert everything.instructions is not None
                assert all(f"I am {name}." in everything.instructions for name in ("first", "second"))
                assert await tools_of(everything) == ["only-first", "both", "second__both", "only-second"]
                assert await said(everything, "both") == "both of first"
                assert await said(everything, "second__both") == "both of second"
                assert await said(everything, "only-second") == "only-second of second"
                prompts = [prompt.name for prompt in (await everything.list_prompts()).prompts]
                assert prompts == ["prompt-of-first", "shared-prompt", "prompt-of-second", "second__shared-prompt"]
                shared = wire(await everything.get_prompt("second__shared-prompt"))["messages"]
                assert shared[0]["content"]["text"] == "shared-prompt of second"
                [content] = wire(await everything.read_resource("second://here"))["contents"]
                assert content["text"] == "second://here of second"

            async with client_of(f"{url}/agents/second/{transport}", era) as alone:
                assert alone.server_info is not None
                assert (alone.server_info.name, alone.instructions) == ("second", "I am second.")
                assert await tools_of(alone) == ["both", "only-second"]
                assert await said(alone, "both") == "both of second"
                with pytest.raises(mcp.MCPError, match="Unknown tool: only-first"):
                    await call(alone, "only-first")


class LinkingAgent:
    """Links to resources in every way there is, and has none that can be read."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": "link", "inputSchema": {}, "_meta": {"ui": {"resourceUri": VIEW}, "ui/resourceUri": VIEW}}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        return LINKS

    def get_mcp_prompts(self) -> list[dict[str, Any]]:
        return [{"name": "linking-prompt"}]

    def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return {"messages": [{"role": "user", "content": LINKS[1]}]}


VIEW = "ui://nobody/view"
LINKS = [resource_link("file:///x/y.txt", "y"), embedded_text("first://here", "embedded")]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("others", [0, 1, 2])
async def test_links_of_an_agent_without_resources_arrive_as_they_are_whatever_is_beside_it(
    era: str, others: int
) -> None:
    agents: dict[str, Any] = {name: NamedAgent(name, name) for name in ("first", "second")[:others]}
    with anyio.fail_after(DEADLINE):
        async with (
            serving({**agents, "linking": LinkingAgent()}) as (url, _),
            client_of(f"{url}/mcp", era) as client,
        ):
            [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == "link"]
            assert tool.meta == {"ui": {"resourceUri": VIEW}, "ui/resourceUri": VIEW}
            assert (await call(client, "link"))["content"] == LINKS
            prompt = wire(await client.get_prompt("linking-prompt"))
            assert prompt["messages"] == [{"role": "user", "content": LINKS[1]}]


async def outlives_its_agent(client: mcp.Client, *, task_status: TaskStatus[None]) -> None:
    """A call whose agent is removed while it runs; started when it runs."""

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        task_status.started()

    with suppress(mcp.MCPError):  # a client of the agent's own endpoint may lose its session before the answer comes
        result = await client.call_tool("wait", {}, progress_callback=on_progress)
        assert result.is_error
        assert text_of(wire(result)) == "the agent is no longer published"


class Follower:
    """A client that hears of changed tools, in the way of its era."""

    def __init__(self) -> None:
        self._news = anyio.Event()

    async def on_message(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._news.set()

    @asynccontextmanager
    async def connected(self, url: str, era: str) -> AsyncGenerator[mcp.Client]:
        """A client whose changes are followed."""
        async with client_of(url, era, message_handler=self.on_message) as client:
            if era == "legacy":
                yield client
                return
            async with client.listen(tools_list_changed=True) as events, anyio.create_task_group() as tasks:

                async def listen() -> None:
                    async for event in events:
                        assert isinstance(event, mcp_subscriptions.ToolsListChanged)
                        self._news.set()

                tasks.start_soon(listen)
                yield client
                tasks.cancel_scope.cancel()

    async def hears(self) -> None:
        """Wait for the next change."""
        await self._news.wait()
        self._news = anyio.Event()


async def test_agents_come_and_go_while_clients_of_both_eras_are_connected() -> None:
    with anyio.fail_after(DEADLINE):
        async with AsyncExitStack() as opened:
            url, bridge = await opened.enter_async_context(serving({"first": NamedAgent("first", "both")}))
            followers = [Follower(), Follower()]
            modern, legacy = [
                await opened.enter_async_context(follower.connected(f"{url}/{path}", era))
                for follower, path, era in zip(followers, ("mcp", "sse"), ERAS, strict=True)
            ]
            assert await tools_of(modern) == await tools_of(legacy) == ["both"]

            await bridge.add_agent(NamedAgent("second", "both", "wait"), "second")
            alone = [await opened.enter_async_context(client_of(f"{url}/agents/second/mcp", era)) for era in ERAS]
            for follower, client, own in zip(followers, (modern, legacy), alone, strict=True):
                await follower.hears()
                assert await tools_of(client) == ["both", "second__both", "wait"]
                assert await said(client, "second__both") == await said(own, "both") == "both of second"

            async with anyio.create_task_group() as calls:
                for client in (modern, legacy, *alone):
                    await calls.start(outlives_its_agent, client)
                await bridge.remove("second")
            for follower, client, own in zip(followers, (modern, legacy), alone, strict=True):
                await follower.hears()
                assert await tools_of(client) == ["both"]
                assert await said(client, "both") == "both of first"
                with pytest.raises(mcp.MCPError, match="Unknown tool: second__both"):
                    await call(client, "second__both")
                with pytest.raises(mcp.MCPError):
                    await said(own, "both")
            with pytest.raises(PublishError, match="nothing is published under that name"):
                await bridge.remove("second")
