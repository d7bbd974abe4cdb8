"""Clients of both eras hear what changed, and one that does not listen delays nobody."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp.server.connection import Connection
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)

from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.inbound.changes import ChangeFanout, ChangeQueue
from gaia_bridge.jsontypes import JSON
from gaia_bridge.model import Change, ChangeKind, NamingPolicy, ServerInfo
from gaia_bridge.publishing import AnnouncesChanges
from gaia_bridge.settings import Settings, SubscriptionLimits
from tests.helpers import PATIENCE, ScriptedAgent, ping, running_bridge, subscribe, tool, unsubscribe

TOOLS, PROMPTS, RESOURCES = (Change(kind) for kind in (ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.RESOURCES))


def updated(uri: str) -> Change:
    return Change(ChangeKind.RESOURCE_UPDATED, uri)


class WithPrompts(ScriptedAgent):
    """Has prompts, and no resources."""

    def __init__(self) -> None:
        super().__init__(lambda name, arguments: {}, "other", get_mcp_prompts=lambda: [{"name": "greet"}])

    def get_mcp_prompt(self, name: str, arguments: JSON) -> str:
        return name


# The queue


@pytest.mark.anyio
async def test_changes_come_out_in_order_and_each_once() -> None:
    queue = ChangeQueue()
    for change in (TOOLS, updated("a"), TOOLS, PROMPTS, updated("a"), updated("b")):
        queue.put(change)
    with anyio.fail_after(PATIENCE):
        assert [await queue.get() for _ in range(4)] == [TOOLS, updated("a"), PROMPTS, updated("b")]
    queue.put(TOOLS)
    assert await queue.get() == TOOLS


@pytest.mark.anyio
async def test_a_receiver_waits_for_the_next_change() -> None:
    queue, got = ChangeQueue(), list[Change]()

    async def receive() -> None:
        got.append(await queue.get())

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            assert got == []
            queue.put(RESOURCES)
    assert got == [RESOURCES]


@pytest.mark.anyio
@pytest.mark.requirement("S-14")
async def test_a_flood_of_updates_is_bounded_and_a_changed_list_is_told_all_the_same() -> None:
    queue = ChangeQueue()
    for number in range(10_000):
        queue.put(updated(str(number)))
    queue.put(TOOLS)
    told: list[Change] = []
    with anyio.fail_after(PATIENCE):
        while TOOLS not in told:
            told.append(await queue.get())
    assert 100 < len(told) < 2_000


# Clients


class Announcer(AnnouncesChanges, ScriptedAgent):
    """An agent with something of every kind, that announces whatever it is told to."""

    def __init__(self) -> None:
        super().__init__(self._announce, "announce", "work")
        self.prompts: list[JSON] = [{"name": "p"}]

    def get_mcp_prompts(self) -> list[JSON]:
        return self.prompts

    def get_mcp_resources(self) -> list[JSON]:
        return [{"uri": "book:1", "name": "1"}, {"uri": "book:2", "name": "2"}]

    def read_mcp_resource(self, uri: str) -> str:
        return uri

    def _announce(self, name: str, arguments: JSON) -> None:
        self.notify_mcp_tools_changed()
        self.notify_mcp_prompts_changed()
        self.notify_mcp_resources_changed()
        self.notify_mcp_resource_updated("book:1")
        self.notify_mcp_resource_updated("book:2")


class Inbox:
    """What a legacy client was told."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._more = anyio.Event()

    async def __call__(self, message: Any) -> None:
        self.messages.append(message)
        self._more.set()
        self._more = anyio.Event()

    async def until(self, kind: type[Any], count: int = 1) -> None:
        with anyio.fail_after(PATIENCE):
            while sum(isinstance(message, kind) for message in self.messages) < count:
                await self._more.wait()

    def kinds(self) -> list[type[Any]]:
        return [type(message) for message in self.messages]

    def uris(self) -> list[str]:
        return [
            str(message.params.uri) for message in self.messages if isinstance(message, ResourceUpdatedNotification)
        ]


