"""The HTTP routes, request by request: what is served where, and what is refused, with the guard in front."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.app import make_app
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import HttpLimits

pytestmark = pytest.mark.anyio

LEGACY, MODERN = "2025-11-25", "2026-07-28"
BASE = "http://127.0.0.1:8765"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
ACCEPT = {"accept": "application/json, text/event-stream"}

JSON = dict[str, Any]


class RegionAgent:
    """Two tools; `where` mirrors an argument into a header (SEP-2243)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, JSON]] = []

    def get_mcp_tool_definitions(self) -> list[JSON]:
        region = {"type": "string", "x-mcp-header": "Region"}
        return [
            {"name": "where", "inputSchema": {"type": "object", "properties": {"region": region}}},
            {"name": "danger", "description": "Do something", "inputSchema": {}},
        ]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> JSON:
        self.calls.append((tool_name, arguments))
        return {"called": tool_name}


class Caller:
    """Sends single requests to a running bridge."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def post(self, body: object, headers: Mapping[str, str] | None = None, path: str = "/mcp") -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        every = {"content-type": "application/json", **ACCEPT, **(headers or {})}
        return await self.client.post(path, content=content, headers=every)

    async def modern(
        self, method: str, params: JSON | None = None, headers: Mapping[str, str] | None = None, path: str = "/mcp"
    ) -> httpx2.Response:
        """A modern request with the headers that belong to it; `headers` replace or, when empty, remove them."""
        named = {"mcp-name": params["name"]} if params and "name" in params else {}
        every = {"mcp-protocol-version": MODERN, "mcp-method": method, **named, **(headers or {})}
        sent = {name: value for name, value in every.items() if value}
        return await self.post(request(method, {**(params or {}), "_meta": META}), sent, path)

    async def session(self, path: str = "/mcp") -> dict[str, str]:
        """Open a legacy session; returns its headers."""
        response = await self.post(request("initialize", HELLO), path=path)
        headers = {"mcp-session-id": response.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}
        accepted = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers, path)
        assert accepted.status_code == 202
        return headers


def request(method: str, params: JSON | None = None, request_id: object = 1) -> JSON:
    message: JSON = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def message(response: httpx2.Response) -> JSON:
    """The JSON-RPC message of a response, from JSON or from an event stream."""
    if response.headers["content-type"].startswith("text/event-stream"):
        data = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
        found: JSON = json.loads(data[-1])
    else:
        found = response.json()
    return found


def error_code(response: httpx2.Response) -> int:
    code: int = message(response)["error"]["code"]
    return code


@asynccontextmanager
async def calling(*agents: RegionAgent, policy: AccessPolicy | None = None) -> AsyncGenerator[Caller]:
    async with Bridge() as bridge:
        for number, agent in enumerate(agents or (RegionAgent(),)):
            await bridge.add_agent(agent, f"agent-{number}")
        app = bridge.asgi(policy or AccessPolicy.for_address("127.0.0.1", 8765))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE, timeout=10) as client:
            yield Caller(client)


# Routes


@pytest.mark.parametrize(
    "name", ["@scope/my server", "a/mcp", "/", "a/", "a//b", "%2F", "a?b#c", "..\\x", "../x", "日本", "a&b;c", "mcp"]
)
async def test_a_quoted_name_in_a_path_is_the_one_that_is_looked_for(name: str) -> None:
    asked: list[tuple[str, str]] = []

    class Endpoints(dict[tuple[str, str], Any]):
        def get(self, key: tuple[str, str], default: Any = None) -> Any:
            asked.append(key)

    app = make_app(Endpoints(), {}, AccessPolicy.for_address("127.0.0.1", 8765))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE) as client:
        for transport in ("mcp", "mcp/", "sse", "messages/"):
            response = await client.get(f"/servers/{quote(name, safe='')}/{transport}")
            assert ([asked.pop()], asked, response.status_code) == ([("servers", name)], [], 404), transport


@pytest.mark.requirement("S1-21")
async def test_the_plain_routes_tell_what_is_published() -> None:
    async with calling() as caller:
        assert (await caller.client.get("/ready")).json()["sources"] == {"agent-0": "ready"}
        tools = (await caller.client.get("/tools")).json()["tools"]
        assert [tool["name"] for tool in tools] == ["where", "danger"]
        [source] = (await caller.client.get("/status")).json()["sources"]
        assert (source["path"], source["tools"], source["leftOut"]) == ("/agents/agent-0/mcp", 2, [])


@pytest.mark.requirement("S1-21")
async def test_the_health_check_and_the_status_say_what_clients_of_gaias_bridge_look_for() -> None:
    alive = {"status": "healthy", "service": "GAIA MCP bridge"}
    async with calling() as caller:
        assert (await caller.client.get("/health")).json() == {**alive, "agents": 1, "tools": 2}
        status = (await caller.client.get("/status")).json()
    assert {key: status[key] for key in alive} == alive
    assert status["agents"] == {"agent-0": {"description": "GAIA RegionAgent"}}
    assert status["tools"] == {"where": {"description": ""}, "danger": {"description": "Do something"}}


async def test_how_much_is_published_is_told_to_nobody_who_does_not_bring_the_token() -> None:
    policy = AccessPolicy.for_address("127.0.0.1", 8765, token="secret")
    async with calling(policy=policy) as caller:
        for credential, told in (
            (None, False),
            ("Bearer other", False),
            ("Basic secret", False),
            ("Bearer secret", True),
        ):
            headers = {} if credential is None else {"authorization": credential}
            health = (await caller.client.get("/health", headers=headers)).json()
            assert (health["status"], "agents" in health, "service" in health) == ("healthy", told, told), credential


PLAIN_ROUTES = ("/", "/health", "/ready", "/status", "/tools", "/v1/models", "/v1/chat/completions", "/v1/responses")
MCP_ROUTES = (
    "/mcp",
    "/mcp/server-card",
    "/sse",
    "/messages/",
    "/agents/agent-0/mcp",
    "/agents/agent-0/sse",
    "/servers/none/mcp",
)


async def test_a_page_that_is_allowed_may_call_every_route_and_no_other_page_may() -> None:
    page, wanted = (
        "https://tool.example",
        "authorization, content-type, mcp-method, mcp-protocol-version, mcp-session-id",
    )
    all_told = HttpLimits(refusals=1_000)  # of further ones, a thread would tell later
    policy = AccessPolicy.for_address("127.0.0.1", 8765, allow_origins=[page], token="secret", limits=all_told)
    asked = {"access-control-request-method": "POST", "access-control-request-headers": wanted}
    private = {**asked, "access-control-request-private-network": "true"}
    async with calling(policy=policy) as caller:
        for path in (*PLAIN_ROUTES, *MCP_ROUTES, "/none"):
            allowed = await caller.client.options(path, headers={"origin": page, **private})
            assert allowed.status_code == 200, path
            assert allowed.headers["access-control-allow-origin"] == page
            assert allowed.headers["access-control-allow-headers"] == wanted
            assert allowed.headers["access-control-allow-private-network"] == "true"
            other = await caller.client.options(path, headers={"origin": "https://evil.example", **private})
            assert other.status_code == 403, path
            assert not [name for name in other.headers if name.startswith("access-control-")]
            answer = await caller.client.get(
                path, headers={"origin": page}
            )  # without the token: an answer all the same
            exposed = answer.headers["access-control-expose-headers"]
            assert {"Mcp-Session-Id", "WWW-Authenticate", "Retry-After"} <= set(exposed.split(", ")), path


@pytest.mark.requirement("S1-21")
async def test_a_single_call_without_session_or_headers_is_answered_in_json() -> None:
    async with calling() as caller:
        body = json.dumps(request("tools/call", {"name": "danger", "arguments": {}}))
        response = await caller.client.post("/", content=body, headers={"content-type": "application/json"})
        assert response.headers["content-type"] == "application/json"
        assert response.json()["result"]["structuredContent"] == {"called": "danger"}


@pytest.mark.requirement("S1-21")
@pytest.mark.parametrize(
    "params", [HELLO, {"protocolVersion": "1.0.0"}, {}, None], ids=["whole", "GAIA's", "empty", "none"]
)
async def test_a_single_handshake_is_answered_however_little_it_says(params: JSON | None) -> None:
    async with calling() as caller:
        for message in (request("initialize", params), {**request("initialize"), "params": params}):
            body = json.dumps(message)
            response = await caller.client.post("/", content=body, headers={"content-type": "application/json"})
            result = response.json()["result"]
            assert (response.status_code, "mcp-session-id" in response.headers) == (200, False)
            assert (result["protocolVersion"], result["serverInfo"]["name"]) == (LEGACY, "GAIA RegionAgent")
            assert "tools" in result["capabilities"]
        refused = await caller.client.post("/", json=request("initialize", {"clientInfo": "me"}))
        assert (refused.status_code, "at /params/clientInfo" in refused.json()["error"]["message"]) == (200, True)


@pytest.mark.parametrize("revision", ["1.0.0", "2025-11-25"])
@pytest.mark.requirement("F-374")
async def test_a_client_without_sessions_may_introduce_itself_as_often_as_it_likes(revision: str) -> None:
    """AMD's does so twice, asks for "1.0.0", and sends no other header than the type."""
    hello = {"protocolVersion": revision, "clientInfo": {"name": "GAIA", "version": "1.0.0"}, "capabilities": {}}
    async with calling() as caller:
        for _ in range(2):
            response = await caller.client.post("/", json=request("initialize", hello))
            assert response.json()["result"]["protocolVersion"] == "2025-11-25"
        listed = await caller.client.post("/", json=request("tools/list", {}))
        assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["where", "danger"]


