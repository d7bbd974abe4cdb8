"""Composed sources on a bridge, as their clients see them: agents, servers, and server objects of the SDK."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge import Bridge, Composition, Settings, source
from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.chat_types import ChatRequest
from gaia_bridge.errors import AgentLoadError, PublishError
from gaia_bridge.model import AgentServerSpec, NamingPolicy, ServerOptions, SourceKind, SourceState, ToolTransform
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent, one_tool, tool
from tests.support.bridges import RunningBridge, both_eras, subscribe, text_of
from tests.support.on_demand import mcp, mcp_server, mcp_types
from tests.support.upstreams import raw_server, sdk_server, until_ready
from tests.support.waiting import PATIENCE, until, wait_in_thread

pytestmark = pytest.mark.anyio

ZONES = ("Asia/Tokyo", "Europe/Lisbon", "Europe/Vienna")


class WeatherAgent:
    """An agent with everything that an agent may have."""

    def __init__(self) -> None:
        self.tools = [tool("forecast", place={"type": "string"}), tool("station_admin"), tool("other")]
        self.publisher: Any = None

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return self.tools

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> JSON:
        return {"called": tool_name, "given": arguments}

    def get_mcp_prompts(self) -> list[JSON]:
        return [{"name": "report", "arguments": [{"name": "zone"}]}, {"name": "hidden"}]

    def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> str:
        return f"{name} of {arguments.get('zone')}"

    def get_mcp_resources(self) -> list[JSON]:
        return [{"uri": "weather://now", "name": "now"}, {"uri": "weather://secret/key", "name": "key"}]

    def get_mcp_resource_templates(self) -> list[JSON]:
        return [{"uriTemplate": "weather://in/{zone}", "name": "in"}]

    def read_mcp_resource(self, uri: str) -> str:
        return f"content of {uri}"

    def complete_mcp_argument(self, ref: JSON, argument: str, value: str, context: dict[str, str]) -> list[str]:
        assert ref.get("name") in (None, "report")
        return [zone for zone in ZONES if zone.startswith(value)]

    def on_mcp_published(self, publisher: Any) -> None:
        self.publisher = publisher

    def on_mcp_unpublished(self, publisher: Any) -> None:
        self.publisher = None


def clock() -> Any:
    """A server object of the SDK."""

    def get_current_time(timezone: str) -> str:
        return f"noon in {timezone}"

    def stop() -> str:
        return "stopped"

    def ask_time(zone: str) -> str:
        return f"What time is it in {zone}?"

    server: Any = mcp_server.MCPServer("clock")
    server.tool()(get_current_time)
    server.tool()(stop)
    server.prompt()(ask_time)
    return server


def weather(agent: WeatherAgent | None = None) -> Composition:
    return (
        source(agent or WeatherAgent(), "weather")
        .prefixed("weather_")
        .filtered(deny=["*_admin", "*_hidden", "*secret*"])
    )


async def known(bridge: Bridge) -> None:
    """Wait until it is known what everything offers. What was used before need not run for that."""
    with anyio.fail_after(30):
        for item in bridge.sources:
            await item.learn()


@asynccontextmanager
async def bridge_of(*targets: Any, **options: Any) -> AsyncGenerator[RunningBridge]:
    async with Bridge(**options) as bridge:
        for target in targets:
            await bridge.add(target)
        await known(bridge)
        with anyio.fail_after(PATIENCE * 2):
            yield RunningBridge(bridge)


async def tools_of(client: mcp.Client) -> list[str]:
    return [item.name for item in (await client.list_tools()).tools]


async def prompts_of(client: mcp.Client) -> list[str]:
    return [item.name for item in (await client.list_prompts()).prompts]


async def refusal(awaitable: Any) -> str:
    """The words of a refusal, without the published name that may have been meant."""
    with pytest.raises(mcp.MCPError) as caught:
        await awaitable
    return caught.value.error.message.partition("; did you mean")[0]


@both_eras
@pytest.mark.parametrize("path", ["", "agents/weather"])
async def test_an_agent_is_listed_called_read_and_completed_as_it_is_composed(mode: str, path: str) -> None:
    async with bridge_of(weather()) as running, running.client(mode, path) as client:
        assert await tools_of(client) == ["weather_forecast", "weather_other"]
        result = await client.call_tool("weather_forecast", {"place": "here"})
        assert result.structured_content == {"called": "forecast", "given": {"place": "here"}}
        for name in ("forecast", "weather_station_admin", "station_admin", "weather_none"):
            assert await refusal(client.call_tool(name, {})) == f"Unknown tool: {name}"

        assert await prompts_of(client) == ["weather_report"]
        prompt = await client.get_prompt("weather_report", {"zone": "UTC"})
        assert prompt.messages[0].content == mcp_types.TextContent(text="report of UTC")
        for name in ("report", "weather_hidden", "hidden"):
            assert await refusal(client.get_prompt(name, {})) == f"Unknown prompt: {name}"
            ref = mcp_types.PromptReference(name=name)
            assert await refusal(client.complete(ref, {"name": "zone", "value": "E"})) == f"Unknown prompt: {name}"
        ref = mcp_types.PromptReference(name="weather_report")
        completed = await client.complete(ref, {"name": "zone", "value": "Europe/V"})
        assert completed.completion.values == ["Europe/Vienna"]

        assert [str(item.uri) for item in (await client.list_resources()).resources] == ["weather://now"]
        for uri in ("weather://now", "weather://in/UTC"):
            [content] = (await client.read_resource(uri)).contents
            assert content.model_dump()["text"] == f"content of {uri}"
        for uri in ("weather://secret/key", "weather://elsewhere"):
            assert await refusal(client.read_resource(uri)) == f"Resource not found: {uri}"
        template = mcp_types.ResourceTemplateReference(uri="weather://in/{zone}")
        assert (await client.complete(template, {"name": "zone", "value": "A"})).completion.values == ["Asia/Tokyo"]
        secret = mcp_types.ResourceTemplateReference(uri="weather://secret/key")
        assert "Resource not found" in await refusal(client.complete(secret, {"name": "zone", "value": "A"}))


@both_eras
async def test_a_server_that_runs_as_a_program_is_composed_with_everything_that_it_has(mode: str) -> None:
    target = (
        source(sdk_server())
        .filtered(allow=["add", "echo", "greet", "demo://note*"], deny=["*{number}"])
        .renamed({"add": "plus", "greet": "welcome"})
        .with_defaults({"plus": {"b": 5}, "echo": {"no": 1}})
        .with_defaults({"plus": {"a": 2}}, hidden=True)
    )
    async with bridge_of(target) as running, running.client(mode, "servers/up") as client:
        assert await tools_of(client) == ["plus"]
        [definition] = (await client.list_tools()).tools
        assert definition.input_schema["properties"] == {"b": {"type": "number", "default": 5}}
        assert definition.title == "Add"
        assert (await client.call_tool("plus", {})).structured_content == {"sum": 7}
        assert (await client.call_tool("plus", {"b": 1})).structured_content == {"sum": 3}
        assert text_of(await client.call_tool("plus", {"a": 1})) == "tool 'plus' has no argument 'a'"
        for name in ("add", "fail", "echo"):
            assert await refusal(client.call_tool(name, {"a": 1})) == f"Unknown tool: {name}"
        assert await prompts_of(client) == ["welcome"]
        assert (await client.get_prompt("welcome", {"who": "Ada"})).description == "A greeting."
        assert await refusal(client.get_prompt("greet", {})) == "Unknown prompt: greet"
        ref = mcp_types.PromptReference(name="welcome")
        assert (await client.complete(ref, {"name": "who", "value": "an"})).completion.values == ["anna", "anton"]
        assert (await client.read_resource("demo://note")).contents
        assert (await client.list_resource_templates()).resource_templates == []
        assert "Resource not found" in await refusal(client.read_resource("demo://note/7"))
        [server] = running.bridge.sources
        [left_out] = server.features.left_out
        assert (left_out.name, "it has no argument 'no'" in left_out.reason) == ("echo", True)


@both_eras
@pytest.mark.parametrize("path", ["", "servers/clock"])
async def test_a_server_object_is_composed_whichever_era_it_is_spoken_to_in(mode: str, path: str) -> None:
    target = (
        source(clock())
        .filtered(deny=["stop"])
        .renamed({"get_current_time": "now"})
        .with_defaults({"now": {"timezone": "UTC"}})
        .prefixed("my_")
    )
    async with bridge_of(target, names=NamingPolicy.BARE) as running, running.client(mode, path) as client:
        assert await tools_of(client) == ["my_now"]
        assert text_of(await client.call_tool("my_now", {})) == "noon in UTC"
        assert text_of(await client.call_tool("my_now", {"timezone": "CET"})) == "noon in CET"
        assert await refusal(client.call_tool("my_stop", {})) == "Unknown tool: my_stop"
        assert await prompts_of(client) == ["my_ask_time"]
        prompt = await client.get_prompt("my_ask_time", {"zone": "CET"})
        assert prompt.messages[0].content == mcp_types.TextContent(text="What time is it in CET?")


@both_eras
async def test_three_sources_share_an_endpoint_each_with_its_own_composition(mode: str) -> None:
    targets = (
        weather(),
        source(clock()).renamed({"get_current_time": "now"}).filtered(allow=["now"]),
        source(replace(sdk_server(), name="sums")).filtered(allow=["a*", "demo://*"]),
    )
    async with bridge_of(*targets) as running, running.client(mode) as client:
        assert await tools_of(client) == ["weather_forecast", "weather_other", "clock__now", "sums__add"]
        assert (await client.call_tool("sums__add", {"a": 1, "b": 2})).structured_content == {"sum": 3}
        assert text_of(await client.call_tool("clock__now", {"timezone": "UTC"})) == "noon in UTC"
        assert (await client.call_tool("weather_other", {})).structured_content == {"called": "other", "given": {}}
        for name in ("clock__stop", "clock__get_current_time", "sums__echo", "forecast"):
            assert await refusal(client.call_tool(name, {})) == f"Unknown tool: {name}"
        uris = {str(item.uri) for item in (await client.list_resources()).resources}
        assert uris == {"weather://now", "demo://note"}
        for uri in (*uris, "weather://in/UTC", "demo://note/7"):
            assert (await client.read_resource(uri)).contents
        assert "Resource not found" in await refusal(client.read_resource("weather://secret/key"))


@both_eras
async def test_changes_of_a_composed_source_are_told_and_its_new_tools_composed(mode: str) -> None:
    agent, told = WeatherAgent(), anyio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            told.set()

    settings = Settings(agent=AgentLimits(definitions_max_age=3600))
    async with bridge_of(weather(agent), settings=settings) as running:
        async with running.client(mode, message_handler=heard) as client, _listening(client, mode, told):
            assert await tools_of(client) == ["weather_forecast", "weather_other"]
            agent.tools = [tool("new"), tool("new_admin")]
            agent.publisher.tools_changed()
            await told.wait()
            assert await tools_of(client) == ["weather_new"]
            assert (await client.call_tool("weather_new", {})).structured_content == {"called": "new", "given": {}}
            assert await refusal(client.call_tool("weather_new_admin", {})) == "Unknown tool: weather_new_admin"


@asynccontextmanager
async def _listening(client: mcp.Client, mode: str, told: anyio.Event) -> AsyncGenerator[None]:
    """Sets an event when a modern client is told that tools changed; a legacy one is told without asking."""
    if mode == "legacy":
        yield
        return

    async def follow(subscription: Any) -> None:
        async for _ in subscription:
            told.set()

    async with client.listen(tools_list_changed=True) as subscription, anyio.create_task_group() as tasks:
        tasks.start_soon(follow, subscription)
        yield
        tasks.cancel_scope.cancel()


async def test_a_client_is_told_of_updates_of_those_resources_only_that_are_offered() -> None:
    agent, updated = WeatherAgent(), list[str]()

    async def heard(message: Any) -> None:
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            updated.append(str(message.params.uri))

    async with bridge_of(weather(agent)) as running:
        async with running.client("legacy", message_handler=heard) as client:
            await subscribe(client, "weather://now")
            assert "Resource not found" in await refusal(subscribe(client, "weather://secret/key"))
            agent.publisher.resource_updated("weather://secret/key")
            agent.publisher.resource_updated("weather://now")
            await until(lambda: bool(updated))
            assert updated == ["weather://now"]


async def test_everything_that_a_bridge_takes_elsewhere_is_taken_by_add() -> None:
    async with Bridge() as bridge:
        assert await bridge.add(one_tool(lambda _: "ours"), "one") == "one"
        assert await bridge.add(WeatherAgent()) == "weather"
        assert await bridge.add(clock()) == "clock"
        assert await bridge.add(raw_server()) == "up"
        assert await bridge.add(raw_server(), "other") == "other"
        assert await bridge.add(AgentServerSpec("again", "one")) == "again"
        assert await bridge.add(source(WeatherAgent()).prefixed("x_"), "third") == "third"
        assert await bridge.add(source(source(raw_server()).prefixed("x_"), "fourth").prefixed("y_")) == "fourth"
        await known(bridge)
        found = {item.name: [tool["name"] for tool in item.features.tools][:1] for item in bridge.sources}
        assert (found["again"], found["third"]) == (["work"], ["x_forecast"])
        assert found["fourth"][0].startswith("y_x_")
        with pytest.raises(PublishError, match="the agent .* has that name"):
            await bridge.add(source(WeatherAgent(), "weather").prefixed("x_"))
        with pytest.raises(AgentLoadError, match="expected an instance"):
            await bridge.add(source(WeatherAgent).prefixed("x_"))
        with pytest.raises(AgentLoadError, match="expected an instance"):
            await bridge.add("weather.py")


async def test_a_composed_server_is_reported_retried_adjusted_and_drained_as_any_other() -> None:
    spec = replace(raw_server(), options=ServerOptions(lazy=False))
    async with bridge_of(source(spec).renamed({"gone": "new"}).prefixed("my_")) as running:
        bridge = running.bridge
        await until_ready(*bridge.sources)
        [reported] = bridge.status()["sources"]
        assert (reported["state"], reported["connection"]["transport"]) == ("ready", "stdio")
        assert [item["name"] for item in reported["leftOut"]] == ["gone"]
        [server] = bridge.sources
        assert server.kind is SourceKind.SERVER
        before = [item["name"] for item in server.features.tools]
        bridge.retry("up")
        hidden = before[0].removeprefix("my_")
        bridge.adjust_upstream(replace(spec, options=ServerOptions(tools={hidden: ToolTransform(hidden=True)})))
        assert [item["name"] for item in server.features.tools] == before[1:]
        await bridge.remove("up")
        await until(lambda: server.status.state is not SourceState.READY)
        assert bridge.sources == []


async def test_a_composed_server_that_is_removed_answers_what_it_is_working_on() -> None:
    begun, let = threading.Event(), threading.Event()

    def work(arguments: JSON) -> str:
        begun.set()
        return "done" if let.wait(PATIENCE) else "stuck"

    async with bridge_of(one_tool(work)) as running, running.client() as client:
        name = running.bridge.sources[0].name
        await running.bridge.add(source(AgentServerSpec("server", name)).prefixed("my_"))
        await known(running.bridge)
        answers: list[str] = []

        async def call() -> None:
            answers.append(text_of(await client.call_tool("server__my_work", {})))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await wait_in_thread(lambda seconds: begun.wait(seconds))
            await running.bridge.remove("server")
            let.set()
        assert answers == ["done"]


async def test_a_composed_agent_that_converses_is_a_model_and_an_agent_that_others_can_use() -> None:
    class Chatty(ScriptedAgent):
        def get_model_id(self) -> str:
            return "chatty"

        def get_model_info(self) -> JSON:
            return {}

        async def answer_chat(self, request: ChatRequest) -> str:
            return "hello"

    agent = Chatty(lambda name, _: name, "work")
    async with bridge_of(source(agent, "chatty").prefixed("my_")) as running:
        assert running.bridge.models == {"chatty": "chatty"}
        await running.bridge.add(AgentServerSpec("whole", "chatty"))
        await known(running.bridge)
        async with running.client() as client:
            assert await tools_of(client) == ["my_work", "whole__work"]
        await running.bridge.remove("chatty")
        assert running.bridge.models == {}


@both_eras
@pytest.mark.parametrize("target", ["agent", "server"])
async def test_a_composed_tool_asks_and_goes_on_with_the_answer(mode: str, target: str) -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def execute(name: str, arguments: JSON) -> JSON:
        return {"called": name, "given": arguments, "answer": get_request_context().elicit("How many?", form).content}

    agent = ScriptedAgent(execute, tool("ask", key={"type": "string"}))
    description = source(agent, "asking").with_defaults({"ask": {"key": "k"}}, hidden=True).prefixed("my_")
    if target == "server":
        description = source(AgentServerSpec("asking", "plain")).with_defaults({"ask": {"key": "k"}}).prefixed("my_")

    async def answer(context: Any, params: Any) -> Any:
        return mcp_types.ElicitResult(action="accept", content={"n": 7})

    async with Bridge(names=NamingPolicy.BARE) as bridge:
        if target == "server":
            await bridge.add(agent, "plain")
        await bridge.add(description)
        await known(bridge)
        async with RunningBridge(bridge).client(mode, elicitation_callback=answer) as client:
            result = await client.call_tool("my_ask", {})
    assert result.structured_content == {"called": "ask", "given": {"key": "k"}, "answer": {"n": 7}}
