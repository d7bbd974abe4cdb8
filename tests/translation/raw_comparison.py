"""Servers of other hands, spoken to in plain JSON-RPC, directly and through a bridge: whole answers, to everything.

No client of any kind is in between that could take both for the same. What clients send is also what none of them
sends: names that nobody lists, pages that do not exist, methods that nobody knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import httpx2
from msgspec.structs import replace

from gaia_bridge.model import ServerSpec, StdioServerSpec
from gaia_bridge.protocol.json_types import JSON, is_array, is_object
from gaia_bridge.sources.upstream.source import Upstream
from tests.conformance.raw_clients import DEADLINE, StdioClient, connect_http
from tests.interaction.connecting import serving
from tests.support.upstreams import until_ready
from tests.translation.comparison import Difference, differences
from tests.translation.through import AT_ONCE, QUICK

__all__ = ["BOTH_ERAS", "COMPARED", "compare_raw", "raw_routes"]

PATIENT: Final = replace(QUICK, upstream=replace(QUICK.upstream, second_start=DEADLINE))
"""Clients wait for the connection of their era as long as the test: a busy machine must not serve them the other."""
Ask = Callable[[str, JSON], Coroutine[Any, Any, JSON]]
"""Sends a request: method and parameters; the whole answer."""

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
META: Final[JSON] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALLS: Final[Mapping[str, Sequence[tuple[str, JSON]]]] = {
    "time": [("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})],
    "filesystem": [("list_allowed_directories", {}), ("read_text_file", {"path": "/no/such/file"})],
    "everything": [("echo", {"message": "milk — ☕"}), ("get-resource-links", {"count": 2}), ("get-tiny-image", {})],
    "everything-2025": [("echo", {"message": "milk"}), ("add", {"a": 1, "b": 2}), ("getTinyImage", {})],
    "git": [("git_status", {"repo_path": "/no/such/folder"})],
    "memory": [("read_graph", {}), ("search_nodes", {"query": "milk"}), ("open_nodes", {"names": 5})],
    "thinking": [
        ("sequentialthinking", {"thought": "a", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2})
    ],
    **dict.fromkeys(
        ("mcp1-everything", "mcp2-everything"),
        [
            *((f"test_{kind}", {}) for kind in ("simple_text", "image_content", "audio_content", "embedded_resource")),
            *((f"test_{kind}", {}) for kind in ("multiple_content_types", "error_handling")),
        ],
    ),
    **dict.fromkeys(("mcp1", "mcp2", "fastmcp"), [("add", {"a": 2.5}), ("fail", {"reason": "no — milk"})]),
}
"""What is called, by the server's name in `tests.upstreams.servers`."""
COMPARED: Final = tuple(CALLS)
BOTH_ERAS: Final = ("time", "git", "mcp2", "fastmcp", "mcp2-everything")
"""Those that speak 2026-07-28 as well."""
_VOLATILE: Final = re.compile(r"\b\d{4}-\d{2}-\d{2}T[\d:.+]+\b")


def raw_routes() -> list[str]:
    """The routes that are compared."""
    return [f"raw-{name} {era}" for name in COMPARED for era in _eras(name)]


def _eras(name: str) -> Sequence[str]:
    return ("legacy", "modern") if name in BOTH_ERAS else ("legacy",)


async def compare_raw(specs: Mapping[str, ServerSpec], *names: str) -> list[Difference]:
    """What is not the same through a bridge, of each of these servers, to clients of its own eras."""
    found: list[Difference] = []
    for name in names:
        for era in _eras(name):
            async with _directly(specs[name], era) as ask:
                directly = await _answers(ask, name, era)
            async with _through(specs[name], era) as ask:
                through = await _answers(ask, name, era)
            found += differences(f"raw-{name} {era}", directly, through)
    return found


