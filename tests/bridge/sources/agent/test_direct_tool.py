"""Direct calls of agents: their clients and their code see the same as on the ordinary way."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel
import httpx2
import pytest

from gaia_bridge import ToolError, get_request_context, source
from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.errors import RequestCancelledError
from gaia_bridge.settings import AgentLimits, HttpLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.test_direct_calls import ERAS, began
from tests.bridge.server.test_direct_calls_in_flight import Client
from tests.interaction.connecting import serving
from tests.support.agents import one_tool
from tests.support.waiting import wait_in_thread

pytestmark = pytest.mark.anyio
__all__ = ["began"]

PATIENCE: Final = 20


class Scripted:
    """An agent that does what the argument `tag` says."""

    def __init__(self) -> None:
        self.works = threading.Event()
        self.may_end = threading.Event()
        self.ended: list[str] = []
        self.has_ended = threading.Event()

    def work(self, arguments: JSON) -> Any:
        return getattr(self, arguments["tag"] or "answer")()

    def answer(self) -> str:
        return "yes"

    async def coroutine(self) -> str:
        await anyio.lowlevel.checkpoint()
        return "of a coroutine"

    def structured(self) -> JSON:
        return {"sum": 3}

    def image(self) -> JSON:
        return {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}

    def failure(self) -> str:
        raise ToolError("no luck")

    def fault(self) -> str:
        raise LookupError("a fault of the agent")

    def news(self) -> str:
        request = get_request_context()
        request.report_progress(1, 2, "half")
        request.log("news", "error")
        return "after the news"

    def question(self) -> str:
        return get_request_context().elicit("Sure?", {"sure": {"type": "boolean"}}).action

    def facts(self) -> str:
        request = get_request_context()
        on = request.as_request()
        same = on.client == request.as_request().client
        known = request.session_key is not None, request.client_folder, request.hops, dict(request.client_capabilities)
        more = sorted(request.meta), on.is_relayed, on.method, on.log_level, same, on.client_info["name"], on.address
        return json.dumps([known, more, request.request_state, dict(request.input_responses), request.is_parked])

    def stuck(self) -> str:
        self.works.set()
        self.may_end.wait(PATIENCE)
        return "late"

    def held(self) -> str:
        self.works.set()
        try:
            while not self.may_end.wait(0.01):
                get_request_context().raise_if_cancelled()
        except RequestCancelledError as error:
            self.ended.append(str(error))
            self.has_ended.set()
            raise
        self.ended.append("done")
        return "late"


@asynccontextmanager
async def connected(
    agent: Any, revision: str, settings: Settings, capabilities: JSON | None = None
) -> AsyncGenerator[tuple[Client, Bridge]]:
    """A client whose next call is direct, if calls are."""
    async with serving({"one": agent}, settings) as (url, bridge), httpx2.AsyncClient(timeout=PATIENCE) as http:
        client = Client(http, f"{url}/mcp", revision)
        if not client.modern:
            await client.greet(capabilities or {})
        for _ in range(2):
            await client.call([], name="work")
        yield client, bridge


def answer_of(messages: list[Any]) -> Any:
    return messages[-1].get("result", messages[-1].get("error"))


@pytest.mark.parametrize("revision", ERAS)
async def test_clients_and_agents_see_the_same(revision: str, began: list[DirectCall]) -> None:
    scripts = [name for name in vars(Scripted) if not name.startswith("_") and name not in ("work", "held", "stuck")]
    answers: list[JSON] = []
    for direct in (True, False):
        async with connected(one_tool(Scripted().work), revision, Settings(direct_calls=direct)) as (client, _):
            answers.append({})
            for script in scripts:
                before = len(began)
                messages = await client.call([], script, name="work")
                assert (len(began) > before) is direct, script
                await client.call([], name="work")
                said = json.dumps(messages).partition("reference ")
                answers[-1][script] = said[0], said[2][8:]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("direct", [True, False])
async def test_a_question_during_a_call_is_put_to_its_client(direct: bool) -> None:
    # It is put at once, not only when the call has taken too long.
    settings = Settings(direct_calls=direct, http=HttpLimits(quick_answer=2 * PATIENCE))
    async with connected(one_tool(Scripted().work), "2025-11-25", settings, {"elicitation": {}}) as (client, _):
        message = client.message([])
        message["params"].update(name="work", arguments={"tag": "question"})

        async def take(question: JSON) -> None:
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})

        client.message = lambda *_, **__: message  # type: ignore[method-assign]
        said = await client.question([], take)
    assert [item.get("method") for item in said] == ["elicitation/create", None]
    assert answer_of(said)["content"][0]["text"] == "decline"


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("end", ["its time is up", "the agent is removed", "another agent takes the place", "it ends"])
async def test_a_call_ends_for_the_reason_that_there_is(end: str, revision: str, began: list[DirectCall]) -> None:
    agent, seen, has_answer = Scripted(), list[Any](), anyio.Event()
    quick, seconds = (0.1, 0.3) if end == "its time is up" else (PATIENCE, 2 * PATIENCE)
    settings = Settings(agent=AgentLimits(call_timeout=seconds), http=HttpLimits(quick_answer=quick))
    async with connected(one_tool(agent.work), revision, settings) as (client, bridge):
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                seen.extend(await client.call([], "stuck", name="work"))
                has_answer.set()

            tasks.start_soon(call)
            await wait_in_thread(agent.works.wait)
            if end == "the agent is removed":
                await bridge.remove("one")
                await has_answer.wait()  # although the agent goes on
            elif end == "another agent takes the place":
                await bridge.replace_agent("one", one_tool(lambda _: "of the other"))
                assert answer_of(await client.call([], number=6, name="work"))["content"][0]["text"] == "of the other"
                agent.may_end.set()
            elif end == "its time is up":
                await has_answer.wait()
            else:
                agent.may_end.set()
        agent.may_end.set()
    assert began
    [text] = [item["text"] for item in answer_of(seen)["content"]]
    expected = {
        "its time is up": "tool 'work' did not finish within 0.3 s",
        "the agent is removed": "the agent is no longer published",
        "another agent takes the place": "late",
        "it ends": "late",
    }[end]
    assert expected in text


@pytest.mark.parametrize("direct", [True, False])
async def test_a_cancelled_call_ends_for_its_clients_reason(direct: bool) -> None:
    agent = Scripted()
    async with connected(one_tool(agent.work), "2025-11-25", Settings(direct_calls=direct)) as (client, _):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(client.call, [], "held", 7, name="work"))
            await wait_in_thread(agent.works.wait)
            params = {"requestId": 7, "reason": "the window was closed"}
            await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            await wait_in_thread(agent.has_ended.wait)
            tasks.cancel_scope.cancel()
    assert agent.ended == ["the window was closed"]


async def test_a_busy_agent_refuses_direct_calls_as_it_does_others(began: list[DirectCall]) -> None:
    agent, answers, refused = Scripted(), list[Any](), dict[str, Any]()
    settings = Settings(agent=AgentLimits(threads=1, queue=0))
    async with connected(one_tool(agent.work), "2026-07-28", settings) as (client, _):
        async with anyio.create_task_group() as tasks, httpx2.AsyncClient(timeout=PATIENCE) as http:
            other = Client(http, client.url, "2026-07-28")
            await other.call([], name="work")

            async def call() -> None:
                answers.extend(await client.call([], "stuck", 8, name="work"))

            tasks.start_soon(call)
            await wait_in_thread(agent.works.wait)
            before = len(began)
            refused.update(answer_of(await other.call([], name="work")))
            assert len(began) == before + 1
            agent.may_end.set()
    assert refused["isError"] is True
    assert answer_of(answers)["content"][0]["text"] == "late"


async def test_a_question_that_a_client_answers_later_leaves_the_work_in_peace(began: list[DirectCall]) -> None:
    capabilities: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    async with connected(one_tool(Scripted().work), "2026-07-28", Settings()) as (client, _):
        for _ in range(2):
            await client.send(client.message([], name="work", **capabilities))
        before = len(began)
        message = client.message([], "question", name="work", **capabilities)
        asked = answer_of(await client.send(message))
        assert len(began) == before + 1
        [key] = asked["inputRequests"]
        message["params"] |= {
            "inputResponses": {key: {"action": "decline"}},
            "requestState": asked["requestState"],
        }
        answer = answer_of(await client.send(message))
    assert answer["content"][0]["text"] == "decline"


@pytest.mark.parametrize("revision", ERAS)
async def test_calls_of_a_composed_agent_are_direct_too(revision: str, began: list[DirectCall]) -> None:
    composition = source(one_tool(Scripted().work)).renamed({"work": "labour"})
    async with serving({}, Settings()) as (url, bridge), httpx2.AsyncClient() as http:
        await bridge.add(composition, "one")
        client = Client(http, f"{url}/mcp", revision)
        if not client.modern:
            await client.greet({})
        for tag in ("answer", "answer", "structured", "failure"):
            answer = answer_of(await client.call([], tag, name="labour"))
    assert all(call.connection is not None for call in began)
    assert len(began) == 3
    assert answer["content"][0]["text"] == "no luck"
