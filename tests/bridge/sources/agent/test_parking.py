"""Calls that asked a client which has to come back with the answer (2026-07-28)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.content import input_required
from gaia_bridge.errors import (
    RequestCancelledError,
)
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import nothing
from tests.bridge.sources.agent.people import EVERYTHING, FORM
from tests.support.agents import ScriptedAgent, one_tool
from tests.support.bridges import running_bridge, text_of
from tests.support.on_demand import mcp, mcp_types
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


class Asking:
    """A tool that asks once and remembers how that went."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: list[Any] = []
        self.ended = threading.Semaphore(0)

    def __call__(self, name: str, arguments: JSON) -> JSON:
        self.asked += 1
        arguments.setdefault("list", []).append("changed by the agent")
        try:
            self.answers.append(get_request_context().elicit("How many?", FORM).content)
        except Exception as error:
            self.answers.append(type(error))
            raise
        finally:
            self.ended.release()
        return {"answer": self.answers[-1]}

    async def until_ended(self) -> None:
        await wait_in_thread(lambda seconds: self.ended.acquire(timeout=seconds))


async def first_round(client: mcp.Client, name: str = "work", **arguments: Any) -> tuple[str, str]:
    """Call until the agent asks; returns the key of its question and the state to come back with."""
    result = await client.session.call_tool(name, arguments, allow_input_required=True)
    assert isinstance(result, mcp_types.InputRequiredResult)
    assert result.input_requests is not None
    assert result.request_state is not None
    [key] = result.input_requests
    return key, result.request_state


async def come_back(
    client: mcp.Client, key: str, state: str, name: str = "work", answer: Any = None, **arguments: Any
) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
    """Call again with an answer."""
    answer = mcp_types.ElicitResult(action="accept", content={"n": 7}) if answer is None else answer
    return await client.session.call_tool(
        name, arguments, input_responses={key: answer}, request_state=state, allow_input_required=True
    )


@pytest.mark.anyio
async def test_a_call_waits_where_it_asked_and_goes_on_with_the_answer() -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client, list=[1])
        result = await come_back(client, key, state, list=[1])
    assert isinstance(result, mcp_types.CallToolResult)
    assert result.structured_content == {"answer": {"n": 7}}
    assert asking.asked == 1


def _flipped(state: str) -> list[str]:
    """The state with one character changed, at several places."""
    places = (0, 3, len(state) // 2, len(state) - 2)
    return [state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1 :] for place in places]


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_a_state_that_was_changed_moved_or_made_up_is_refused_and_the_agent_not_asked() -> None:
    asking, other = Asking(), Asking()
    named = {"one": ScriptedAgent(asking, "work", "play"), "two": ScriptedAgent(other, "work")}
    async with (
        running_bridge(named=named) as running,
        running.client(path="agents/one", **EVERYTHING) as client,
        running.client(path="agents/two", **EVERYTHING) as elsewhere,
        running.client(**EVERYTHING) as everywhere,
    ):
        key, state = await first_round(client, n=1)
        _, others_state = await first_round(elsewhere, n=1)
        attempts: list[Awaitable[Any]] = [
            *(come_back(client, key, changed, n=1) for changed in _flipped(state)),
            come_back(client, key, "", n=1),
            come_back(client, key, "parked:guess", n=1),
            come_back(client, key, "x" * 100_000, n=1),
            come_back(client, key, state, name="play", n=1),
            come_back(client, key, state, n=2),
            come_back(client, key, state),
            come_back(elsewhere, key, state, n=1),
            come_back(everywhere, key, state, n=1),
            come_back(client, key, others_state, n=1),
        ]
        for attempt in attempts:
            with pytest.raises(mcp.MCPError) as caught:
                await attempt
            assert caught.value.code == mcp_types.INVALID_PARAMS
        assert (asking.asked, asking.answers) == (1, [])
        result = await come_back(client, key, state, n=1)
        assert isinstance(result, mcp_types.CallToolResult)
        assert result.structured_content == {"answer": {"n": 7}}
    assert other.asked == 1


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_a_state_works_once() -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client)
        await come_back(client, key, state)
        with pytest.raises(mcp.MCPError, match="no longer there") as caught:
            await come_back(client, key, state)
    assert caught.value.code == mcp_types.INVALID_PARAMS
    assert asking.asked == 1


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_two_who_come_back_with_the_same_state_do_not_both_go_on() -> None:
    asking = Asking()
    outcomes: list[Any] = []
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client)

        async def return_once() -> None:
            try:
                outcomes.append(await come_back(client, key, state))
            except mcp.MCPError as error:
                outcomes.append(error.code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(return_once)
            tasks.start_soon(return_once)
    assert outcomes.count(mcp_types.INVALID_PARAMS) == 1
    assert len(asking.answers) == 1


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_a_client_cannot_read_its_state() -> None:
    agent = one_tool(lambda _: input_required(state="the secret of the agent"))
    async with running_bridge(agent) as running, running.client() as client:
        result = await client.session.call_tool("work", {}, allow_input_required=True)
    assert isinstance(result, mcp_types.InputRequiredResult)
    assert result.request_state is not None
    assert "secret" not in result.request_state


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer",
    [
        lambda: mcp_types.ListRootsResult(roots=[]),
        lambda: mcp_types.CreateMessageResult(
            role="assistant", content=mcp_types.TextContent(type="text", text="x"), model="m"
        ),
    ],
    ids=["folders", "a thought"],
)
async def test_an_answer_of_the_wrong_kind_and_a_missing_one_are_asked_for_again(answer: Callable[[], Any]) -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client)
        for wrong_key, given in ((key, answer()), ("another", None)):
            result = await come_back(client, wrong_key, state, answer=given)
            assert isinstance(result, mcp_types.InputRequiredResult)
            assert result.input_requests is not None
            assert list(result.input_requests) == [key]
            assert result.request_state is not None
            assert result.request_state != state
            state = result.request_state
        assert asking.answers == []
        await come_back(client, key, state)
    assert (asking.asked, asking.answers) == (1, [{"n": 7}])