async def _answers(ask: Ask, name: str, era: str) -> dict[str, JSON]:
    """Everything that the server answers."""
    answers: dict[str, JSON] = {}

    async def step(called: str, method: str, **params: Any) -> JSON:
        answer = await ask(method, params)
        assert answer.pop("jsonrpc") == "2.0"
        answer.pop("id")
        answers[called] = _steady(answer)
        return answer

    if era == "legacy":
        client = {"name": "raw", "version": "0"}
        await step("initialize", "initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=client)
        await ask("notifications/initialized", {})
        await step("ping", "ping")
        await step("level", "logging/setLevel", level="debug")
        await step("subscribe to nothing", "resources/subscribe", uri="nothing://at-all")
    else:
        await step("discover", "server/discover")
    listed: dict[str, JSON] = {}
    for kind in ("tools", "prompts", "resources", "resources/templates"):
        listed[kind] = await step(kind, f"{kind}/list")
        await step(f"{kind} of no page", f"{kind}/list", cursor="no such page")
    for number, (tool, arguments) in enumerate(CALLS[name]):
        await step(f"call {number}", "tools/call", name=tool, arguments=arguments, **{"_meta": {"example.org/t": 1}})
    await step("call without arguments", "tools/call", name=CALLS[name][0][0])
    await step("call of no tool", "tools/call", name="no-such-tool", arguments={})
    for prompt in listed["prompts"].get("result", {}).get("prompts", []):
        await step(f"prompt {prompt['name']}", "prompts/get", name=prompt["name"], arguments={"name": "Ada"})
    await step("prompt of none", "prompts/get", name="no-such-prompt", arguments={})
    for resource in listed["resources"].get("result", {}).get("resources", [])[:2]:
        await step(f"read {resource['uri']}", "resources/read", uri=resource["uri"])
    await step("read nothing", "resources/read", uri="nothing://at-all")
    argument = {"name": "name", "value": "A"}
    await step("complete no prompt", "completion/complete", ref=_of_prompt("none"), argument=argument)
    await step("nobody's method", "example.org/none", x=1)
    return answers


def _of_prompt(name: str) -> JSON:
    return {"type": "ref/prompt", "name": name}


def _steady(value: Any) -> Any:
    """A value without clock times."""
    if is_object(value):
        return {key: _steady(item) for key, item in value.items()}
    if is_array(value):
        return [_steady(item) for item in value]
    return _VOLATILE.sub("TIME", value) if isinstance(value, str) else value


def _stamped(params: JSON, era: str) -> JSON:
    return params if era == "legacy" else {**params, "_meta": {**params.get("_meta", {}), **META}}


@asynccontextmanager
async def _directly(spec: ServerSpec, era: str) -> AsyncGenerator[Ask]:
    assert isinstance(spec, StdioServerSpec)
    with anyio.fail_after(DEADLINE):
        env = {**os.environ, **spec.env}
        async with await anyio.open_process([spec.command, *spec.args], stderr=None, env=env) as process:
            client = StdioClient(process)

            async def ask(method: str, params: JSON) -> JSON:
                if method.startswith("notifications/"):
                    await client.send({"jsonrpc": "2.0", "method": method})
                    return {}
                return await client.request(method, _stamped(params, era))

            yield ask
            process.kill()


@asynccontextmanager
async def _through(spec: ServerSpec, era: str) -> AsyncGenerator[Ask]:
    with anyio.fail_after(DEADLINE):
        async with serving({}, PATIENT) as (url, bridge):
            await bridge.add_upstream(replace(spec, options=AT_ONCE))
            [source] = bridge.sources
            assert isinstance(source, Upstream)
            await until_ready(source)
            url = f"{url}/servers/{spec.name}/mcp"
            async with connect_http(url) as client, httpx2.AsyncClient(timeout=DEADLINE) as http:

                async def legacy(method: str, params: JSON) -> JSON:
                    if method.startswith("notifications/"):
                        await client.send({"jsonrpc": "2.0", "method": method})
                        return {}
                    answer = await client.request(method, params)
                    if method == "initialize":
                        client.version = LEGACY
                    return answer

                async def modern(method: str, params: JSON) -> JSON:
                    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN}
                    headers["Mcp-Method"] = method
                    if isinstance(named := params.get("name", params.get("uri")), str):
                        headers["Mcp-Name"] = named
                    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": _stamped(params, era)}
                    response = await http.post(url, json=body, headers=headers)
                    answer: JSON = response.json()
                    return answer

                yield legacy if era == "legacy" else modern
