"""Before a tool runs that may destroy something, somebody is asked: the client's user, or whoever is at the console."""

from __future__ import annotations

import threading
from copy import copy
from functools import partial
from typing import Any

import anyio
import pytest

from gaia.agents.base import Agent, MCPAgent, Tool
from gaia.agents.base.console import Console, SilentConsole
from gaia.agents.base.tools import tool
from gaia.agents.chat.limits import ChatLimits
from gaia_bridge.chat_types import Reply
from tests.support.bridges import both_eras, running_bridge, text_of
from tests.support.fake_model import Answer, FakeModel, call, calls, say
from tests.support.fake_model import Asked as AskedModel
from tests.support.on_demand import mcp_context, mcp_types
from tests.support.waiting import PATIENCE, wait_in_thread


class Asked(SilentConsole):
    """A console with somebody who answers."""

    def __init__(self, answer: Any = True) -> None:
        self.answer = answer
        self.questions: list[tuple[str, Any]] = []

    def confirm_tool_execution(self, tool_name: str, arguments: Any, timeout: float = 0) -> bool:
        self.questions.append((tool_name, arguments))
        if isinstance(self.answer, BaseException):
            raise copy(self.answer)  # one that is kept keeps all frames that it has passed
        return self.answer  # type: ignore[no-any-return]


class Wiper(Tool):
    """A tool that may destroy something."""

    def __init__(self, **hints: bool) -> None:
        super().__init__("wipe", "Wipe", {"type": "object"}, {"destructiveHint": True, **hints})
        self.wiped: list[Any] = []

    def call(self, /, **kwargs: Any) -> Any:
        self.wiped.append(kwargs)
        return "wiped"


def told(console: Any, wiper: Wiper, *answers: Answer, **options: Any) -> Any:
    """What the model is told when it calls the tool."""

    class Careful(Agent):
        def _create_console(self) -> Console:
            return console  # type: ignore[no-any-return]

    model = FakeModel(*(answers or (call("wipe", path="/"), say("ok"))))
    assert Careful(model=model, tools=[wiper], **options).run("go") == "ok"
    return model.asked[-1].results()[0]


def test_a_destructive_tool_runs_when_it_is_confirmed() -> None:
    console, wiper = Asked(), Wiper()
    assert told(console, wiper) == "wiped"
    assert console.questions == [("wipe", {"path": "/"})]


@pytest.mark.parametrize("answer", [False, None, "yes", RuntimeError("broken"), SystemExit()])
def test_everything_but_yes_is_no_and_the_model_is_told(answer: Any) -> None:
    wiper = Wiper()
    assert told(Asked(answer), wiper)["error"] == (
        "wipe was not run: it may destroy something, and nobody confirmed it. "
        "Do not try again; say what you wanted to do."
    )
    assert wiper.wiped == []


def test_a_console_that_cannot_ask_says_no() -> None:
    wiper = Wiper()
    assert "nobody confirmed" in told(object(), wiper)["error"]
    assert "nobody confirmed" in told(SilentConsole(), wiper)["error"]
    assert wiper.wiped == []


def test_a_question_that_nobody_answers_is_no() -> None:
    free = threading.Event()

    class Slow(Asked):
        def confirm_tool_execution(self, tool_name: str, arguments: Any, timeout: float = 0) -> bool:
            return free.wait(PATIENCE)

    assert "nobody confirmed" in told(Slow(), Wiper(), chat_limits=ChatLimits(confirm_timeout=0.05))["error"]
    free.set()


def test_the_author_can_say_that_nobody_is_to_be_asked() -> None:
    console, wiper = Asked(False), Wiper()
    assert told(console, wiper, confirm_destructive=False) == "wiped"
    assert console.questions == []


def test_a_tool_that_only_reads_is_never_asked_about() -> None:
    console = Asked(False)
    assert told(console, Wiper(readOnlyHint=True)) == "wiped"
    assert console.questions == []


def test_questions_are_put_one_after_the_other() -> None:
    console, wiper = Asked(), Wiper()
    told(console, wiper, calls(("wipe", {"n": 1}), ("wipe", {"n": 2})), say("ok"))
    assert sorted(arguments["n"] for _, arguments in console.questions) == [1, 2]


