"""What clients of other hands sent (`record.py`), sent again over HTTP and on a stream: to a bridge, to its endpoint of
three sources, and to the SDK's server. What they sent before an earlier request was answered is sent at once here too.
VS Code's wire was recorded by a proxy that kept no headers but the session's.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import anyio
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.model import NamingPolicy
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.text.json_types import JSON, is_object
from tests.oracle.endpoints import (
    ANY_QUESTION,
    ANY_STATE,
    HANDSHAKE,
    MODERN,
    PORT,
    Agent,
    Endpoint,
    Lines,
    Reply,
    our_lines,
    ours,
    their_lines,
    theirs,
)
from tests.oracle.requests import Case
from tests.oracle.verdicts import compared, explained
from tests.support.agents import ScriptedAgent
from tests.support.waiting import PATIENCE

WIRES: Final = Path(__file__).with_name("wires")
CLIENTS: Final = {
    "python-1": HANDSHAKE,
    "python-2": HANDSHAKE,
    "python-2-modern": MODERN,
    "python-2025-03-26": HANDSHAKE,
    "fastmcp": HANDSHAKE,
    "fastmcp-modern": MODERN,
    "smolagents": HANDSHAKE,
    "inspector": HANDSHAKE,
    "inspector-modern": MODERN,
    "typescript-1": HANDSHAKE,
    "typescript-2": HANDSHAKE,
    "typescript-2-modern": MODERN,
    "vscode": HANDSHAKE,
}
ON_STREAMS: Final = {"python-2024-11-05": HANDSHAKE, **CLIENTS}
"""With those of HTTP with SSE, whose messages are the same."""

_URIS: Final = {"note://today": "odd://one", "note://monday": "odd://5"}
"""What stands here for the resources that the clients read."""

Opened = Callable[[str], AbstractAsyncContextManager[Endpoint]]


class OpenedLines(Protocol):
    """Opens a stream of lines."""

    def __call__(self, revision: str, /, *, greeted: bool) -> AbstractAsyncContextManager[Lines]: ...


_Difference = tuple[Case, str, str, tuple[Reply, Reply]]


class Recorded(NamedTuple):
    """One request of a client, or its answer to one of the server."""

    case: Case
    asks_session: bool
    overlaps: bool
    """Whether the client sent it while an earlier one was unanswered."""

    @property
    def body(self) -> JSON:
        """The message, if it is one."""
        return self.case.content if is_object(self.case.content) else {}


def _recorded(client: str) -> Iterator[Recorded]:
    for line in (WIRES / f"{client}.jsonl").read_text("utf-8").splitlines():
        note: JSON = json.loads(line)
        body, headers = _here(note.get("body"), note["headers"])
        asks_session = headers.pop("mcp-session-id", None) is not None
        method = note["method"] if body is None else body.get("method", "answer")
        label = "hello anew" if method == "initialize" else f"{method} recorded"
        case = Case(label, b"" if body is None else body, headers, note["method"])
        yield Recorded(case, asks_session, note.get("overlaps", False))


def _overlapping(recorded: Iterable[Recorded]) -> list[list[Recorded]]:
    """What was sent together."""
    found: list[list[Recorded]] = []
    for one in recorded:
        if not (one.overlaps and found):
            found.append([])
        found[-1].append(one)
    return found


def _here(body: JSON | None, headers: JSON) -> tuple[JSON | None, JSON]:
    """A request, with the names of what there is at the endpoints that are compared."""
    if body is None or "method" not in body:
        return body, headers
    body = copy.deepcopy(body)
    params = body.get("params", {})
    if body["method"] == "tools/call" and params["name"] not in ("ask", "no-such-tool"):
        params["name"] = "echo"
    if body["method"] == "prompts/get":
        params["arguments"] = {"whom": params["arguments"]["name"]}
    if "uri" in params:
        params["uri"] = _URIS.get(params["uri"], "odd://one")
    if "mcp-name" in headers:
        headers = {**headers, "mcp-name": params.get("uri") or params["name"]}
    return body, headers


@asynccontextmanager
async def of_three(revision: str) -> AsyncGenerator[Endpoint]:
    """The bridge's endpoint of all its sources, three of them."""
    async with Bridge(names=NamingPolicy.BARE) as bridge:
        await bridge.add_agent(Agent(), "odd")
        for name in ("second", "third"):
            await bridge.add_agent(ScriptedAgent(lambda tool, _: tool, f"tool-of-{name}"), name)
        yield Endpoint(bridge.asgi(AccessPolicy.for_address("127.0.0.1", PORT)), "/mcp", revision)


