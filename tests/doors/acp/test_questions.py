"""What an agent asks a person at an editor: whether a tool may run, yes or no, and forms."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gaia.agents.base import Agent, get_request_context, tool
from gaia_bridge.settings import AgentLimits, Settings
from tests.support.editors import EditorClient, editing
from tests.support.fake_model import FakeModel, call, made, say

pytestmark = pytest.mark.anyio


class Deleting(Agent):
    """Can destroy something."""

    def _register_tools(self) -> None:
        self.deleted: list[str] = []

        @tool(annotations={"destructiveHint": True})
        def delete_file(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return f"deleted {path}"


def deleting(*paths: str) -> tuple[Deleting, FakeModel]:
    """An agent that deletes one file in each turn."""
    answers = [answer for path in paths for answer in (call("delete_file", path=path), say("Done."))]
    model = FakeModel(*answers)
    return Deleting(silent_mode=True, model=model), model


async def test_a_tool_that_may_destroy_something_runs_once_it_is_allowed() -> None:
    agent, _ = deleting("/a", "/b")
    async with editing(agent) as editor:
        session = await editor.begin()
        await editor.ask(session, "Delete a")
        await editor.ask(session, "Delete b")
        asked = editor.client.permissions
        [begun, _] = editor.client.shown("tool_call")
    assert agent.deleted == ["/a", "/b"]
    assert len(asked) == 2
    assert asked[0]["session"] == session
    assert all(permission["is_known"] for permission in asked), "no call is asked about before it is shown"
    assert asked[0]["options"] == {"allow": "allow_once", "allow_always": "allow_always", "reject": "reject_once"}
    assert asked[0]["call"] == {
        "toolCallId": begun["toolCallId"],
        "title": "delete_file",
        "kind": "delete",
        "status": "pending",
        "rawInput": {"path": "/a"},
    }


async def test_what_is_always_allowed_is_not_asked_again_in_that_conversation() -> None:
    agent, _ = deleting("/a", "/b", "/c")
    async with editing(agent, EditorClient("allow_always")) as editor:
        session = await editor.begin()
        await editor.ask(session, "Delete a")
        await editor.ask(session, "Delete b")
        assert len(editor.client.permissions) == 1
        await editor.ask(await editor.begin(), "Delete c")
        assert len(editor.client.permissions) == 2
    assert agent.deleted == ["/a", "/b", "/c"]


@pytest.mark.parametrize("choice", ["reject", None, "nonsense"])
async def test_what_is_not_allowed_does_not_run(choice: str | None) -> None:
    agent, model = deleting("/a")
    async with editing(agent, EditorClient(choice)) as editor:
        await editor.ask(await editor.begin(), "Delete a")
        [over] = editor.client.shown("tool_call_update")
    assert agent.deleted == []
    assert over["status"] == "failed"
    assert "nobody confirmed it" in model.asked[1].last["content"]


async def test_cancelling_takes_a_question_back() -> None:
    agent, _ = deleting("/a")
    client = EditorClient()
    client.gate = anyio.Event()
    async with editing(agent, client) as editor:
        session = await editor.begin()
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await client.until(lambda: bool(client.permissions))
                await editor.connection.cancel(session)

            tasks.start_soon(cancel)
            assert (await editor.ask(session, "Delete a")).stop_reason == "cancelled"
        client.gate.set()
    assert agent.deleted == []


async def test_a_question_that_nobody_answers_is_given_up() -> None:
    agent, model = deleting("/a")
    client = EditorClient()
    client.gate = anyio.Event()
    async with editing(agent, client, settings=Settings(agent=AgentLimits(question_timeout=0.01))) as editor:
        assert (await editor.ask(await editor.begin(), "Delete a")).stop_reason == "end_turn"
        client.gate.set()
    assert agent.deleted == []
    assert "nobody confirmed it" in model.asked[1].last["content"]


def yes_or_no() -> str:
    """Ask whether to go on."""
    answer = get_request_context().elicit("Go on?", {"go": {"type": "boolean"}})
    return f"{answer.action} {dict(answer.content)}"


def which() -> str:
    """Ask for a city."""
    answer = get_request_context().elicit("Which city?", {"city": {"type": "string"}})
    return f"{answer.action} {dict(answer.content)}"


async def awhich() -> str:
    """Ask for a city, in a coroutine."""
    answer = await get_request_context().aelicit("Which city?", {"city": {"type": "string"}})
    return f"{answer.action} {dict(answer.content)}"


def link() -> str:
    """Ask to open a link."""
    return get_request_context().elicit_url("Pay", "https://pay.example/1").action


def roots() -> Any:
    """Tell the folders."""
    return [root["uri"] for root in get_request_context().list_roots()]


def sample() -> str:
    """Ask the client's model."""
    return str(get_request_context().sample("Hello", 10))


