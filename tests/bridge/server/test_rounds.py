"""Agents that say themselves what they need, and are called again (SEP-2322)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gaia_bridge.calls.request_context import RequestContext, get_request_context
from gaia_bridge.content import elicitation_request, input_required, roots_request, sampling_request, text
from gaia_bridge.errors import (
    MISSING_CLIENT_CAPABILITY,
)
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.sources import nothing
from tests.bridge.sources.agent.people import EVERYTHING, FORM, filled_in, never, shown
from tests.support.agents import ScriptedAgent, one_tool
from tests.support.bridges import both_eras, running_bridge, text_of
from tests.support.on_demand import mcp, mcp_types

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


def _rounds(arguments: JSON) -> JSON:
    """Asks for three things, one round each, and remembers what it got in its state."""
    request = get_request_context()
    state: JSON = json.loads(request.request_state or "{}")
    responses = request.input_responses
    if "n" in responses:
        state["n"] = responses["n"]["content"]["n"]
    if "why" in responses:
        state["why"] = responses["why"]["content"]["text"]
    if "roots" in responses:
        state["roots"] = len(responses["roots"]["roots"])
    questions = {
        "n": elicitation_request("How many?", FORM),
        "why": sampling_request("Why?", 10),
        "roots": roots_request(),
    }
    for key, question in questions.items():
        if key not in state:
            return input_required({key: question}, json.dumps(state))
    return state


@both_eras
@pytest.mark.anyio
async def test_an_agent_may_ask_in_rounds_whatever_its_client_speaks(mode: str) -> None:
    async with running_bridge(one_tool(_rounds)) as running, running.client(mode, **EVERYTHING) as client:
        result = await client.call_tool("work", {})
    assert result.structured_content == {"n": 42, "why": "because", "roots": 1}


@both_eras
@pytest.mark.anyio
async def test_prompts_and_resources_may_ask_in_rounds_too(mode: str) -> None:
    def ask(*_: Any) -> Any:
        answer = get_request_context().input_responses.get("n")
        if answer is None:
            return input_required({"n": elicitation_request("How many?", FORM)})
        return f"{answer['content']['n']} books"

    hooks: dict[str, Any] = {"get_mcp_prompt": ask, "read_mcp_resource": ask}
    agent = one_tool(nothing, get_mcp_prompts=lambda: [{"name": "p"}], **hooks)
    async with running_bridge(agent) as running, running.client(mode, **EVERYTHING) as client:
        assert shown((await client.get_prompt("p")).messages)[0]["content"] == text("42 books")
        assert shown((await client.read_resource("book:1")).contents)[0]["text"] == "42 books"


@both_eras
@pytest.mark.anyio
@pytest.mark.requirement("S-32")
async def test_rounds_ask_only_for_what_the_client_declared(mode: str) -> None:
    async with running_bridge(one_tool(_rounds)) as running:
        async with running.client(mode, elicitation_callback=filled_in) as client:
            if mode == "legacy":
                result = await client.call_tool("work", {})
                assert result.is_error
                assert "sampling" in text_of(result)
            else:
                with pytest.raises(mcp.MCPError) as caught:
                    await client.call_tool("work", {})
                assert caught.value.code == MISSING_CLIENT_CAPABILITY


@pytest.mark.anyio
@pytest.mark.parametrize(("rounds", "ends"), [(1, True), (3, True), (4, False)])
async def test_the_bridge_plays_as_many_rounds_for_a_legacy_client_as_it_may_and_no_more(
    rounds: int, ends: bool
) -> None:
    calls: list[int] = []

    def work(arguments: JSON) -> Any:
        calls.append(1)
        return "done" if len(calls) > rounds else input_required({"n": elicitation_request("?", FORM)})

    settings = Settings(agent=AgentLimits(max_rounds=3))
    async with running_bridge(one_tool(work), settings=settings) as running:
        async with running.client("legacy", **EVERYTHING) as client:
            if ends:
                assert text_of(await client.call_tool("work", {})) == "done"
            else:
                with pytest.raises(mcp.MCPError, match="3 times without coming to an end"):
                    await client.call_tool("work", {})
    assert len(calls) == min(rounds, 3) + 1


@pytest.mark.anyio
async def test_a_legacy_client_that_does_not_play_along_fails_that_call_alone() -> None:
    async def fail(context: Any, params: Any) -> mcp_types.ErrorData:
        return mcp_types.ErrorData(code=-1, message="no user here")

    settings = Settings(agent=AgentLimits(question_timeout=0.05))
    agent = ScriptedAgent(lambda name, arguments: _rounds({}) if name == "ask" else "worked", "ask", "work")
    async with running_bridge(agent, settings=settings) as running:
        for user, said in ((fail, "no user here"), (never, "did not answer elicitation/create within 0.05 s")):
            async with running.client("legacy", elicitation_callback=user) as client:
                result = await client.call_tool("ask", {})
                assert result.is_error
                assert said in text_of(result)
                assert text_of(await client.call_tool("work", {})) == "worked"


@both_eras
@pytest.mark.anyio
async def test_arguments_are_the_clients_in_every_round_whatever_the_agent_does_to_them(mode: str) -> None:
    seen: list[str] = []

    def work(arguments: JSON) -> Any:
        seen.append(json.dumps(arguments, sort_keys=True))
        arguments["own"] = True
        arguments["list"].append("changed")
        if get_request_context().input_responses:
            return "done"
        return input_required({"n": elicitation_request("?", FORM)}, "state")

    async with running_bridge(one_tool(work)) as running, running.client(mode, **EVERYTHING) as client:
        assert text_of(await client.call_tool("work", {"list": [1]})) == "done"
    assert seen == ['{"list": [1]}'] * 2


@pytest.mark.anyio
async def test_what_only_modern_clients_can_say_means_nothing_from_a_legacy_one() -> None:
    seen: list[RequestContext] = []
    async with running_bridge(one_tool(lambda _: seen.append(get_request_context()))) as running:
        async with running.client("legacy") as client:
            await client.session.call_tool("work", {}, input_responses={"n": mcp_types.ElicitResult(action="accept")})
    assert seen[0].input_responses == {}
