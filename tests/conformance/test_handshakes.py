"""The handshake of every revision that has one, as raw JSON-RPC over every transport.

The conformance suite offers 2025-11-25 whatever revision it is told to test, so these are tested here.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractAsyncContextManager
from urllib.parse import urljoin

import pytest

from gaia_bridge.text.json_types import JSON
from tests.conformance.raw_clients import RawClient, connect_http, connect_sse, connect_stdio
from tests.conformance.runner import FIXTURE, bridge_command, serving

pytestmark = pytest.mark.anyio

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
OLDER_VERSIONS = VERSIONS[:-1]
LATEST = VERSIONS[-1]
TRANSPORTS = ("http", "sse", "stdio")
SIMPLE_TEXT = {"type": "text", "text": "This is a simple text response for testing."}
PING = {"jsonrpc": "2.0", "method": "ping"}
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602

every_transport = pytest.mark.parametrize(
    "transport", ["http", "sse", pytest.param("stdio", marks=pytest.mark.thorough)]
)
"""On stdio, each test has a process of its own."""
every_version = pytest.mark.parametrize("version", VERSIONS)


def on_every_transport(name: str, values: Sequence[str]) -> pytest.MarkDecorator:
    """Each of some values on each transport; on stdio, where each is a process, all but the first are thorough."""
    return pytest.mark.parametrize(
        ("transport", name),
        [
            pytest.param(transport, value, marks=[pytest.mark.thorough] if transport == "stdio" and number else [])
            for transport in TRANSPORTS
            for number, value in enumerate(values)
        ],
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str, None, None]:
    with serving(str(FIXTURE), tmp_path_factory.mktemp("server") / "server.log") as served:
        yield served


def connected(transport: str, url: str) -> AbstractAsyncContextManager[RawClient]:
    match transport:
        case "http":
            return connect_http(url)
        case "sse":
            return connect_sse(urljoin(url, "/sse"))
        case _:
            return connect_stdio([bridge_command(), "serve", str(FIXTURE), "--stdio"])


@on_every_transport("version", VERSIONS)
@pytest.mark.requirement("P-2")
async def test_a_revision_is_negotiated_as_offered_and_answered_in_its_own_shapes(
    transport: str, version: str, url: str
) -> None:
    async with connected(transport, url) as client:
        welcome = await client.initialize(version)
        tools = await client.result("tools/list")
        called = await client.result("tools/call", {"name": "test_simple_text", "arguments": {}})
        pong = await client.result("ping")

    assert welcome["protocolVersion"] == version
    assert welcome["serverInfo"]["name"]
    assert welcome["capabilities"].keys() >= {"completions", "logging", "prompts", "resources", "tools"}
    assert welcome.keys() <= {"protocolVersion", "capabilities", "serverInfo", "instructions"}
    assert tools.keys() == {"tools"}
    assert "test_simple_text" in {tool["name"] for tool in tools["tools"]}
    assert called["content"] == [SIMPLE_TEXT]
    assert called.keys() <= {"content", "isError"}
    assert pong == {}


@on_every_transport("offered", ["1.0.0", "2099-12-31"])
@pytest.mark.requirement("P-2")
async def test_an_unknown_revision_is_answered_with_the_latest_one_that_has_a_handshake(
    transport: str, offered: str, url: str
) -> None:
    async with connected(transport, url) as client:
        welcome = await client.initialize(offered)
        pong = await client.result("ping")

    assert welcome["protocolVersion"] == LATEST
    assert pong == {}


@on_every_transport("version", OLDER_VERSIONS)
async def test_a_tool_can_ask_the_client_in_every_older_revision(transport: str, version: str, url: str) -> None:
    answer: JSON = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "forty-two"}}
    async with connected(transport, url) as client:
        await client.initialize(version, {"sampling": {}})
        called = await client.result(
            "tools/call",
            {"name": "test_sampling", "arguments": {"prompt": "How many?"}},
            {"sampling/createMessage": answer},
        )

    assert called["content"] == [{"type": "text", "text": "LLM response: forty-two"}]


@every_transport
async def test_a_client_of_the_first_revision_is_not_asked_what_it_cannot_answer(transport: str, url: str) -> None:
    async with connected(transport, url) as client:
        await client.initialize(VERSIONS[0])
        message = await client.request("tools/call", {"name": "test_elicitation", "arguments": {"message": "Who?"}})

    assert "elicitation" in str(message)
    assert "error" in message or message["result"]["isError"]


@every_transport
async def test_a_tool_that_asks_in_rounds_is_played_through_for_a_client_that_knows_none(
    transport: str, url: str
) -> None:
    answer: JSON = {"action": "accept", "content": {"name": "Ada", "color": "red"}}
    async with connected(transport, url) as client:
        await client.initialize("2025-06-18", {"elicitation": {}})
        called = await client.result(
            "tools/call",
            {"name": "test_input_required_result_multi_round", "arguments": {}},
            {"elicitation/create": answer},
        )

    assert called["content"] == [{"type": "text", "text": "Ada likes red"}]


@on_every_transport("revision", ["2025-03-26", "2024-11-05"])
@pytest.mark.requirement("F-075", "F-248")
async def test_a_batch_is_answered_where_the_revision_has_them(transport: str, url: str, revision: str) -> None:
    async with connected(transport, url) as client:
        await client.initialize(revision)
        pongs = await client.batch({**PING, "id": 101}, {**PING, "id": 102})

    assert {pong["id"]: pong["result"] for pong in pongs} == {101: {}, 102: {}}


@every_transport
@pytest.mark.requirement("F-075", "F-248")
async def test_a_batch_is_refused_where_it_has_not_and_the_connection_lives_on(transport: str, url: str) -> None:
    async with connected(transport, url) as client:
        await client.initialize("2025-06-18")
        error = await client.refusal([{**PING, "id": 101}, {**PING, "id": 102}])
        pong = await client.result("ping")

    assert error["code"] == INVALID_REQUEST
    assert "this connection speaks 2025-06-18" in error["message"]
    assert pong == {}


@every_transport
async def test_what_nobody_offers_is_an_error_with_its_code(transport: str, url: str) -> None:
    async with connected(transport, url) as client:
        await client.initialize("2025-06-18")
        method = await client.request("no/such/method")
        tool = await client.request("tools/call", {"name": "no_such_tool", "arguments": {}})

    assert method["error"]["code"] == METHOD_NOT_FOUND
    assert tool["error"]["code"] == INVALID_PARAMS


@every_version
@pytest.mark.requirement("P-9")
async def test_a_session_has_an_id_ends_when_deleted_and_is_not_found_afterwards(version: str, url: str) -> None:
    async with connect_http(url) as client:
        await client.initialize(version)
        session = client.headers["Mcp-Session-Id"]
        ended = await client.delete()
        after = await client.post({**PING, "id": 1})

    assert all("!" <= character <= "~" for character in session)
    assert ended == 200
    assert after == 404


@pytest.mark.requirement("P-9")
async def test_a_request_before_the_handshake_is_refused(url: str) -> None:
    async with connect_http(url) as client:
        assert await client.post({**PING, "id": 1}) == 400