@pytest.mark.parametrize(("choice", "told"), [("allow", {"go": True}), ("reject", {"go": False})])
async def test_yes_and_no_are_asked_of_an_editor_without_forms(choice: str, told: Any) -> None:
    agent, model = made(call("yes_or_no"), say("Done."), tools=[yes_or_no])
    async with editing(agent, EditorClient(choice)) as editor:
        await editor.ask(await editor.begin(), "go")
        [asked], [begun] = editor.client.permissions, editor.client.shown("tool_call")
        [over, _] = editor.client.shown("tool_call_update")
    assert (over["title"], over["status"]) == ("yes_or_no", "in_progress"), "the question is no longer its title"
    assert model.asked[1].results() == [f"accept {told}"]
    assert asked["options"] == {"allow": "allow_once", "reject": "reject_once"}
    assert (asked["call"]["toolCallId"], asked["call"]["title"]) == (begun["toolCallId"], "Go on?")


async def test_other_forms_are_refused_where_an_editor_has_none() -> None:
    agent, model = made(call("which"), say("Done."), tools=[which])
    async with editing(agent) as editor:
        await editor.ask(await editor.begin(), "go")
        assert (editor.client.permissions, editor.client.forms) == ([], [])
    assert "this editor shows no forms" in str(model.asked[1].results()[0])


@pytest.mark.parametrize(("fill", "told"), [({"city": "Graz"}, "accept {'city': 'Graz'}"), (None, "decline {}")])
@pytest.mark.parametrize("ask", [which, awhich])
async def test_forms_are_shown_where_an_editor_has_them(ask: Any, fill: Any, told: str) -> None:
    agent, model = made(call(ask.__name__), say("Done."), tools=[ask])
    async with editing(agent, EditorClient(fill=fill), forms=True) as editor:
        session = await editor.begin()
        await editor.ask(session, "go")
        [form], [begun] = editor.client.forms, editor.client.shown("tool_call")
    assert model.asked[1].results() == [told]
    assert (form["message"], form["sessionId"], form["toolCallId"]) == ("Which city?", session, begun["toolCallId"])
    assert form["requestedSchema"]["properties"] == {"city": {"type": "string"}}


async def test_the_options_of_a_form_have_titles_as_editors_want_them() -> None:
    def choose() -> str:
        """Ask for a day."""
        days = {"type": "string", "enum": ["fri", "sat"], "enumNames": ["Friday", "Saturday"]}
        dishes = {"type": "array", "items": {"anyOf": [{"const": "soup"}, {"const": "b", "title": "Bread"}]}}
        answer = get_request_context().elicit("When?", {"day": days, "dishes": dishes})
        return str(answer.content)

    agent, _ = made(call("choose"), say("Done."), tools=[choose])
    async with editing(agent, EditorClient(fill={"day": "fri", "dishes": []}), forms=True) as editor:
        await editor.ask(await editor.begin(), "go")
        [form] = editor.client.forms
    fields = form["requestedSchema"]["properties"]
    assert fields["day"]["oneOf"] == [{"const": "fri", "title": "Friday"}, {"const": "sat", "title": "Saturday"}]
    assert [option["title"] for option in fields["dishes"]["items"]["anyOf"]] == ["soup", "Bread"]


async def test_the_folders_of_a_conversation_are_the_roots_of_its_tools() -> None:
    agent, model = made(call("roots"), say("Done."), tools=[roots])
    async with editing(agent) as editor:
        await editor.ask(await editor.begin(cwd="/src", additional_directories=["/lib"]), "go")
    assert model.asked[1].results() == [["file:///src", "file:///lib"]]
    assert "works in the folder /src. They also work in /lib." in model.asked[0].system


@pytest.mark.parametrize("ask", [link, sample])
async def test_what_no_editor_can_be_asked_is_refused(ask: Any) -> None:
    agent, model = made(call(ask.__name__), say("Done."), tools=[ask])
    async with editing(agent) as editor:
        await editor.ask(await editor.begin(), "go")
    assert "which the client did not declare" in str(model.asked[1].results()[0])
