"""Nothing of one client of the API reaches another, or an MCP client: answers, tools, questions, sessions, limits."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaia_bridge.bridge import Bridge
from gaia_bridge.chat_types import ChatRequest, Reply
from gaia_bridge.middleware import RateLimit
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.bridges import RunningBridge
from tests.support.chat_endpoint import ChatAgent
from tests.support.clients_of_revisions import client_of_revision
from tests.support.turns import STEPS, Worker, in_turns, secret

pytestmark = pytest.mark.anyio

CHATS: tuple[str, ...] = ("ada", "bob")
EDITOR = "eve"
KINDS: tuple[str, ...] = ("completion", "stream", "response", "response stream", "session")
LENT: JSON = {"type": "mcp", "server_label": "worker"}


async def script(request: ChatRequest) -> AsyncGenerator[str | Reply]:
    """Have the lent tool work for whoever asked last, and say what came of it, and all that was said before."""
    [lent] = request.lent_tools
    result = await lent.call(json.loads(request.messages[-1]["content"]))
    yield "I heard: "
    yield Reply(f"I heard: {json.dumps(list(request.messages))} {json.dumps(result)}")


class Chat:
    """A client of the API.

    Args:
        name: Whose secret it has.
        http: To the bridge.
        kind: What it asks for.
    """

    def __init__(self, name: str, http: httpx2.AsyncClient, kind: str) -> None:
        self._name = name
        self._http = http
        self._kind = kind
        self.heard: list[str] = []

    async def work(self, steps: Sequence[str]) -> None:
        """Two turns of a conversation, as far as there is one."""
        previous = await self._turn(steps)
        await self._turn((), previous)
        if previous is not None:
            self.heard.append((await self._http.get(f"/v1/responses/{previous}")).text)
        self.heard.append((await self._http.get("/status")).text)

    async def _turn(self, steps: Sequence[str], previous: str | None = None) -> str | None:
        said = json.dumps({"who": self._name, "steps": list(steps), "word": secret(self._name)})
        body: JSON = {"model": "gaia-test", "tools": [LENT], "stream": "stream" in self._kind}
        if "response" not in self._kind:
            headers = {"x-session-id": self._name} if self._kind == "session" else {}
            asked = {**body, "messages": [{"role": "user", "content": said}]}
            self.heard.append((await self._http.post("/v1/chat/completions", json=asked, headers=headers)).text)
            return None
        asked = {**body, "input": said, "previous_response_id": previous}
        text = (await self._http.post("/v1/responses", json=asked)).text
        self.heard.append(text)
        events = [json.loads(line.removeprefix("data: ")) for line in text.split("\n") if line.startswith("data: {")]
        response: JSON = events[-1]["response"] if events else json.loads(text)
        return str(response["id"])


PLANS: st.SearchStrategy[list[str]] = st.lists(st.sampled_from(STEPS), min_size=1, max_size=3)

PEOPLE: st.SearchStrategy[dict[str, list[str]]] = st.builds(
    lambda *steps: dict(zip((*CHATS, EDITOR), steps, strict=True)), PLANS, PLANS, PLANS
)


@given(
    plan=PEOPLE.flatmap(in_turns),
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_no_secret_of_one_client_is_seen_by_another(
    plan: tuple[dict[str, list[str]], Sequence[str]], kinds: tuple[str, str]
) -> None:
    steps, order = plan
    worker, heard = Worker(order), dict[str, list[str]]()
    async with Bridge() as bridge:
        await bridge.add_agent(one_tool(worker.work), "worker")
        await bridge.add_agent(ChatAgent(script), "chatting")
        app = bridge.asgi(AccessPolicy.for_address("127.0.0.1", 8765))
        transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
        async with (
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as http,
            client_of_revision(RunningBridge(bridge).endpoint(""), "2025-11-25") as editor,
            anyio.create_task_group() as tasks,
        ):
            await editor.introduce()
            for name, kind in zip(CHATS, kinds, strict=True):
                chat = Chat(name, http, kind)
                heard[name] = chat.heard
                tasks.start_soon(chat.work, steps[name])
            arguments = {"who": EDITOR, "steps": steps[EDITOR]}
            call = {"name": "work", "arguments": arguments, "_meta": {"progressToken": 1}}
            await editor.response("tools/call", call)
    heard[EDITOR] = [json.dumps(message) for message in editor.messages]
    for name, texts in heard.items():
        assert any(secret(name) in text for text in texts)
        assert not [text for text in texts for other in heard if other != name and secret(other) in text]
    assert all(name == EDITOR for name, _ in worker.answered), "a chat completion has no place for a question"


async def test_turns_without_a_session_have_the_limit_of_their_address() -> None:
    async with Bridge(middleware=[RateLimit(1, 1_000)]) as bridge:
        await bridge.add_agent(one_tool(lambda _: "done"), "worker")
        await bridge.add_agent(ChatAgent(script), "chatting")
        app = bridge.asgi(AccessPolicy.for_address("127.0.0.1", 8765))

        async def is_refused(host: str, session: str = "") -> bool:
            transport = httpx2.ASGITransport(app, client=(host, 1))
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as http:
                body = {"model": "gaia-test", "messages": [{"role": "user", "content": "{}"}], "tools": [LENT]}
                headers = {"x-session-id": session} if session else {}
                return "Too many requests" in (await http.post("/v1/chat/completions", json=body, headers=headers)).text

        asked = [("127.0.0.1", ""), ("127.0.0.1", ""), ("127.0.0.2", ""), ("127.0.0.2", "s"), ("127.0.0.1", "s")]
        assert [await is_refused(*who) for who in asked] == [False, True, False, False, True]
