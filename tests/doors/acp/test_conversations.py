"""A conversation in an editor, with the package's own client: what is said, thought, done, planned and cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia.agents.base import Agent, ApiAgent, get_request_context
from gaia.llm import ModelUnreachableError
from gaia_bridge.chat_types import ChatRequest, Piece, Plan, Reply, Thought
from gaia_bridge.settings import AcpLimits, Settings
from tests.support.editors import editing, stdio_server
from tests.support.fake_model import FakeModel, call, calls, made, say
from tests.support.on_demand import acp
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio


def forecast(city: str) -> str:
    """Tell tomorrow's weather."""
    return f"rain in {city}"


async def test_an_editor_is_told_who_the_agent_is_and_what_it_takes(nothing_left: None) -> None:
    agent, _ = made()
    async with editing(agent) as editor:
        told = await editor.connection.initialize(99)
    assert told.protocol_version == 1
    assert told.auth_methods == []
    assert told.agent_info.name
    capabilities = told.agent_capabilities
    assert (capabilities.load_session, capabilities.prompt_capabilities.image) == (False, False)
    assert capabilities.prompt_capabilities.embedded_context
    assert (capabilities.mcp_capabilities.http, capabilities.mcp_capabilities.sse) == (True, True)


async def test_what_an_agent_says_and_does_is_shown_as_it_comes(tmp_path: Path) -> None:
    agent, model = made(calls(("forecast", {"city": "Graz"}), text="Let me look."), say("Take it."), tools=[forecast])
    async with editing(agent) as editor:
        session = await editor.begin(cwd=tmp_path)
        ended = await editor.ask(session, "Do I need an umbrella?")
        shown = [update for _, update in editor.client.updates]
    assert ended.stop_reason == "end_turn"
    assert (ended.usage.input_tokens, ended.usage.output_tokens) == (20, 4)
    kinds = [update["sessionUpdate"] for update in shown]
    assert kinds == [*["agent_message_chunk"] * 3, "tool_call", "tool_call_update", *["agent_message_chunk"] * 3]
    assert editor.client.said() == "Let me look.\n\nTake it."
    begun, over = shown[3], shown[4]
    assert (begun["title"], begun["kind"], begun["status"]) == ("forecast", "other", "in_progress")
    assert begun["rawInput"] == {"city": "Graz"}
    assert over["toolCallId"] == begun["toolCallId"]
    assert (over["status"], over["rawOutput"]) == ("completed", "rain in Graz")
    assert over["content"] == [{"type": "content", "content": {"type": "text", "text": "rain in Graz"}}]
    assert str(tmp_path) in model.asked[0].system
    assert model.asked[0].last == {"role": "user", "content": "Do I need an umbrella?"}


async def test_a_conversation_goes_on_where_it_was() -> None:
    agent, model = made(say("One."), say("Two."))
    async with editing(agent) as editor:
        session = await editor.begin()
        await editor.ask(session, "first")
        await editor.ask(session, "second")
    assert [message["content"] for message in model.asked[1].messages[1:]] == ["first", "One.", "second"]


async def test_two_conversations_at_once_do_not_mix() -> None:
    both = threading.Barrier(2)

    def meet(who: str) -> str:
        """Wait for the other conversation."""
        both.wait(PATIENCE)
        return who

    def answer(asked: Any) -> Reply:
        if asked.last["role"] == "tool":
            return say(f"{asked.last['content']} was here")
        return call("meet", who=asked.last["content"])

    agent, model = made(answer, answer, answer, answer, tools=[meet])
    async with editing(agent) as editor, anyio.create_task_group() as tasks:
        ada, bob = await editor.begin(), await editor.begin()
        assert ada != bob
        tasks.start_soon(editor.ask, ada, "ada")
        await editor.ask(bob, "bob")
        await editor.client.until(lambda: editor.client.said(ada) == "ada was here")
        assert editor.client.said(bob) == "bob was here"
        assert [call["rawInput"] for call in editor.client.shown("tool_call", bob)] == [{"who": "bob"}]
    assert all(len({it["content"] for it in asked.messages if it["role"] == "user"}) == 1 for asked in model.asked)


async def test_a_tool_that_fails_is_shown_as_failed() -> None:
    def broken() -> str:
        """Fail."""
        raise ValueError("no such city")

    agent, _ = made(calls(("broken", {}), ("nothing", "{")), say("Sorry."), tools=[broken])
    async with editing(agent) as editor:
        await editor.ask(await editor.begin(), "go")
        updates = editor.client.shown("tool_call_update")
    assert [update["status"] for update in updates] == ["failed", "failed"]
    told = {update["content"][0]["content"]["text"] for update in updates}
    assert "no such city" in told
    assert any("nothing" in problem for problem in told)


