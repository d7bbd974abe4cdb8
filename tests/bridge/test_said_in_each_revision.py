"""What leaves the bridge is valid in the revision of its receiver, whoever said it, in whatever revision.

The judge is the specification's schema of that revision. What it has is carried; what it took out of an earlier one is
left out, and so is what belongs to the results of another era. What it does not know stays, be it of a later revision
or of nobody: no revision closes its objects.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from gaia_bridge.model import ServerOptions, StdioServerSpec
from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.bridge.client.scripted import ScriptedTransport
from tests.conformance.raw_clients import HttpClient, RawClient, connect_http, connect_sse, connect_stdio
from tests.interaction.connecting import serving
from tests.servers import talkative_agent
from tests.servers.talkative_agent import (
    BLOCKS,
    CAPABILITIES,
    CONTENTS,
    INTRODUCTION,
    LISTS,
    NOTIFICATIONS,
    QUESTIONS,
    RESULT,
    TASK,
    TalkativeAgent,
)
from tests.support.bridges import running_bridge
from tests.support.clients_of_revisions import ANSWERS, DECLARED, RevisionClient, client_of_revision, envelope
from tests.support.schemas import REVISIONS, definitions, known, problems, taken_out
from tests.support.talkative import talkative
from tests.support.upstreams import until_ready

pytestmark = pytest.mark.anyio

LATEST: Final = REVISIONS[-1]
SPOKEN: Final = {"new": LATEST, "old": "2025-11-25"}
"""What each server speaks."""
AGENT: Final = "an agent"
OLD: Final = "a server of the handshake"
NEW: Final = "a server of 2026-07-28"
SPEAKERS: Final = {AGENT: ("agent",), OLD: ("old",), NEW: ("new",), "three sources": ("agent", "new", "old")}
"""Who is published; the last of them is spoken with."""
ANSWERS_TO: Final = {
    "completion/complete": "CompleteResult",
    "initialize": "InitializeResult",
    "prompts/get": "GetPromptResult",
    "prompts/list": "ListPromptsResult",
    "resources/list": "ListResourcesResult",
    "resources/read": "ReadResourceResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "server/discover": "DiscoverResult",
    "tools/call": "CallToolResult",
    "tools/list": "ListToolsResult",
}
"""The definition of the result of each method."""
LISTED: Final = {
    "tools/list": ("Tool", "tools"),
    "prompts/list": ("Prompt", "prompts"),
    "resources/list": ("Resource", "resources"),
    "resources/templates/list": ("ResourceTemplate", "resourceTemplates"),
}
ASKED: Final = {
    "elicitation/create": "ElicitRequest",
    "roots/list": "ListRootsRequest",
    "sampling/createMessage": "CreateMessageRequest",
}
SINCE: Final = {
    "form": "2025-06-18",
    "link": "2025-11-25",
    "spoken": "2025-03-26",
}
"""The first revision that has a question, if not every one has it."""
REQUESTED: Final = {
    "completion/complete": "CompleteRequest",
    "initialize": "InitializeRequest",
    "logging/setLevel": "SetLevelRequest",
    "prompts/get": "GetPromptRequest",
    "prompts/list": "ListPromptsRequest",
    "resources/list": "ListResourcesRequest",
    "resources/read": "ReadResourceRequest",
    "resources/subscribe": "SubscribeRequest",
    "resources/templates/list": "ListResourceTemplatesRequest",
    "server/discover": "DiscoverRequest",
    "subscriptions/listen": "SubscriptionsListenRequest",
    "tools/call": "CallToolRequest",
    "tools/list": "ListToolsRequest",
}
ANSWERED: Final = {
    "elicitation/create": "ElicitResult",
    "roots/list": "ListRootsResult",
    "sampling/createMessage": "CreateMessageResult",
}
"""What a server asks is judged as far as its revision has it."""
OF_MODERN_RESULTS: Final = frozenset({"resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"})
LISTS_CHANGED: Final = {f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}

thorough = pytest.mark.thorough
every_revision = pytest.mark.parametrize("revision", REVISIONS)
every_speaker = pytest.mark.parametrize("speaker", SPEAKERS)
every_server = pytest.mark.parametrize("speaker", [OLD, NEW, "three sources"])


@asynccontextmanager
async def speaking(speaker: str, revision: str) -> AsyncGenerator[tuple[RevisionClient, str]]:
    """A client of some sources that has introduced itself, and what the names of the last of them begin with."""
    names = SPEAKERS[speaker]
    async with running_bridge() as running:
        for name in names:
            if name == "agent":
                await running.bridge.add_agent(TalkativeAgent(), name)
            else:
                script = talkative(SPOKEN[name])
                spec = StdioServerSpec(name, "none", options=ServerOptions(lazy=False))
                await running.bridge.add_upstream(spec, ScriptedTransport(*[script] * 9))
        await until_ready(*running.bridge.sources)
        alone = len(names) == 1
        folder = "agents" if names == ("agent",) else "servers"
        endpoint = running.endpoint(f"{folder}/{names[0]}" if alone else "")
        async with client_of_revision(endpoint, revision) as client:
            yield client, "" if alone else f"{names[-1]}__"


def judged(client: RevisionClient, name: str, value: JSON) -> None:
    """A value is valid, and has nothing of what was taken out."""
    assert problems(client.revision, name, value) == []
    assert taken_out(client.revision, name, value) == []


async def answered(client: RevisionClient, method: str, params: JSON | None = None) -> JSON:
    """The judged result of a request."""
    result = await client.result(method, params)
    judged(client, ANSWERS_TO[method], result)
    assert client.modern or result.keys().isdisjoint(OF_MODERN_RESULTS)
    return result


def kept(client: RevisionClient, name: str, said: Any, received: Any) -> None:
    """What is said and the revision knows was received, whatever a merged endpoint calls it."""
    assert nameless(known(client.revision, name, received)) == nameless(known(client.revision, name, said))


def nameless(value: Any) -> Any:
    """A value without addresses, which are others where several sources have the same."""
    if is_array(value):
        return [nameless(item) for item in value]
    if not is_object(value):
        return value
    return {key: "" if key in ("uri", "uriTemplate") else nameless(item) for key, item in value.items()}


def test_no_revision_closes_its_objects() -> None:
    for revision in REVISIONS:
        assert '"additionalProperties": false' not in json.dumps(definitions(revision))


@every_speaker
@every_revision
async def test_an_introduction_is_one_of_the_revision(speaker: str, revision: str) -> None:
    async with speaking(speaker, revision) as (client, _):
        said = await client.introduce()
        judged(client, "DiscoverResult" if client.modern else "InitializeResult", said)
        assert client.modern or said.keys().isdisjoint(OF_MODERN_RESULTS)
        assert "Ask." in said["instructions"]
        declared: JSON = said["capabilities"]
        everywhere = {"tools", "prompts", "resources", "completions", "logging"}
        assert everywhere <= declared.keys()
        assert not (client.modern and "tasks" in declared)
        assert client.modern or "io.modelcontextprotocol/tasks" not in declared.get("extensions", {})
        if len(SPEAKERS[speaker]) == 1:
            told = said["_meta"]["io.modelcontextprotocol/serverInfo"] if client.modern else said["serverInfo"]
            kept(client, "Implementation", INTRODUCTION, told)
        if speaker in (OLD, NEW):
            of_era = {key: value for key, value in CAPABILITIES.items() if speaker == OLD or key != "tasks"}
            kept(client, "ServerCapabilities", of_era, declared)
            assert declared["x-capability"] == {}


@every_speaker
@every_revision
async def test_lists_are_of_the_revision(speaker: str, revision: str) -> None:
    async with speaking(speaker, revision) as (client, prefix):
        await client.introduce()
        for method, (name, field) in LISTED.items():
            page = await answered(client, method)
            received = {definition["name"]: definition for definition in page[field]}
            for said in LISTS[field]:
                public = f"{prefix}{said['name']}" if field in ("tools", "prompts") else said["name"]
                if said["name"] == "list" and not client.modern:  # outputs are objects there
                    said = {key: value for key, value in said.items() if key != "outputSchema"}
                kept(client, name, {**said, "name": public}, received[public])
                assert {key for key in said if key.startswith("x-")} <= received[public].keys()
            if speaker in (OLD, NEW):  # a page that was not read yet, and comes as the server cuts it
                unread = await answered(client, method, {"cursor": "further on"})
                assert unread[field] == page[field]


def content_of(revision: str) -> list[JSON]:
    """The blocks as clients of a revision are given them: sound as a resource and a link as words, where there is no
    such content yet."""
    blocks: list[JSON] = []
    for block in BLOCKS:
        about = {"annotations": block["annotations"], "_meta": block["_meta"]}
        if block["type"] == "audio" and revision < "2025-03-26":
            sound = {"uri": "cid:2@content", "mimeType": "audio/wav", "blob": block["data"]}
            blocks.append({"type": "resource", "resource": sound, **about})
        elif block["type"] == "resource_link" and revision < "2025-06-18":
            blocks.append({"type": "text", "text": "[resource: ADDRESS, A title, text/plain, Words]", **about})
        else:
            blocks.append(block)
    return blocks


def without_address(block: JSON) -> JSON:
    """A block of text that stands for a link, without where that leads."""
    if not str(block.get("text")).startswith("[resource: "):
        return block
    _, _, rest = block["text"].partition(",")
    return {**block, "text": f"[resource: ADDRESS,{rest}"}


@every_speaker
@every_revision
async def test_results_are_of_the_revision(speaker: str, revision: str) -> None:
    async with speaking(speaker, revision) as (client, prefix):
        await client.introduce()
        result = await answered(client, "tools/call", {"name": f"{prefix}tell", "arguments": {}})
        assert result["_meta"].items() >= RESULT["_meta"].items()
        said = {**RESULT, "content": content_of(revision), "_meta": result["_meta"], "resultType": "complete"}
        kept(client, "CallToolResult", said, {**result, "content": [*map(without_address, result["content"])]})
        assert speaker == AGENT or result["x-result"] == RESULT["x-result"]

        listed = await answered(client, "tools/call", {"name": f"{prefix}list", "arguments": {}})
        assert listed.get("structuredContent") == ([1] if client.modern else None)

        letter = await answered(client, "prompts/get", {"name": f"{prefix}letter", "arguments": {"to": "Ada"}})
        received = [{**message, "content": without_address(message["content"])} for message in letter["messages"]]
        messages = [{"role": "user", "content": block} for block in content_of(revision)]
        kept(client, "GetPromptResult", {**letter, "messages": messages}, {**letter, "messages": received})
        assert all(message["x-message"] == 1 for message in received)

        read = await answered(client, "resources/read", {"uri": "note://1"})
        kept(client, "ReadResourceResult", {**read, "contents": CONTENTS}, read)

        ref = {"type": "ref/prompt", "name": f"{prefix}letter"}
        completed = await answered(
            client, "completion/complete", {"ref": ref, "argument": {"name": "to", "value": "A"}}
        )
        assert completed["completion"].items() >= {"values": ["Ada"], "total": 1, "hasMore": False}.items()


@every_speaker
@every_revision
async def test_errors_and_answers_without_content_are_of_the_revision(speaker: str, revision: str) -> None:
    error = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in definitions(revision) else "JSONRPCError"
    async with speaking(speaker, revision) as (client, _):
        await client.introduce()
        for method in ("nobody/knows", "prompts/get", "resources/read", "tools/call", "completion/complete"):
            judged(client, error, await client.response(method))
        judged(client, error, await client.response("tools/call", {"name": "none"}))
        done: dict[str, JSON] = {
            "ping": {},
            "logging/setLevel": {"level": "info"},
            "resources/subscribe": {"uri": "note://1"},
            "resources/unsubscribe": {"uri": "note://1"},
        }
        for method, params in done.items():
            response = await client.response(method, params)
            if client.modern:
                assert response["error"]["code"] == -32601
            else:
                judged(client, "Result", response["result"])
                assert response["result"].keys().isdisjoint(OF_MODERN_RESULTS)


def question_of(name: str, revision: str) -> JSON:
    """A question as clients of a revision can be asked it."""
    params: JSON = QUESTIONS[name]["params"]
    if name == "form" and revision < "2025-11-25":
        schema = params["requestedSchema"]
        fields_of_one = {key: field for key, field in schema["properties"].items() if field["type"] != "array"}
        params = {**params, "requestedSchema": {**schema, "properties": fields_of_one}}
    if name == "conversation" and revision < "2025-11-25":
        messages = [{**message, "content": block} for message in params["messages"] for block in message["content"]]
        params = {**params, "messages": messages}
    return {"method": QUESTIONS[name]["method"], "params": params}


@every_speaker
@every_revision
async def test_questions_are_of_the_revision(speaker: str, revision: str) -> None:
    async with speaking(speaker, revision) as (client, prefix):
        await client.introduce()
        for name, question in QUESTIONS.items():
            client.asked.clear()
            first, last = await client.finished("tools/call", {"name": f"{prefix}ask-{name}", "arguments": {}})
            judged(client, "CallToolResult", last)
            if revision < SINCE.get(name, ""):
                assert client.asked == []
                continue
            if client.modern:
                judged(client, "InputRequiredResult", first)
            [asked] = client.asked
            judged(client, ASKED[question["method"]], asked)
            envelope = {key: asked[key] for key in ("jsonrpc", "id") if key in asked}
            kept(client, ASKED[question["method"]], {**envelope, **question_of(name, revision)}, asked)
            assert asked["params"].get("x-question") == (None if name == "roots" else 1)
            assert json.loads(last["content"][0]["text"]) == ANSWERS[question["method"]]


@every_server
@every_revision
async def test_notifications_are_of_the_revision(speaker: str, revision: str) -> None:
    async with speaking(speaker, revision) as (client, prefix):
        await client.introduce()
        await client.result("tools/list")
        uri = (await client.result("resources/list"))["resources"][-1]["uri"]
        if client.modern:
            flags = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
            wanted = {**flags, "resourceSubscriptions": [uri]}
            await client.begin("subscriptions/listen", {"notifications": wanted})
            await client.until(lambda: "acknowledged" in str(client.messages))
        else:
            await client.result("resources/subscribe", {"uri": uri})
        await client.result("tools/call", {"name": f"{prefix}tell", "_meta": {"progressToken": "token"}})
        await client.result("tools/call", {"name": f"{prefix}announce"})

        def told() -> set[str]:
            return {message["method"] for message in client.notifications}

        expected = {"notifications/progress", "notifications/message", "notifications/resources/updated"}
        if speaker in (OLD, NEW):  # a merged list is announced when it is another
            expected |= LISTS_CHANGED
        await client.until(lambda: expected <= told())
        if revision == "2025-11-25":
            await client.until(lambda: "notifications/elicitation/complete" in told())
        for message in client.notifications:
            judged(client, "ServerNotification", message)
        by_method: dict[str, JSON] = {message["method"]: message.get("params", {}) for message in client.notifications}
        assert by_method["notifications/progress"].items() >= {"progress": 1, "total": 2, "message": "half"}.items()
        assert by_method["notifications/progress"]["progressToken"] == "token"
        log: Any = NOTIFICATIONS["notifications/message"]
        assert {
            key: by_method["notifications/message"][key] for key in ("level", "logger", "data")
        }.items() <= log.items()
        assert by_method["notifications/resources/updated"]["uri"] == uri


@pytest.mark.parametrize("speaker", [OLD, "three sources"])
async def test_tasks_have_the_fields_of_their_revision(speaker: str) -> None:
    async with speaking(speaker, "2025-11-25") as (client, prefix):
        await client.introduce()
        made = await client.result("tools/call", {"name": f"{prefix}tell", "task": {"ttl": 1000}})
        judged(client, "CreateTaskResult", made)
        identifier = made["task"]["taskId"]
        kept(client, "Task", {**TASK, "taskId": identifier}, made["task"])
        for method, name in (("tasks/get", "GetTaskResult"), ("tasks/cancel", "CancelTaskResult")):
            task = await client.result(method, {"taskId": identifier})
            judged(client, name, task)
            kept(client, "Task", {**TASK, "taskId": identifier}, task)
        result = await client.result("tasks/result", {"taskId": identifier})
        judged(client, "CallToolResult", result)
        assert result.keys().isdisjoint(OF_MODERN_RESULTS)
        if speaker == OLD:
            judged(client, "ListTasksResult", await client.result("tasks/list"))


def judged_by_server(revision: str, message: JSON) -> None:
    """What a server was sent is valid in its revision."""
    method = message.get("method")
    if "result" in message:
        name, value = ANSWERED[message["id"].partition(" ")[0]], message["result"]
    elif "error" in message:
        return
    elif "id" in message:
        assert method is not None
        name, value = REQUESTED[method], message
    else:
        name, value = "ClientNotification", message
    if name in definitions(revision):  # a server is tried in the other era too, and may ask for more than it has
        assert problems(revision, name, value) == []
        assert taken_out(revision, name, value) == []
    else:
        assert method in ("server/discover", "initialize") or name == "ElicitResult"


@every_revision
@pytest.mark.parametrize(
    "of_client", ["2024-11-05", LATEST, *(pytest.param(r, marks=thorough) for r in REVISIONS[1:-1])]
)
async def test_what_servers_are_sent_is_of_their_revision(revision: str, of_client: str) -> None:
    transport = ScriptedTransport(*[talkative(revision)] * 9)
    several_blocks = {"role": "assistant", "content": [{"type": "text", "text": "Hm"}] * 2, "model": "m"}
    async with running_bridge() as running:
        spec = StdioServerSpec("up", "none", options=ServerOptions(lazy=False))
        await running.bridge.add_upstream(spec, transport)
        await until_ready(*running.bridge.sources)
        async with client_of_revision(running.endpoint("servers/up"), of_client) as client:
            await client.introduce()
            if not client.modern:
                await client.result("logging/setLevel", {"level": "debug"})
                await client.result("resources/subscribe", {"uri": "note://1"})
            if of_client >= "2025-11-25":
                client.answers = {**ANSWERS, "sampling/createMessage": several_blocks}
            asked = {"ref": {"type": "ref/prompt", "name": "letter"}, "argument": {"name": "to", "value": "A"}}
            told = {"progressToken": "t", "example.org/trace": 1}
            await client.result("tools/call", {"name": "tell", "arguments": {}, "_meta": told})
            await client.result("prompts/get", {"name": "letter", "arguments": {"to": "Ada"}})
            await client.result("resources/read", {"uri": "note://1"})
            await client.result("completion/complete", {**asked, "context": {"arguments": {"x": "y"}}})
            for name in QUESTIONS:
                await client.finished("tools/call", {"name": f"ask-{name}", "arguments": {}})
            if not client.modern:
                await client.notify("notifications/roots/list_changed")
        received = [message for wire in transport.wires for message in wire.received]
        assert {"tools/call", "prompts/get", "completion/complete"} <= {message.get("method") for message in received}
        for message in received:
            judged_by_server(revision, message)


AGENT_FILE: Final = Path(talkative_agent.__file__ or "")


@asynccontextmanager
async def reached(way: str) -> AsyncGenerator[tuple[RawClient, str]]:
    """A client over a transport, and what the names of the tools of whom it speaks with begin with."""
    if way == "stdio":
        command = [sys.executable, "-m", "gaia_bridge", "serve", f"{AGENT_FILE}:TalkativeAgent", "--stdio"]
        async with connect_stdio(command) as client:
            yield client, ""
        return
    async with serving({"agent": TalkativeAgent()}) as (url, bridge):
        for name in ("new", "old"):
            spec = StdioServerSpec(name, "none", options=ServerOptions(lazy=False))
            await bridge.add_upstream(spec, ScriptedTransport(*[talkative(SPOKEN[name])] * 9))
        await until_ready(*bridge.sources)
        connect = connect_sse if way == "sse" else connect_http
        async with connect(f"{url}/{'sse' if way == 'sse' else 'mcp'}") as client:
            yield client, "old__"


@pytest.mark.parametrize(
    ("way", "revision"),
    [("sse", "2024-11-05"), ("http", "2025-03-26"), ("http", "2025-11-25"), ("stdio", "2025-06-18")],
)
async def test_what_goes_over_a_wire_is_of_the_revision(way: str, revision: str) -> None:
    async with reached(way) as (client, prefix):
        introduced = await client.initialize(revision, DECLARED[revision])
        assert problems(revision, "InitializeResult", introduced) == []
        said: dict[str, JSON] = {
            "resources/read": {"uri": "note://1"},
            "tools/call": {"name": f"{prefix}tell", "arguments": {}},
        }
        for method in (*LISTED, *said):
            result = await client.result(method, said.get(method))
            assert problems(revision, ANSWERS_TO[method], result) == []
            assert result.keys().isdisjoint(OF_MODERN_RESULTS)
        asked = await client.result("tools/call", {"name": f"{prefix}ask-conversation", "arguments": {}}, ANSWERS)
        assert json.loads(asked["content"][0]["text"]) == ANSWERS["sampling/createMessage"]


@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_what_goes_over_a_wire_is_of_the_latest_revision(way: str) -> None:
    revision = LATEST
    async with reached(way) as (client, prefix):
        client.version = revision
        said: dict[str, JSON] = {"tools/call": {"name": f"{prefix}tell", "arguments": {}}}
        for method in ("server/discover", *LISTED, *said):
            params: JSON = {**said.get(method, {}), "_meta": envelope(revision)}
            if isinstance(client, HttpClient):
                client.headers |= {"Mcp-Method": method, "Mcp-Name": params.get("name", "")}
            result = await client.result(method, params)
            assert problems(revision, ANSWERS_TO[method], result) == []
            assert taken_out(revision, ANSWERS_TO[method], result) == []
