"""When an upstream runs, what it offers meanwhile, and which requests reach it. In virtual time."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.client.transport import LaunchError, UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import (
    ArgumentTransform,
    Change,
    ChangeKind,
    HttpServerSpec,
    ServerOptions,
    SourceState,
    SourceStatus,
    StdioServerSpec,
    ToolTransform,
)
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from tests.bridge.sources.upstream.servant import CAPABILITIES, MemoryCache, Servant, tools_named
from tests.support.upstreams import FakeRequest, Heard, running, text_of
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

LIMITS = UpstreamLimits(backoff_start=1, idle_timeout=100, call_timeout=20, call_cap=60, connect_timeout=30)
TOOLS = Change(ChangeKind.TOOLS)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


def entry(**options: Any) -> StdioServerSpec:
    return StdioServerSpec("up", "scripted", options=ServerOptions(**options))


async def say(upstream: Upstream, name: str = "echo") -> str:
    return text_of(await upstream.call_tool(name, {}, FakeRequest()))


def names(upstream: Upstream) -> list[str]:
    return [tool["name"] for tool in upstream.features.tools]


def state(upstream: Upstream) -> SourceState:
    return upstream.status.state


async def known(servant: Servant) -> MemoryCache:
    """What is remembered of a server that ran once."""
    cache = MemoryCache()
    async with running(entry(), LIMITS, transport=servant, cache=cache):
        await anyio.sleep(1)
    servant.asked.clear()
    servant.wires.clear()
    return cache


# Lazy


async def test_a_server_that_is_known_is_listed_at_once_and_started_by_the_first_call() -> None:
    servant = Servant()
    cache = await known(servant)
    async with running(entry(), LIMITS, transport=servant, cache=cache) as upstream:
        heard = Heard(upstream)
        await anyio.sleep(1_000)
        assert upstream.status == SourceStatus(SourceState.STOPPED, "it starts when it is first used")
        assert (names(upstream), servant.wires) == (["echo", "hang", "crash", "expire"], [])
        assert await say(upstream) == "echo"
        assert state(upstream) is SourceState.READY
        await anyio.sleep(101)
        assert state(upstream) is SourceState.STOPPED
        assert servant.wire.closed.is_set()
        assert names(upstream) == ["echo", "hang", "crash", "expire"]
        assert await say(upstream) == "echo"
        assert (len(servant.wires), heard.changes) == (2, [])


@pytest.mark.requirement("P-5")
async def test_if_the_lists_are_others_than_they_were_clients_are_told() -> None:
    servant = Servant()
    cache = await known(servant)
    servant.tools = tools_named("echo", "new")
    async with running(entry(), LIMITS, transport=servant, cache=cache) as upstream:
        heard = Heard(upstream)
        await say(upstream)
        assert (heard.changes, names(upstream)) == ([TOOLS], ["echo", "new"])
        await anyio.sleep(1)
    async with running(entry(), LIMITS, transport=servant, cache=cache) as upstream:
        assert names(upstream) == ["echo", "new"]


@pytest.mark.parametrize("what", ["call", "prompt", "resource", "complete", "subscribe"])
async def test_every_kind_of_request_starts_it(what: str) -> None:
    servant = Servant()
    cache = await known(servant)
    request = FakeRequest()
    async with running(entry(), LIMITS, transport=servant, cache=cache) as upstream:
        try:
            match what:
                case "call":
                    await upstream.call_tool("echo", {}, request)
                case "prompt":
                    await upstream.get_prompt("p", {}, request)
                case "resource":
                    await upstream.read_resource("a:b", request)
                case "complete":
                    await upstream.complete(
                        {"type": "ref/prompt", "name": "p"}, {"name": "a", "value": ""}, {}, request
                    )
                case _:
                    await upstream.subscribe("a:b")
        except ProtocolError as error:
            assert error.code == -32601
        assert len(servant.wires) == 1


async def test_a_server_that_is_not_known_is_started_at_once_and_known_from_then_on() -> None:
    servant, cache = Servant(), MemoryCache()
    async with running(entry(), LIMITS, transport=servant, cache=cache) as upstream:
        assert state(upstream) is SourceState.READY
        await anyio.sleep(1)
        [remembered] = cache.entries.values()
        assert remembered.features == upstream.features
        assert remembered.era.value == "legacy"


async def test_a_server_that_is_not_lazy_is_started_at_once_and_kept() -> None:
    servant = Servant()
    cache = await known(servant)
    servant.slow = 5
    upstream = Upstream(entry(lazy=False), LIMITS, transport=servant, cache=cache)
    async with anyio.create_task_group() as tasks:
        await tasks.start(upstream.run)
        assert (names(upstream)[0], state(upstream)) == ("echo", SourceState.STARTING)
        await anyio.sleep(2_000)
        assert (state(upstream), len(servant.wires)) == (SourceState.READY, 1)
        tasks.cancel_scope.cancel()


async def test_what_was_the_era_last_time_is_not_probed_again() -> None:
    servant = Servant()
    cache = await known(servant)
    async with running(entry(), LIMITS, transport=servant, cache=cache) as upstream:
        await say(upstream)
        assert [message["method"] for message in servant.wire.received][:2] == [
            "initialize",
            "notifications/initialized",
        ]


async def test_a_server_that_is_disabled_is_listed_without_anything_and_never_started() -> None:
    servant = Servant()
    cache = await known(servant)
    async with running(entry(disabled=True), LIMITS, transport=servant, cache=cache) as upstream:
        assert upstream.status == SourceStatus(SourceState.STOPPED, "its entry in the configuration disables it")
        assert names(upstream) == []
        assert "its entry in the configuration disables it" in await say(upstream)
        upstream.retry()
        await anyio.sleep(100)
        assert servant.wires == []


async def test_a_request_waits_while_the_server_starts_but_not_longer_than_it_may() -> None:
    servant = Servant()
    servant.slow = 10
    upstream = Upstream(entry(), LIMITS, transport=servant)
    impatient = Upstream(entry(timeout=5), LIMITS, transport=servant)
    async with anyio.create_task_group() as tasks:
        await tasks.start(upstream.run)
        assert await say(upstream) == "echo"
        tasks.cancel_scope.cancel()
    async with anyio.create_task_group() as tasks:
        await tasks.start(impatient.run)
        assert "it is still starting; try again in a moment" in await say(impatient)
        tasks.cancel_scope.cancel()


# Options


async def test_only_the_tools_that_the_configuration_permits_are_offered_and_callable() -> None:
    servant = Servant("a", "b", "c")
    cache = await known(servant)
    options = {"allowed_tools": ("a", "b"), "disabled_tools": ("b",)}
    for remembered in (cache, None):
        async with running(entry(**options), LIMITS, transport=servant, cache=remembered) as upstream:
            assert names(upstream) == ["a"]
            assert await say(upstream, "a") == "a"
            for name in ("b", "c"):
                with pytest.raises(ProtocolError, match=f"Unknown tool: {name}"):
                    await say(upstream, name)
    async with running(entry(), LIMITS, transport=servant, cache=cache) as upstream:
        assert names(upstream) == ["a", "b", "c"]
    assert {"b", "c"}.isdisjoint(servant.asked)


async def test_tailored_tools_are_called_by_their_new_names_and_reach_the_server_by_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    servant = Servant("a", "b", "c")
    servant.tools[0]["inputSchema"]["properties"] = {"x": {}, "y": {}}
    servant.tools[0]["outputSchema"] = {"type": "object", "required": ["z"]}
    arguments = {"x": ArgumentTransform(name="n"), "y": ArgumentTransform(default=5, hidden=True)}
    transformed: dict[str, Any] = {
        "a": ToolTransform(name="new", arguments=arguments),
        "b": ToolTransform(hidden=True),
        "gone": ToolTransform(name="old"),
        "c": ToolTransform(arguments={"none": ArgumentTransform(hidden=True)}),
    }
    cache = await known(servant)
    for remembered in (cache, None):
        async with running(entry(tools=transformed), LIMITS, transport=servant, cache=remembered) as upstream:
            assert names(upstream) == ["new"]
            assert [item.name for item in upstream.features.left_out] == ["gone", "c"]
            await anyio.sleep(1)
            assert text_of(await upstream.call_tool("new", {"n": 1}, FakeRequest())) == "a"
            params = servant.wire.received[-1]["params"]
            assert (params["name"], params["arguments"]) == ("a", {"x": 1, "y": 5})
            refused = await upstream.call_tool("new", {"y": 1}, FakeRequest())
            assert (text_of(refused), refused["isError"]) == ("tool 'new' has no argument 'y'", True)
            for name in transformed:
                with pytest.raises(ProtocolError, match=f"Unknown tool: {name}"):
                    await say(upstream, name)
    told = "tool 'gone' is left out: it cannot be as the configuration wants it: the server has no such tool"
    assert caplog.messages.count(f"upstream 'up': {told}") == 2  # once in each life


async def test_tools_are_published_otherwise_while_the_server_goes_on_running() -> None:
    servant = Servant("a", "b")
    async with running(entry(), LIMITS, transport=servant) as upstream:
        heard = Heard(upstream)
        await say(upstream, "a")
        upstream.adjust(entry(tools={"a": ToolTransform(name="new")}, disabled_tools=("b",)))
        assert (names(upstream), heard.changes) == (["new"], [TOOLS])
        assert await say(upstream, "new") == "a"
        upstream.adjust(entry(tools={"a": ToolTransform(name="new")}, disabled_tools=("b",)))
        assert heard.changes == [TOOLS]
        upstream.adjust(entry())
        assert (names(upstream), heard.changes) == (["a", "b"], [TOOLS, TOOLS])
        assert len(servant.wires) == 1


async def test_a_server_that_failed_is_tried_again_when_its_tools_are_to_be_published_otherwise() -> None:
    servant = Servant("a")
    servant.failures = [LaunchError("cannot be started")]
    async with running(entry(), LIMITS, transport=servant) as upstream:
        assert state(upstream) is SourceState.FAILED
        upstream.adjust(entry(tools={"a": ToolTransform(name="new")}))
        await upstream.wait_settled()
        await anyio.sleep(1)
        assert (state(upstream), names(upstream)) == (SourceState.READY, ["new"])


async def test_a_broken_promise_of_a_tailored_tool_is_told_by_its_new_name() -> None:
    servant = Servant("a")
    servant.tools[0]["outputSchema"] = {"type": "object", "required": ["z"]}
    servant.structured = {"n": 1}
    async with running(entry(tools={"a": ToolTransform(name="new")}), LIMITS, transport=servant) as upstream:
        assert "against the output schema of its tool 'new'" in await say(upstream, "new")


@pytest.mark.requirement("F-201")
async def test_an_answer_that_is_nested_too_deeply_for_a_schema_that_refers_to_itself_is_an_error_at_once() -> None:
    servant, again = Servant("a"), {"$ref": "#/$defs/e"}
    node = {"type": "object", "properties": {"n": again}, "required": ["n"]}
    union = {"anyOf": [{"type": "number"}, node, {**node, "properties": {"n": again, "m": again}}]}
    servant.tools[0]["outputSchema"] = {"type": "object", "properties": {"n": again}, "$defs": {"e": union}}
    servant.structured = json.loads('{"n": ' * 28 + '"oops"' + "}" * 28)
    async with running(entry(), LIMITS, transport=servant) as upstream:
        assert "at /n: it does not fit the schema, and is too large or too nested" in await say(upstream, "a")


async def test_an_entry_may_have_deadlines_of_its_own() -> None:
    servant = Servant()
    servant.slow = 12
    async with running(entry(timeout=90, startup_timeout=10), LIMITS, transport=servant) as upstream:
        assert state(upstream) is SourceState.BACKOFF
        assert "within 10 s" in upstream.status.reason
        servant.slow = 0
        await say(upstream)
        began = anyio.current_time()
        assert "did not answer tools/call within 90 s" in await say(upstream, "hang")
        assert anyio.current_time() - began == pytest.approx(90)


async def test_more_requests_than_it_may_have_wait_their_turn_within_their_deadline() -> None:
    answers: list[str] = []
    async with running(entry(max_concurrency=2, timeout=30), LIMITS, transport=(servant := Servant())) as upstream:
        async with anyio.create_task_group() as tasks:

            async def hang() -> None:
                answers.append(await say(upstream, "hang"))

            for _ in range(2):
                tasks.start_soon(hang)
            await anyio.sleep(1)
            answers.append(await say(upstream))
            assert servant.asked.count("echo") == 1
            assert servant.asked.count("hang") == 2
    assert answers[-1] == "echo"


async def test_who_gets_no_turn_in_time_is_told() -> None:
    answers: list[str] = []
    async with running(entry(max_concurrency=1), LIMITS, transport=(servant := Servant())) as upstream:

        async def hang() -> None:
            answers.append(await say(upstream, "hang"))

        async with anyio.create_task_group() as tasks:
            for _ in range(2):  # the second gets its turn when the first gives up
                tasks.start_soon(hang)
                await anyio.sleep(1)
            tasks.start_soon(hang)
    assert servant.asked.count("hang") == 2
    assert sum("works on 1 requests, which is all it may; try again later" in text for text in answers) == 1


# Ends


@pytest.mark.requirement("F-004", "F-053")
async def test_a_request_in_flight_when_the_server_crashes_is_never_made_again() -> None:
    async with running(entry(), LIMITS, transport=(servant := Servant())) as upstream:
        text = await say(upstream, "crash")
        assert text.startswith("upstream 'up' exited with status 5")
        assert upstream.status == SourceStatus(SourceState.BACKOFF, "it exited with status 5")
        assert await say(upstream) == "echo"
        assert (servant.asked.count("crash"), len(servant.wires)) == (1, 2)


@pytest.mark.requirement("F-053")
async def test_a_request_of_a_session_that_was_forgotten_is_made_once_more_in_a_new_one() -> None:
    async with running(entry(), LIMITS, transport=(servant := Servant())) as upstream:
        assert await say(upstream, "expire") == "upstream 'up' has ended the session (tool 'expire')"
        assert servant.asked.count("expire") == 2
        assert await say(upstream) == "echo"
        assert state(upstream) is SourceState.READY


@pytest.mark.requirement("F-053")
async def test_a_session_that_ends_with_word_of_it_is_opened_again_at_once() -> None:
    async with running(entry(), LIMITS, transport=(servant := Servant())) as upstream:
        servant.wire.end("has ended the session")
        assert state(upstream) is SourceState.STOPPED
        assert await say(upstream) == "echo"


@pytest.mark.requirement("F-007")
async def test_requests_that_get_no_answer_lead_to_a_ping_and_that_to_a_restart() -> None:
    async with running(entry(), LIMITS, transport=(servant := Servant())) as upstream:
        servant.mute = True
        for _ in range(3):
            assert state(upstream) is SourceState.READY
            assert "within 20 s" in await say(upstream)
        assert state(upstream) is SourceState.DEGRADED
        cancelled = [message for message in servant.wire.received if message["method"] == "notifications/cancelled"]
        assert len(cancelled) == 3
        await anyio.sleep(14)
        assert servant.asked[-1] == "ping"
        await anyio.sleep(1.1)
        assert servant.wires[0].closed.is_set()
        servant.mute = False
        await anyio.sleep(40)
        assert await say(upstream) == "echo"


@pytest.mark.requirement("F-050")
async def test_a_server_on_the_network_that_fails_every_request_is_left_alone_for_a_while() -> None:
    spec = HttpServerSpec("up", "http://127.0.0.1:1/mcp")
    async with running(spec, LIMITS, transport=(servant := Servant())) as upstream:
        for _ in range(3):
            assert "HTTP 503" in await say(upstream, "unavailable")
        servant.mute = True
        servant.failures = [UpstreamError("cannot be reached")] * 30
        await anyio.sleep(16 + 200)
        asked = len(servant.asked)
        began = anyio.current_time()
        texts = [await say(upstream) for _ in range(10)]
        assert anyio.current_time() - began < 10 * LIMITS.restart_patience
        assert all("cannot be reached; it is being connected again, try again in" in text for text in texts)
        assert len(servant.asked) == asked
        servant.failures, servant.mute = [], False
        await anyio.sleep(31)
        assert await say(upstream) == "echo"


async def test_the_pause_that_a_server_asks_for_is_told_and_kept() -> None:
    servant = Servant()
    servant.failures = [UpstreamError("answered with HTTP 503", 40.0)]
    async with running(entry(), LIMITS, transport=servant) as upstream:
        assert "try again in 40 s" in await say(upstream)
        await anyio.sleep(39)
        assert servant.wires == []
        await anyio.sleep(2)
        assert await say(upstream) == "echo"


@pytest.mark.requirement("F-043")
async def test_what_it_offers_stays_while_it_is_restarted_and_goes_when_it_has_failed() -> None:
    async with running(entry(), LIMITS, transport=(servant := Servant())) as upstream:
        heard = Heard(upstream)
        features = upstream.features
        await say(upstream, "crash")
        servant.failures = [LaunchError("cannot be started: it is gone")]
        assert upstream.features is features
        await anyio.sleep(3)
        assert state(upstream) is SourceState.FAILED
        assert upstream.features.tools == ()
        assert heard.changes == [TOOLS, Change(ChangeKind.RESOURCES), Change(ChangeKind.INTRODUCTION)]
        upstream.retry()
        assert await say(upstream) == "echo"
        assert upstream.features == features


async def test_who_subscribed_is_subscribed_again_and_told_of_what_may_have_been_missed() -> None:
    async with running(entry(), LIMITS, transport=(servant := Servant())) as upstream:
        heard = Heard(upstream)
        await upstream.subscribe("a:b")
        await anyio.sleep(1_000)
        assert state(upstream) is SourceState.READY  # it is needed
        servant.wire.end("exited")
        assert state(upstream) is SourceState.BACKOFF
        await anyio.sleep(2)
        assert (servant.subscribed, heard.changes) == (["a:b"] * 2, [Change(ChangeKind.RESOURCE_UPDATED, "a:b")])
        await upstream.unsubscribe("a:b")
        await anyio.sleep(101)
        assert state(upstream) is SourceState.STOPPED


async def test_the_server_tells_of_a_resource_until_the_last_of_those_who_asked_is_gone() -> None:
    async with running(entry(), LIMITS, transport=(servant := Servant())) as upstream:
        for _ in range(2):
            await upstream.subscribe("a:b")
        await upstream.unsubscribe("a:b")
        servant.wire.end("exited")
        await anyio.sleep(2)
        assert servant.subscribed == ["a:b"] * 3
        await upstream.unsubscribe("a:b")
        assert servant.subscribed == [*["a:b"] * 3, "-a:b"]


async def test_a_server_that_tells_of_resources_since_its_restart_is_asked_for_what_was_wanted_before() -> None:
    servant = Servant()
    servant.capabilities = {**CAPABILITIES, "resources": {}}
    async with running(entry(), LIMITS, transport=servant) as upstream:
        await upstream.subscribe("a:b")
        assert (servant.subscribed, upstream.details["subscriptions"]) == ([], 0)
        servant.capabilities = CAPABILITIES
        servant.wire.end("exited")
        await upstream.call_tool("echo", {}, FakeRequest())
        assert (servant.subscribed, upstream.details["subscriptions"]) == (["a:b"], 1)
        await upstream.unsubscribe("a:b")
        assert servant.subscribed == ["a:b", "-a:b"]


@pytest.mark.requirement("F-071")
async def test_a_server_that_comes_back_with_other_tools_each_time_is_announced_once_in_ten_seconds() -> None:
    times: list[float] = []
    limits = replace(LIMITS, backoff_cap=1)
    spec = HttpServerSpec("up", "http://127.0.0.1:1/mcp", options=ServerOptions(lazy=False))
    async with running(spec, limits, transport=(servant := Servant())) as upstream:
        upstream.listen(lambda change: times.append(anyio.current_time()))
        for number in range(150):
            servant.tools = tools_named(f"tool-{number}")
            await anyio.sleep(2)
            servant.wire.end("closed the connection")
        await anyio.sleep(20)
        assert names(upstream) == ["tool-149"]
    assert len(times) > 5
    assert min(late - early for early, late in zip(times, times[1:], strict=False)) >= 10


@pytest.mark.requirement("F-035", "P-5")
async def test_a_server_that_says_all_the_time_that_it_changed_is_listed_once_a_second() -> None:
    times: list[float] = []
    async with running(entry(), LIMITS, transport=(servant := Servant())) as upstream:
        upstream.listen(lambda change: times.append(anyio.current_time()))
        for number in range(10_000):
            servant.tools = tools_named(f"tool-{number}")
            servant.wire.notify("notifications/tools/list_changed")
            await anyio.sleep(0.001)
        await anyio.sleep(5)
        assert names(upstream) == ["tool-9999"]
        assert servant.asked.count("tools/list") <= 13
        assert servant.asked.count("resources/list") == 1
    assert min(late - early for early, late in zip(times, times[1:], strict=False)) >= 0.999


async def test_a_listed_change_of_nothing_is_told_as_such() -> None:
    async with running(entry(), LIMITS, transport=(servant := Servant())) as upstream:
        heard = Heard(upstream)
        servant.wire.notify("notifications/tools/list_changed")
        await anyio.sleep(5)
        assert (heard.changes, servant.asked.count("tools/list")) == ([Change(ChangeKind.TOOLS, is_repeated=True)], 2)


async def test_a_server_that_does_not_list_in_time_is_tried_again() -> None:
    servant = Servant()
    servant.mute = True
    async with running(entry(startup_timeout=5), LIMITS, transport=servant) as upstream:
        assert upstream.status.reason == "it did not say within 5 s what it offers"
        servant.mute = False
        assert await say(upstream) == "echo"


async def test_what_is_known_of_it_for_people_has_no_secrets() -> None:
    spec = StdioServerSpec("up", "scripted", ("--token", "s3cr3t-value"), {"KEY": "s3cr3t-value"})
    async with running(spec, LIMITS, transport=Servant()) as upstream:
        await upstream.subscribe("a:b")
        assert upstream.details == {
            "transport": "stdio",
            "protocolVersion": "2025-11-25",
            "starts": 1,
            "retryIn": 0,
            "requests": 0,
            "subscriptions": 1,
            "era": "auto",
            "otherEras": [],
            "errorLines": 0,
            "lastErrorLines": [],
            "cause": None,
            "garbageLines": 0,
            "firstGarbage": [],
        }
