"""One loop behind run, stream, chat, process_query and answer_chat: from any thread and loop, gone with its agent."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia.agents.base import Agent
from gaia.agents.chat.limits import ChatLimits
from gaia.agents.chat.requests import TurnRequest
from gaia.agents.chat.turn_stream import discard
from gaia.background_loop import BACKGROUND
from gaia_bridge.chat_types import Reply
from gaia_bridge.errors import ModelError, ModelUnreachableError
from gaia_bridge.text.json_types import JSON
from tests.support.fake_model import Asked, FakeModel, call, calls, made, replied, say
from tests.support.processes import threads_named
from tests.support.waiting import PATIENCE, after_collection, eventually, wait_in_thread

HERE = Path(__file__).parents[3]


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def script() -> list[Any]:
    return [call("add", a=1, b=2), say("It is three")]


def in_pieces(agent: Agent, prompt: str) -> str:
    return "".join(agent.stream(prompt))


def in_a_loop(agent: Agent, prompt: str) -> str:
    return asyncio.run(agent.chat(prompt))


def as_a_model(agent: Agent, prompt: str) -> str:
    return asyncio.run(replied(agent, prompt))[0].text


@pytest.mark.requirement("S2-15", "S4-26", "S0-64")
@pytest.mark.parametrize("ask", [Agent.run, Agent.process_query, in_pieces, in_a_loop, as_a_model])
def test_every_way_to_ask_gives_the_same_answer(ask: Callable[..., str]) -> None:
    agent, model = made(*script(), tools=[add])
    assert ask(agent, "1 + 2?") == "It is three"
    assert model.asked[-1].results() == [3]


@pytest.mark.anyio
async def test_it_works_inside_of_a_running_loop() -> None:
    agent, _ = made(*script() * 3, tools=[add])
    assert agent.run("go") == "It is three"
    assert "".join(agent.stream("go")) == "It is three"
    assert await agent.chat("go") == "It is three"


def test_it_works_from_many_threads_and_many_loops_at_once() -> None:
    def echo(asked: Asked) -> Reply:
        [number] = [message["content"] for message in asked.messages if message["role"] == "user"]
        return say(f"{number}: {asked.results()[0]}") if asked.results() else call("add", a=int(number), b=1)

    agent, _ = made(*[echo] * 80, tools=[add])

    async def chat(number: int) -> str:
        return await agent.chat(f"{number}", f"s{number}")

    with ThreadPoolExecutor(16) as pool:
        asked = [
            pool.submit(agent.run, f"{number}", session_id=f"s{number}")
            if number % 2
            else pool.submit(asyncio.run, chat(number))
            for number in range(40)
        ]
        assert [answer.result(PATIENCE * 2) for answer in asked] == [f"{number}: {number + 1}" for number in range(40)]


@pytest.mark.parametrize("prompt", [None, 5, ["x"]])
def test_a_prompt_is_text(prompt: Any) -> None:
    agent, _ = made()
    with pytest.raises(TypeError, match="a prompt is text; got a "):
        agent.run(prompt)
    with pytest.raises(TypeError, match="a prompt is text"):
        agent.stream(prompt)


def test_half_a_character_in_a_prompt_or_an_answer_poisons_no_session() -> None:
    agent, model = made(say("half \ud800"), say("ok"))
    agent.run("half \ud83d")
    agent.run("go")
    assert [message["content"] for message in model.asked[-1].messages] == ["half ?", "half ?", "go"]


@pytest.mark.parametrize(
    "error", [ModelUnreachableError("Nobody there.", "Start it."), ValueError("of its own"), TimeoutError("slow")]
)
def test_a_failure_of_the_model_is_raised_and_the_session_is_as_before(error: Exception) -> None:
    agent, _ = made(say("A"), call("add", a=1, b=2), error, say("B"), tools=[add])
    agent.run("one")
    with pytest.raises(type(error), match=str(error)):
        agent.run("two")
    agent.run("three")
    assert [message["content"] for message in agent.get_session_history("default")[1:]] == ["one", "A", "three", "B"]


def test_a_turn_that_takes_too_long_says_so() -> None:
    free = threading.Event()

    def hang() -> None:
        free.wait(PATIENCE)

    agent, _ = made(call("hang"), say("B"), tools=[hang], chat_limits=ChatLimits(turn_timeout=0.05))
    with pytest.raises(
        ModelError, match=r"There was no answer within 0\.05 seconds\. Ask for less, or raise turn_timeout"
    ):
        agent.run("go")
    free.set()


@pytest.mark.parametrize("ends", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_an_agents_own_code_cannot_end_the_loop_that_everybody_uses(ends: type[BaseException]) -> None:
    class Rude(Agent):
        def _get_system_prompt(self) -> str:
            raise ends  # made anew: one that is kept would keep the agent, by its traceback

    with BACKGROUND.acquire() as lease:
        with pytest.raises(RuntimeError, match=f"the agent's own code ended the turn: {ends.__name__}"):
            Rude(silent_mode=True, model=FakeModel(say("never"))).run("go")
        assert lease.is_alive


def test_a_model_cannot_end_the_loop_that_everybody_uses() -> None:
    def leave(_: Asked) -> Reply:
        raise SystemExit(3)

    agent, _ = made(leave)
    with BACKGROUND.acquire() as lease:
        with pytest.raises(RuntimeError, match="ended the turn: SystemExit: 3"):
            agent.run("go")
        assert lease.is_alive


def test_a_tool_that_asks_its_own_agent_in_the_same_session_is_told_so() -> None:
    def ask() -> str:
        """Ask."""
        return agent.run("and you?")

    async def ask_too() -> str:
        """Ask, too."""
        return await agent.chat("and you?")

    agent, model = made(calls(("ask", {}), ("ask_too", {})), say("ok"), tools=[ask, ask_too])
    assert agent.run("go") == "ok"
    for told in model.asked[-1].results():
        assert told["error"] == (
            "session 'default' is waiting for this very tool; a tool that asks its own agent needs another session_id"
        )


def test_a_tool_can_ask_its_own_agent_in_another_session() -> None:
    def ask() -> str:
        """Ask."""
        return agent.run("and you?", session_id="another")

    agent, model = made(call("ask"), say("I am fine"), say("ok"), tools=[ask], chat_limits=ChatLimits(threads=1))
    assert agent.run("go") == "ok"
    assert model.asked[-1].results() == ["I am fine"]


def test_a_circle_of_agents_is_found() -> None:
    def ask_second() -> str:
        """Ask the second."""
        return second.run("go")

    def ask_first() -> str:
        """Ask the first."""
        return first.run("go")

    first, of_first = made(call("ask_second"), say("done"), tools=[ask_second])
    second, of_second = made(call("ask_first"), say("second"), tools=[ask_first])
    assert first.run("go") == "done"
    assert of_first.asked[-1].results() == ["second"]
    assert "is waiting for this very tool" in of_second.asked[-1].results()[0]["error"]


def test_what_a_tool_begins_may_go_on_in_the_session_when_the_turn_is_over() -> None:
    over, answers = threading.Event(), list[str]()

    async def later() -> None:
        """Come back to it later."""

        async def go_on() -> None:
            await anyio.to_thread.run_sync(over.wait, PATIENCE)
            answers.append(await agent.chat("it is later"))

        tasks.append(asyncio.create_task(go_on()))

    tasks: list[asyncio.Task[None]] = []
    agent, _ = made(call("later"), say("ok"), say("now"), tools=[later])
    agent.run("go")
    over.set()
    eventually(lambda: answers == ["now"])


@pytest.mark.anyio
async def test_cancelling_a_chat_cancels_its_tools_and_leaves_the_session_as_before() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    agent, _ = made(call("hang"), say("B"), tools=[hang])
    chat = asyncio.create_task(agent.chat("go"))
    await wait_in_thread(begun.wait)
    chat.cancel()
    with pytest.raises(asyncio.CancelledError):
        await chat
    await wait_in_thread(cancelled.wait)
    assert await agent.chat("again") == "B"
    assert len(agent.get_session_history("default")) == 3


def test_closing_ends_a_turn_that_is_played_and_what_it_holds() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    agent, model = made(call("hang"), tools=[hang])
    with BACKGROUND.acquire(), ThreadPoolExecutor(1) as pool:  # somebody else keeps the loop alive
        answer = pool.submit(agent.run, "go")
        assert begun.wait(PATIENCE)
        agent.close()
        with pytest.raises(RuntimeError, match="this agent was closed"):
            answer.result(PATIENCE)
        assert cancelled.wait(PATIENCE)
    assert model.closed == 1


def test_a_turn_that_begins_while_its_agent_is_closed_says_so() -> None:
    agent, model = made(say("never"))
    engine = agent._chat  # pyright: ignore[reportPrivateUsage]  # a moment that no test of the whole can hit
    seat, narrator = engine._seat()  # pyright: ignore[reportPrivateUsage]
    agent.close()
    play = partial(engine._play, seat, narrator, TurnRequest.of("go", "s", True, None), discard)  # pyright: ignore[reportPrivateUsage]
    with BACKGROUND.acquire() as lease, pytest.raises(RuntimeError, match="this agent was closed"):
        lease.run(play)
    assert model.asked == []


def test_an_agent_that_was_closed_says_so_and_can_be_closed_again() -> None:
    agent, model = made(say("ok"))
    agent.run("go")
    agent.close()
    agent.close()
    assert model.closed == 1
    for use in (lambda: agent.run("go"), agent.list_sessions, lambda: list(agent.stream("go"))):
        with pytest.raises(RuntimeError, match="this Agent was closed; make a new one to converse with"):
            use()
    with pytest.raises(RuntimeError, match="was closed"):
        asyncio.run(agent.chat("go"))


def test_an_agent_that_never_conversed_can_be_closed() -> None:
    agent, model = made()
    before = leases()
    agent.close()
    assert (model.closed, leases()) == (0, before)


def test_a_tool_can_close_its_own_agent() -> None:
    def leave() -> None:
        agent.close()

    agent, _ = made(call("leave"), say("never"), tools=[leave])
    with pytest.raises(RuntimeError, match="closed|has ended"):
        agent.run("go")


def leases() -> int:
    return BACKGROUND._leases  # pyright: ignore[reportPrivateUsage]  # nobody else needs to know


def test_a_forgotten_agent_leaves_no_thread_no_lease_and_no_open_model() -> None:
    class Forgotten(Agent):
        """One that has threads of its own name."""

    async def greet() -> str:
        """Greet."""
        return "hello"

    gc.collect()
    before = leases()
    model = FakeModel(calls(("add", {"a": 1, "b": 2}), ("greet", {})), say("ok"))
    agent = Forgotten(model=model, tools=[add, greet])
    assert agent.run("go") == "ok"
    assert threads_named("agent Forgotten")
    gone = weakref.ref(agent)
    del agent
    eventually(after_collection(lambda: gone() is None))
    eventually(lambda: not threads_named("agent Forgotten") and leases() <= before)
    assert model.closed == 1


def test_an_agent_that_was_closed_and_then_forgotten_closes_its_model_once() -> None:
    agent, model = made(say("ok"))
    with BACKGROUND.acquire() as lease:
        agent.run("go")
        agent.close()
        del agent
        gc.collect()
        lease.run(anyio.lowlevel.checkpoint)
    assert model.closed == 1


@pytest.mark.parametrize("ending", ["", "agent.close()", "del agent"])
def test_a_program_ends_by_itself_whatever_it_leaves_behind(ending: str) -> None:
    program = f"""