async def test_cancelling_ends_the_turn_and_its_tools() -> None:
    begun, ended = threading.Event(), threading.Event()

    def hang() -> str:
        """Wait until it is cancelled."""
        begun.set()
        if get_request_context().wait_cancelled(PATIENCE):
            ended.set()
        return "late"

    agent, model = made(call("hang"), say("Again."), tools=[hang])
    async with editing(agent) as editor:
        session = await editor.begin()
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await wait_in_thread(begun.wait)
                await editor.client.until(lambda: bool(editor.client.shown("tool_call")))
                await editor.connection.cancel(session)

            tasks.start_soon(cancel)
            assert (await editor.ask(session, "go")).stop_reason == "cancelled"
        await wait_in_thread(ended.wait)
        [over] = editor.client.shown("tool_call_update")
        assert (over["status"], over["content"][0]["content"]["text"]) == ("failed", "cancelled")
        assert (await editor.ask(session, "once more")).stop_reason == "end_turn"
    assert model.asked[1].last == {"role": "user", "content": "once more"}


async def test_one_prompt_at_a_time_is_answered_in_a_conversation() -> None:
    begun, go = threading.Event(), threading.Event()

    def hold() -> str:
        """Wait."""
        begun.set()
        assert go.wait(PATIENCE)
        return "done"

    agent, _ = made(call("hold"), say("Done."), tools=[hold])
    async with editing(agent) as editor:
        session = await editor.begin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(editor.ask, session, "go")
            await wait_in_thread(begun.wait)
            with pytest.raises(acp.RequestError, match="is answering a prompt; wait for its result"):
                await editor.ask(session, "and then?")
            go.set()


async def test_a_missing_model_is_said_in_the_conversation() -> None:
    agent, _ = made(ModelUnreachableError("Nothing answers at localhost:1.", "Start a model server."))
    async with editing(agent) as editor:
        ended = await editor.ask(await editor.begin(), "hello")
        assert ended.stop_reason == "end_turn"
        assert editor.client.said() == "Nothing answers at localhost:1. Start a model server."


async def test_what_went_wrong_in_an_agent_is_in_the_log_and_not_in_the_conversation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, _ = made(RuntimeError("the password is 123"))
    async with editing(agent) as editor:
        await editor.ask(await editor.begin(), "hello")
        said = editor.client.said()
    assert "The agent failed. The details are logged under reference" in said
    assert "123" not in said
    assert "the password is 123" in caplog.text


async def test_an_answer_that_was_cut_off_says_so() -> None:
    agent, _ = made(say("Once upon a", finish_reason="length"), say("No.", finish_reason="content_filter"))
    async with editing(agent) as editor:
        session = await editor.begin()
        assert (await editor.ask(session, "Tell me a story")).stop_reason == "max_tokens"
        assert (await editor.ask(session, "Tell me a secret")).stop_reason == "refusal"