@pytest.mark.anyio
@pytest.mark.requirement("P-10")
async def test_a_legacy_client_hears_of_every_list_and_of_what_it_subscribed_to() -> None:
    inbox = Inbox()
    async with running_bridge(Announcer()) as running, running.client("legacy", message_handler=inbox) as client:
        await subscribe(client, "book:1")
        await client.call_tool("announce", {})
        await inbox.until(ResourceUpdatedNotification)
        assert inbox.uris() == ["book:1"]
        assert {ToolListChangedNotification, PromptListChangedNotification, ResourceListChangedNotification} <= {
            *inbox.kinds()
        }
        await unsubscribe(client, "book:1")
        await subscribe(client, "book:2")
        await client.call_tool("announce", {})
        await inbox.until(ResourceUpdatedNotification, 2)
        assert inbox.uris() == ["book:1", "book:2"]


@pytest.mark.anyio
@pytest.mark.requirement("P-10")
async def test_a_modern_client_hears_of_what_it_listens_to() -> None:
    async with running_bridge(Announcer()) as running, running.client() as client:
        listening = client.listen(
            tools_list_changed=True,
            prompts_list_changed=True,
            resources_list_changed=True,
            resource_subscriptions=["book:1"],
        )
        async with listening as subscription:
            await client.call_tool("announce", {})
            heard: list[Any] = []
            async for event in subscription:
                heard.append(event)
                if isinstance(event, ResourceUpdated):
                    break
    assert heard == [ToolsListChanged(), PromptsListChanged(), ResourcesListChanged(), ResourceUpdated("book:1")]


@pytest.mark.anyio
@pytest.mark.requirement("F-246")
@pytest.mark.parametrize("path", ["", "agents/tools"])
async def test_a_subscription_is_confirmed_for_what_there_is(path: str) -> None:
    everything = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
    agents = {"tools": ScriptedAgent(lambda name, arguments: {}, "work"), "prompts": WithPrompts()}
    async with running_bridge(named=agents) as running, running.client(path=path) as client:
        async with client.listen(**everything, resource_subscriptions=["book:1"]) as subscription:
            honored = subscription.honored
    assert honored.tools_list_changed
    assert bool(honored.prompts_list_changed) is (path == "")
    assert not honored.resources_list_changed and not honored.resource_subscriptions


@pytest.mark.anyio
@pytest.mark.requirement("F-096")
async def test_a_modern_client_hears_of_nothing_else() -> None:
    async with running_bridge(Announcer()) as running, running.client() as client:
        async with client.listen(resource_subscriptions=["book:2"]) as subscription:
            await client.call_tool("announce", {})
            async for event in subscription:
                assert event == ResourceUpdated("book:2")
                break


@pytest.mark.anyio
@pytest.mark.requirement("F-096")
async def test_listening_is_limited_and_whoever_stops_makes_room() -> None:
    agent = Announcer()
    async with running_bridge(agent) as running, running.client() as client:
        async with AsyncExitStack() as streams:
            with pytest.raises(MCPError) as caught:
                for _ in range(2_000):
                    await streams.enter_async_context(client.listen(tools_list_changed=True))
            assert caught.value.code == INTERNAL_ERROR
        async with client.listen(tools_list_changed=True) as subscription:
            agent.notify_mcp_tools_changed()
            assert await anext(aiter(subscription)) == ToolsListChanged()


@pytest.mark.anyio
async def test_the_new_list_is_there_when_the_client_hears_of_it() -> None:
    agent = Announcer()
    inbox = Inbox()
    async with running_bridge(agent) as running, running.client("legacy", message_handler=inbox) as client:
        await ping(client)
        agent.tools.append(tool("more"))
        agent.notify_mcp_tools_changed()
        await inbox.until(ToolListChangedNotification)
        assert [item.name for item in (await client.list_tools()).tools] == ["announce", "work", "more"]


