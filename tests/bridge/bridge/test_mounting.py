"""A bridge inside of somebody else's application: below any path, before and after it is open."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from gaia_bridge import AgentLoadError, Bridge, Client, ConfigError, HttpServerSpec, tool
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.server.http.proxies import at_root
from tests.support.on_demand import mcp_server

HOSTS = ("testserver", "127.0.0.1:*")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
HEADERS = {"accept": "application/json, text/event-stream"}


class Sums:
    @tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        return a + b


class Words:
    """Also a model, so that `/v1/` has something."""

    def get_model_id(self) -> str:
        return "words"

    def get_model_info(self) -> dict[str, Any]:
        return {}

    def process_query(self, query: str) -> str:
        return query.upper()


def three() -> Bridge:
    server: Any = mcp_server.MCPServer("times")

    def multiply(a: int, b: int) -> int:
        return a * b

    server.tool()(multiply)

    return Bridge(Sums(), Words(), server)


def fastapi(bridge: Bridge, path: str, **options: Any) -> FastAPI:
    application = FastAPI(lifespan=bridge.lifespan, **options)
    application.mount(path, bridge.app(hosts=HOSTS))
    return application


def starlette(bridge: Bridge, path: str) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        async with bridge:
            yield

    return Starlette(routes=[Mount(path, bridge.app(hosts=HOSTS))], lifespan=lifespan)


@pytest.mark.parametrize("kind", [fastapi, starlette])
@pytest.mark.parametrize("path", ["", "/mcp", "/v1", "/deep/er", "/mit blank"])
def test_every_route_answers_below_every_path(kind: Any, path: str) -> None:
    with TestClient(kind(three(), path)) as client:
        assert client.get(f"{path}/health").json()["status"] == "healthy"
        assert client.get(f"{path}/ready").json()["status"] == "ready"
        assert {"sums", "words", "times"} == {
            source["name"] for source in client.get(f"{path}/status").json()["sources"]
        }
        assert client.get(f"{path}/tools").json()["tools"][0]["name"] == "add"
        assert client.get(f"{path}/v1/models").json()["data"][0]["id"] == "words"
        chat = {"model": "words", "messages": [{"role": "user", "content": "hi"}]}
        answer = client.post(f"{path}/v1/chat/completions", json=chat).json()
        assert answer["choices"][0]["message"]["content"] == "HI"
        for endpoint in ("mcp", "agents/sums/mcp", "servers/times/mcp"):
            greeted = client.post(f"{path}/{endpoint}", json=INITIALIZE, headers=HEADERS)
            assert greeted.status_code == 200, endpoint
            assert greeted.headers["mcp-session-id"]
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        added = client.post(f"{path}/", json={**call, "params": {"name": "add", "arguments": {"a": 1, "b": 2}}})
        assert added.json()["result"]["structuredContent"] == {"result": 3}


@pytest.mark.parametrize("path", ["", "/v1", "/deep/er"])
def test_every_refusal_is_the_one_of_its_path(path: str) -> None:
    with TestClient(fastapi(three(), path)) as client:
        for headers, status in (({"host": "evil.example"}, 421), ({"origin": "https://evil.example"}, 403)):
            for route, place in (("mcp", ("error", "code")), ("v1/models", ("error", "type"))):
                refused = client.post(f"{path}/{route}", json=INITIALIZE, headers={**HEADERS, **headers})
                assert refused.status_code == status
                assert refused.json()[place[0]][place[1]]
        assert "add it to hosts=" in client.get(f"{path}/tools", headers={"host": "evil.example"}).text
        missing = client.post(f"{path}/agents/none/mcp", json=INITIALIZE, headers=HEADERS)
        assert (missing.status_code, "under that name" in missing.text) == (404, True)
        assert client.get(f"{path}/nothing/here").status_code == 404


def test_a_page_of_the_same_host_may_call_and_one_of_another_only_if_it_is_named() -> None:
    bridge = Bridge(Sums())
    origins = {"https://tool.example": 200, "http://testserver": 200, "http://testserver:81": 403, "null": 403}
    with TestClient(bridge.app(hosts=HOSTS, origins=["https://tool.example"])) as client:
        for origin, status in origins.items():
            answer = client.post("/mcp", json=INITIALIZE, headers={**HEADERS, "origin": origin})
            assert answer.status_code == status, origin
        preflight = client.options(
            "/mcp", headers={"origin": "https://tool.example", "access-control-request-method": "POST"}
        )
        assert preflight.headers["access-control-allow-origin"] == "https://tool.example"


def test_a_token_is_wanted_of_everybody_but_the_health_check() -> None:
    application = FastAPI(lifespan=(bridge := Bridge(Sums())).lifespan)
    application.mount("/b", bridge.app(hosts=HOSTS, token="secret"))
    with TestClient(application) as client:
        assert client.get("/b/health").status_code == 200
        assert client.get("/b/tools").status_code == 401
        assert client.get("/b/tools", headers={"authorization": "Bearer secret"}).status_code == 200


@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        (("localhost:*",), "localhost:1234", 200),
        (("localhost:*",), "LOCALHOST", 200),
        (("[::1]:*",), "[::1]:80", 200),
        (("localhost:*",), "localhost.evil.example:1", 421),
        (("localhost:*",), "localhost:1@evil.example", 400),
        (("tool.example",), "tool.example", 200),
        (("tool.example",), "tool.example:81", 421),
        (("Tool.example:81",), "tool.example:81", 200),
    ],
)
def test_hosts_are_compared_as_they_are_named(hosts: tuple[str, ...], host: str, status: int) -> None:
    with TestClient(Bridge(Sums()).app(hosts=hosts)) as client:
        assert client.get("/health", headers={"host": host}).status_code == status


@pytest.mark.parametrize("option", [{"hosts": ["*"]}, {"hosts": ["http://a"]}, {"origins": ["*"]}, {"token": ""}])
def test_what_is_no_host_no_origin_and_no_token_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Bridge(Sums()).app(**option)


def test_an_application_whose_bridge_is_closed_says_what_to_do() -> None:
    bridge = Bridge(Sums())
    application = FastAPI()
    application.mount("/b", bridge.app(hosts=HOSTS))
    client = TestClient(application)
    answer = client.post("/b/mcp", json=INITIALIZE, headers=HEADERS)
    assert answer.status_code == 503
    assert "FastAPI(lifespan=bridge.lifespan)" in answer.json()["error"]["message"]
    assert "type" in client.get("/b/v1/models").json()["error"]


def test_a_bridge_serves_again_after_it_was_closed() -> None:
    bridge = Bridge(Sums())
    application = bridge.app(hosts=HOSTS)
    for _ in range(2):
        with TestClient(application) as client:
            assert len(client.get("/tools").json()["tools"]) == 1
        assert not bridge.is_open


@pytest.mark.anyio
async def test_a_lifespan_that_finds_the_bridge_open_leaves_it_open() -> None:
    said: list[str] = []
    async with Bridge(Sums()) as bridge:
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            said.append(message["type"])

        await bridge.app()({"type": "lifespan"}, receive, send)
        assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert bridge.is_open


def test_a_bridge_that_cannot_open_says_why_at_the_start() -> None:
    with pytest.raises(AgentLoadError, match="write Sums"), TestClient(Bridge(Sums).app()):
        pass


@pytest.mark.parametrize(
    ("scope", "path", "root"),
    [
        ({"root_path": "", "path": "/mcp"}, "/mcp", None),
        ({"root_path": "/b", "path": "/b/mcp"}, "/mcp", "/b"),
        ({"root_path": "/b/", "path": "/b/mcp"}, "/mcp", "/b"),
        ({"root_path": "/b", "path": "/b"}, "/", "/b"),
        ({"root_path": "/b", "path": "/bee/mcp"}, "/bee/mcp", "/b"),
        ({"root_path": "/v1", "path": "/v1/v1/models"}, "/v1/models", "/v1"),
        # A proxy took /api away, and Starlette remembers it.
        ({"root_path": "/api/b", "app_root_path": "/api", "path": "/b/mcp"}, "/mcp", "/api/b"),
        ({"root_path": "/api/b", "app_root_path": "/api", "path": "/api/b/mcp"}, "/mcp", "/api/b"),
        ({"root_path": "/api", "app_root_path": "", "path": "/mcp"}, "/mcp", "/api"),
    ],
)
def test_the_path_begins_at_our_own_root(scope: dict[str, Any], path: str, root: str | None) -> None:
    found = at_root({"type": "http", **scope})
    assert found["path"] == path
    assert found.get("gaia_bridge.mounted_at") == root


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/deep/er", "/mit blank"])
async def test_links_and_streams_work_below_a_path_on_a_real_socket(path: str) -> None:
    bridge = three()
    sockets = bind("127.0.0.1", 0)
    base = f"http://127.0.0.1:{sockets[0].getsockname()[1]}{path.replace(' ', '%20')}"
    async with anyio.create_task_group() as tasks:
        server = HttpServer(fastapi(bridge, path), sockets=sockets)
        await tasks.start(server.run)
        for target, era in ((f"{base}/mcp", "legacy"), (f"{base}/mcp", "modern"), (f"{base}/sse", "legacy")):
            spec = HttpServerSpec("mounted", target, sse=target.endswith("sse"))
            async with Client(spec, era=era) as client:  # type: ignore[arg-type]
                assert (await client.call_tool("add", a=1, b=2)).text == "3"
        async with Client(f"{base}/servers/times/mcp") as client:
            assert json.loads(json.dumps(client.server_info))["name"] == "times"
        server.stop()
    assert not bridge.is_open
