"""The tool `ask`, where things go otherwise than one answer after one question."""

from __future__ import annotations

import threading
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import anyio
import pytest

from gaia.agents.base import Agent
from gaia.llm import ModelError, Reply
from gaia_bridge import Bridge, Client
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import DEADLINE, ERAS, client_of
from tests.support.bridges import text_of
from tests.support.fake_model import FakeModel, say
from tests.support.on_demand import mcp_types
from tests.support.waiting import after_collection, until

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


class SlowModel(FakeModel):
    """Says a word, and then no more until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.began: list[str] = []
        self.ended = threading.Event()
        self.may_go_on = threading.Event()  # the model is asked on another loop

    async def stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[str | Reply]:
        prompt = str(messages[-1]["content"])
        self.began.append(prompt)
        try:
            yield f"about {prompt}"
            await anyio.to_thread.run_sync(self.may_go_on.wait, DEADLINE, abandon_on_cancel=True)
            yield ": done"
            yield Reply(f"about {prompt}: done")
        finally:
            self.ended.set()


class Told:
    """What came as progress."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.came = anyio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.texts.append(message or "")
        self.came.set()


@in_each_era
async def test_a_client_that_cancels_ends_the_turn_and_the_next_question_is_answered(era: str) -> None:
    model = SlowModel()
    async with Bridge() as bridge, anyio.create_task_group() as tasks:
        await bridge.add_agent(Agent(silent_mode=True, model=model), "helper")
        async with client_of(bridge.sdk_server(), era) as client:
            told, scope = Told(), anyio.CancelScope()

            async def ask() -> None:
                with scope:
                    await client.call_tool("ask", {"prompt": "one", "session": "s"}, progress_callback=told)

            tasks.start_soon(ask)
            with anyio.fail_after(DEADLINE):
                await told.came.wait()
            scope.cancel()
            assert await anyio.to_thread.run_sync(model.ended.wait, DEADLINE)
            assert told.texts == ["about one"]
            model.may_go_on.set()
            answer = await client.call_tool("ask", {"prompt": "two", "session": "s"})
            assert answer.structured_content is not None
            assert answer.structured_content["answer"] == "about two: done"


@in_each_era
async def test_two_clients_at_once_are_told_each_its_own_answer(era: str) -> None:
    model = SlowModel()
    answers: dict[str, tuple[str, str]] = {}
    async with Bridge() as bridge:
        await bridge.add_agent(Agent(silent_mode=True, model=model), "helper")

        async def ask(prompt: str, told: Told) -> None:
            async with client_of(bridge.sdk_server(), era) as client:
                answer = await client.call_tool("ask", {"prompt": prompt}, progress_callback=told)
                answers[prompt] = (text_of(answer), "".join(told.texts))

        both = Told(), Told()
        async with anyio.create_task_group() as asking:
            for prompt, told in zip(("roses", "tulips"), both, strict=True):
                asking.start_soon(ask, prompt, told)
            with anyio.fail_after(DEADLINE):
                for told in both:
                    await told.came.wait()
            assert sorted(model.began) == ["roses", "tulips"]  # side by side
            model.may_go_on.set()
    assert answers == {it: (f"about {it}: done", f"about {it}: done") for it in ("roses", "tulips")}


@in_each_era
@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (
            ModelError("no model server at http://localhost:1; start one"),
            "no model server at http://localhost:1; start one",
        ),
        (KeyError("secret"), "failed with KeyError; the details are logged under reference"),
    ],
    ids=["ModelError", "KeyError"],
)
async def test_a_model_that_fails_is_an_error_of_that_call_and_not_of_the_session(
    era: str, failure: Exception, shown: str
) -> None:
    model = FakeModel(say("one"), failure, say("three"))
    async with Bridge() as bridge:
        await bridge.add_agent(Agent(silent_mode=True, model=model), "helper")
        async with client_of(bridge.sdk_server(), era) as client:
            said = [await client.call_tool("ask", {"prompt": "a", "session": "s"})]
            assert said[0].structured_content is not None
            session = said[0].structured_content["session"]
            said += [await client.call_tool("ask", {"prompt": it, "session": session}) for it in "bc"]
    assert [answer.is_error for answer in said] == [False, True, False]
    assert shown in text_of(said[1])
    assert "secret" not in text_of(said[1])
    assert [item["content"] for item in model.asked[-1].messages if item["role"] != "system"] == ["a", "one", "c"]


@in_each_era
async def test_a_model_that_fails_in_the_middle_has_told_what_it_said(era: str) -> None:
    class Broken(FakeModel):
        async def stream(
            self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
        ) -> AsyncGenerator[str | Reply]:
            yield "half"
            raise ModelError("the server hung up")

    told = Told()
    async with Bridge() as bridge:
        await bridge.add_agent(Agent(silent_mode=True, model=Broken()), "helper")
        async with client_of(bridge.sdk_server(), era) as client:
            answer = await client.call_tool("ask", {"prompt": "a"}, progress_callback=told)
    assert answer.is_error
    assert "the server hung up" in text_of(answer)
    assert "".join(told.texts) == "half"


@in_each_era
async def test_without_a_model_and_without_sampling_it_says_what_to_do(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in NO_MODEL:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GAIA_BASE_URL", "")
    async with Bridge() as bridge:
        await bridge.add_agent(Agent(silent_mode=True), "helper")
        async with client_of(bridge.sdk_server(), era) as client:
            answer = await client.call_tool("ask", {"prompt": "a"})
    assert answer.is_error
    assert "GAIA_BASE_URL" in text_of(answer) or "GAIA_MODEL" in text_of(answer), text_of(answer)
    assert "Traceback" not in text_of(answer)


async def test_a_clients_model_that_fails_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in NO_MODEL:
        monkeypatch.delenv(variable, raising=False)

    async def sample(context: Any, params: Any) -> Any:
        return mcp_types.ErrorData(code=-1, message="the user said no")

    async with Bridge() as bridge:
        await bridge.add_agent(Agent(silent_mode=True), "helper")
        async with client_of(bridge.sdk_server(), "legacy", sampling_callback=sample) as client:
            answer = await client.call_tool("ask", {"prompt": "a"})
    assert answer.is_error
    assert "gave no answer: the client refused sampling/createMessage: the user said no. Try again" in text_of(answer)


@in_each_era
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [({}, "prompt"), ({"prompt": 1}, "/prompt"), ({"prompt": "a", "session": ""}, "/session")],
    ids=["none", "number", "empty session"],
)
async def test_a_question_that_is_none_is_refused_before_the_model_is_asked(
    era: str, arguments: dict[str, Any], problem: str
) -> None:
    model = FakeModel()
    async with Bridge() as bridge:
        await bridge.add_agent(Agent(silent_mode=True, model=model), "helper")
        async with client_of(bridge.sdk_server(), era) as client:
            answer = await client.call_tool("ask", arguments)
    assert answer.is_error
    assert problem in text_of(answer)
    assert model.asked == []


async def test_an_agent_that_was_asked_by_a_client_is_freed_with_its_last_reference() -> None:
    """What it keeps for its conversations goes on in no request: that would lead back to the agent."""
    agent = Agent(model=FakeModel(say("hi")), silent_mode=True)
    freed = weakref.ref(agent)
    async with Client(agent) as client:
        assert (await client.call_tool("ask", prompt="Hello")).text == "hi"
    del agent, client
    await until(after_collection(lambda: freed() is None))