@pytest.mark.anyio
@pytest.mark.requirement("S-31")
async def test_a_question_that_nobody_comes_back_for_expires() -> None:
    asking = Asking()
    settings = Settings(agent=AgentLimits(question_timeout=0.05))
    async with running_bridge(ScriptedAgent(asking, "work"), settings=settings) as running:
        async with running.client(**EVERYTHING) as client:
            key, state = await first_round(client)
            await asking.until_ended()
            with pytest.raises(mcp.MCPError) as caught:
                await come_back(client, key, state)
            assert caught.value.code == mcp_types.INVALID_PARAMS
    assert asking.answers == [RequestCancelledError]
    assert asking.asked == 1


@pytest.mark.anyio
@pytest.mark.requirement("F-220")
async def test_only_so_many_calls_wait_for_their_clients_and_the_oldest_gives_way() -> None:
    asking = Asking()
    settings = Settings(agent=AgentLimits(max_parked=2))
    async with running_bridge(ScriptedAgent(asking, "work"), settings=settings) as running:
        async with running.client(**EVERYTHING) as client:
            oldest, *rounds = [await first_round(client) for _ in range(3)]
            await asking.until_ended()
            assert asking.answers == [RequestCancelledError]
            with pytest.raises(mcp.MCPError, match="2 calls wait for answers of clients, and the oldest gives way"):
                await come_back(client, *oldest)
            for key, state in rounds:
                assert isinstance(await come_back(client, key, state), mcp_types.CallToolResult)
            await first_round(client)


@pytest.mark.anyio
async def test_calls_that_wait_for_their_clients_end_when_the_agent_goes() -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work"), named={"other": one_tool(nothing, "play")}) as running:
        async with running.client(**EVERYTHING) as client:
            key, state = await first_round(client)
            await running.bridge.remove("a0")
            await asking.until_ended()
            assert asking.answers == [RequestCancelledError]
            with pytest.raises(mcp.MCPError, match="Unknown tool"):
                await come_back(client, key, state)


@pytest.mark.anyio
async def test_calls_that_wait_for_their_clients_end_with_the_bridge() -> None:
    asking = Asking()
    async with running_bridge(ScriptedAgent(asking, "work")) as running, running.client(**EVERYTHING) as client:
        await first_round(client)
    await asking.until_ended()
    assert asking.answers == [RequestCancelledError]


@pytest.mark.anyio
async def test_calls_that_wait_for_a_client_end_when_it_leaves_and_those_of_others_go_on() -> None:
    asking = Asking()
    others = {"other": one_tool(nothing, "play"), "third": one_tool(nothing, "rest")}
    async with running_bridge(ScriptedAgent(asking, "work"), named=others) as running:
        async with running.client(**EVERYTHING) as stays:
            key, state = await first_round(stays)
            async with running.client(**EVERYTHING) as leaves:
                await come_back(leaves, *await first_round(leaves))
                await first_round(leaves)
                assert asking.answers == [{"n": 7}]
                await asking.until_ended()
            await asking.until_ended()
            assert asking.answers == [{"n": 7}, RequestCancelledError]
            assert isinstance(await come_back(stays, key, state), mcp_types.CallToolResult)


@pytest.mark.anyio
async def test_what_was_said_while_nobody_waited_is_told_to_whoever_comes_back() -> None:
    alone, posted = threading.Event(), threading.Event()

    async def work(arguments: JSON) -> str:
        request = get_request_context()

        async def ask() -> str:
            return (await request.aelicit("?", FORM)).action

        asking = asyncio.ensure_future(ask())
        await asyncio.to_thread(alone.wait, PATIENCE)
        request.report_progress(1, None, "meanwhile")
        posted.set()
        return await asking

    heard: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with running_bridge(one_tool(work)) as running, running.client(**EVERYTHING) as client:
        key, state = await first_round(client)
        alone.set()
        await wait_in_thread(posted.wait)
        result = await client.session.call_tool(
            "work",
            {},
            progress_callback=progress,
            input_responses={key: mcp_types.ElicitResult(action="decline")},
            request_state=state,
        )
    assert text_of(result) == "decline"
    assert heard == ["meanwhile"]
