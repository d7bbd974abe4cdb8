"""Questions as they reach a client have the fields of its revision's schema, whoever asks and in whatever revision."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.protocol.meta import CLIENT_CAPABILITIES_KEY, PROTOCOL_VERSION_KEY
from gaia_bridge.server.transports.streams import DuplexClient
from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge
from tests.support.upstreams import PATIENT, until_ready
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parents[2] / "servers" / "asking_server.py"
DECLARED: JSON = {"elicitation": {"form": {}, "url": {}}}
FIELDS = {
    ("2025-11-25", "link"): ({"mode", "message", "url", "elicitationId"}, {"_meta", "task"}),
    ("2026-07-28", "link"): ({"mode", "message", "url"}, set[str]()),
    ("2025-11-25", "agree"): ({"message", "requestedSchema"}, {"mode", "_meta", "task"}),
    ("2026-07-28", "agree"): ({"message", "requestedSchema"}, {"mode"}),
}
"""What a question must have, and may have beside, in the schema of each revision (`ElicitRequest...Params`)."""


class _Client:
    """Keeps what it is sent: implements `gaia_bridge.server.connection.Channel`."""

    can_ask = True

    def __init__(self) -> None:
        self.messages: list[JSON] = []
        self._more = anyio.Event()

    async def send(self, message: bytes) -> None:
        self.messages.append(json.loads(message))
        self._more.set()
        self._more = anyio.Event()

    def end(self) -> None: ...

    async def until(self, key: str, value: object) -> JSON:
        """The message that has such a field."""
        with anyio.fail_after(PATIENCE):
            while not (found := [message for message in self.messages if message.get(key) == value]):
                await self._more.wait()
        return found[0]


async def modern_question(client: DuplexClient, heard: _Client, tool: str) -> tuple[JSON, JSON]:
    """The question of a call, and the result of the call with its answer."""
    envelope: JSON = {PROTOCOL_VERSION_KEY: "2026-07-28", CLIENT_CAPABILITIES_KEY: DECLARED}
    params: JSON = {"name": tool, "arguments": {}, "_meta": envelope}
    await client.take({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    result = (await heard.until("id", 1))["result"]
    [(key, question)] = result["inputRequests"].items()
    params = {**params, "inputResponses": {key: {"action": "accept"}}}
    if "requestState" in result:
        params["requestState"] = result["requestState"]
    await client.take({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
    return question["params"], (await heard.until("id", 2))["result"]


async def pushed_question(client: DuplexClient, heard: _Client, tool: str) -> tuple[JSON, JSON]:
    """The same of a client of the handshake."""
    greeting = {
        "protocolVersion": "2025-11-25",
        "capabilities": DECLARED,
        "clientInfo": {"name": "c", "version": "1"},
    }
    await client.take({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": greeting})
    await heard.until("id", "hello")
    await client.take({"jsonrpc": "2.0", "method": "notifications/initialized"})
    params: JSON = {"name": tool, "arguments": {}}
    await client.take({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params})
    question = await heard.until("method", "elicitation/create")
    await client.take({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
    return question["params"], (await heard.until("id", "call"))["result"]


ASK = {"2025-11-25": pushed_question, "2026-07-28": modern_question}


def checked(revision: str, kind: str, question: JSON, result: JSON) -> None:
    needed, allowed = FIELDS[revision, kind]
    assert needed <= question.keys() <= needed | allowed
    assert not result.get("isError")
    assert "accept" in json.dumps(result["content"])


@pytest.mark.parametrize("kind", ["agree", "link"])
@pytest.mark.parametrize("revision", ASK)
@pytest.mark.parametrize("mode", ["", "modern-only"])
async def test_a_question_of_a_server_has_the_fields_of_the_revision_of_the_client(
    mode: str, revision: str, kind: str
) -> None:
    heard = _Client()
    async with running_bridge(settings=Settings(upstream=PATIENT)) as running:
        await running.bridge.add_upstream(StdioServerSpec("up", sys.executable, ("-S", str(SERVER), mode)))
        await until_ready(*running.bridge.sources)
        client = DuplexClient(running.endpoint("servers/up"), heard)
        checked(revision, kind, *await ASK[revision](client, heard, kind))
        client.close()


def ask_to_open(_: Any) -> str:
    return get_request_context().elicit_url("?", "https://example.com").action


@pytest.mark.parametrize("revision", ASK)
async def test_a_link_of_an_agent_has_the_fields_of_the_revision_of_the_client(revision: str) -> None:
    heard = _Client()
    async with running_bridge(one_tool(ask_to_open)) as running:
        client = DuplexClient(running.endpoint(), heard)
        checked(revision, "link", *await ASK[revision](client, heard, "work"))
        client.close()
