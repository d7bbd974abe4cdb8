"""HTTP APIs on a bridge, beside agents and servers: named, filtered, tailored and supervised as servers are."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi import FastAPI
from msgspec.structs import replace

from gaia.mcp.aio import MCPClientManager
from gaia.mcp.client.server_config import check_server_config
from gaia_bridge.bridge import Bridge
from gaia_bridge.config import TrustStore
from gaia_bridge.model import (
    ArgumentTransform,
    OpenApiServerSpec,
    ServerOptions,
    SourceState,
    ToolTransform,
)
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.bridges import both_eras, running_bridge, text_of
from tests.support.http_apis import served_app
from tests.support.upstreams import FakeRequest, raw_server, until_ready
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

QUICK = Settings(upstream=UpstreamLimits(backoff_start=0.02, stop_grace=0.1, announce_interval=0))


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    app = FastAPI(title="Numbers", version="3")

    @app.get("/double/{number}", operation_id="double")
    async def double(number: int, key: str = "") -> JSON:
        return {"double": 2 * number, "key": key}

    @app.get("/pid", operation_id="pid", summary="The answer of the API.")
    async def pid() -> str:
        return "of the API"

    with served_app(app) as found:
        yield found


def source(bridge: Bridge, name: str) -> Upstream:
    [found] = [source for source in bridge.sources if source.name == name]
    assert isinstance(found, Upstream)
    return found


@both_eras
async def test_an_agent_a_server_and_an_api_are_one_endpoint(mode: str, url: str) -> None:
    agent = one_tool(lambda _: "of the agent", "pid")
    async with running_bridge(named={"agent": agent}, settings=QUICK) as running:
        await running.bridge.add_upstream(replace(raw_server(), name="server"))
        await running.bridge.add_openapi(f"{url}/openapi.json", name="api")
        await until_ready(*running.bridge.sources)
        async with running.client(mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"pid", "server__pid", "api__pid", "api__double"} <= names
            result = await client.call_tool("api__double", {"number": 21})
            assert result.structured_content == {"double": 42, "key": ""}
            assert text_of(await client.call_tool("api__pid", {})) == '"of the API"'
            assert text_of(await client.call_tool("pid", {})) == "of the agent"
        async with running.client(mode, "servers/api") as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {"double", "pid"}
            refused = await client.call_tool("double", {"number": "x"})
            assert refused.is_error
            assert "expected" in text_of(refused) or "is not of type" in text_of(refused)


async def test_names_and_arguments_are_filtered_and_tailored_as_those_of_servers(url: str) -> None:
    transform = ToolTransform(name="twice", arguments={"key": ArgumentTransform(default="preset", hidden=True)})
    options = ServerOptions(disabled_tools=("pid",), tools={"double": transform})
    async with running_bridge(settings=QUICK) as running:
        await running.bridge.add_openapi(f"{url}/openapi.json", name="api", options=options)
        await until_ready(*running.bridge.sources)
        async with running.client() as client:
            [tool] = (await client.list_tools()).tools
            assert (tool.name, set(tool.input_schema["properties"])) == ("api__twice", {"number"})
            result = await client.call_tool("api__twice", {"number": 1})
            assert result.structured_content == {"double": 2, "key": "preset"}


async def test_an_api_that_is_not_there_yet_has_failed_with_the_reason_and_is_tried_again(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "api.json"
    async with running_bridge(settings=QUICK) as running:
        await running.bridge.add_openapi(file, name="api", base_url=url)
        api = source(running.bridge, "api")
        await until(lambda: "no OpenAPI document" in api.status.reason)
        assert f"{file}: cannot be read: No such file or directory" in api.status.reason
        written = tmp_path / "written.json"
        written.write_text('{"openapi": "3.1.0", "paths": {"/pid": {"get": {}}, "/{x}": {"get": {}}}}', "utf-8")
        written.rename(file)
        await until(lambda: api.status.state is SourceState.READY)
        assert [tool["name"] for tool in api.features.tools] == ["get_pid"]
        [left_out] = api.features.left_out
        assert (left_out.kind, left_out.name) == ("tool", "get_x")
        assert "none of its parameters describes" in left_out.reason


async def test_a_call_to_an_api_that_is_gone_says_so_and_has_a_deadline() -> None:
    document: JSON = {"openapi": "3.1.0", "paths": {"/x": {"get": {}}}}
    async with running_bridge(settings=QUICK) as running:
        await running.bridge.add_openapi(document, name="gone", base_url="http://127.0.0.1:9")
        await until_ready(*running.bridge.sources)
        result = await source(running.bridge, "gone").call_tool("get_x", {}, FakeRequest())
        assert result["isError"]
        assert "upstream 'gone' cannot be reached at http://127.0.0.1:9" in result["content"][0]["text"]
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as silent:
            port = silent.extra(anyio.abc.SocketAttribute.local_port)
            options = ServerOptions(timeout=0.2)
            await running.bridge.add_openapi(
                document, name="mute", base_url=f"http://127.0.0.1:{port}", options=options
            )
            await until_ready(*running.bridge.sources)
            result = await source(running.bridge, "mute").call_tool("get_x", {}, FakeRequest())
            assert result["isError"]
            assert "0.2 s" in result["content"][0]["text"]


async def test_the_status_names_what_an_api_is(url: str) -> None:
    async with running_bridge(settings=QUICK) as running:
        await running.bridge.add_openapi(
            f"{url}/openapi.json", name="api", headers={"Authorization": "Bearer s3cret-x"}
        )
        await until_ready(*running.bridge.sources)
        api = source(running.bridge, "api")
        assert (api.details["transport"], api.features.info.name, api.features.info.version) == (
            "openapi",
            "Numbers",
            "3",
        )
        assert "s3cret" not in repr(running.bridge.sources) + str(api.details)
        assert "s3cret" not in repr(OpenApiServerSpec("a", "d", headers={"Authorization": "Bearer s3cret-x"}))


def test_an_approval_ends_with_a_change_of_the_document(tmp_path: Path) -> None:
    store, file, document = TrustStore(tmp_path / "trust.json"), tmp_path / "mcp_servers.json", tmp_path / "api.json"
    document.write_text("{}", "utf-8")
    entry: dict[str, Any] = {"openapi": "api.json", "headers": {"A": "${env:TOKEN}"}}
    store.approve(file, "api", entry)
    assert store.is_approved(file, "api", entry)
    assert not store.is_approved(file, "api", {**entry, "url": "https://elsewhere.example"})
    document.write_text('{"openapi": "3.1.0"}', "utf-8")
    assert not store.is_approved(file, "api", entry)


async def test_the_asynchronous_manager_uses_apis_and_the_other_says_that_it_does_not(url: str) -> None:
    entry = {"openapi": f"{url}/openapi.json"}
    async with MCPClientManager(config={"mcpServers": {"api": entry}}) as manager:
        assert json.loads((await manager.execute_tool("double", {"number": 4}))["content"])["double"] == 8
    for wrong in (entry, {**entry, "url": url}):
        with pytest.raises(ValueError, match="'openapi' is for gaia-bridge and gaia.mcp.aio"):
            check_server_config(wrong)


@pytest.mark.parametrize(
    "options", [ServerOptions(era="handshake"), ServerOptions(era="2026-07-28"), ServerOptions(isolation="session")]
)
@both_eras
async def test_an_api_can_be_spoken_to_as_any_server(mode: str, options: ServerOptions, url: str) -> None:
    async with running_bridge(settings=QUICK) as running:
        await running.bridge.add_openapi(f"{url}/openapi.json", name="api", options=options)
        await until_ready(*running.bridge.sources)
        async with running.client(mode) as client:
            result = await client.call_tool("api__double", {"number": 21})
            assert result.structured_content == {"double": 42, "key": ""}
