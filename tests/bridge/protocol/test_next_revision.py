"""A revision that exists nowhere is spoken in both directions because of its entry in the table, and its class."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import pytest

from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.client import connect
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports.http.streamable_http import StreamableHttpTransport
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import HttpServerSpec, Progress
from gaia_bridge.protocol.meta import CLIENT_CAPABILITIES_KEY, PROTOCOL_VERSION_KEY
from gaia_bridge.protocol.revisions import PUBLISHED, Revision
from gaia_bridge.server.call import Call
from gaia_bridge.server.call_log import request_span
from gaia_bridge.server.connection import NOWHERE, ClientConnection
from gaia_bridge.server.transports.streams import DuplexClient
from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON, is_object
from tests.bridge.client.scripted import QUICK, Role, ScriptedTransport, Wire, discovered
from tests.interaction.connecting import serving
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

NAME = "2099-01-01"


def renamed(fields: JSON, names: dict[str, str]) -> JSON:
    return {names.get(key, key): value for key, value in fields.items()}


def inverse(names: dict[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}


METHODS = {"tools/call": "tools/invoke", "notifications/progress": "notifications/advanced"}
PARAMS = {"tools/call": {"name": "tool", "arguments": "input"}, "notifications/progress": {"progress": "done"}}
RESULTS = {"tools/call": {"content": "blocks"}}
CODES = {-32602: -32077}


class NextRevision(Revision):
    """Other names for a method, a notification, parameters and a result, another code; `tools/list` is gone."""

    differs = True

    def read(self, message: JSON, method: str) -> JSON:
        if "method" not in message:
            return self._response(message, inverse(RESULTS.get(method, {})), {new: old for old, new in CODES.items()})
        old = "tools/gone" if method in ("tools/list", *METHODS) else inverse(METHODS).get(method, method)
        return self._said(message, old, inverse(PARAMS.get(old, {})))

    def written(self, message: JSON, method: str) -> JSON:
        if "method" not in message:
            return self._response(message, RESULTS.get(method, {}), CODES)
        return self._said(message, METHODS.get(method, method), PARAMS.get(method, {}))

    def _said(self, message: JSON, method: str, names: dict[str, str]) -> JSON:
        params = {"params": renamed(message["params"], names)} if is_object(message.get("params")) else {}
        return {**message, "method": method, **params}

    def _response(self, message: JSON, names: dict[str, str], codes: dict[int, int]) -> JSON:
        if "error" in message:
            error = message["error"]
            return {**message, "error": {**error, "code": codes.get(error["code"], error["code"])}}
        return {**message, "result": renamed(message["result"], names)}


REVISIONS = PUBLISHED.and_also([NextRevision(NAME)])
SETTINGS = Settings(upstream=QUICK).speaking(REVISIONS)
SPEAKING = SETTINGS.upstream


def request(method: str, revision: str = NAME, token: str | None = None, **params: Any) -> JSON:
    meta: JSON = {PROTOCOL_VERSION_KEY: revision, CLIENT_CAPABILITIES_KEY: {}}
    if token is not None:
        meta["progressToken"] = token
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta, **params}}


def greet(arguments: JSON) -> str:
    get_request_context().report_progress(0.5)
    return f"hello {arguments['who']}"


class _Heard:
    """What a client on a stream is sent: implements `gaia_bridge.server.connection.Channel`."""

    can_ask = True

    def __init__(self) -> None:
        self.messages: list[JSON] = []
        self._answered = anyio.Event()

    async def send(self, message: bytes) -> None:
        self.messages.append(json.loads(message))
        if "id" in self.messages[-1]:
            self._answered.set()

    def end(self) -> None: ...

    async def answer(self) -> JSON:
        with anyio.fail_after(PATIENCE):
            await self._answered.wait()
        return self.messages[-1]


async def on_a_stream(message: JSON, settings: Settings = SETTINGS) -> list[JSON]:
    heard = _Heard()
    async with running_bridge(one_tool(greet), settings=settings) as running:
        client = DuplexClient(running.endpoint(), heard)
        await client.take(message)
        await heard.answer()
        client.close()
    return heard.messages


async def over_http(message: JSON, settings: Settings = SETTINGS, **headers: str) -> httpx2.Response:
    named = {"mcp-name": message["params"]["tool"]} if "tool" in message["params"] else {}
    every = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": message["params"]["_meta"][PROTOCOL_VERSION_KEY],
        "mcp-method": message["method"],
        **named,
        **headers,
    }
    async with serving({"greeter": one_tool(greet)}, settings) as (url, _), httpx2.AsyncClient() as client:
        return await client.post(f"{url}/mcp", json=message, headers=every)


async def test_it_is_listed_beside_the_others() -> None:
    for revision in REVISIONS.names:
        answer = (await on_a_stream(request("server/discover", revision)))[-1]
        assert answer["result"]["supportedVersions"] == [*PUBLISHED.names, NAME]
        answer = (await over_http(request("server/discover", revision))).json()
        assert answer["result"]["supportedVersions"] == [*PUBLISHED.names, NAME]


async def test_where_it_is_not_in_the_table_it_is_refused_with_what_is() -> None:
    stream = (await on_a_stream(request("server/discover"), Settings()))[-1]
    http = await over_http(request("server/discover"), Settings())
    assert http.status_code == 400
    for answer in (stream, http.json()):
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"] == {"supported": list(PUBLISHED.names), "requested": NAME}


async def test_requests_that_name_it_are_answered_in_its_words() -> None:
    said = await on_a_stream(request("tools/invoke", tool="work", input={"who": "you"}, token="t"))
    assert [message.get("method") for message in said] == ["notifications/advanced", None]
    assert said[0]["params"]["done"] == 0.5
    assert said[1]["result"]["blocks"][0]["text"] == "hello you"
    response = await over_http(request("tools/invoke", tool="work", input={"who": "you"}))
    assert response.json()["result"]["blocks"][0]["text"] == "hello you"


async def test_its_errors_have_its_codes() -> None:
    for answer in (
        (await on_a_stream(request("tools/invoke", tool="none", input={})))[-1],
        (await over_http(request("tools/invoke", tool="none", input={}))).json(),
    ):
        assert answer["error"]["code"] == -32077


def test_a_trace_has_the_revision_of_each_request_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[JSON] = []

    def start_span(name: str, attributes: JSON, **options: Any) -> nullcontext[None]:
        spans.append(attributes)
        return nullcontext()

    def tracer_of(name: str) -> SimpleNamespace:
        return SimpleNamespace(start_as_current_span=start_span)

    monkeypatch.setattr("opentelemetry.trace.get_tracer", tracer_of)
    stream = ClientConnection(NOWHERE, PUBLISHED.latest)
    for message in (request("ping"), request("ping", PUBLISHED.latest)):
        with request_span(Call(stream, NOWHERE, message)):
            pass
    assert [span["mcp.protocol.version"] for span in spans] == [NAME, PUBLISHED.latest]


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
async def test_a_method_that_it_does_not_have_is_refused_in_it_alone(method: str) -> None:
    assert (await on_a_stream(request(method, name="work")))[-1]["error"]["code"] == -32601
    earlier = request(method, PUBLISHED.latest, name="work", arguments={"who": "you"})
    assert "result" in (await on_a_stream(earlier))[-1]


async def test_the_header_of_a_name_is_held_against_its_own_parameter() -> None:
    wrong = await over_http(
        request("tools/invoke", tool="work", input={"who": "you"}), SETTINGS, **{"mcp-name": "another"}
    )
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, -32020)


async def only_it(wire: Wire) -> None:
    """A server that speaks nothing else."""
    await discovered(wire, {"tools": {}}, supportedVersions=[NAME])
    call = await wire.next("tools/invoke")
    assert call["params"]["tool"] == "work"
    assert call["params"]["_meta"][PROTOCOL_VERSION_KEY] == NAME
    wire.notify("notifications/advanced", {"progressToken": call["params"]["_meta"]["progressToken"], "done": 1})
    wire.answer(call, {"resultType": "complete", "blocks": call["params"]["input"]["blocks"]})
    wire.refuse(await wire.next("tools/invoke"), -32077)


async def test_a_server_that_speaks_nothing_else_is_spoken_to_in_it() -> None:
    transport, heard = ScriptedTransport(only_it), list[float]()

    async def progress(report: Progress) -> None:
        heard.append(report.progress)

    with anyio.fail_after(PATIENCE):
        async with connect(transport, Role(), SPEAKING) as connection:
            assert connection.handshake.revision == NAME
            arguments = {"blocks": [{"type": "text", "text": "x"}]}
            asked: JSON = {"name": "work", "arguments": arguments}
            result = await connection.request("tools/call", asked, on_progress=progress)
            assert (result["content"], heard) == (arguments["blocks"], [1])
            with pytest.raises(ProtocolError) as refused:
                await connection.request("tools/call", asked)
            assert refused.value.code == -32602
    assert transport.wires[0].agreed == [NAME]
    assert (transport.wires[0].headers[1] or {})["mcp-name"] == "work"


async def test_without_it_such_a_server_is_refused_with_what_both_speak() -> None:
    with pytest.raises(UpstreamError, match=f"it supports {NAME}; we support .*{PUBLISHED.latest}$"):
        async with connect(ScriptedTransport(only_it), Role(), QUICK):
            pass


async def test_a_bridge_speaks_it_with_another_one() -> None:
    async with serving({"greeter": one_tool(greet)}, SETTINGS) as (url, _):
        transport = StreamableHttpTransport(HttpServerSpec("other", f"{url}/mcp"), SPEAKING)
        async with connect(transport, Role(), SPEAKING) as connection:
            assert connection.handshake.revision == NAME
            result = await connection.request("tools/call", {"name": "work", "arguments": {"who": "you"}})
            assert result["content"][0]["text"] == "hello you"