class _Replay:
    """A client at an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._endpoint.session = {}
        self._session: dict[str, str] = {}
        self._pending: JSON = {}

    async def send(self, recorded: Recorded) -> Reply:
        """Send what was recorded; an answer once there is a question."""
        case, body = recorded.case, recorded.body
        content = await self._answer(body) if body and "method" not in body else _resumed(case.content, self._pending)
        headers = {**case.headers, **(self._session if recorded.asks_session else {})}
        reply = await self._endpoint.send(content, headers, case.method, named=False)
        if "mcp-session-id" in reply.headers:
            self._session = {"mcp-session-id": reply.headers["mcp-session-id"]}
        self._pending = _pending(reply) or self._pending
        return reply

    async def _answer(self, body: JSON) -> JSON:
        with anyio.fail_after(PATIENCE):
            question = await self._endpoint.asked.get()
        return {**body, "id": question["id"]}


def _pending(reply: Reply) -> JSON:
    """What the server said instead of a result, if it has to be told more."""
    results: list[JSON] = [message.get("result", {}) for message in reply.messages]
    waiting = [result for result in results if result.get("resultType") == "input_required"]
    return waiting[0] if waiting else {}


def _resumed(content: object, pending: JSON) -> object:
    """A request that goes on where another was left, with the names that the server gave."""
    if not (is_object(content) and content.get("params", {}).get("requestState") == ANY_STATE):
        return content
    [key] = pending["inputRequests"]
    answers = {key: content["params"]["inputResponses"][ANY_QUESTION]}
    told = {"requestState": pending["requestState"], "inputResponses": answers}
    return {**content, "params": {**content["params"], **told}}


async def _replayed(opened: Opened, client: str) -> list[Reply]:
    replies: list[Reply] = []
    async with opened(CLIENTS[client]) as endpoint:
        replay = _Replay(endpoint)
        for together in _overlapping(_recorded(client)):
            replies += await asyncio.gather(*map(replay.send, together))
    return replies


async def _written(opened: OpenedLines, client: str) -> list[Reply]:
    """The same on streams, where only what has a body is sent: a new one for each handshake."""
    replies: list[Reply] = []
    for sent in _connections(client):
        pending: JSON = {}
        async with opened(ON_STREAMS[client], greeted=False) as lines:
            for together in _overlapping(sent):
                if len(together) > 1:
                    replies += await lines.send_at_once([one.body for one in together])
                    continue
                replies.append(await lines.send(_resumed(together[0].body, pending)))
                pending = _pending(replies[-1]) or pending
    return replies


def _connections(client: str) -> list[list[Recorded]]:
    found: list[list[Recorded]] = []
    for one in _recorded(client):
        if not one.body:
            continue
        if not found or one.case.label == "hello anew":
            found.append([])
        found[-1].append(one)
    return found


def _compared(client: str, opened: Opened, other: Opened) -> Iterator[_Difference]:
    async def both() -> tuple[list[Reply], list[Reply]]:
        return await _replayed(opened, client), await _replayed(other, client)

    yield from _judged([recorded.case for recorded in _recorded(client)], *asyncio.run(both()))


def _judged(sent: list[Case], mine: list[Reply], others: list[Reply]) -> Iterator[_Difference]:
    for case, my_reply, other_reply in zip(sent, mine, others, strict=True):
        verdicts = compared(case, my_reply, other_reply)
        if verdicts[0] != verdicts[1]:
            yield case, *verdicts, (my_reply, other_reply)


def _shown(case: Case, ours: str, theirs: str, replies: Any) -> str:
    return f"{case.label}\n  ours: {ours} {replies[0].body[:300]!r}\n  theirs: {theirs} {replies[1].body[:300]!r}"


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_sent_is_answered_as_by_the_sdk_or_a_row_says_why_not(client: str) -> None:
    found = [
        _shown(case, mine, other, replies)
        for case, mine, other, replies in _compared(client, ours, theirs)
        if not explained(CLIENTS[client], case, mine, other)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("client", ON_STREAMS)
def test_the_same_on_a_stream_is_answered_as_by_the_sdk_or_a_row_says_why_not(client: str) -> None:
    async def both() -> tuple[list[Reply], list[Reply]]:
        return await _written(our_lines, client), await _written(their_lines, client)

    mine, others = asyncio.run(both())
    sent = [one.case for one in _recorded(client) if one.body]
    found = [
        _shown(case, ours, theirs, replies)
        for case, ours, theirs, replies in _judged(sent, mine, others)
        if not explained(ON_STREAMS[client], case, ours, theirs)
    ]
    assert not found, "\n".join(found)
    assert sum(bool(reply.body) for reply in mine) > 3


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_sent_is_answered_by_an_endpoint_of_three_sources_as_by_one_of_a_single_agent(
    client: str,
) -> None:
    """But for what they list and can do."""
    found = [
        _shown(case, mine, other, replies)
        for case, mine, other, replies in _compared(client, of_three, ours)
        if mine.partition(" with ")[0] != other.partition(" with ")[0]
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_is_refused_only_what_is_not_there(client: str) -> None:
    """Else two servers that refuse everything would be found to agree."""
    replies = asyncio.run(_replayed(ours, client))
    refused = [
        recorded.case.content
        for recorded, reply in zip(_recorded(client), replies, strict=True)
        if reply.status >= 400 or any("error" in message for message in reply.messages)
    ]
    absent = ("no-such-tool", "odd://5")
    assert [content for content in refused if not any(name in json.dumps(content) for name in absent)] == []
    assert len(replies) > len(refused) + 5


@pytest.mark.parametrize("client", ["python-2", "python-2-modern", "typescript-1", "typescript-2-modern"])
def test_what_a_client_answers_to_a_question_reaches_the_call_that_asked(client: str) -> None:
    """Else two servers that ask nothing would be found to agree."""
    replies = asyncio.run(_replayed(ours, client))
    asking = [
        reply.body.decode()
        for recorded, reply in zip(_recorded(client), replies, strict=True)
        if recorded.body.get("params", {}).get("name") == "ask"
    ]
    assert "elicitation/create" in asking[0]
    assert "accept {'sure': True}" in asking[-1]


@pytest.mark.parametrize("client", ["python-2", "python-2-modern", "fastmcp", "fastmcp-modern"])
def test_a_client_that_asks_several_things_at_once_is_recorded_as_such(client: str) -> None:
    assert max(map(len, _overlapping(_recorded(client)))) == 6


def test_every_recorded_client_is_replayed_and_its_wire_tells_nothing_of_a_machine() -> None:
    assert {path.stem for path in WIRES.glob("*.jsonl")} == set(ON_STREAMS)
    private = re.compile(r"/home|/root\b|/tmp|127\.0\.0\.1|localhost|authorization|cookie|file:")
    for client in ON_STREAMS:
        assert not private.search((WIRES / f"{client}.jsonl").read_text("utf-8"))