@pytest.mark.anyio
@pytest.mark.requirement("F-294")
async def test_a_client_hears_of_a_new_source_what_that_source_has() -> None:
    inbox = Inbox()
    async with running_bridge(Announcer(), WithPrompts()) as running:
        async with running.client("legacy", message_handler=inbox) as client:
            await ping(client)
            await running.bridge.add_agent(ScriptedAgent(lambda name, arguments: {}, "extra"), "third")
            await inbox.until(ToolListChangedNotification)
            assert inbox.kinds() == [ToolListChangedNotification]
            await running.bridge.add_agent(WithPrompts(), "fourth")
            await inbox.until(ToolListChangedNotification, 2)
            assert inbox.kinds()[1:] == [PromptListChangedNotification, ToolListChangedNotification]


@pytest.mark.anyio
async def test_a_change_on_one_endpoint_is_none_on_another() -> None:
    one, two = Announcer(), Announcer()
    inbox = Inbox()
    async with running_bridge(named={"one": one, "two": two}) as running:
        async with running.client("legacy", "agents/one", message_handler=inbox) as client:
            await subscribe(client, "book:1")
            two.notify_mcp_resource_updated("book:1")
            two.notify_mcp_tools_changed()
            async with running.client("auto", "agents/two") as other, other.listen(tools_list_changed=True) as heard:
                two.notify_mcp_tools_changed()
                async for _ in heard:
                    break
            assert inbox.messages == []
            one.notify_mcp_resource_updated("book:1")
            await inbox.until(ResourceUpdatedNotification)


@pytest.mark.anyio
async def test_listening_ends_in_good_order_when_the_streams_are_closed() -> None:
    async with running_bridge(Announcer()) as running, running.client() as client:
        async with client.listen(tools_list_changed=True) as subscription:
            running.bridge.close_streams()
            with anyio.fail_after(PATIENCE):
                assert [event async for event in subscription] == []


# Clients that do not read


class Outbound:
    """The way to one client, which it may leave unread."""

    def __init__(self, *, reads: bool) -> None:
        self.reads = reads
        self.told: list[str] = []
        self.waiting = anyio.Event()
        self.heard = anyio.Event()

    async def notify(self, method: str, params: Any, opts: Any = None) -> None:
        if not self.reads:
            self.waiting.set()
            await anyio.sleep_forever()
        self.told.append(method)
        self.heard.set()

    async def send_raw_request(self, method: str, params: Any, opts: Any = None) -> dict[str, Any]:
        raise AssertionError(method)


def connection(outbound: Outbound) -> Connection:
    return Connection.for_loop(outbound)


@asynccontextmanager
async def fanout(patience: float = PATIENCE, resources: int = 1_000) -> AsyncGenerator[ChangeFanout]:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
    made = ChangeFanout(catalog, SubscriptionLimits(notify_timeout=patience, resources=resources))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(made.run)
            yield made
            tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.requirement("F-090")
async def test_a_client_that_does_not_read_delays_no_other() -> None:
    deaf, attentive = Outbound(reads=False), Outbound(reads=True)
    async with fanout() as changes:
        changes.add_legacy(connection(deaf))
        changes.add_legacy(connection(attentive))
        changes.publish(TOOLS)
        await deaf.waiting.wait()
        await attentive.heard.wait()
        for _ in range(10_000):
            changes.publish(TOOLS)
        attentive.heard = anyio.Event()
        changes.publish(PROMPTS)
        await attentive.heard.wait()
        await anyio.wait_all_tasks_blocked()
    assert attentive.told == [f"notifications/{kind}/list_changed" for kind in ("tools", "tools", "prompts")]


@pytest.mark.anyio
@pytest.mark.requirement("F-090")
async def test_a_client_that_reads_again_after_its_time_was_up_is_told_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Outbound(reads=False)
    async with fanout(patience=0.01) as changes:
        changes.add_legacy(connection(client))
        changes.publish(TOOLS)
        await client.waiting.wait()
        client.reads = True
        changes.publish(PROMPTS)
        await client.heard.wait()
    assert client.told == ["notifications/prompts/list_changed"]
    assert "did not accept" in caplog.text


