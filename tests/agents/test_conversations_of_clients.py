"""Conversations by the tool `ask`: whose they are, how they are continued, and how they end; beside other sources."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest

from gaia.agents.base import Agent
from gaia_bridge import Bridge
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.sources.agent.ask_tool import conversation_of
from tests.interaction.connecting import DEADLINE, ERAS, client_of, serving
from tests.support.agents import one_tool
from tests.support.bridges import RunningBridge, text_of
from tests.support.fake_model import FakeModel, say
from tests.support.on_demand import mcp_server, mcp_types
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    import mcp

pytestmark = pytest.mark.anyio
in_each_era = pytest.mark.parametrize("era", ERAS)

NO_MODEL = (
    "GAIA_BASE_URL",
    "GAIA_MODEL",
    "GAIA_API_KEY",
    "PROVIDER",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "LEMONADE_BASE_URL",
)


def sources(agent: Agent) -> Mapping[str, Any]:
    """The agent, another one, and a server of the SDK."""
    return {
        "helper": agent,
        "echo": one_tool(lambda arguments: arguments, "echo"),
        "sums": mcp_server.MCPServer("sums"),
    }


def echoing() -> tuple[Agent, FakeModel]:
    """An agent that answers anything, and its model."""
    model = FakeModel(*(say(f"answer {number}") for number in range(9)))
    return Agent(silent_mode=True, model=model), model


def heard(model: FakeModel) -> list[str]:
    """What the model was told in its last turn: questions and answers, without the system message."""
    return [str(item["content"]) for item in model.asked[-1].messages if item["role"] != "system"]


async def asked(client: mcp.Client, prompt: str, session: str | None = None) -> tuple[list[str], str | None]:
    """The texts of the answer, and the id of the conversation."""
    arguments = {"prompt": prompt} if session is None else {"prompt": prompt, "session": session}
    answer = await client.call_tool("ask", arguments)
    assert not answer.is_error, answer
    assert answer.structured_content is not None
    return [block.text for block in answer.content if block.type == "text"], answer.structured_content.get("session")


@in_each_era
async def test_two_clients_that_make_up_the_same_name_do_not_hear_of_each_other(era: str) -> None:
    agent, model = echoing()
    async with serving(sources(agent)) as (url, _):
        async with client_of(f"{url}/mcp", era) as one, client_of(f"{url}/mcp", era) as two:
            _, first = await asked(one, "my secret", "main")
            _, second = await asked(two, "tell me", "main")
            assert heard(model) == ["tell me"]
            assert first is not None
            assert first != second
            await asked(one, "again", first)
            assert heard(model) == ["my secret", "answer 0", "again"]
            await asked(one, "nothing is kept")
            assert heard(model) == ["nothing is kept"]


@in_each_era
async def test_a_client_that_comes_back_continues_by_the_id_and_by_no_guess(era: str) -> None:
    agent, model = echoing()
    async with serving(sources(agent)) as (url, _):
        async with client_of(f"{url}/mcp", era) as client:
            _, session = await asked(client, "one", "main")
        assert session is not None
        async with client_of(f"{url}/mcp", era) as client:
            await asked(client, "two", session)
            assert heard(model) == ["one", "answer 0", "two"]
            await asked(client, "three", "main")
            assert heard(model) == ["three"]
            guess = session[:-4] + ("AAAA" if not session.endswith("AAAA") else "BBBB")
            refused = await client.call_tool("ask", {"prompt": "four", "session": guess})
            assert refused.is_error
            assert text_of(refused).startswith(
                f"There is no conversation {guess}: it has ended, or never was. Begin one"
            )
    assert len(model.asked) == 3


async def test_a_name_is_good_for_as_long_as_the_connection_and_where_there_is_none_the_model_is_told_the_id() -> None:
    agent, model = echoing()
    async with serving(sources(agent)) as (url, bridge):
        running = RunningBridge(bridge)
        for connecting in (running.client("auto"), running.client("legacy"), client_of(f"{url}/mcp", "legacy")):
            async with connecting as client:
                texts, session = await asked(client, "one", "main")
                assert len(texts) == 1
                await asked(client, "two", "main")
                assert heard(model)[0::2] == ["one", "two"]
                assert (await asked(client, "three", session))[1] == session
                assert heard(model)[0::2] == ["one", "two", "three"]
        model.answers = [say("a"), say("b")]
        async with client_of(f"{url}/mcp", "modern") as client:
            texts, session = await asked(client, "one", "main")
            assert texts == ["a", f"(The session of this conversation is {session}, for the next question in it.)"]
            assert (await asked(client, "two", session))[0] == ["b"]
        model.answers = [say("a")]
        call = {"name": "ask", "arguments": {"prompt": "one", "session": "main"}}
        async with httpx2.AsyncClient() as http:
            response = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        assert [block["text"][:12] for block in response.json()["result"]["content"]] == ["a", "(The session"]


@in_each_era
async def test_clients_of_a_bridge_that_share_its_connection_do_not_share_names(era: str) -> None:
    agent, model = echoing()
    async with serving(sources(agent)) as (url, _), Bridge() as outer:
        await outer.add_upstream(HttpServerSpec("inner", f"{url}/agents/helper/mcp"))
        for source in outer.sources:
            await source.learn()
        running = RunningBridge(outer)
        mode = {"modern": "auto", "legacy": "legacy"}[era]
        async with running.client(mode) as one, running.client(mode) as two:
            arguments = {"prompt": "my secret", "session": "main"}
            first = await one.call_tool("inner__ask", arguments)
            await two.call_tool("inner__ask", {"prompt": "tell me", "session": "main"})
            assert heard(model) == ["tell me"]
            assert first.structured_content is not None
            await one.call_tool("inner__ask", {"prompt": "again", "session": first.structured_content["session"]})
            assert heard(model) == ["my secret", "answer 0", "again"]


async def test_a_conversation_that_is_kept_in_a_file_goes_on_with_another_process(tmp_path: Path) -> None:
    sessions: list[str | None] = [None]
    for prompt in ("one", "two"):  # each time as a client over stdio comes back, which has a process of its own
        model = FakeModel(say(f"about {prompt}"))
        with Agent(silent_mode=True, model=model, session_file=tmp_path / "sessions.db") as agent:
            async with Bridge(agent) as bridge, RunningBridge(bridge).client() as client:
                sessions.append((await asked(client, prompt, sessions[-1] or "main"))[1])
    assert sessions[1] == sessions[2]
    assert heard(model) == ["one", "about one", "two"]


async def test_conversations_that_clients_began_give_way_where_there_is_room_for_no_more() -> None:
    model = FakeModel(*(say("yes") for _ in range(9)))
    agent = Agent(silent_mode=True, model=model, max_sessions=3)
    agent.create_session("own")
    async with Bridge() as bridge:
        await bridge.add_agent(agent, "helper")
        async with RunningBridge(bridge).client() as client:
            begun = [(await asked(client, "a", name))[1] for name in ("one", "two", "three", "four")]
            assert begun[3] is not None
            await asked(client, "b", begun[3])
            assert (await client.call_tool("ask", {"prompt": "b", "session": begun[0]})).is_error
    assert [item["session_id"] for item in agent.list_sessions()] == ["own", f"api:{begun[2]}", f"api:{begun[3]}"]


def test_a_name_leads_to_no_conversation_that_another_key_made() -> None:
    one, two = (conversation_of("main", key) for key in ("a", "b"))
    assert one == conversation_of("main", "a")
    assert one.id != two.id
    assert conversation_of("main", None).id != conversation_of("main", None).id
    assert conversation_of(one.id, "b").id == one.id
    assert conversation_of("\udc80", "a").id.startswith("ask_")


class Thinking:
    """A client's model: fails, hangs or answers, as it is told."""

    def __init__(self, *how: str) -> None:
        self.how = list(how)
        self.begun = anyio.Event()

    async def __call__(self, context: Any, params: Any) -> Any:
        self.begun.set()
        match self.how.pop(0):
            case "refuse":
                return mcp_types.ErrorData(code=-1, message="the user said no")
            case "break":
                raise KeyError("broken")
            case "hang":
                await anyio.sleep_forever()
            case _:
                pass
        content = mcp_types.TextContent(type="text", text="A thought.")
        return mcp_types.CreateMessageResult(role="assistant", content=content, model="m", stop_reason="endTurn")


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in NO_MODEL:
        monkeypatch.delenv(variable, raising=False)