@pytest.mark.requirement("F-254")
async def test_who_opens_an_address_in_a_browser_is_told_what_it_is() -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    async with calling() as caller:
        for path, status in (("/", 200), ("/mcp", 406), ("/agents/agent-0/mcp", 406)):
            page = await caller.client.get(path, headers=browser)
            assert (page.status_code, page.headers["content-type"]) == (status, "text/plain; charset=utf-8")
            assert "This is gaia-mcp-bridge, an MCP server" in page.text
        assert (await caller.client.get("/", headers={"accept": "application/json"})).status_code == 405
        program = await caller.client.get("/mcp", headers={"accept": "text/event-stream"})
        assert (program.status_code, program.json()["error"]["code"]) == (400, -32600)


async def test_an_unknown_agent_is_not_found_and_its_name_not_repeated() -> None:
    async with calling() as caller:
        response = await caller.post(request("ping"), path="/agents/%0aevil/mcp")
        assert response.status_code == 404
        assert "evil" not in response.text


@pytest.mark.requirement("P-9")
async def test_the_modern_era_has_no_sessions() -> None:
    async with calling() as caller:
        response = await caller.modern("tools/list", headers={"mcp-session-id": "made up"})
        assert response.status_code == 200
        assert "mcp-session-id" not in response.headers
        for method in ("GET", "DELETE"):
            refused = await caller.client.request(method, "/mcp", headers={"mcp-protocol-version": MODERN, **ACCEPT})
            assert refused.status_code == 405