import threading
from gaia.agents.base import Agent
from tests.support.fake_model import FakeModel, call, say

def hang() -> None:
    threading.Event().wait()

agent = Agent(model=FakeModel(call("hang"), say("ok")), tools=[hang])
agent.tool_registry["hang"]["timeout"] = 0.05
print(agent.run("go"))
{ending}
"""
    ended = run(program)
    assert (ended.stdout, ended.returncode) == ("ok\n", 0)
    assert "Traceback" not in ended.stderr


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, timeout=30, check=False
    )


CTRL_C = """
import os, signal, threading
from gaia.agents.base import Agent
from tests.support.fake_model import FakeModel, call, say

cancelled = threading.Event()

async def hang() -> None:
    import asyncio
    try:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
    finally:
        cancelled.set()

signal.signal(signal.SIGINT, signal.default_int_handler)
agent = Agent(silent_mode=True, model=FakeModel(call("hang"), say("still there")), tools=[hang])
try:
    {ask}
except KeyboardInterrupt:
    print("interrupted", cancelled.wait(10), agent.run("again"), len(agent.get_session_history("default")))
"""


@pytest.mark.parametrize("ask", ["agent.run('go')", "list(agent.stream('go'))"])
def test_ctrl_c_ends_the_turn_and_the_agent_can_be_asked_again(ask: str) -> None:
    ended = run(CTRL_C.format(ask=ask))
    assert ended.stdout == "interrupted True still there 3\n", ended.stderr


FORK = """
import os, sys, threading
from gaia.agents.base import Agent
from tests.support.fake_model import FakeModel, call, say

