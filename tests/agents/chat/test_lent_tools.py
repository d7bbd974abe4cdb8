"""Tools that are not the agent's own: those that the bridge lends it for a turn, and those a client runs itself."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import pytest

from gaia.agents.chat.limits import ChatLimits
from gaia_bridge.chat_types import ChatRequest, LentTool, Reply
from gaia_bridge.text.json_types import JSON
from tests.support.fake_model import Asked, call, calls, made, replied, say
from tests.support.waiting import PATIENCE, wait_in_thread


def lent(name: str, run: Any, **definition: Any) -> LentTool:
    return LentTool({"name": name, "inputSchema": {"type": "object"}, **definition}, run)


def text(content: str, **more: Any) -> JSON:
    return {"content": [{"type": "text", "text": content}], **more}


@pytest.mark.anyio
async def test_lent_tools_run_on_the_loop_of_their_lender() -> None:
    lender, seen = asyncio.get_running_loop(), list[JSON]()

    async def run(arguments: JSON) -> JSON:
        assert asyncio.get_running_loop() is lender
        seen.append(arguments)
        return text("lent")

    agent, model = made(call("srv__read", path="x"), say("ok"))
    reply, _ = await replied(agent, lent_tools=[lent("srv__read", run, description="Read")])
    assert (reply.text, seen, model.asked[-1].results()) == ("ok", [{"path": "x"}], ["lent"])
    assert model.asked[0].tools == [
        {
            "type": "function",
            "function": {
                "name": "srv__read",
                "description": "Read",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]
    assert agent.tool_registry.snapshot() == {}


@pytest.mark.anyio
async def test_what_a_lent_tool_fails_with_is_told() -> None:
    async def refuse(arguments: JSON) -> JSON:
        return text("no such file", isError=True)

    async def refuse_in_silence(arguments: JSON) -> JSON:
        return {"content": [], "isError": True}

    async def fail(arguments: JSON) -> JSON:
        raise LookupError("not there")

    tools = [lent("a", refuse), lent("b", refuse_in_silence), lent("c", fail)]
    agent, model = made(calls(("a", {}), ("b", {}), ("c", {})), say("ok"))
    await replied(agent, lent_tools=tools)
    assert [told["error"] for told in model.asked[-1].results()] == [
        "no such file",
        "The tool failed without saying why",
        "LookupError: not there",
    ]


@pytest.mark.anyio
async def test_a_lent_tool_that_may_destroy_something_is_asked_about() -> None:
    async def wipe(arguments: JSON) -> JSON:
        raise AssertionError("it was run")

    agent, model = made(call("wipe"), say("ok"))
    await replied(agent, lent_tools=[lent("wipe", wipe, annotations={"destructiveHint": True})])
    assert "nobody confirmed it" in model.asked[-1].results()[0]["error"]


@pytest.mark.anyio
async def test_a_lent_tool_is_cancelled_with_its_deadline_and_with_its_client() -> None:
    begun, cancelled = anyio.Event(), threading.Semaphore(0)

    async def hang(arguments: JSON) -> JSON:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.release()
        return text("never")

    agent, model = made(call("hang"), say("ok"), call("hang"), chat_limits=ChatLimits(tool_timeout=0.05))
    await replied(agent, lent_tools=[lent("hang", hang)])
    assert "hang did not finish within 0.05 s" in model.asked[-1].results()[0]["error"]
    await wait_in_thread(lambda seconds: cancelled.acquire(timeout=seconds))

    patient, _ = made(call("hang"))
    begun = anyio.Event()
    client = asyncio.create_task(replied(patient, lent_tools=[lent("hang", hang)]))
    with anyio.fail_after(PATIENCE):
        await begun.wait()
    client.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client
    await wait_in_thread(lambda seconds: cancelled.acquire(timeout=seconds))


@pytest.mark.anyio
async def test_an_own_tool_wins_over_a_lent_one_of_the_same_name() -> None:
    def read() -> str:
        """Read."""
        return "own"

    async def run(arguments: JSON) -> JSON:
        return text("lent")

    agent, model = made(call("read"), say("ok"), tools=[read])
    await replied(agent, lent_tools=[lent("read", run)])
    assert (model.asked[0].tool_names, model.asked[1].results()) == (["read"], ["own"])


CLIENT_TOOL: JSON = {"type": "function", "function": {"name": "theirs", "parameters": {"type": "object"}}}


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def as_message(reply: Reply) -> JSON:
    """What a client keeps of a reply."""
    wanted = [
        {"id": it.id, "type": "function", "function": {"name": it.name, "arguments": it.arguments}}
        for it in reply.tool_calls
    ]
    return {"role": "assistant", "content": reply.text, "tool_calls": wanted}


def result(reply: Reply, content: str) -> JSON:
    return {"role": "tool", "tool_call_id": reply.tool_calls[0].id, "content": content}


@pytest.mark.anyio
async def test_the_agents_own_steps_are_there_again_when_a_client_brings_its_result() -> None:
    agent, model = made(
        call("add", a=1, b=2), calls(("add", {"a": 3, "b": 4}), ("theirs", {})), say("done"), tools=[add]
    )
    asked: list[JSON] = [{"role": "user", "content": "go"}]
    reply, _ = await replied(agent, messages=asked, client_tools=[CLIENT_TOOL])
    final, _ = await replied(
        agent, messages=[*asked, as_message(reply), result(reply, "42")], client_tools=[CLIENT_TOOL]
    )
    assert final.text == "done"
    said = [message for message in model.asked[-1].messages if message["role"] != "system"]
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant", "tool", "tool"]
    assert [message["content"] for message in said if message["role"] == "tool"] == ["3", "7", "42"]


@pytest.mark.anyio
async def test_clients_are_never_mixed_up_though_their_models_use_the_same_ids() -> None:
    def secret(asked: Asked) -> Reply:
        return calls(("keep", {"word": str(asked.last["content"])}), ("theirs", {}))

    def tell(asked: Asked) -> Reply:
        return say(" ".join(str(message["content"]) for message in asked.messages if message["role"] == "tool"))

    def keep(word: str) -> str:
        """Keep it."""
        return f"kept {word}"

    agent, _ = made(secret, secret, tell, tell, tools=[keep])
    histories: list[list[JSON]] = [[{"role": "user", "content": name}] for name in ("one", "two")]
    replies = [(await replied(agent, messages=it, client_tools=[CLIENT_TOOL]))[0] for it in histories]
    answers = [
        (await replied(agent, messages=[*it, as_message(reply), result(reply, "r")]))[0].text
        for it, reply in zip(histories, replies, strict=True)
    ]
    assert answers == ["kept one r", "kept two r"]


@pytest.mark.anyio
async def test_in_a_session_a_client_brings_only_its_result() -> None:
    agent, model = made(calls(("add", {"a": 1, "b": 2}), ("theirs", {})), say("done"), tools=[add])
    reply, _ = await replied(agent, session_id="s", client_tools=[CLIENT_TOOL])
    final, _ = await replied(agent, messages=[result(reply, "42")], session_id="s")
    assert final.text == "done"
    assert [message["content"] for message in model.asked[-1].messages if message["role"] == "tool"] == ["3", "42"]


@pytest.mark.anyio
async def test_a_client_that_goes_on_without_its_result_is_understood() -> None:
    agent, model = made(call("theirs"), say("never mind"))
    await replied(agent, session_id="s", client_tools=[CLIENT_TOOL])
    await replied(agent, "something else", session_id="s")
    assert [message["content"] for message in model.asked[-1].messages][-2:] == ["(not run)", "something else"]


@pytest.mark.anyio
async def test_a_clients_conversation_without_a_session_leaves_none() -> None:
    agent, model = made(say("ok"), say("ok"), system_prompt="You help.")
    messages: list[JSON] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "half \ud800"}]
    await replied(agent, messages=messages)
    assert model.asked[0].messages == [
        {"role": "system", "content": "You help.\n\nBe brief."},
        {"role": "user", "content": "half ?"},
    ]
    assert agent.list_sessions() == []


@pytest.mark.anyio
async def test_a_request_of_a_client_can_be_read_as_it_comes() -> None:
    agent, _ = made(say("one two"))
    pieces = [piece async for piece in agent.answer_chat(ChatRequest([{"role": "user", "content": "go"}]))]
    assert pieces[:2] == ["one", " two"]
    assert isinstance(pieces[2], Reply)