def test_what_a_decorated_function_said_of_itself_counts_where_it_is_given_as_a_tool() -> None:
    ran: list[str] = []

    @tool(destructive=True, timeout=7)
    def wipe() -> None:
        """Wipe."""
        ran.append("wiped")

    model = FakeModel(call("wipe"), say("ok"))
    agent = Agent(silent_mode=True, model=model, tools=[wipe])
    agent.run("go")
    assert ran == []
    assert agent.tool_registry["wipe"]["timeout"] == 7


class Published(MCPAgent):
    """An agent that thinks for its clients."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": "ask", "inputSchema": {"type": "object"}}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        return self.run("go", session_id=arguments.get("session", "default"))


def published(wiper: Wiper) -> Published:
    def answer(asked: AskedModel) -> Reply:
        return say(str(asked.results()[0])) if asked.results() else call("wipe", path="/")

    return Published(silent_mode=True, model=FakeModel(*[answer] * 4), tools=[wiper])


@both_eras
@pytest.mark.parametrize("agrees", [True, False])
@pytest.mark.anyio
async def test_the_user_of_the_client_is_asked_that_the_agent_works_for(mode: str, agrees: bool) -> None:
    questions: list[str] = []

    async def answer(
        context: mcp_context.ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        questions.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"run": agrees})

    wiper = Wiper()
    async with running_bridge(published(wiper)) as bridge, bridge.client(mode, elicitation_callback=answer) as client:
        text = text_of(await client.call_tool("ask", {}))
    assert questions == ['wipe may destroy something. Run it with {"path": "/"}?']
    assert wiper.wiped == ([{"path": "/"}] if agrees else [])
    assert ("wiped" in text) is agrees


@pytest.mark.parametrize(("mode", "how"), [("auto", "decline"), ("legacy", "cancel"), ("legacy", "error")])
@pytest.mark.anyio
async def test_a_client_that_does_not_agree_says_no(mode: str, how: Any) -> None:
    async def answer(
        context: mcp_context.ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        return mcp_types.ErrorData(code=-1, message="broken") if how == "error" else mcp_types.ElicitResult(action=how)

    wiper = Wiper()
    async with running_bridge(published(wiper)) as bridge, bridge.client(mode, elicitation_callback=answer) as client:
        result = await client.call_tool("ask", {})
    assert wiper.wiped == []
    assert "nobody confirmed" in text_of(result)


@pytest.mark.anyio
async def test_a_client_that_leaves_a_question_open_holds_up_no_other() -> None:
    open_question, first_leaves = anyio.Event(), anyio.Event()

    async def wait(
        context: mcp_context.ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        open_question.set()
        await first_leaves.wait()
        return mcp_types.ElicitResult(action="cancel")

    async def agree(
        context: mcp_context.ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action="accept", content={"run": True})

    wiper = Wiper()
    async with (
        running_bridge(published(wiper)) as bridge,
        bridge.client("legacy", elicitation_callback=wait) as slow,
        bridge.client("legacy", elicitation_callback=agree) as quick,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(slow.call_tool, "ask", {"session": "slow"}))
        await open_question.wait()
        result = await quick.call_tool("ask", {"session": "quick"})
        assert text_of(result) == "wiped"
        first_leaves.set()


@pytest.mark.anyio
async def test_the_console_is_asked_where_the_client_cannot_be() -> None:
    wiper = Wiper()
    agent = published(wiper)
    agent.console = Asked(True)
    async with running_bridge(agent) as bridge, bridge.client("legacy") as client:
        assert text_of(await client.call_tool("ask", {})) == "wiped"


@pytest.mark.anyio
async def test_a_client_that_leaves_ends_what_the_agent_does_for_it() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    agent = Published(silent_mode=True, model=FakeModel(call("work")), tools=[work])
    async with running_bridge(agent) as bridge, bridge.client("legacy") as client, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(client.call_tool, "ask"))
        await wait_in_thread(begun.wait)
        tasks.cancel_scope.cancel()
    await wait_in_thread(ended.wait)