begun, go_on = threading.Event(), threading.Event()

def add(a: int, b: int) -> int:
    return a + b

def wait() -> None:
    begun.set()
    go_on.wait(20)

answers = [call("add", a=1, b=2), say("first"), call("wait"), call("add", a=1, b=2), say("after")]
agent = Agent(silent_mode=True, model=FakeModel(*answers), tools=[add, wait], session_file="sessions.db")
print(agent.run("go", session_id="s"), flush=True)
parent = threading.Thread(target=lambda: print("parent:", agent.run("go", session_id="s"), flush=True))
parent.start()
begun.wait(20)
child = os.fork()
if child == 0:
    print("child:", agent.run("go", session_id="s"), len(agent.get_session_history("s")), flush=True)
    agent.close()
    os._exit(0)
os.waitpid(child, 0)
go_on.set()
parent.join(20)
print(len(agent.get_session_history("s")))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_after_a_fork_in_the_middle_of_a_turn_child_and_parent_go_on(tmp_path: Path) -> None:
    program = f"import os; os.chdir({str(tmp_path)!r})\n{FORK}"
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.splitlines() == ["first", "child: after 9", "parent: after", "15"], ended.stderr


class Slow(FakeModel):
    """A model that speaks when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)

    async def stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[str | Reply]:
        """Wait for ever."""
        self.begun.release()
        await asyncio.Event().wait()
        yield Reply("")


def test_a_turn_whose_loop_ends_is_an_error_and_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Slow()
    agent = Agent(silent_mode=True, model=model)
    with ThreadPoolExecutor(2) as pool:
        ran, streamed = pool.submit(agent.run, "go"), pool.submit(lambda: list(agent.stream("go", session_id="b")))
        for _ in (ran, streamed):  # one that begins after the end has a new loop, and waits for ever
            assert model.begun.acquire(timeout=PATIENCE)
        monkeypatch.setattr(BACKGROUND, "is_over", False)  # so that it is False again afterwards
        BACKGROUND._end_at_exit()  # pyright: ignore[reportPrivateUsage]  # as at the end of the process
        for answer in (ran, streamed):
            with pytest.raises(RuntimeError, match="has ended"):
                answer.result(PATIENCE)


def test_hooks_of_the_agent_see_the_context_variables_of_whoever_asks() -> None:
    from contextvars import ContextVar

    user: ContextVar[str] = ContextVar("user")
    seen: list[str] = []

    class Personal(Agent):
        def _get_system_prompt(self) -> str:
            seen.append(user.get())
            return "You help."

    def look() -> str:
        """Look."""
        return user.get()

    user.set("Ann")
    model = FakeModel(call("look"), say("ok"))
    Personal(silent_mode=True, model=model, tools=[look]).run("go")
    assert (seen, model.asked[-1].results()) == (["Ann"], ["Ann"])


@pytest.mark.parametrize("way", ["run", "stream", "chat"])
def test_a_model_that_gives_no_answer_is_told_at_the_end_of_a_short_traceback(way: str) -> None:
    agent = Agent(base_url="http://127.0.0.1:1/v1", silent_mode=True)
    ask: dict[str, Callable[[], object]] = {
        "run": lambda: agent.process_query("hi"),
        "stream": lambda: list(agent.stream("hi")),
        "chat": lambda: asyncio.run(agent.chat("hi")),
    }
    with pytest.raises(ModelUnreachableError, match="No model server answers at") as caught:
        ask[way]()
    ours = [line for line in traceback.format_exception(caught.value) if "/gaia" in line and "File" in line]
    assert len(ours) <= 3, "".join(ours)
    assert caught.value.__cause__ is None