class Scripted:
    """An agent that answers by itself, with all that an answer can consist of."""

    def get_mcp_tool_definitions(self) -> list[Any]:
        return []

    def execute_mcp_tool(self, tool_name: str, arguments: Any) -> Any:
        raise NotImplementedError

    async def answer_chat(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        assert request.events
        yield Thought("Hmm. ")
        yield Plan([{"content": "Answer", "status": "in_progress"}, {"content": "Rest", "priority": "low"}, "none"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
        yield "Yes"
        yield Reply("Yes, indeed.")


async def test_thoughts_and_plans_are_shown() -> None:
    async with editing(Scripted()) as editor:
        await editor.ask(await editor.begin(), "Well?")
        assert editor.client.shown("agent_thought_chunk")[0]["content"]["text"] == "Hmm. "
        [plan] = editor.client.shown("plan")
        assert editor.client.said() == "Yes, indeed."
    assert plan["entries"] == [
        {"content": "Answer", "status": "in_progress", "priority": "medium"},
        {"content": "Rest", "status": "pending", "priority": "low"},
    ]


async def test_what_a_model_thinks_is_shown_and_is_no_part_of_the_answer() -> None:
    class Thinking(FakeModel):
        async def stream(self, messages: Any, tools: Any = (), options: Any = None) -> AsyncGenerator[Any]:
            yield Thought("They want a yes.")
            async for piece in super().stream(messages, tools, options):
                yield piece

    agent = Agent(silent_mode=True, model=Thinking(say("Yes."), say("No.")))
    async with editing(agent) as editor:
        await editor.ask(await editor.begin(), "Well?")
        assert [it["content"]["text"] for it in editor.client.shown("agent_thought_chunk")] == ["They want a yes."]
        assert editor.client.said() == "Yes."
    agent = Agent(silent_mode=True, model=Thinking(say("No.")))
    assert agent.run("And now?") == "No."
    agent.close()


class OldAgent:
    """What AMD's agents look like: they answer a text with a dictionary."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get_mcp_tool_definitions(self) -> list[Any]:
        return []

    def execute_mcp_tool(self, tool_name: str, arguments: Any) -> Any:
        raise NotImplementedError

    def process_query(self, user_input: str) -> Any:
        self.asked.append(user_input)
        return {"status": "success", "result": f"You said: {user_input}"}


async def test_an_agent_that_answers_in_one_piece_is_shown_in_one_piece() -> None:
    agent = OldAgent()
    async with editing(agent) as editor:
        session = await editor.begin()
        assert (await editor.ask(session, "Hello")).stop_reason == "end_turn"
        assert editor.client.said() == "You said: Hello"
    assert agent.asked == ["Hello"]


async def test_an_api_agent_says_whether_its_model_takes_pictures() -> None:
    class Seeing(ApiAgent):
        """Sees."""

        def get_model_info(self) -> dict[str, Any]:
            return {**super().get_model_info(), "input_modalities": ["text", "image"]}

    model = FakeModel(say("A dot."))
    async with editing(Seeing(silent_mode=True, model=model)) as editor:
        told = await editor.connection.initialize(1)
        assert told.agent_capabilities.prompt_capabilities.image
        await editor.ask(await editor.begin(), "What is it?", acp.image_block("iVBORw0KGgo=", "image/png"))
    assert model.asked[0].last["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]


async def test_files_and_links_reach_the_agent() -> None:
    agent, model = made(say("I see."))
    async with editing(agent) as editor:
        session = await editor.begin()
        await editor.ask(
            session,
            "Compare ",
            acp.resource_link_block("a.py", "file:///p/a.py"),
            " with this",
            acp.resource_block(acp.embedded_text_resource("file:///p/b.py", "x = 1")),
        )
        with pytest.raises(acp.RequestError, match=r"prompt\[1\].type: 'image' came; expected one of text, resource_l"):
            await editor.ask(session, "And this?", acp.image_block("iVBORw0KGgo=", "image/png"))
    expected = 'Compare [a.py](file:///p/a.py) with this\n\n<file uri="file:///p/b.py">\nx = 1\n</file>'
    assert model.asked[0].last["content"] == expected


async def test_there_are_no_more_conversations_than_there_may_be() -> None:
    agent, _ = made()
    async with editing(agent, settings=Settings(acp=AcpLimits(sessions=1))) as editor:
        session = await editor.begin()
        with pytest.raises(acp.RequestError, match="there are 1 conversations already; close one with session/close"):
            await editor.begin()
        await editor.connection.close_session(session)
        await editor.begin()


async def test_a_closed_conversation_is_forgotten() -> None:
    agent, _ = made(say("Hello."))
    async with editing(agent) as editor:
        session = await editor.begin()
        await editor.ask(session, "Hello")
        assert len(agent.list_sessions()) == 1
        await editor.connection.close_session(session)
        assert agent.list_sessions() == []
        with pytest.raises(acp.RequestError, match="expected one that session/new has made, and that is not closed"):
            await editor.ask(session, "Hello?")


class Tidying(Scripted):
    """Has something to do before its turn is over."""

    def __init__(self) -> None:
        self.tidying, self.go = threading.Event(), threading.Event()

    async def answer_chat(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        try:
            yield "Begun."
            await asyncio.Event().wait()
        finally:
            self.tidying.set()
            await asyncio.to_thread(self.go.wait, PATIENCE)


async def test_a_conversation_is_not_closed_before_its_turn_is_over() -> None:
    agent, order = Tidying(), list[str]()
    async with editing(agent) as editor:
        session = await editor.begin()

        async def ask() -> None:
            order.append((await editor.ask(session, "go")).stop_reason)

        async def close() -> None:
            await editor.client.until(lambda: editor.client.said() == "Begun.")
            await editor.connection.close_session(session)
            order.append("closed")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(close)
            await wait_in_thread(agent.tidying.wait)
            for _ in range(3):  # what has been asked before is answered before
                await editor.connection.initialize(1)
            agent.go.set()
    assert order == ["cancelled", "closed"]


async def test_a_conversation_that_is_opened_twice_at_once_is_open(tmp_path: Path) -> None:
    agent, _ = made(say("Hello."), say("Again."), session_file=tmp_path / "sessions.db")
    async with editing(agent) as editor:
        session = await editor.begin()
        await editor.ask(session, "Hello")
        server, refused = stdio_server("up", "/no/such/program"), list[str]()

        async def load() -> None:
            try:
                await editor.connection.load_session(cwd="/", session_id=session, mcp_servers=[server])
            except acp.RequestError as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(load)
        assert [problem.partition(" was ")[2] for problem in refused] == [
            "closed, deleted or opened again while it was being opened"
        ]
        assert (await editor.ask(session, "Still there?")).stop_reason == "end_turn"


async def test_a_reload_of_nothing_is_refused() -> None:
    agent, _ = made()
    async with editing(agent) as editor:
        for ask in (editor.connection.load_session, editor.connection.resume_session):
            with pytest.raises(acp.RequestError, match="Method not found"):
                await ask(cwd="/", session_id="x", mcp_servers=[])
        with pytest.raises(acp.RequestError, match="methodId: 'x' came; expected no login at all"):
            await editor.connection.authenticate("x")


async def test_kept_conversations_are_listed_and_shown_again(tmp_path: Path) -> None:
    file, folder = tmp_path / "sessions.db", tmp_path / "work"
    agent, _ = made(call("forecast", city="Graz"), say("Rain."), tools=[forecast], session_file=file)
    async with editing(agent) as editor:
        session = await editor.begin(cwd=folder)
        await editor.ask(session, "What is the weather?")
        await editor.connection.close_session(session)
    agent.close()

    agent, model = made(say("Yes."), tools=[forecast], session_file=file)
    async with editing(agent) as editor:
        assert (await editor.connection.initialize(1)).agent_capabilities.load_session
        [listed] = (await editor.connection.list_sessions(cwd=str(folder))).sessions
        assert (listed.session_id, listed.cwd, listed.title) == (session, str(folder), "What is the weather?")
        assert (await editor.connection.list_sessions(cwd="/elsewhere")).sessions == []
        await editor.connection.load_session(cwd=str(folder), session_id=session, mcp_servers=[])
        kinds = [update["sessionUpdate"] for _, update in editor.client.updates]
        assert kinds == ["user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]
        await editor.ask(session, "Sure?")
        with pytest.raises(acp.RequestError, match="sessionId: 'x' came; expected one that session/list tells"):
            await editor.connection.load_session(cwd="/", session_id="x", mcp_servers=[])
        await editor.send("session/delete", sessionId=session)
        await editor.send("session/delete", sessionId=session)
        assert (await editor.connection.list_sessions()).sessions == []
        with pytest.raises(acp.RequestError, match=f"sessionId: '{session}' came"):
            await editor.ask(session, "Still there?")
    asked = [message["content"] for message in model.asked[0].messages if message["role"] == "user"]
    assert asked == ["What is the weather?", "Sure?"]
    agent.close()


async def test_the_shapes_of_a_result_are_shown_as_diffs_places_and_a_plan(tmp_path: Path) -> None:
    def edit_file(path: str) -> dict[str, Any]:
        """Edit a file."""
        return {
            "diffs": [{"path": path, "oldText": "x = 1", "newText": "x = 2"}],
            "locations": [{"path": path, "line": 3}],
            "plan": [{"content": "Edit", "status": "completed"}],
        }

    agent, _ = made(call("edit_file", path="a.py"), say("Done."), tools=[edit_file])
    async with editing(agent) as editor:
        await editor.ask(await editor.begin(cwd=tmp_path), "Edit it")
        [begun], [over] = editor.client.shown("tool_call"), editor.client.shown("tool_call_update")
        [plan] = editor.client.shown("plan")
    file = str(tmp_path / "a.py")
    assert (begun["kind"], begun["locations"]) == ("edit", [{"path": file}])
    assert over["content"][0] == {"type": "diff", "path": file, "oldText": "x = 1", "newText": "x = 2"}
    assert over["locations"] == [{"path": file, "line": 3}, {"path": file}]
    assert plan["entries"][0]["content"] == "Edit"


async def test_progress_is_shown_at_the_call() -> None:
    def dig() -> str:
        """Dig."""
        get_request_context().report_progress(1, 3, "digging")
        get_request_context().report_progress(2)
        return "deep"

    agent, _ = made(call("dig"), say("Done."), tools=[dig])
    async with editing(agent) as editor:
        await editor.ask(await editor.begin(), "Dig")
        told = [update["content"][0]["content"]["text"] for update in editor.client.shown("tool_call_update")]
    assert told[-1] == "deep"
    assert set(told[:-1]) <= {"digging (1/3)", "2"}


async def test_a_client_that_shows_nothing_of_calls_is_shown_text_alone() -> None:
    """The events are for whoever asks for them: nobody else's stream has anything but text in it."""
    agent, _ = made(call("forecast", city="Graz"), say("Rain."), tools=[forecast])
    pieces = [piece async for piece in agent.answer_chat(ChatRequest([{"role": "user", "content": "go"}]))]
    assert all(isinstance(piece, str | Reply) for piece in pieces)
    agent.close()
