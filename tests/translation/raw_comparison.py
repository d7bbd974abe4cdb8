"""Servers of other hands, spoken to in plain JSON-RPC, directly and through a bridge: whole answers, to everything.

Each is compared with its own endpoint, and several with the endpoint that publishes all of them. No client of any kind
is in between that could take both for the same. What clients send is also what none of them sends: names that nobody
lists, pages that do not exist, methods that nobody knows.
"""

from __future__ import annotations

import os
import re
import subprocess
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from typing import Any, Final

import anyio
import httpx2
from msgspec.structs import replace

from gaia_bridge.model import ServerSpec, StdioServerSpec
from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.conformance.raw_clients import HttpClient, StdioClient
from tests.interaction.connecting import serving
from tests.support.upstreams import until_ready
from tests.translation.comparison import Difference, differences
from tests.translation.through import AT_ONCE, QUICK

__all__ = ["BOTH_ERAS", "COMPARED", "LANGUAGES", "compare_raw", "merged_routes", "raw_routes"]

PATIENCE: Final = 60.0
"""Seconds for all that is asked of one server; only what is broken needs them."""
PATIENT: Final = replace(QUICK, upstream=replace(QUICK.upstream, second_start=PATIENCE))
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
WEATHER: Final[tuple[str, JSON]] = ("get-structured-content", {"location": "Chicago"})
CALLS: Final[Mapping[str, Sequence[tuple[str, JSON]]]] = {
    "time": [("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})],
    "filesystem": [("list_allowed_directories", {}), ("read_text_file", {"path": "/no/such/file"})],
    "everything": [
        ("echo", {"message": "milk — ☕"}),
        ("get-resource-links", {"count": 2}),
        ("get-tiny-image", {}),
        WEATHER,
    ],
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
    "grafana": [
        ("generate_deeplink", {"resourceType": "dashboard", "dashboardUid": "milk"}),
        ("get_tempo_traceql_docs", {"topic": "basic"}),
        ("list_datasources", {}),
    ],
    "logseq": [("logseq_get_page", {"page": "milk"}), ("logseq_get_page", {"page": 5})],
    **dict.fromkeys(("mcp1", "mcp2", "fastmcp"), [("add", {"a": 2.5}), ("fail", {"reason": "no — milk"})]),
}
"""What is called, by the server's name in `tests.upstreams.servers`."""
COMPARED: Final = tuple(CALLS)
BOTH_ERAS: Final = ("time", "git", "mcp2", "fastmcp", "mcp2-everything", "grafana", "logseq")
"""Those that speak 2026-07-28 as well."""
LANGUAGES: Final = ("everything", "mcp2", "grafana", "logseq")
"""Those that are compared on one endpoint: written in TypeScript, Python, Go and Rust, each with its official SDK."""
LONGEST_NAME: Final = 44
_LISTS: Final = {
    "tools": ("tools", "name"),
    "prompts": ("prompts", "name"),
    "resources": ("resources", "uri"),
    "resources/templates": ("resourceTemplates", "uriTemplate"),
}
"""What is listed: the field of the result, and by which key each item is known."""
_OF_ONE_SERVER: Final = (
    "initialize",
    "discover",
    "ping",
    "level",
    "* of no page",
    "* nothing",
    "* no *",
    "* of no*",
    "nobody's *",
)
"""Steps that say nothing of a server where several are."""
_VARIABLE: Final = re.compile(r"\{\W?(\w+).*?\}")
_VOLATILE: Final = re.compile(r"\b\d{4}-\d{2}-\d{2}T[\d:.+]+\b|\b\d{1,2}:\d{2}:\d{2} [AP]M\b")


def raw_routes(*names: str) -> list[str]:
    """The routes to the endpoints of these servers alone; of all that are compared, if none is named."""
    return [f"raw-{name} {era}" for name in names or COMPARED for era in _eras(name)]


def merged_routes() -> list[str]:
    """The routes to servers on the endpoint of several."""
    return [f"merged-{name} {era}" for name in LANGUAGES for era in _eras(name)]


def _eras(name: str) -> Sequence[str]:
    return ("legacy", "modern") if name in BOTH_ERAS else ("legacy",)


async def compare_raw(specs: Mapping[str, ServerSpec], *names: str) -> list[Difference]:
    """What is not the same through a bridge, of each of these servers, to clients of its own eras.

    If there are several, they are also compared with the endpoint that publishes all of them.
    """
    found: list[Difference] = []
    async with _bridge([specs[name] for name in names]) as url:
        for name in names:
            for era in _eras(name):
                async with _directly(specs[name], era) as ask:
                    directly = await _answers(ask, name, era)
                async with _through(f"{url}/servers/{name}/mcp", era) as ask:
                    through = await _answers(ask, name, era)
                found += differences(f"raw-{name} {era}", directly, through)
                if len(names) > 1:
                    async with _through(f"{url}/mcp", era) as ask:
                        merged = await _answers(_Merged(ask, name, through), name, era)
                    found += differences(f"merged-{name} {era}", _shared(directly), _shared(merged))
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
        answer = await step("initialize", "initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=client)
        await ask("notifications/initialized", {})
        await step("ping", "ping")
        await step("level", "logging/setLevel", level="debug")
        await step("subscribe to nothing", "resources/subscribe", uri="nothing://at-all")
    else:
        answer = await step("discover", "server/discover")
    answers["instructions"] = {"text": answer["result"].get("instructions")}
    listed: dict[str, dict[str, JSON]] = {}
    for kind, (field, key) in _LISTS.items():
        answer = await step(kind, f"{kind}/list")
        listed[kind] = {item[key]: item for item in answer.get("result", {}).get(field, ())}
        answers[kind] = _steady(_by_name(answer, field, listed[kind]))
        answers[f"{kind} in order"] = {"names": list(listed[kind])}
        await step(f"{kind} of no page", f"{kind}/list", cursor="no such page")
    for number, (tool, arguments) in enumerate(CALLS[name]):
        await step(f"call {number}", "tools/call", name=tool, arguments=arguments, **{"_meta": {"example.org/t": 1}})
    await step("call without arguments", "tools/call", name=CALLS[name][0][0])
    await step("call of no tool", "tools/call", name="no-such-tool", arguments={})
    for prompt, definition in listed["prompts"].items():
        names = [argument["name"] for argument in definition.get("arguments", ())]
        await step(f"prompt {prompt}", "prompts/get", name=prompt, arguments={"name": "Ada"})
        await step(f"prompt {prompt} filled", "prompts/get", name=prompt, arguments=dict.fromkeys(names, "1"))
        for argument in names:
            await step(
                f"complete {prompt} {argument}", "completion/complete", **_completion(_of_prompt(prompt), argument)
            )
    await step("prompt of none", "prompts/get", name="no-such-prompt", arguments={})
    for uri in list(listed["resources"])[:2]:
        await step(f"read {uri}", "resources/read", uri=uri)
    for template in listed["resources/templates"]:
        [variable, *_] = _VARIABLE.findall(template)
        await step(f"read {template}", "resources/read", uri=_VARIABLE.sub("1", template))
        ref = {"type": "ref/resource", "uri": template}
        await step(f"complete {template}", "completion/complete", **_completion(ref, variable))
    await step("read nothing", "resources/read", uri="nothing://at-all")
    await step("complete no prompt", "completion/complete", **_completion(_of_prompt("none"), "name"))
    await step("nobody's method", "example.org/none", x=1)
    return answers


def _by_name(answer: JSON, field: str, items: JSON) -> JSON:
    """The answer to a list with its items by their names, so that one more or less of them shows as what it is."""
    return {**answer, "result": {**answer["result"], field: items}} if "result" in answer else answer


def _completion(ref: JSON, argument: str) -> JSON:
    return {"ref": ref, "argument": {"name": argument, "value": "E"}}


def _of_prompt(name: str) -> JSON:
    return {"type": "ref/prompt", "name": name}


def _steady(value: Any, key: str = "") -> Any:
    """A value without clock times."""
    if is_object(value):
        return {key: _steady(item, key) for key, item in value.items()}
    if is_array(value):
        return [_steady(item) for item in value]
    if not isinstance(value, str):
        return value
    return _VOLATILE.sub("TIME", b64decode(value).decode("latin-1") if key == "blob" else value)


def _stamped(params: JSON, era: str) -> JSON:
    return params if era == "legacy" else {**params, "_meta": {**params.get("_meta", {}), **META}}


@asynccontextmanager
async def _directly(spec: ServerSpec, era: str) -> AsyncGenerator[Ask]:
    assert isinstance(spec, StdioServerSpec)
    with anyio.fail_after(PATIENCE):
        env = {**os.environ, **spec.env}
        async with await anyio.open_process([spec.command, *spec.args], stderr=subprocess.DEVNULL, env=env) as process:
            client = StdioClient(process)

            async def ask(method: str, params: JSON) -> JSON:
                if method.startswith("notifications/"):
                    await client.send({"jsonrpc": "2.0", "method": method})
                    return {}
                return await client.request(method, _stamped(params, era))

            yield ask
            process.kill()


@asynccontextmanager
async def _bridge(specs: Sequence[ServerSpec]) -> AsyncGenerator[str]:
    """The URL of a bridge in this process that is connected to servers."""
    async with serving({}, PATIENT) as (url, bridge):
        for spec in specs:
            await bridge.add_upstream(replace(spec, options=AT_ONCE))
        await until_ready(*bridge.sources)
        yield url


@asynccontextmanager
async def _through(url: str, era: str) -> AsyncGenerator[Ask]:
    with anyio.fail_after(PATIENCE):
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            client = HttpClient(http, url)

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


class _Merged:
    """Asks the endpoint of several servers for one of them, under the names that it has there.

    Args:
        ask: Sends a request to that endpoint.
        server: The name of the server.
        alone: What it answers at an endpoint of its own.
    """

    def __init__(self, ask: Ask, server: str, alone: Mapping[str, JSON]) -> None:
        self._ask = ask
        self._server = server
        self._alone = alone
        self._public: dict[str, str] = {}

    async def __call__(self, method: str, params: JSON) -> JSON:
        kind = method.removesuffix("/list")
        if kind in _LISTS and "cursor" not in params:
            return await self._own_items(kind)
        answer = await self._ask(method, self._with_public_name(params))
        if method in ("initialize", "server/discover"):
            instructions: Any = self._alone["instructions"]["text"]
            assert instructions is None or instructions in answer["result"]["instructions"]
            answer["result"]["instructions"] = instructions
        return answer

    def _with_public_name(self, params: JSON) -> JSON:
        found = {**params}
        if "ref" in params:
            found["ref"] = self._with_public_name(params["ref"])
        if "name" in params:
            found["name"] = self._public.get(params["name"], params["name"])
        return found

    async def _own_items(self, kind: str) -> JSON:
        """The answer to a list with the server's items alone, and their original names."""
        field, key = _LISTS[kind]
        answer = await self._ask(f"{kind}/list", {})
        items: list[JSON] = answer["result"][field]
        assert "nextCursor" not in answer["result"]
        names: list[str] = self._alone[f"{kind} in order"]["names"]
        if key == "name":
            items = [item for item in items if self._server.startswith(item["name"].partition("__")[0])]
            assert all(len(item["name"]) <= LONGEST_NAME for item in items)
            self._public |= {name: item["name"] for name, item in zip(names, items, strict=True)}
            items = [{**item, "name": name} for name, item in zip(names, items, strict=True)]
        answer["result"][field] = [item for item in items if item[key] in names]
        return answer


def _shared(answers: Mapping[str, JSON]) -> dict[str, JSON]:
    """What can be compared where several servers are."""
    return {step: answer for step, answer in answers.items() if not any(fnmatchcase(step, of) for of in _OF_ONE_SERVER)}
