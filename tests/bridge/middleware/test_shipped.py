"""The middleware that comes with the bridge does what it says, beside other sources, in both eras."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from gaia_bridge import Bridge, ProtocolError, StdioServerSpec, ToolError, get_request_context, tool
from gaia_bridge.calls.results import kept_results
from gaia_bridge.middleware import (
    CallNext,
    McpRequest,
    Middleware,
    RateLimit,
    ResultCache,
    ResultSize,
    RetryReads,
    TimingLog,
    result_cache,
    shipped,
)
from gaia_bridge.model import Change, ChangeKind
from gaia_bridge.testing import RecordingClient, connected
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent, one_tool
from tests.support.on_demand import mcp_server

pytestmark = pytest.mark.anyio

Era = Literal["legacy", "modern"]
both_eras = pytest.mark.parametrize("era", ["legacy", "modern"])


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (shipped, result_cache, kept_results):
        monkeypatch.setattr(module, "time", clock)
    return clock


@asynccontextmanager
async def serving(
    middleware: Middleware, agent: Any, era: Era | None = None, **options: Any
) -> AsyncGenerator[RecordingClient]:
    """An agent beside a server of the SDK and another agent."""
    server = mcp_server.MCPServer("goods")

    @server.tool()
    def stock() -> str:
        return "full"

    async with Bridge(agent, server, middleware=[middleware]) as bridge:
        await bridge.add(one_tool(lambda _: "", "other"), "third")
        async with connected(bridge, era=era, **options) as client:
            yield client


# Timing


@both_eras
async def test_each_request_has_a_line_with_how_it_ended(era: Era, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def fail(secret: str) -> str:
        raise ToolError("no")

    caplog.set_level(logging.INFO, "gaia_bridge.middleware.shipped")
    async with serving(TimingLog(), fail, era) as client:
        await client.call_tool("goods__stock")
        with pytest.raises(ToolError):
            await client.call_tool("fail", secret="hunter2")
        with pytest.raises(ProtocolError):
            await client.call_tool("missing")
    lines = [record.getMessage() for record in caplog.records if "tools/call" in record.getMessage()]
    told = [(line.partition(" for gaia-mcp-bridge")[0], line.partition(": ")[2].partition(" in ")[0]) for line in lines]
    assert told == [
        ("tools/call goods__stock", "ok"),
        ("tools/call fail", "tool error"),
        ("tools/call missing", "refused"),
    ]
    assert "hunter2" not in caplog.text


# Rate


@both_eras
async def test_more_requests_than_are_taken_are_told_when_to_come_again(era: Era, clock: Clock) -> None:
    async with serving(RateLimit(2, 10), one_tool(lambda _: "done"), era) as client:
        for _ in range(2):
            assert (await client.call_tool("work")).text == "done"
        with pytest.raises(ToolError, match="2 of a client in 10 s are taken; try again in 5.0 s"):
            await client.call_tool("goods__stock")
        with pytest.raises(ProtocolError, match="try again in 5.0 s"):
            await client.read_resource("any://thing")
        assert len(await client.list_tools()) == 3
        clock.now += 5
        assert (await client.call_tool("work")).text == "done"
        with pytest.raises(ToolError):
            await client.call_tool("work")
        clock.now += 1_000  # no more than a full bucket
        for _ in range(2):
            await client.call_tool("work")
        with pytest.raises(ToolError):
            await client.call_tool("work")


@pytest.mark.parametrize("per_client", [True, False])
async def test_clients_share_only_where_that_is_said(per_client: bool, clock: Clock) -> None:
    async with Bridge(one_tool(lambda _: "done"), middleware=[RateLimit(1, per_client=per_client)]) as bridge:
        async with connected(bridge, era="legacy") as one, connected(bridge, era="legacy") as two:
            await one.call_tool("work")
            if per_client:
                await two.call_tool("work")
            with pytest.raises(ToolError, match="of a client" if per_client else "of all clients together"):
                await two.call_tool("work")


async def test_the_clients_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "_CLIENTS", 2)
    limit = RateLimit(1, 1_000)
    async with Bridge(one_tool(lambda _: "done"), middleware=[limit]) as bridge:
        for _ in range(5):
            async with connected(bridge, era="legacy") as client:
                await client.call_tool("work")
    assert len(limit._buckets) == 2


def test_limits_that_let_nothing_through_are_refused() -> None:
    for make in (lambda: RateLimit(0), lambda: RateLimit(1, 0), lambda: RetryReads(0), lambda: ResultSize(10)):
        with pytest.raises(ValueError, match="expected at least"):
            make()


# Size


@both_eras
async def test_a_large_text_is_its_beginning_and_a_link_to_all_of_it(era: Era, clock: Clock) -> None:
    text = "".join(f"{number:05}\n" for number in range(5_000)) + "é"
    large = one_tool(lambda _: {"content": [{"type": "text", "text": "small"}, {"type": "text", "text": text}]})
    async with serving(ResultSize(4_096, preview=12, seconds=60), large, era) as client:
        result = await client.call_tool("work")
        first, beginning, link = result.content
        assert first == {"type": "text", "text": "small"}
        assert beginning["text"].startswith("00000\n00001\n\n[The first 12 of 30001 characters.")
        assert (link["type"], link["mimeType"], link["size"]) == ("resource_link", "text/plain", 30_002)
        (contents,) = await client.read_resource(link["uri"])
        assert (contents["text"], contents["uri"]) == (text, link["uri"])
        assert (await client.call_tool("goods__stock")).text == "full"
        clock.now += 61
        with pytest.raises(ProtocolError):
            await client.read_resource(link["uri"])


@both_eras
@pytest.mark.parametrize(
    ("block", "kept"),
    [
        (
            {"type": "image", "data": "A" * 8_000, "mimeType": "image/png"},
            {"blob": "A" * 8_000, "mimeType": "image/png"},
        ),
        (
            {"type": "resource", "resource": {"uri": "a://b", "text": "t" * 8_000, "mimeType": "text/x"}},
            {"text": "t" * 8_000, "mimeType": "text/x"},
        ),
    ],
)
async def test_other_blocks_are_links_too(era: Era, block: Any, kept: Any) -> None:
    async with serving(ResultSize(4_096), one_tool(lambda _: {"content": [block]}), era) as client:
        link = (await client.call_tool("work")).content[-1]
        (contents,) = await client.read_resource(link["uri"])
        assert contents == {**kept, "uri": link["uri"]}


@both_eras
async def test_structured_content_stays_where_a_schema_promises_it_and_goes_where_none_does(era: Era) -> None:
    @tool
    def promised() -> list[str]:
        return ["x" * 100] * 100

    data = {"rows": ["y" * 100] * 100}
    free = ScriptedAgent(
        lambda name, arguments: {"content": [], "structuredContent": data}, {"name": "free", "inputSchema": {}}
    )
    async with Bridge(promised, free, middleware=[ResultSize(4_096)]) as bridge, connected(bridge, era=era) as client:
        result = await client.call_tool("promised")
        assert result.structured_content == {"result": ["x" * 100] * 100}
        assert result.content[-1]["type"] == "resource_link"
        result = await client.call_tool("free")
        assert result.structured_content is None
        (contents,) = await client.read_resource(result.content[-1]["uri"])
        assert json.loads(contents["text"]) == data


@both_eras
async def test_of_a_function_that_returns_a_text_structured_content_is_small_too(era: Era) -> None:
    @tool
    def report() -> str:
        return "x" * 50_000

    async with serving(ResultSize(4_096, preview=5), report, era) as client:
        result = await client.call_tool("report")
        assert result.content[0]["text"].startswith("xxxxx\n[The first 5 of 50000")
        assert result.structured_content == {"result": result.content[0]["text"]}
        (contents,) = await client.read_resource(result.content[-1]["uri"])
        assert contents["text"] == "x" * 50_000


@both_eras
@pytest.mark.parametrize("length", [1_000, 20_000])
async def test_of_many_blocks_the_last_become_one_link_and_no_link_is_dead(era: Era, length: int) -> None:
    blocks = [{"type": "text", "text": f"{number:04}{'x' * length}"} for number in range(400)]
    async with serving(ResultSize(16_384, preview=100), one_tool(lambda _: {"content": blocks}), era) as client:
        content = (await client.call_tool("work")).content
        assert len(to_json(content)) <= 16_384
        texts: list[str] = [block["text"] for block in content if block["type"] == "text" and block["text"][0] == "0"]
        links = [block["uri"] for block in content if block["type"] == "resource_link"]
        read = [contents["text"] for uri in links for contents in await client.read_resource(uri)]
    assert {text[:4] for text in (*texts, *read)} == {f"{number:04}" for number in range(400)}
    assert read == sorted(read)
    assert len(links) <= 9


async def test_of_a_text_that_is_shorter_than_what_may_stay_less_stays() -> None:
    blocks = [{"type": "text", "text": "語" * 900}] * 3
    async with serving(ResultSize(4_096), one_tool(lambda _: {"content": blocks})) as client:
        beginning = (await client.call_tool("work")).content[0]["text"]
    assert beginning.startswith("語" * 450 + "\n[The first 450 of 900 characters.")


async def test_what_is_kept_is_bounded_and_what_is_small_is_not_touched() -> None:
    middleware = ResultSize(4_096, entries=2, kept_size=20_000)
    sizes = iter((8_000, 8_000, 8_000, 30_000, 100))
    async with serving(middleware, one_tool(lambda _: "x" * next(sizes))) as client:
        links = [(await client.call_tool("work")).content[-1]["uri"] for _ in range(3)]
        with pytest.raises(ProtocolError):
            await client.read_resource(links[0])
        await client.read_resource(links[2])
        assert [block["type"] for block in (await client.call_tool("work")).content] == ["text"]
        assert (await client.call_tool("work")).text == "x" * 100
        assert sum(use.size for use in middleware._kept._uses.values()) == sum(
            kept.size for kept in middleware._kept._kept.values()
        )


@both_eras
async def test_an_endpoint_without_resources_declares_them(era: Era) -> None:
    async with (
        Bridge(one_tool(lambda _: ""), middleware=[ResultSize()]) as bridge,
        connected(bridge, era=era) as client,
    ):
        assert "resources" in client.capabilities


# Cache


def counting(annotations: Any) -> tuple[ScriptedAgent, list[Any]]:
    calls: list[Any] = []

    def run(name: str, arguments: Any) -> str:
        calls.append(arguments)
        return str(len(calls))

    schema = {"type": "object"}
    return ScriptedAgent(
        run,
        {"name": "look", "inputSchema": schema, "annotations": annotations},
        {"name": "change", "inputSchema": schema},
    ), calls


KEPT = {"readOnlyHint": True, "idempotentHint": True}


@both_eras
async def test_what_says_that_it_stays_the_same_is_asked_once(era: Era, clock: Clock) -> None:
    agent, calls = counting(KEPT)
    async with serving(ResultCache(30), agent, era) as client:
        for _ in range(3):
            assert (await client.call_tool("look", {"a": 1, "b": [1, {"c": 2}]})).text == "1"
        assert (await client.call_tool("look", {"b": [1, {"c": 2}], "a": 1})).text == "1"
        for other in ({"a": 1.0, "b": [1, {"c": 2}]}, {"a": True, "b": [1, {"c": 2}]}, {}):
            await client.call_tool("look", other)
        assert len(calls) == 4
        clock.now += 31
        assert (await client.call_tool("look")).text == "5"


@pytest.mark.parametrize(
    ("annotations", "is_kept"),
    [
        (KEPT, True),
        ({"readOnlyHint": True, "openWorldHint": False}, True),
        ({"readOnlyHint": True}, False),
        ({"idempotentHint": True}, False),
        ({}, False),
    ],
)
async def test_only_what_its_author_vouches_for_is_kept(annotations: Any, is_kept: bool) -> None:
    agent, calls = counting(annotations)
    async with serving(ResultCache(), agent) as client:
        await client.call_tool("look")
        await client.call_tool("look")
    assert len(calls) == (1 if is_kept else 2)


async def test_a_tool_that_changes_something_and_a_changed_list_make_it_forget() -> None:
    agent, calls = counting(KEPT)
    cache = ResultCache()
    async with serving(cache, agent) as client:
        await client.call_tool("look")
        await client.call_tool("change")
        assert (await client.call_tool("look")).text == "3"
        cache.on_change("", Change(ChangeKind.TOOLS))
        assert (await client.call_tool("look")).text == "4"
        assert len(calls) == 4


async def test_a_change_at_one_endpoint_makes_it_forget_at_all() -> None:
    agent, _ = counting(KEPT)
    async with Bridge(agent, middleware=[ResultCache()]) as bridge:
        (published,) = bridge.sources
        async with connected(bridge) as client, connected(bridge, endpoint=published.name) as other:
            await client.call_tool("look")
            await other.call_tool("change")
            assert (await client.call_tool("look")).text == "3"


@both_eras
async def test_what_depends_on_meta_is_not_given_to_others(era: Era) -> None:
    @tool(annotations={"readOnlyHint": True, "idempotentHint": True})
    def tenant() -> str:
        calls.append(1)
        return str(get_request_context().meta.get("example/tenant"))

    calls: list[int] = []
    async with serving(ResultCache(), tenant, era) as client:
        told = [
            await client.request("tools/call", {"name": "tenant", "_meta": {"traceparent": str(number), **about}})
            for number, about in enumerate(({"example/tenant": "a"}, {"example/tenant": "a"}, {"example/tenant": "b"}))
        ]
    assert [result["content"][0]["text"] for result in told] == ["a", "a", "b"]
    assert len(calls) == 2


async def test_failures_are_not_kept() -> None:
    answers = iter(("", "good"))

    def run(name: str, arguments: Any) -> str:
        if not (answer := next(answers)):
            raise ToolError("not now")
        return answer

    agent = ScriptedAgent(run, {"name": "look", "inputSchema": {}, "annotations": KEPT})
    async with serving(ResultCache(), agent) as client:
        with pytest.raises(ToolError):
            await client.call_tool("look")
        assert (await client.call_tool("look")).text == "good"


@pytest.mark.parametrize("per_client", [True, False])
async def test_each_client_has_results_of_its_own_until_it_leaves(per_client: bool) -> None:
    agent, calls = counting(KEPT)
    cache = ResultCache(per_client=per_client)
    async with Bridge(agent, middleware=[cache]) as bridge:
        async with connected(bridge, era="legacy") as client:
            await client.call_tool("look")
        assert len(cache._kept) == (0 if per_client else 1)
        async with connected(bridge, era="legacy") as client:
            await client.call_tool("look")
    assert len(calls) == (2 if per_client else 1)


async def test_clients_of_another_bridge_have_no_results_of_one_another() -> None:
    agent, calls = counting(KEPT)
    cache = ResultCache()
    async with Bridge(agent, middleware=[cache]) as inner, Bridge(inner) as outer:
        for _ in range(2):
            async with connected(outer) as client:
                await client.call_tool("bridge__look")
    assert (len(calls), len(cache._kept)) == (2, 0)


async def test_its_memory_is_bounded_and_counted() -> None:
    agent, calls = counting(KEPT)
    cache = ResultCache(entries=2, size=1_000)
    async with serving(cache, agent) as client:
        for number in (1, 2, 3, 1):
            await client.call_tool("look", number=number)
        assert len(calls) == 4
        assert len(cache._kept) == 2
        assert cache._used == sum(kept.size for kept in cache._kept.values()) <= 1_000


async def test_what_comes_from_memory_says_how_long_it_may_still_be_kept(clock: Clock) -> None:
    agent = ScriptedAgent(
        lambda *_: "",
        get_mcp_resources=lambda: [{"uri": "a://kept", "name": "k"}],
        read_mcp_resource=lambda uri: {"contents": [{"uri": uri, "text": ""}], "ttlMs": 5_000},
    )
    told: list[int] = []

    class Seeing(Middleware):
        async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
            result = await call_next(request)
            told.append(result["ttlMs"])
            return result

    async with Bridge(agent, middleware=[Seeing(), ResultCache()]) as bridge, connected(bridge, era="legacy") as client:
        await client.read_resource("a://kept")
        clock.now += 2
        await client.read_resource("a://kept")
    assert told == [5_000, 3_000]


async def test_what_is_private_is_shared_with_nobody() -> None:
    reads: list[str] = []

    def read(uri: str) -> Any:
        reads.append(uri)
        return {"contents": [{"uri": uri, "text": ""}], "ttlMs": 5_000, "cacheScope": uri.partition("://")[2]}

    agent = ScriptedAgent(
        lambda *_: "",
        get_mcp_resources=lambda: [{"uri": f"a://{scope}", "name": scope} for scope in ("private", "public")],
        read_mcp_resource=read,
    )
    async with Bridge(agent, middleware=[ResultCache(per_client=False)]) as bridge:
        for _ in range(2):
            async with connected(bridge, era="legacy") as client:
                await client.read_resource("a://private")
                await client.read_resource("a://public")
    assert reads == ["a://private", "a://public", "a://private"]


async def test_a_resource_is_kept_for_as_long_as_it_says(clock: Clock) -> None:
    reads: list[str] = []

    def read(uri: str) -> Any:
        reads.append(uri)
        return {"contents": [{"uri": uri, "text": str(len(reads))}], "ttlMs": 5_000 if uri.endswith("kept") else 0}

    agent = ScriptedAgent(
        lambda *_: "",
        get_mcp_resources=lambda: [{"uri": "a://kept", "name": "k"}, {"uri": "a://new", "name": "n"}],
        read_mcp_resource=read,
    )
    cache = ResultCache()
    async with serving(cache, agent) as client:
        for uri in ("a://kept", "a://kept", "a://new", "a://new"):
            await client.read_resource(uri)
        assert reads == ["a://kept", "a://new", "a://new"]
        cache.on_change("", Change(ChangeKind.RESOURCE_UPDATED, "a://kept"))
        await client.read_resource("a://kept")
        clock.now += 6
        await client.read_resource("a://kept")
        assert reads.count("a://kept") == 3


# Retry

MORTAL = """
import json, os, sys
state = sys.argv[1]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "m", "version": "1"}
    elif method == "tools/list":
        tool = lambda name, hints: {"name": name, "inputSchema": {"type": "object"}, "annotations": hints}
        result = {"tools": [tool("look", {"readOnlyHint": True}), tool("change", {})]}
    elif method == "tools/call":
        with open(state, "a") as file:
            file.write(message["params"]["name"] + " ")
        if len(open(state).read().split()) % 2:
            os._exit(1)
        result = {"content": [{"type": "text", "text": "alive"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


class CountedLists(RetryReads):
    """Changes what is done around lists alone."""

    def __init__(self) -> None:
        super().__init__(2, wait=0.01)
        self.methods: set[str] = set()

    async def on_list(self, request: McpRequest, call_next: CallNext) -> JSON:
        self.methods.add(request.method)
        return await super().on_list(request, call_next)


async def test_what_changes_nothing_is_asked_again_when_its_server_was_lost_and_nothing_else_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gaia_bridge.middleware.shipped")
    (tmp_path / "mortal.py").write_text(MORTAL, "utf-8")
    state = tmp_path / "state"
    spec = StdioServerSpec("m", sys.executable, ("-S", str(tmp_path / "mortal.py"), str(state)))
    around = CountedLists()
    async with Bridge(servers=[spec], middleware=[around]) as bridge, connected(bridge) as client:
        assert (await client.call_tool("m__look")).text == "alive"
        with pytest.raises(ToolError, match="closed|ended|exit"):
            await client.call_tool("m__change")
        assert state.read_text("utf-8").split() == ["look", "look", "change"]
    assert "tools/call m__look: attempt 1 of 2" in caplog.text
    assert "tools/call" not in around.methods


async def test_an_answer_is_an_answer() -> None:
    calls: list[str] = []

    def run(name: str, arguments: Any) -> str:
        calls.append(name)
        raise ToolError("no")

    agent = ScriptedAgent(run, {"name": "look", "inputSchema": {}, "annotations": KEPT})
    async with serving(RetryReads(), agent) as client:
        with pytest.raises(ToolError, match="^no$"):
            await client.call_tool("look")
        with pytest.raises(ProtocolError):
            await client.read_resource("no://where")
    assert calls == ["look"]
