"""Clients that are asked and never come back: everybody else is answered all the same. Raw JSON over real HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any

import anyio
import httpx2
import pytest

from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import returning
from tests.support.agents import ScriptedAgent
from tests.support.chat_endpoint import Chatting, chatting, events_of
from tests.support.processes import threads_named
from tests.support.waiting import comes_true, wait_in_thread

pytestmark = pytest.mark.anyio

LIMITS = AgentLimits(max_parked=20, call_timeout=60.0)
ABANDONED = LIMITS.threads + 1
READERS = 2
"""Threads that read its definitions."""
PROMPT = 1.0
"""Seconds in which a bystander is answered."""

META: JSON = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


class Asker:
    """Asks in one way or another, or says a word; remembers how its questions ended."""

    def __init__(self) -> None:
        self.endings: Counter[str] = Counter()
        self.asked = 0

    def __call__(self, name: str, arguments: JSON) -> Any:
        match name:
            case "ask":
                return self._ask()
            case "ask-later":
                return self._ask_later()
            case "ask-in-thread":
                return self._ask_in_thread()
            case _:
                return "word"

    def _ask(self) -> str:
        self.asked += 1
        try:
            return get_request_context().elicit("Sure?", {"sure": {"type": "boolean"}}).action
        except Exception as error:
            self.endings[str(error)] += 1
            raise

    async def _ask_later(self) -> str:
        self.asked += 1
        return (await get_request_context().aelicit("Sure?", {"sure": {"type": "boolean"}})).action

    def _ask_in_thread(self) -> str:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(copy_context().run, self._ask).result()


WAYS = ["ask", "ask-later", "ask-in-thread"]


def asker() -> tuple[Asker, ScriptedAgent]:
    asking = Asker()
    return asking, ScriptedAgent(asking, *WAYS, "plain")


def message(method: str, number: int = 1, **params: Any) -> JSON:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


async def modern(served: Chatting, path: str, tool: str, **more: Any) -> JSON:
    """The body of the answer to a call of a client of 2026-07-28."""
    headers = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    body = message("tools/call", name=tool, arguments={}, _meta=META, **more)
    response = await served.client.post(path, json=body, headers=headers)
    if response.headers["content-type"].startswith("text/event-stream"):
        [answer] = [event for event in events_of(response.text) if "id" in event]
    else:
        answer = response.json()
    found: JSON = answer
    return found


async def assert_bystander_is_answered(served: Chatting, path: str) -> None:
    with anyio.fail_after(PROMPT):
        answer = await modern(served, path, "plain")
    assert answer["result"]["content"] == [{"type": "text", "text": "word"}]


class LegacyClient:
    """A client of 2025-11-25 whose session is open."""

    def __init__(self, client: httpx2.AsyncClient, path: str, headers: dict[str, str]) -> None:
        self._client = client
        self._path = path
        self._headers = headers

    @asynccontextmanager
    async def asked(self, tool: str) -> AsyncGenerator[None]:
        """While a call stands that has asked."""
        body = message("tools/call", name=tool, arguments={})
        async with self._client.stream("POST", self._path, json=body, headers=self._headers) as response:
            async for line in response.aiter_lines():
                if "elicitation/create" in line:
                    break
            yield

    async def leave(self) -> None:
        response = await self._client.delete(self._path, headers=self._headers)
        assert response.status_code == 200


async def legacy_client(served: Chatting, path: str) -> LegacyClient:
    info = {"name": "test", "version": "1"}
    body = message(
        "initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {"form": {}}}, clientInfo=info
    )
    response = await served.client.post(path, json=body, headers=ACCEPT)
    headers = {**ACCEPT, "Mcp-Session-Id": response.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await served.client.post(path, json=done, headers=headers)).status_code == 202
    return LegacyClient(served.client, path, headers)


@asynccontextmanager
async def served_asker(sources: int, limits: AgentLimits = LIMITS) -> AsyncGenerator[tuple[Asker, Chatting, str]]:
    """An agent that asks, among as many sources, at the endpoint of everything."""
    asking, agent = asker()
    others = {f"other{number}": ScriptedAgent(returning("other"), f"other-{number}") for number in range(1, sources)}
    async with chatting(settings=Settings(agent=limits), named={"asker": agent, **others}) as served:
        yield asking, served, "/mcp"


@pytest.mark.requirement("F-220")
@pytest.mark.parametrize("sources", [1, 3])
@pytest.mark.parametrize("way", WAYS)
async def test_questions_that_nobody_comes_back_to_keep_no_other_call_waiting(sources: int, way: str) -> None:
    async with served_asker(sources) as (_, served, path):
        for _ in range(ABANDONED):
            answer = await modern(served, path, way)
            assert answer["result"]["resultType"] == "input_required"
        await assert_bystander_is_answered(served, path)


@pytest.mark.requirement("F-220")
@pytest.mark.parametrize("sources", [1, 3])
@pytest.mark.parametrize("way", WAYS)
async def test_questions_that_were_pushed_and_are_not_answered_keep_no_other_call_waiting(
    sources: int, way: str
) -> None:
    async with served_asker(sources) as (_, served, path):
        client = await legacy_client(served, path)
        for _ in range(ABANDONED):
            async with client.asked(way):
                pass
        await assert_bystander_is_answered(served, path)
        await client.leave()


async def test_more_questions_than_may_wait_end_the_oldest_in_clear_words_for_both_sides() -> None:
    async with served_asker(1) as (asking, served, path):
        answers = [await modern(served, path, "ask") for _ in range(LIMITS.max_parked + 1)]
        reason = "20 calls wait for answers of clients, and the oldest gives way"
        await wait_in_thread(comes_true(lambda: asking.endings == {reason: 1}))
        late, early = await _again(served, path, answers[-1]), await _again(served, path, answers[0])
        assert late["result"]["content"] == [{"type": "text", "text": "decline"}]
        assert reason in early["error"]["message"]
        await assert_bystander_is_answered(served, path)


async def _again(served: Chatting, path: str, answer: JSON) -> JSON:
    """Come back with an answer to the question of an earlier answer."""
    asked = answer["result"]
    replies = {key: {"action": "decline"} for key in asked["inputRequests"]}
    return await modern(served, path, "ask", requestState=asked["requestState"], inputResponses=replies)


async def test_a_question_ends_with_the_session_of_the_client_that_could_answer() -> None:
    async with served_asker(1) as (asking, served, path):
        client = await legacy_client(served, path)
        async with client.asked("ask"):
            pass
        assert not asking.endings
        await client.leave()
        await wait_in_thread(comes_true(lambda: asking.endings.total() == 1))


async def test_threads_that_were_added_for_questions_are_gone_when_these_have_ended() -> None:
    async with served_asker(1) as (_, served, path):
        answers = [await modern(served, path, "ask") for _ in range(2 * LIMITS.threads)]
        for answer in answers:
            assert "result" in await _again(served, path, answer)
        await wait_in_thread(comes_true(lambda: len(threads_named("agent asker #")) <= LIMITS.threads + READERS))