# Bodies


@pytest.mark.requirement("F-074")
@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"jsonrpc":"2.0"', b"\0", b'{"jsonrpc":"2.0","id":1,"method":"\xff"}'],
    ids=["empty", "brace", "truncated", "nul", "invalid-utf-8"],
)
async def test_what_is_not_json_is_a_parse_error(version: str, body: bytes) -> None:
    async with calling() as caller:
        headers = {"mcp-protocol-version": MODERN} if version == MODERN else await caller.session()
        response = await caller.post(body, headers)
        assert (response.status_code, error_code(response)) == (400, -32700)


@pytest.mark.requirement("F-076")
@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize(
    "inner", [b'{"a":' * 100_000, b"[" * 100_000, b"1" * 5_000 + b"}"], ids=["deep", "array", "long"]
)
async def test_nesting_and_numbers_without_end_are_refused(version: str, inner: bytes) -> None:
    async with calling() as caller:
        headers = {"mcp-protocol-version": MODERN} if version == MODERN else await caller.session()
        response = await caller.post(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + inner, headers)
        assert response.status_code == 400
        assert error_code(response) in (-32700, -32600)
        assert (await caller.modern("tools/list")).status_code == 200


@pytest.mark.requirement("S-4")
@pytest.mark.parametrize(
    "body",
    [
        [request("ping")],
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        request("ping", request_id=1.5),
        request("ping", request_id=True),
        {"jsonrpc": "2.0", "id": 1, "method": 5},
    ],
    ids=["batch", "response", "fraction", "true", "method"],
)
async def test_a_modern_body_is_one_request_or_notification(body: object) -> None:
    async with calling() as caller:
        response = await caller.post(body, {"mcp-protocol-version": MODERN, "mcp-method": "ping"})
        assert (response.status_code, error_code(response)) == (400, -32600)


