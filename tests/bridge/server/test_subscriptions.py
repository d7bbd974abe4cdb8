"""Clients of both eras hear what changed, and one that does not listen delays nobody."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Change, ChangeKind, NamingPolicy, ServerInfo, SourceKind
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.connection import ClientConnection
from gaia_bridge.server.subscriptions import ResourceInterest, Subscribers
from gaia_bridge.settings import Settings, SubscriptionLimits
from gaia_bridge.sources.agent.announcer import AnnouncesChanges
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent, tool
from tests.support.bridges import ping, running_bridge, subscribe, unsubscribe
from tests.support.fixed_sources import FixedSource
from tests.support.on_demand import mcp, mcp_subscriptions, mcp_types
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

TOOLS, PROMPTS = Change(ChangeKind.TOOLS), Change(ChangeKind.PROMPTS)

UPDATED = Change(ChangeKind.RESOURCE_UPDATED, "u:1")


def updated(uri: str) -> Change:
    return Change(ChangeKind.RESOURCE_UPDATED, uri)


class WithPrompts(ScriptedAgent):
    """Has prompts, and no resources."""

    def __init__(self) -> None:
        super().__init__(lambda name, arguments: {}, "other", get_mcp_prompts=lambda: [{"name": "greet"}])

    def get_mcp_prompt(self, name: str, arguments: JSON) -> str:
        return name


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
            str(message.params.uri)
            for message in self.messages
            if isinstance(message, mcp_types.ResourceUpdatedNotification)
        ]


@pytest.mark.requirement("P-10")
async def test_a_legacy_client_hears_of_every_list_and_of_what_it_subscribed_to() -> None:
    inbox = Inbox()
    async with running_bridge(Announcer()) as running, running.client("legacy", message_handler=inbox) as client:
        await subscribe(client, "book:1")
        await client.call_tool("announce", {})
        await inbox.until(mcp_types.ResourceUpdatedNotification)
        assert inbox.uris() == ["book:1"]
        assert {
            mcp_types.ToolListChangedNotification,
            mcp_types.PromptListChangedNotification,
            mcp_types.ResourceListChangedNotification,
        } <= {*inbox.kinds()}
        await unsubscribe(client, "book:1")
        await subscribe(client, "book:2")
        await client.call_tool("announce", {})
        await inbox.until(mcp_types.ResourceUpdatedNotification, 2)
        assert inbox.uris() == ["book:1", "book:2"]


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
                if isinstance(event, mcp_subscriptions.ResourceUpdated):
                    break
    assert heard == [
        mcp_subscriptions.ToolsListChanged(),
        mcp_subscriptions.PromptsListChanged(),
        mcp_subscriptions.ResourcesListChanged(),
        mcp_subscriptions.ResourceUpdated("book:1"),
    ]


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


@pytest.mark.requirement("F-096")
async def test_a_modern_client_hears_of_nothing_else() -> None:
    async with running_bridge(Announcer()) as running, running.client() as client:
        async with client.listen(resource_subscriptions=["book:2"]) as subscription:
            await client.call_tool("announce", {})
            async for event in subscription:
                assert event == mcp_subscriptions.ResourceUpdated("book:2")
                break


@pytest.mark.requirement("F-096")
async def test_listening_is_limited_and_whoever_stops_makes_room() -> None:
    agent = Announcer()
    async with running_bridge(agent) as running, running.client() as client:
        async with AsyncExitStack() as streams:
            with pytest.raises(mcp.MCPError) as caught:
                for _ in range(2_000):
                    await streams.enter_async_context(client.listen(tools_list_changed=True))
            assert caught.value.code == mcp_types.INTERNAL_ERROR
        async with client.listen(tools_list_changed=True) as subscription:
            agent.notify_mcp_tools_changed()
            assert await anext(aiter(subscription)) == mcp_subscriptions.ToolsListChanged()


async def test_the_new_list_is_there_when_the_client_hears_of_it() -> None:
    agent = Announcer()
    inbox = Inbox()
    async with running_bridge(agent) as running, running.client("legacy", message_handler=inbox) as client:
        await ping(client)
        agent.tools.append(tool("more"))
        agent.notify_mcp_tools_changed()
        await inbox.until(mcp_types.ToolListChangedNotification)
        assert [item.name for item in (await client.list_tools()).tools] == ["announce", "work", "more"]


@pytest.mark.requirement("F-294")
async def test_a_client_hears_of_a_new_source_what_that_source_has() -> None:
    inbox = Inbox()
    async with running_bridge(Announcer(), WithPrompts()) as running:
        async with running.client("legacy", message_handler=inbox) as client:
            await ping(client)
            await running.bridge.add_agent(ScriptedAgent(lambda name, arguments: {}, "extra"), "third")
            await inbox.until(mcp_types.ToolListChangedNotification)
            assert inbox.kinds() == [mcp_types.ToolListChangedNotification]
            await running.bridge.add_agent(WithPrompts(), "fourth")
            await inbox.until(mcp_types.ToolListChangedNotification, 2)
            assert inbox.kinds()[1:] == [mcp_types.PromptListChangedNotification, mcp_types.ToolListChangedNotification]


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
            await inbox.until(mcp_types.ResourceUpdatedNotification)


async def test_listening_ends_in_good_order_when_the_streams_are_closed() -> None:
    async with running_bridge(Announcer()) as running, running.client() as client:
        async with client.listen(tools_list_changed=True) as subscription:
            running.bridge.close_streams()
            with anyio.fail_after(PATIENCE):
                assert [event async for event in subscription] == []


class Reader:
    """The channel of one client, which it may leave unread."""

    can_ask = True

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = reads
        self.told: list[str] = []
        self.waiting = anyio.Event()
        self.heard = anyio.Event()

    async def send(self, message: bytes) -> None:
        if not self.reads:
            self.waiting.set()
            await anyio.sleep_forever()
        self.told.append(json.loads(message)["method"])
        self.heard.set()

    def end(self) -> None: ...


@asynccontextmanager
async def subscribing(patience: float = PATIENCE, resources: int = 1_000) -> AsyncGenerator[Subscribers]:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
    made = Subscribers(catalog, SubscriptionLimits(notify_timeout=patience, resources=resources))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(made.interest.run)
            yield made
            tasks.cancel_scope.cancel()


@pytest.mark.requirement("F-090")
async def test_a_client_that_does_not_read_delays_no_other() -> None:
    deaf, attentive = Reader(reads=False), Reader()
    async with subscribing() as subscriptions:
        subscriptions.add_legacy(ClientConnection(deaf))
        subscriptions.add_legacy(ClientConnection(attentive))
        subscriptions.publish(TOOLS)
        await deaf.waiting.wait()
        await attentive.heard.wait()
        for _ in range(10_000):
            subscriptions.publish(TOOLS)
        attentive.heard = anyio.Event()
        subscriptions.publish(PROMPTS)
        await attentive.heard.wait()
        await anyio.wait_all_tasks_blocked()
    assert attentive.told == [f"notifications/{kind}/list_changed" for kind in ("tools", "tools", "prompts")]


@pytest.mark.requirement("F-090")
async def test_a_client_that_reads_again_after_its_time_was_up_is_told_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Reader(reads=False)
    async with subscribing(patience=0.01) as subscriptions:
        subscriptions.add_legacy(ClientConnection(client))
        subscriptions.publish(TOOLS)
        await client.waiting.wait()
        client.reads = True
        subscriptions.publish(PROMPTS)
        await client.heard.wait()
    assert client.told == ["notifications/prompts/list_changed"]
    assert "did not accept" in caplog.text


@pytest.mark.requirement("F-087")
async def test_a_client_is_forgotten_when_its_connection_ends() -> None:
    client, other = Reader(), Reader()
    async with subscribing() as subscriptions:
        ended = ClientConnection(client)
        subscriptions.add_legacy(ended)
        subscriptions.add_legacy(ended)
        subscriptions.add_legacy(ClientConnection(other))
        ended.close()
        subscriptions.publish(TOOLS)
        await other.heard.wait()
    assert client.told == []


async def test_subscriptions_of_a_legacy_client_are_its_own() -> None:
    one, two = Reader(), Reader()
    async with subscribing() as subscriptions:
        first, second = ClientConnection(one), ClientConnection(two)
        subscriptions.add_legacy(second)
        await subscriptions.subscribe(first, "u:1")  # some clients never say that their handshake is over
        await subscriptions.subscribe(second, "u:2")
        await subscriptions.subscribe(second, "u:1")
        subscriptions.unsubscribe(second, "u:1")
        subscriptions.publish(updated("u:1"))
        subscriptions.publish(updated("u:2"))
        await one.heard.wait()
        await two.heard.wait()
        await anyio.wait_all_tasks_blocked()
    assert (one.told, two.told) == (["notifications/resources/updated"],) * 2


@pytest.mark.requirement("S-14")
async def test_a_legacy_client_may_subscribe_to_so_many_resources_and_no_more() -> None:
    async with subscribing(resources=2) as subscriptions:
        client = ClientConnection(Reader())
        await subscriptions.subscribe(client, "u:1")
        await subscriptions.subscribe(client, "u:2")
        await subscriptions.subscribe(client, "u:2")
        with pytest.raises(ProtocolError, match="updates of 2 resources; unsubscribe from some") as caught:
            await subscriptions.subscribe(client, "u:3")
        assert caught.value.code == mcp_types.INVALID_PARAMS
        subscriptions.unsubscribe(client, "u:1")
        await subscriptions.subscribe(client, "u:3")


@pytest.mark.requirement("S-14")
async def test_a_modern_client_may_listen_to_so_many_resources_and_no_more() -> None:
    settings = Settings(subscriptions=SubscriptionLimits(resources=2))
    async with running_bridge(Announcer(), settings=settings) as running, running.client() as client:
        with pytest.raises(mcp.MCPError, match="updates of 2 resources"):
            async with client.listen(resource_subscriptions=["u:1", "u:2", "u:3"]):
                raise AssertionError("it was confirmed")
        async with client.listen(resource_subscriptions=["u:1", "u:2"]):
            pass


async def test_a_handshake_that_ends_after_the_endpoint_did_is_harmless() -> None:
    async with subscribing() as subscriptions:
        pass
    subscriptions.add_legacy(ClientConnection(Reader()))
    subscriptions.publish(TOOLS)


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
                await inbox.until(mcp_types.ToolListChangedNotification, number + 2)
            assert not (await second.call_tool("work", {})).is_error


class TellingSource(FixedSource):
    """Notes what it is asked."""

    def __init__(self, name: str, *resources: str) -> None:
        super().__init__(name, kind=SourceKind.SERVER, resources=resources)
        self.asked: list[str] = []
        self.refuses = False
        self.answers = anyio.Event()
        self.answers.set()

    async def subscribe(self, uri: str) -> None:
        self.asked.append(f"+{uri}")
        await self.answers.wait()
        if self.refuses:
            raise ProtocolError(-32602, "cannot watch that")

    async def unsubscribe(self, uri: str) -> None:
        self.asked.append(f"-{uri}")


class Interest(ResourceInterest):
    """The interest in some sources."""

    def __init__(self, *sources: FixedSource) -> None:
        self.catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
        for source in sources:
            self.catalog.add(source)
        self.announced: list[Change] = []
        super().__init__(self.catalog, self.announced.append)

    async def hold(self, uri: str) -> None:
        self.add(uri)
        await self.ask(uri)


@asynccontextmanager
async def interest(*sources: FixedSource) -> AsyncGenerator[Interest]:
    made = Interest(*sources)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(made.run)
            yield made
            tasks.cancel_scope.cancel()


@pytest.mark.requirement("P-5")
async def test_a_source_is_asked_once_for_many_clients_and_told_when_the_last_is_gone() -> None:
    source = TellingSource("one", "u:1", "u:2")
    async with interest(source) as interests:
        await interests.hold("u:1")
        await interests.hold("u:1")
        await interests.hold("u:2")
        assert source.asked == ["+u:1", "+u:2"]
        interests.discard("u:1")
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1", "+u:2"]
        interests.discard("u:1")
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1", "+u:2", "-u:1"]
        await interests.hold("u:1")
        assert source.asked[-1] == "+u:1"


async def test_who_leaves_while_the_source_is_being_asked_is_still_given_up_afterwards() -> None:
    source = TellingSource("one", "u:1")
    source.answers = anyio.Event()
    async with interest(source) as interests, anyio.create_task_group() as tasks:
        interests.add("u:1")
        tasks.start_soon(interests.ask, "u:1")
        await anyio.wait_all_tasks_blocked()
        interests.discard("u:1")
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1"]
        source.answers.set()
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1", "-u:1"]


async def test_a_second_client_learns_for_itself_that_the_source_refuses() -> None:
    source = TellingSource("one", "u:1")
    source.refuses = True
    async with interest(source) as interests:
        for _ in range(2):
            interests.add("u:1")
            with pytest.raises(ProtocolError, match="cannot watch that"):
                await interests.ask("u:1")
            interests.discard("u:1")
        source.refuses = False
        await interests.hold("u:1")
        assert source.asked == ["+u:1"] * 3


async def test_what_somebody_else_offers_from_now_on_is_asked_of_them() -> None:
    first, second = TellingSource("one", "u:1"), TellingSource("two", "u:1")
    async with interest(first, second) as interests:
        await interests.hold("u:1")
        interests.catalog.remove("one")
        await anyio.wait_all_tasks_blocked()
        assert (first.asked, second.asked) == (["+u:1", "-u:1"], ["+u:1"])
        interests.discard("u:1")
        await anyio.wait_all_tasks_blocked()
        assert (first.asked, second.asked) == (["+u:1", "-u:1"], ["+u:1", "-u:1"])


async def test_what_nobody_offers_yet_is_asked_for_when_it_appears() -> None:
    source = TellingSource("one", "u:2")
    async with interest(source, TellingSource("two", "u:3")) as interests:
        interests.add("u:1")
        await interests.ask_all(["u:1"], PATIENCE)
        assert source.asked == []
        source.change(Change(ChangeKind.RESOURCES), source.offering(resources=("u:1",)))
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1"]
        source.change(Change(ChangeKind.RESOURCES), source.offering(resources=()))
        await anyio.wait_all_tasks_blocked()
        assert source.asked == ["+u:1", "-u:1"]


async def test_a_slow_source_is_not_waited_for_and_what_it_may_not_have_told_is_announced() -> None:
    slow, quick = TellingSource("one", "u:1"), TellingSource("two", "u:2")
    slow.answers = anyio.Event()
    async with interest(slow, quick) as interests:
        for uri in ("u:1", "u:2"):
            interests.add(uri)
        await interests.ask_all(["u:1", "u:2"], 0.01)
        assert quick.asked == ["+u:2"]
        slow.answers.set()
        await anyio.wait_all_tasks_blocked()
        assert interests.announced == [UPDATED]


async def test_what_is_asked_for_in_time_is_not_announced() -> None:
    source = TellingSource("one", "u:1")
    async with interest(source) as interests:
        interests.add("u:1")
        await interests.ask_all(["u:1"], PATIENCE)
        assert (source.asked, interests.announced) == (["+u:1"], [])


async def test_one_source_that_refuses_keeps_nobody_from_hearing_of_others(caplog: pytest.LogCaptureFixture) -> None:
    bad, good = TellingSource("one", "u:1"), TellingSource("two", "u:2")
    bad.refuses = True
    async with interest(bad, good) as interests:
        for uri in ("u:1", "u:2"):
            interests.add(uri)
        await interests.ask_all(["u:1", "u:2"], PATIENCE)
        assert good.asked == ["+u:2"]
    assert "no updates of u:1: cannot watch that" in caplog.text


async def test_after_the_end_nobody_is_asked_anything() -> None:
    source = TellingSource("one", "u:1")
    async with interest(source) as interests:
        await interests.hold("u:1")
    interests.discard("u:1")
    interests.add("u:1")
    await interests.ask_all(["u:1"], PATIENCE)
    source.change(Change(ChangeKind.RESOURCES))
    assert source.asked == ["+u:1"]
