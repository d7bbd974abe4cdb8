"""The scripted server plays what a script says: what else rests on it has to be able to rely on it."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from gaia_bridge.text.json_types import JSON
from tests.agents.llm.talking import ADD, user
from tests.servers.model_dialects import DIALECTS
from tests.servers.model_script import Player, ScriptError, count_tokens, prompt_tokens
from tests.servers.model_server import FAULTS
from tests.support.on_demand import openai
from tests.support.scripted_model import ModelHandle, call, fault, rule, say, script, scripted_model

pytestmark = pytest.mark.anyio


def said(player: Player, *messages: JSON) -> Any:
    reply: Any = player.reply_to(messages)
    return reply.get("fault") or reply.get("text") or reply["calls"][0]["arguments"]


def assistant(text: str = "") -> JSON:
    return {"role": "assistant", "content": text}


def tool(text: str) -> JSON:
    return {"role": "tool", "tool_call_id": "c", "content": text}


def test_each_conversation_plays_the_whole_list() -> None:
    player = Player(script(say("one"), say("two")))
    for text in ("a", "b"):
        assert said(player, *user(text)) == "one"
        assert said(player, *user(text), assistant(), *user("more")) == "two"


def test_in_the_order_of_requests_each_takes_the_next() -> None:
    player = Player(script(say("one"), fault("html", times=2), say("two"), order="requests"))
    assert [said(player, *user("a")) for _ in range(4)] == ["one", "html", "html", "two"]
    with pytest.raises(ScriptError, match="has 4 replies, and this is request 5"):
        said(player, *user("a"))


def test_a_fault_is_played_before_the_reply_when_the_client_tries_again() -> None:
    player = Player(script(fault("rate_limited", times=2), say("one"), fault("html"), say("two")))
    assert [said(player, *user("a")) for _ in range(3)] == ["rate_limited", "rate_limited", "one"]
    assert [said(player, *user("a"), assistant("one")) for _ in range(2)] == ["html", "two"]
    assert said(player, *user("b")) == "rate_limited"


def test_a_list_that_is_over_is_an_error_that_says_so() -> None:
    with pytest.raises(ScriptError, match="has 1 replies for this conversation, and this is 2"):
        said(Player(script(say("one"))), *user("a"), assistant())


def test_the_first_rule_that_matches_wins_and_its_groups_are_filled_in() -> None:
    player = Player(
        script(
            say("other"),
            rules=[rule(r"add (\d+) and (?P<b>\d+)", call("add", '{"a": $1, "b": $b}'), say("$user: $result"))],
        )
    )
    asked = user("please add 1 and 2")
    assert said(player, *asked) == '{"a": 1, "b": 2}'
    assert said(player, *asked, assistant(), tool("3")) == "please add 1 and 2: 3"
    assert said(player, *user("hello")) == "other"


def test_a_rules_replies_begin_anew_with_each_message_of_the_user() -> None:
    player = Player(script(rules=[rule("go", say("one"), say("two"))]))
    assert said(player, *user("go")) == "one"
    assert said(player, *user("go"), assistant(), tool("x")) == "two"
    assert said(player, *user("go"), assistant(), tool("x"), assistant(), *user("go")) == "one"


def test_a_rule_may_go_on_for_ever() -> None:
    player = Player(script(rules=[rule("go", say("one"), say("two"), loop=True)]))
    messages = user("go")
    heard: list[str] = []
    for _ in range(5):
        heard.append(said(player, *messages))
        messages += [assistant(), tool("x")]
    assert heard == ["one", "two", "one", "two", "one"]


def test_a_rule_may_be_about_tool_results() -> None:
    player = Player(script(say("fine"), say("fine"), rules=[rule("Error: (.*)", say("because of $1"), on="tool")]))
    assert said(player, *user("Error: mine")) == "fine"
    assert said(player, *user("go"), assistant(), tool("Error: no")) == "because of no"


def test_all_tool_results_can_be_quoted() -> None:
    player = Player(script(say("x"), say("$results")))
    assert said(player, *user("go"), assistant(), tool("1"), tool("2")) == "1\n2"


def test_unknown_names_and_lone_signs_stay() -> None:
    assert said(Player(script(say("$5 and $nothing $"))), *user("a")) == "$5 and $nothing $"


def test_tokens_are_a_function_of_the_text() -> None:
    assert [count_tokens(text) for text in ("", "a", "abcd", "abcde", "ü" * 4)] == [0, 1, 1, 2, 2]
    body = {"messages": user("hello")}
    assert prompt_tokens({**body, "tools": [ADD]}) > prompt_tokens(body) == prompt_tokens({**body, "stream": True})


def client_of(server: ModelHandle) -> Any:
    """The library's client, without the types that want messages of their own."""
    return openai.AsyncOpenAI(base_url=server.base_url, api_key="x", max_retries=0)


async def ask(server: ModelHandle, messages: list[Any], **more: Any) -> None:
    async with client_of(server) as client:
        await client.chat.completions.create(model="scripted", messages=messages, **more)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_fault_ends_a_request(server: ModelHandle, dialect: str) -> None:
    async with client_of(server) as client:
        for name in FAULTS:
            if name == "endless":
                continue
            server.play(script(fault(name), dialect=dialect))
            status = 0
            try:
                answer = await client.chat.completions.with_raw_response.create(model="scripted", messages=user("a"))
                status = answer.status_code
            except openai.APIError:
                pass
            await server.until(server.wait_ended)
            assert status in (0, 200), name
            assert server.state()["counts"]["ended"] == 1


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([*user("a"), tool("x")], "must respond to a preceding message"),
        (
            [*user("a"), {"role": "assistant", "tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}],
            "must be followed",
        ),
        ([], "empty array"),
    ],
)
async def test_conversations_that_do_not_fit_together_are_refused(
    server: ModelHandle, messages: list[JSON], problem: str
) -> None:
    server.play(script(say("never")))
    with pytest.raises(openai.BadRequestError, match=problem):
        await ask(server, messages)


async def test_too_many_tools_and_odd_names_are_refused(server: ModelHandle) -> None:
    odd = {"type": "function", "function": {"name": "tool (server)"}}
    with pytest.raises(openai.BadRequestError, match="maximum length 128"):
        await ask(server, user("a"), tools=[ADD] * 129)
    with pytest.raises(openai.BadRequestError, match="does not match pattern"):
        await ask(server, user("a"), tools=[odd])


async def test_a_conversation_that_is_too_long_is_refused(server: ModelHandle) -> None:
    server.play(script(say("never"), context=50))
    with pytest.raises(openai.BadRequestError, match="maximum context length is 50 tokens"):
        await ask(server, user("a" * 400))


async def test_requests_are_recorded_with_what_came_of_them(server: ModelHandle) -> None:
    server.play(script(say("a")))
    await ask(server, [{"role": "system", "content": "Be kind."}, *user("a")], tools=[ADD])
    await server.until(server.wait_ended)
    (request,) = server.requests()
    assert (request.system, request.tool_names) == ("Be kind.", ["add"])
    assert (request.outcome, request.status, request.method) == ("finished", 200, "POST")
    assert request.headers["authorization"] == "Bearer x"


async def test_what_the_script_has_no_answer_to_is_told_at_the_end() -> None:
    pids: list[int] = []
    with pytest.raises(AssertionError, match="has 0 replies"):
        with scripted_model() as server:
            pids.append(server.pid)
            with pytest.raises(openai.BadRequestError, match="scripted model server: the script has 0 replies"):
                await ask(server, user("a"))
    assert [psutil.pid_exists(pid) for pid in pids] == [False]
