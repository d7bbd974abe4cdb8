"""A source of this process as a server: what a wire would do anyway, without one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from gaia_bridge.bridge.chaining.agent_transport import AgentTransport
from gaia_bridge.calls.cancellation import Cancellation, cancel_reason
from gaia_bridge.client import ClientDelegate, Connection, Era, connect
from gaia_bridge.client.transport import ConnectionLostError, Link
from gaia_bridge.contract import ChangeListener, ClientRequest
from gaia_bridge.errors import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, ToolError
from gaia_bridge.model import (
    Change,
    ChangeKind,
    ServerFeatures,
    ServerInfo,
    SourceKind,
    SourceState,
    SourceStatus,
)
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import QUICK, Role
from tests.support.on_demand import mcp_types, mcp_versions

pytestmark = pytest.mark.anyio

both_eras = pytest.mark.parametrize("era", Era)


_OTHERS = ("hang", "ask", "ask for ever", "fail", "break")


class StubSource:
    """A source that hands out the very objects it holds."""

    name = "stub"
    kind = SourceKind.AGENT
    status = SourceStatus(SourceState.READY)

    def __init__(self) -> None:
        self.tool: JSON = {"name": "t", "inputSchema": {"type": "object"}, "_meta": {"kept": []}}
        self.result: JSON = {"content": [], "structuredContent": {"kept": []}}
        self.features = ServerFeatures(
            ServerInfo("stub", "1", icons=({"src": "data:,"},)),
            tools=(self.tool, *({"name": name, "inputSchema": {"type": "object"}} for name in _OTHERS)),
            prompts=({"name": "p"},),
            resources=({"uri": "a:b", "name": "b"},),
            capabilities=frozenset({"completions", "logging", "prompts", "resources", "tools"}),
        )
        self.arguments: JSON = {}
        self.listeners: list[ChangeListener] = []
        self.subscribed: list[str] = []
        self.entered = anyio.Event()
        self.cancelled = anyio.Event()
        self.reason = ""

    def listen(self, listener: ChangeListener) -> Any:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    async def settle(self, *, listed_once: bool = False) -> None:
        pass

    async def learn(self) -> None:
        pass

    async def seek(self) -> None:
        await self.refresh()

    is_due = False

    async def refresh(self) -> None:
        pass

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        match name:
            case "hang":
                self.entered.set()
                try:
                    await anyio.sleep_forever()
                finally:
                    self.reason = cancel_reason("")
                    self.cancelled.set()
            case "ask":
                self.result = await request.push("roots/list", {"kept": self.arguments})
            case "ask for ever":
                requests = {"a": {"method": "roots/list"}}
                return {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}
            case "fail":
                raise ToolError("anticipated")
            case "break":
                raise KeyError("secret")
            case _:
                self.arguments = arguments
        return self.result

    async def get_prompt(self, name: str, arguments: dict[str, str], request: ClientRequest) -> JSON:
        return {"messages": [], "description": name}

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        await request.close_stream()
        return {"contents": [{"uri": uri, "text": ""}]}

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        raise ProtocolError(mcp_types.METHOD_NOT_FOUND, f"Method not found: {method}")

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        return {"completion": {"values": [str(context)]}}

    async def subscribe(self, uri: str) -> None:
        self.subscribed.append(uri)

    async def unsubscribe(self, uri: str) -> None:
        self.subscribed.remove(uri)


@asynccontextmanager
async def connected(
    source: StubSource,
    era: Era | None = None,
    delegate: ClientDelegate | None = None,
    limits: AgentLimits | None = None,
) -> AsyncGenerator[Connection]:
    with anyio.fail_after(5):
        async with connect(AgentTransport(source, limits), delegate or ClientDelegate(), QUICK, era=era) as connection:
            yield connection


async def called(connection: Connection, name: str, arguments: Any = None) -> JSON:
    return await connection.request("tools/call", {"name": name, "arguments": arguments or {}})


async def test_a_source_speaks_the_newest_revision_unless_told_otherwise() -> None:
    async with connected(StubSource()) as connection:
        assert connection.handshake.revision == mcp_versions.LATEST_MODERN_VERSION
        assert connection.handshake.info == {"name": "stub", "version": "1", "icons": [{"src": "data:,"}]}
        assert connection.last_words == ""
    async with connected(StubSource(), Era.LEGACY) as connection:
        assert connection.handshake.era is Era.LEGACY


@both_eras
async def test_neither_side_can_change_what_the_other_holds(era: Era) -> None:
    source = StubSource()
    async with connected(source, era) as connection:
        tool, *_ = await connection.list_all("tool")
        tool["_meta"]["kept"].append("changed")
        assert source.tool["_meta"] == {"kept": []}

        arguments: JSON = {"deep": [{"kept": []}]}
        result = await called(connection, "t", arguments)
        arguments["deep"][0]["kept"].append("changed")
        assert source.arguments == {"deep": [{"kept": []}]}
        result["structuredContent"]["kept"].append("changed")
        assert source.result["structuredContent"] == {"kept": []}


async def test_an_answer_and_a_question_are_copied_too() -> None:
    answer: JSON = {"roots": []}
    delegate = Role({"roots": {}}, roots=answer)
    source = StubSource()
    async with connected(source, Era.LEGACY, delegate) as connection:
        await called(connection, "ask")
        answer["roots"].append("changed")
        assert source.result == {"roots": []}
        delegate.asked[0][1]["kept"]["changed"] = True
        assert source.arguments == {}


@both_eras
async def test_failures_become_errors_without_their_secrets(era: Era, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(StubSource(), era) as connection:
        with pytest.raises(ProtocolError, match="^anticipated$") as caught:
            await called(connection, "fail")
        assert caught.value.code == INTERNAL_ERROR
        with pytest.raises(ProtocolError, match="^Internal error$"):
            await called(connection, "break")
        assert caplog.messages == ["a request failed"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "t", "arguments": []}),
        ("prompts/get", {"name": "p", "arguments": "x"}),
        ("resources/read", {"uri": None}),
        ("subscriptions/listen", {"notifications": 5}),
    ],
)
async def test_parameters_of_the_wrong_shape_are_refused(method: str, params: JSON) -> None:
    async with connected(StubSource()) as connection:
        with pytest.raises(ProtocolError) as caught:
            await connection.request(method, params)
        assert caught.value.code == INVALID_PARAMS


async def test_a_level_of_the_wrong_name_is_refused() -> None:
    async with connected(StubSource(), Era.LEGACY) as connection:
        with pytest.raises(ProtocolError) as caught:
            await connection.request("logging/setLevel", {"level": "loud"})
        assert caught.value.code == INVALID_PARAMS


async def test_the_methods_that_take_little_are_served() -> None:
    async with connected(StubSource(), Era.LEGACY) as connection:
        assert (await connection.request("prompts/get", {"name": "p"}))["description"] == "p"
        assert (await connection.request("resources/read", {"uri": "a:b"}))["contents"][0]["uri"] == "a:b"
        ref: JSON = {"type": "ref/prompt", "name": "p"}
        params: JSON = {"ref": ref, "argument": {"name": "n", "value": ""}, "context": {"arguments": {"a": "b"}}}
        assert (await connection.request("completion/complete", params))["completion"]["values"] == ["{'a': 'b'}"]


@both_eras
@pytest.mark.requirement("S-32")
async def test_a_source_cannot_ask_what_was_not_declared(era: Era) -> None:
    async with connected(StubSource(), era) as connection:
        if era is Era.MODERN:
            with pytest.raises(ProtocolError, match="needs the client capability roots"):
                await called(connection, "ask")
        else:
            refused = await called(connection, "ask")
            assert refused["isError"] is True
            assert "needs the client capability roots" in refused["content"][0]["text"]


async def test_a_refused_question_is_the_failure_of_the_call() -> None:
    async def refuses(params: JSON) -> JSON:
        raise ProtocolError(-1, "The user said no")

    async with connected(StubSource(), Era.LEGACY, Role({"roots": {}}, roots=refuses)) as connection:
        refused = await called(connection, "ask")
        assert refused["content"][0]["text"] == "the client refused roots/list: The user said no"


async def test_rounds_are_played_for_a_legacy_client_and_come_to_an_end() -> None:
    delegate = Role({"roots": {}}, roots={"roots": []})
    async with connected(StubSource(), Era.LEGACY, delegate, AgentLimits(max_rounds=3)) as connection:
        with pytest.raises(ProtocolError, match="asked for input 3 times"):
            await called(connection, "ask for ever")
    assert len(delegate.asked) == 3


async def test_a_question_that_nobody_answers_is_given_up_and_withdrawn() -> None:
    withdrawn = anyio.Event()

    async def thinks(params: JSON) -> JSON:
        try:
            await anyio.sleep_forever()
        finally:
            withdrawn.set()
        return {}

    delegate = Role({"roots": {}}, roots=thinks)
    async with connected(StubSource(), Era.LEGACY, delegate, AgentLimits(question_timeout=0.01)) as connection:
        refused = await called(connection, "ask for ever")
        assert refused["content"][0]["text"] == "the client did not answer roots/list within 0.01 s"
        await withdrawn.wait()


@both_eras
async def test_only_the_changes_that_a_client_asked_for_are_told(era: Era) -> None:
    source, delegate = StubSource(), Role()
    async with connected(source, era, delegate) as connection:
        await connection.subscribe("a:b")
        assert source.subscribed == ["a:b"]
        [listener] = source.listeners
        for uri in ("c:d", "a:b"):
            listener(Change(ChangeKind.RESOURCE_UPDATED, uri))
        for kind in (ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.RESOURCES):
            listener(Change(kind))
        await connection.unsubscribe("a:b")
        await anyio.wait_all_tasks_blocked()
        listener(Change(ChangeKind.RESOURCE_UPDATED, "a:b"))
        told = [(method.removeprefix("notifications/"), params.get("uri")) for method, params in delegate.heard]
    changed = [(f"{kind}/list_changed", None) for kind in ("tools", "prompts", "resources")]
    assert told == [("resources/updated", "a:b"), *changed]
    assert (source.listeners, source.subscribed) == ([], [])


@both_eras
async def test_the_source_learns_that_nobody_listens_when_the_connection_ends(era: Era) -> None:
    source = StubSource()
    async with connected(source, era) as connection:
        await connection.subscribe("a:b")
        await connection.subscribe("a:b")
        assert source.subscribed == ["a:b"]
    assert source.subscribed == []


@both_eras
async def test_the_source_learns_why_a_call_is_given_up(era: Era) -> None:
    source = StubSource()
    async with connected(source, era=era) as connection:

        async def call() -> None:
            outer = Cancellation()
            with outer.entered(), anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(give_up, outer, scope)
                    await called(connection, "hang")

        async def give_up(outer: Cancellation, scope: anyio.CancelScope) -> None:
            await source.entered.wait()
            outer.reason = "enough"
            scope.cancel()

        await call()
        await source.cancelled.wait()
        assert source.reason == "enough"


@both_eras
async def test_closing_ends_what_runs(era: Era) -> None:
    source = StubSource()
    failures: list[Exception] = []

    async with anyio.create_task_group() as tasks:
        async with connected(source, era) as connection:

            async def call() -> None:
                try:
                    await called(connection, "hang")
                except ConnectionLostError as error:
                    failures.append(error)

            tasks.start_soon(call)
            await source.entered.wait()
    assert len(failures) == 1
    assert source.cancelled.is_set()


async def test_a_closed_link_serves_nothing_and_tells_nothing() -> None:
    class Deaf:
        def message(self, message: JSON, during: int | None) -> None:
            raise AssertionError(f"{message} came after the end")

        def ended(self, reason: str) -> None:
            raise AssertionError("closing is no end to tell of")

    source = StubSource()
    link: Link
    async with AgentTransport(source).connect(Deaf()) as link:
        initialize: JSON = {"protocolVersion": "1999", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        response = await link.request({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize})
        assert response["result"]["protocolVersion"] == "2025-11-25"
        await link.notify({"jsonrpc": "2.0", "id": 99, "result": {}})
        [listener] = source.listeners
    listener(Change(ChangeKind.TOOLS))
    with pytest.raises(ConnectionLostError):
        await link.request({"jsonrpc": "2.0", "id": 2, "method": "ping"})


async def test_what_a_modern_request_says_about_its_client_is_for_that_request_only() -> None:
    async with AgentTransport(StubSource()).connect(_Silent()) as link:
        meta: JSON = {
            mcp_types.PROTOCOL_VERSION_META_KEY: mcp_versions.LATEST_MODERN_VERSION,
            mcp_types.CLIENT_CAPABILITIES_META_KEY: {},
        }
        call: JSON = {"name": "t", "arguments": {}}
        modern = await link.request({"id": 1, "method": "tools/call", "params": call | {"_meta": meta}})
        assert modern["result"]["resultType"] == "complete"
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        await link.request({"id": 2, "method": "initialize", "params": about})
        legacy = await link.request({"id": 3, "method": "tools/call", "params": call})
        assert "resultType" not in legacy["result"]


class _Silent:
    def message(self, message: JSON, during: int | None) -> None:
        raise AssertionError(message)

    def ended(self, reason: str) -> None:
        raise AssertionError(reason)