@asynccontextmanager
async def ending_cleanly() -> AsyncGenerator[tuple[str, Bridge]]:
    """Sources that are served; in the end, what was left open warns, and fails the test."""
    async with serving(sources(Agent(silent_mode=True))) as served:
        yield served
    gc.collect()


@in_each_era
@pytest.mark.parametrize("how", ["refuse", "break", "hang"])
@pytest.mark.usefixtures("no_model")
async def test_a_clients_model_that_does_not_answer_leaves_nothing_open_in_the_end(era: str, how: str) -> None:
    thinking = Thinking(how)
    async with ending_cleanly() as (url, bridge):
        running = RunningBridge(bridge)
        mode = {"modern": "auto", "legacy": "legacy"}[era]
        for connect in (
            client_of(f"{url}/mcp", era, sampling_callback=thinking),
            running.client(mode, sampling_callback=thinking),
        ):
            thinking.how, thinking.begun = [how], anyio.Event()
            with anyio.CancelScope() as leaving:
                async with connect as client, anyio.create_task_group() as tasks:

                    async def ask(client: mcp.Client = client) -> None:
                        try:
                            answer = await client.call_tool("ask", {"prompt": "a"})
                        except Exception:  # of the client's own making, in the modern era
                            assert era == "modern"
                        else:
                            assert answer.is_error

                    tasks.start_soon(ask)
                    with anyio.fail_after(DEADLINE):
                        await thinking.begun.wait()
                    if how == "hang":
                        leaving.cancel()