@pytest.mark.anyio
@pytest.mark.requirement("F-087")
async def test_a_client_is_forgotten_when_its_connection_ends() -> None:
    client, other = Outbound(reads=True), Outbound(reads=True)
    async with fanout() as changes:
        ended = connection(client)
        changes.add_legacy(ended)
        changes.add_legacy(ended)
        changes.add_legacy(connection(other))
        await ended.exit_stack.aclose()
        changes.publish(TOOLS)
        await other.heard.wait()
    assert client.told == []


@pytest.mark.anyio
async def test_subscriptions_of_a_legacy_client_are_its_own() -> None:
    one, two = Outbound(reads=True), Outbound(reads=True)
    async with fanout() as changes:
        first, second = connection(one), connection(two)
        changes.add_legacy(second)
        await changes.subscribe(first, "u:1")  # some clients never say that their handshake is over
        await changes.subscribe(second, "u:2")
        await changes.subscribe(second, "u:1")
        changes.unsubscribe(second, "u:1")
        changes.publish(updated("u:1"))
        changes.publish(updated("u:2"))
        await one.heard.wait()
        await two.heard.wait()
        await anyio.wait_all_tasks_blocked()
    assert (one.told, two.told) == (["notifications/resources/updated"],) * 2


@pytest.mark.anyio
@pytest.mark.requirement("S-14")
async def test_a_legacy_client_may_subscribe_to_so_many_resources_and_no_more() -> None:
    async with fanout(resources=2) as changes:
        client = connection(Outbound(reads=True))
        await changes.subscribe(client, "u:1")
        await changes.subscribe(client, "u:2")
        await changes.subscribe(client, "u:2")
        with pytest.raises(MCPError, match="updates of 2 resources; unsubscribe from some") as caught:
            await changes.subscribe(client, "u:3")
        assert caught.value.code == INVALID_PARAMS
        changes.unsubscribe(client, "u:1")
        await changes.subscribe(client, "u:3")


@pytest.mark.anyio
@pytest.mark.requirement("S-14")
async def test_a_modern_client_may_listen_to_so_many_resources_and_no_more() -> None:
    settings = Settings(subscriptions=SubscriptionLimits(resources=2))
    async with running_bridge(Announcer(), settings=settings) as running, running.client() as client:
        with pytest.raises(MCPError, match="updates of 2 resources"):
            async with client.listen(resource_subscriptions=["u:1", "u:2", "u:3"]):
                raise AssertionError("it was confirmed")
        async with client.listen(resource_subscriptions=["u:1", "u:2"]):
            pass


@pytest.mark.anyio
async def test_a_handshake_that_ends_after_the_endpoint_did_is_harmless() -> None:
    async with fanout() as changes:
        pass
    changes.add_legacy(connection(Outbound(reads=True)))
    changes.publish(TOOLS)


@pytest.mark.anyio
@pytest.mark.requirement("F-090")
async def test_a_deaf_legacy_client_of_a_bridge_delays_neither_calls_nor_others() -> None:
    agent = Announcer()
    stuck, inbox = anyio.Event(), Inbox()

    async def deaf(message: Any) -> None:
        stuck.set()
        await anyio.sleep_forever()

    settings = Settings(subscriptions=SubscriptionLimits(notify_timeout=0.05))
    async with running_bridge(agent, settings=settings) as running:
        async with (
            running.client("legacy", message_handler=deaf) as first,
            running.client("legacy", message_handler=inbox) as second,
        ):
            await ping(first)
            await ping(second)
            agent.notify_mcp_tools_changed()
            with anyio.fail_after(PATIENCE):
                await stuck.wait()
            for number in range(50):
                agent.notify_mcp_tools_changed()
                await inbox.until(ToolListChangedNotification, number + 2)
            assert not (await second.call_tool("work", {})).is_error