@pytest.mark.requirement("F-078")
@pytest.mark.parametrize("path", ["/", "/mcp", "/messages/"])
@pytest.mark.parametrize("body", [{}, {"method": "tools/list"}, {"jsonrpc": "2.0", "id": 1}, "text", 7, None])
async def test_what_is_no_message_is_refused_in_a_sentence(path: str, body: object) -> None:
    async with calling() as caller:
        response = await caller.post(body, path=path)
        assert response.json()["error"] == {
            "code": -32600,
            "message": "Not a JSON-RPC 2.0 request, notification or response",
        }


@pytest.mark.requirement("F-078")
async def test_methods_and_parameters_that_do_not_exist_get_the_code_of_their_kind() -> None:
    async with calling() as caller:
        unknown = await caller.modern("tools/explode")
        assert (unknown.status_code, error_code(unknown)) == (404, -32601)
        assert error_code(await caller.modern("tools/call", {"name": "nobody"})) == -32602
        nameless = await caller.modern("tools/call", {"arguments": {}}, {"mcp-name": "x"})
        assert error_code(nameless) in (-32602, -32020)
        session = await caller.session()
        assert error_code(await caller.post(request("tools/explode"), session)) == -32601
        assert error_code(await caller.post(request("tools/call", {"name": "nobody"}), session)) == -32602
        assert error_code(await caller.post(request("tools/call", {"name": 7}), session)) == -32602


@pytest.mark.requirement("F-085")
@pytest.mark.parametrize("request_id", [0, 2**53, "", "x" * 1_000])
async def test_an_id_may_be_any_and_be_used_again(request_id: object) -> None:
    async with calling() as caller:
        session = await caller.session()
        for _ in range(2):
            response = await caller.post(request("ping", request_id=request_id), session)
            assert message(response) == {"jsonrpc": "2.0", "id": request_id, "result": {}}


# Headers of the modern era