@pytest.mark.usefixtures("no_model")
async def test_a_question_that_waits_for_its_client_gives_way_to_the_next_in_its_conversation() -> None:
    thinking = Thinking("answer", "refuse", "answer")
    async with ending_cleanly() as (url, _), client_of(f"{url}/mcp", "modern", sampling_callback=thinking) as client:
        _, session = await asked(client, "one", "main")
        with pytest.raises(Exception, match="the user said no"):
            await client.call_tool("ask", {"prompt": "two", "session": session})
        with anyio.fail_after(PATIENCE):
            assert (await asked(client, "three", session))[0] == ["A thought."]


@pytest.mark.usefixtures("no_model")
async def test_an_answer_that_comes_after_its_question_gave_way_is_told_so() -> None:
    thinking = Thinking("answer", "answer")
    async with ending_cleanly() as (url, _), client_of(f"{url}/mcp", "modern", sampling_callback=thinking) as client:
        _, session = await asked(client, "one", "main")
        arguments = {"prompt": "two", "session": session}
        waiting = await client.session.call_tool("ask", arguments, allow_input_required=True)
        assert isinstance(waiting, mcp_types.InputRequiredResult)
        assert waiting.input_requests is not None
        await asked(client, "three", session)
        content = mcp_types.TextContent(type="text", text="Too late.")
        answer = mcp_types.CreateMessageResult(role="assistant", content=content, model="m")
        late = await client.session.call_tool(
            "ask",
            arguments,
            input_responses=dict.fromkeys(waiting.input_requests, answer),
            request_state=waiting.request_state,
        )
    assert late.is_error
    assert "given up" in text_of(late)
