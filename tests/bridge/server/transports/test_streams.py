"""The first request that does more than look around decides which era a stream speaks."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import anyio
import pytest

from gaia_bridge.protocol.meta import CLIENT_CAPABILITIES_KEY, PROTOCOL_VERSION_KEY, SERVER_INFO_KEY
from gaia_bridge.protocol.revisions import LATEST_HANDSHAKE, PUBLISHED
from gaia_bridge.server.transports.streams import DuplexClient
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge
from tests.support.on_demand import mcp_lowlevel, mcp_message, mcp_runner, mcp_types
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

ENVELOPE: JSON = {PROTOCOL_VERSION_KEY: PUBLISHED.latest, CLIENT_CAPABILITIES_KEY: {}}
HANDSHAKE: JSON = {
    "protocolVersion": LATEST_HANDSHAKE,
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}
STANDING_ALONE: JSON = {"_meta": ENVELOPE}
NOTHING: JSON = {}


class RawClient:
    """Speaks JSON-RPC with an endpoint of this process: is the channel of its own connection."""

    can_ask = True

    def __init__(self) -> None:
        self.client: DuplexClient
        self.messages: list[JSON] = []
        self._more = anyio.Event()
        self._ids = count(1)

    async def send(self, message: bytes) -> None:
        self.messages.append(json.loads(message))
        self._more.set()
        self._more = anyio.Event()

    def end(self) -> None: ...

    async def ask(self, method: str, **params: Any) -> JSON:
        """Send a request and return its result, or its error under `error`."""
        number = next(self._ids)
        await self.client.take({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return await self.answer(number)

    async def answer(self, number: int) -> JSON:
        with anyio.fail_after(PATIENCE):
            while not (found := [message for message in self.messages if message.get("id") == number]):
                await self._more.wait()
        result: JSON = found[0].get("result") or {"error": found[0]["error"]}
        return result

    async def discover(self, version: str = PUBLISHED.latest) -> JSON:
        return await self.ask("server/discover", _meta={**ENVELOPE, PROTOCOL_VERSION_KEY: version})

    async def tell(self, method: str) -> None:
        await self.client.take({"jsonrpc": "2.0", "method": method})


@asynccontextmanager
async def connected() -> AsyncGenerator[RawClient]:
    async with running_bridge(one_tool(lambda _: {"worked": True})) as running:
        client = RawClient()
        client.client = DuplexClient(running.endpoint(), client)
        yield client
        client.client.close()


@pytest.mark.requirement("P-2", "P-12")
async def test_a_client_that_only_looked_may_still_shake_hands() -> None:
    async with connected() as client:
        for _ in range(3):
            assert (await client.discover())["supportedVersions"] == [*PUBLISHED.names]
        assert (await client.ask("initialize", **HANDSHAKE))["protocolVersion"] == LATEST_HANDSHAKE
        await client.tell("notifications/initialized")
        assert (await client.ask("tools/call", name="work"))["structuredContent"] == {"worked": True}


async def test_a_client_that_looked_and_goes_on_without_a_handshake_is_served() -> None:
    async with connected() as client:
        found = await client.discover()
        assert found["_meta"][SERVER_INFO_KEY]["name"] == "GAIA ScriptedAgent"
        assert found["capabilities"]["tools"] == {"listChanged": True}
        assert found.keys() == {"supportedVersions", "capabilities", "resultType", "ttlMs", "cacheScope", "_meta"}
        assert (await client.ask("tools/call", name="work", _meta=ENVELOPE))["structuredContent"] == {"worked": True}
        assert (await client.discover())["supportedVersions"] == [*PUBLISHED.names]


async def test_once_the_era_is_decided_the_other_is_refused() -> None:
    async with connected() as client:
        await client.ask("initialize", **HANDSHAKE)
        assert (await client.discover())["error"]["code"] == -32600
        assert (await client.ask("tools/list", _meta=ENVELOPE))["error"]["code"] == -32600
    async with connected() as client:
        await client.ask("tools/list", _meta=ENVELOPE)
        refusal = (await client.ask("initialize", **HANDSHAKE))["error"]
        assert (refusal["code"], refusal["data"]["supported"]) == (-32022, [*PUBLISHED.names])


@pytest.mark.requirement("F-243")
@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
async def test_what_is_refused_for_its_revision_decides_nothing(method: str) -> None:
    unknown = {**ENVELOPE, PROTOCOL_VERSION_KEY: "2099-01-01"}
    async with connected() as client:
        refusal = (await client.ask(method, _meta=unknown))["error"]
        assert (refusal["code"], refusal["data"]["supported"]) == (-32022, [*PUBLISHED.names])
        assert (await client.ask("initialize", **HANDSHAKE))["protocolVersion"] == LATEST_HANDSHAKE
    async with connected() as client:
        await client.ask(method, _meta=unknown)
        assert "tools" in await client.ask("tools/list", _meta=ENVELOPE)


@pytest.mark.parametrize("meta", [None, 5, {}, {PROTOCOL_VERSION_KEY: "1999-01-01"}, {PROTOCOL_VERSION_KEY: ["x"]}])
async def test_a_malformed_look_around_decides_nothing(meta: Any) -> None:
    async with connected() as client:
        assert "error" in await client.ask("server/discover", _meta=meta)
        assert "error" not in await client.ask("initialize", **HANDSHAKE)


async def test_notifications_decide_nothing() -> None:
    async with connected() as client:
        await client.tell("notifications/roots/list_changed")
        await client.discover()
        assert "error" not in await client.ask("initialize", **HANDSHAKE)


async def test_who_does_not_wait_for_the_answer_to_the_handshake_finds_it_complete() -> None:
    async with connected() as client:
        for number, (method, params) in enumerate([("initialize", HANDSHAKE), ("tools/list", {})], 1):
            await client.client.take({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert "tools" in await client.answer(2)


# The SDK's server, as the oracle


async def of_the_sdk(*messages: JSON) -> list[JSON]:
    """What the SDK's server answers to requests, one after the other."""

    async def no_tools(context: Any, params: Any) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=[])

    to_server, incoming = anyio.create_memory_object_stream[mcp_message.SessionMessage | Exception](1)
    outgoing, from_server = anyio.create_memory_object_stream[mcp_message.SessionMessage](1)
    answers: list[JSON] = []
    with to_server, incoming, outgoing, from_server, anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await mcp_runner.serve_dual_era_loop(
                    mcp_lowlevel.Server("x", on_list_tools=no_tools),
                    incoming,
                    outgoing,
                    lifespan_state={},
                )

            tasks.start_soon(serve)
            for message in messages:
                await to_server.send(
                    mcp_message.SessionMessage(mcp_types.jsonrpc_message_adapter.validate_python(message))
                )
                answer = (await from_server.receive()).message
                answers.append(answer.model_dump(by_alias=True, exclude_unset=True, mode="json"))
            tasks.cancel_scope.cancel()
    return answers