@pytest.mark.requirement("S-8", "F-079")
@pytest.mark.parametrize("version", ["1900-01-01", "garbage"])
async def test_an_unknown_version_is_refused_with_those_that_are_known(version: str) -> None:
    async with calling() as caller:
        params = {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": version}}
        headers = {"mcp-protocol-version": version, "mcp-method": "tools/list"}
        response = await caller.post(request("tools/list", params), headers)
        assert (response.status_code, error_code(response)) == (400, -32022)
        assert message(response)["error"]["data"] == {"supported": [MODERN], "requested": version}


@pytest.mark.requirement("S-5", "F-079")
@pytest.mark.parametrize(
    "headers",
    [
        {"mcp-method": "prompts/list"},
        {"mcp-method": ""},
        {"mcp-name": "where"},
        {"mcp-name": ""},
        {"mcp-name": "=?base64?" + base64.b64encode(b"where").decode() + "?="},
        {"mcp-name": "=?base64?!!?="},
    ],
    ids=["other method", "no method", "other name", "no name", "other name in base64", "broken base64"],
)
async def test_headers_that_do_not_say_what_the_body_says_are_refused(headers: dict[str, str]) -> None:
    agent = RegionAgent()
    async with calling(agent) as caller:
        response = await caller.modern("tools/call", {"name": "danger", "arguments": {}}, headers)
        assert (response.status_code, error_code(response)) == (400, -32020)
        assert agent.calls == []


@pytest.mark.requirement("S-5")
async def test_a_name_in_base64_is_read() -> None:
    async with calling() as caller:
        encoded = "=?base64?" + base64.b64encode(b"danger").decode() + "?="
        response = await caller.modern("tools/call", {"name": "danger", "arguments": {}}, {"mcp-name": encoded})
        assert message(response)["result"]["structuredContent"] == {"called": "danger"}


@pytest.mark.requirement("S-6")
@pytest.mark.parametrize(
    ("header", "allowed"),
    [("eu", True), ("=?base64?ZXU=?=", True), ("us", False), ("", False), ("=?base64?ZXU?=", False)],
)
async def test_an_argument_agrees_with_the_header_that_mirrors_it(header: str, allowed: bool) -> None:
    agent = RegionAgent()
    async with calling(agent) as caller:
        params = {"name": "where", "arguments": {"region": "eu"}}
        response = await caller.modern("tools/call", params, {"mcp-param-region": header})
        assert (response.status_code == 200) is allowed
        assert (agent.calls == [("where", {"region": "eu"})]) is allowed
        if not allowed:
            assert error_code(response) == -32020


# Sessions


@pytest.mark.requirement("S-10", "F-094")
async def test_a_session_is_known_where_it_was_opened_and_nowhere_else() -> None:
    async with calling(RegionAgent(), RegionAgent()) as caller:
        session = await caller.session("/agents/agent-0/mcp")
        assert (await caller.post(request("ping"), session, "/agents/agent-0/mcp")).status_code == 200
        unknown = await caller.post(request("ping"), {**session, "mcp-session-id": "0" * 32}, "/agents/agent-1/mcp")
        for path in ("/mcp", "/agents/agent-1/mcp"):
            response = await caller.post(request("ping"), session, path)
            assert (response.status_code, response.json()) == (404, unknown.json())


@pytest.mark.requirement("S-10", "F-094")
async def test_a_deleted_session_is_gone() -> None:
    async with calling() as caller:
        session = await caller.session()
        assert (await caller.client.delete("/mcp", headers=session)).status_code == 200
        assert (await caller.post(request("ping"), session)).status_code == 404


@pytest.mark.requirement("C-6")
@pytest.mark.parametrize("query", ["", "?session_id=", "?session_id=no-id", f"?session_id={'0' * 32}"])
async def test_an_sse_message_without_its_session_is_refused(query: str) -> None:
    async with calling() as caller:
        response = await caller.post(request("ping"), path=f"/messages/{query}")
        assert response.status_code in (400, 404)


@pytest.mark.requirement("C-23", "S-10")
async def test_a_second_stream_does_not_take_over_the_first() -> None:
    async with Bridge() as bridge, anyio.create_task_group() as tasks:
        await bridge.add_agent(RegionAgent(), "first")
        [listening] = bind("127.0.0.1", 0)
        host, port = listening.getsockname()
        server = HttpServer(
            bridge.asgi(AccessPolicy.for_address(host, port)), sockets=[listening], on_shutdown=[bridge.close_streams]
        )
        await tasks.start(server.run)
        async with httpx2.AsyncClient(base_url=f"http://{host}:{port}", timeout=10) as client:
            caller = Caller(client)
            session = {**await caller.session(), "accept": "text/event-stream"}
            async with client.stream("GET", "/mcp", headers=session) as first:
                assert (await client.get("/mcp", headers=session)).status_code == 409
                await bridge.add_agent(RegionAgent(), "second")
                async for line in first.aiter_lines():
                    if "notifications/tools/list_changed" in line:
                        break
        server.stop()


@pytest.mark.parametrize("path", ["/agents/mcp", "/agents//mcp", "/other/agent-0/mcp", "/agents/a/b/mcp", "/MCP"])
async def test_what_only_looks_like_the_address_of_an_endpoint_is_none(path: str) -> None:
    async with calling() as caller:
        assert (await caller.modern("tools/list", path=path)).status_code == 404