async def of_ours(*messages: JSON) -> list[JSON]:
    async with connected() as client:
        for message in messages:
            await client.client.take(message)
            await client.answer(message["id"])
        return client.messages


def verdict(answer: JSON) -> object:
    """What an answer means: the members of a result, the code of an error and what clients may read out of it."""
    if "result" in answer:
        return sorted(answer["result"])
    error: JSON = answer["error"]
    data = error.get("data")
    return error["code"], data or None  # where the SDK says nothing, it writes an empty text


@pytest.mark.requirement("P-2")
@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
@pytest.mark.parametrize(
    "meta",
    [
        None,
        5,
        {},
        {PROTOCOL_VERSION_KEY: "1999-01-01"},
        {PROTOCOL_VERSION_KEY: ["x"]},
        {PROTOCOL_VERSION_KEY: PUBLISHED.latest},
        {**ENVELOPE, PROTOCOL_VERSION_KEY: "2099-01-01"},
        {**ENVELOPE, CLIENT_CAPABILITIES_KEY: 5},
        ENVELOPE,
    ],
)
async def test_the_first_request_is_judged_as_the_sdk_judges_it(method: str, meta: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
    assert [*map(verdict, await of_ours(message))] == [*map(verdict, await of_the_sdk(message))]


@pytest.mark.requirement("P-2")
@pytest.mark.parametrize(
    "requests",
    [
        [("initialize", HANDSHAKE), ("server/discover", STANDING_ALONE)],
        [("initialize", HANDSHAKE), ("tools/list", STANDING_ALONE)],
        [("tools/list", STANDING_ALONE), ("initialize", HANDSHAKE)],
        [("tools/list", STANDING_ALONE), ("tools/list", NOTHING)],
        [("tools/list", NOTHING), ("initialize", HANDSHAKE)],
    ],
    ids=lambda requests: ", ".join(method for method, _ in requests),
)
async def test_requests_of_the_other_era_are_judged_as_the_sdk_judges_them(requests: list[tuple[str, JSON]]) -> None:
    messages: list[JSON] = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(requests, 1)
    ]
    assert [*map(verdict, await of_ours(*messages))] == [*map(verdict, await of_the_sdk(*messages))]
