"""A turn that is read piece by piece: it begins with the first look, and ends with the reader."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia.agents.base import Agent
from gaia.agents.chat.limits import ChatLimits
from gaia.background_loop import BACKGROUND
from gaia_bridge.chat_types import ChatRequest, Reply
from gaia_bridge.errors import ModelError
from gaia_bridge.text.json_types import JSON
from tests.support.fake_model import FakeModel, made, say
from tests.support.waiting import PATIENCE, wait_in_thread


class Endless(FakeModel):
    """A model that never comes to an end, and remembers that it was stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = threading.Event()
        self.said = 0

    async def stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[str | Reply]:
        """Speak on and on."""
        try:
            while True:
                await anyio.lowlevel.checkpoint()
                self.said += 1
                yield "word "
        finally:
            self.stopped.set()


def endless() -> tuple[Agent, Endless]:
    model = Endless()
    return Agent(silent_mode=True, model=model), model


@pytest.mark.requirement("S4-26")
def test_text_comes_in_pieces_before_the_answer_is_complete() -> None:
    agent, model = endless()
    stream = agent.stream("go")
    assert [next(stream), next(stream)] == ["word ", "word "]
    assert not model.stopped.is_set()
    stream.close()


def test_whoever_stops_reading_ends_the_turn_and_the_session_is_as_before() -> None:
    agent, model = endless()
    stream = agent.stream("go")
    next(stream)
    stream.close()
    assert model.stopped.is_set()
    [session] = agent.list_sessions()
    assert session["message_count"] == 1
    agent.close()


def test_a_model_waits_for_a_slow_reader() -> None:
    model = Endless()
    agent = Agent(silent_mode=True, model=model, chat_limits=ChatLimits(pieces=4))
    stream = agent.stream("go")
    next(stream)
    with BACKGROUND.acquire() as lease:  # by then, the turn has had its chance to run away
        for _ in range(50):
            lease.run(anyio.lowlevel.checkpoint)
    assert model.said <= 12
    stream.close()


def test_a_stream_that_nobody_reads_begins_nothing() -> None:
    agent, model = made(say("never"))
    agent.stream("go").close()
    del agent
    gc.collect()
    assert model.asked == []


def test_a_forgotten_stream_ends_its_turn() -> None:
    agent, model = endless()
    stream = agent.stream("go")
    next(stream)
    del stream
    assert model.stopped.wait(PATIENCE)


def test_a_stream_that_is_forgotten_on_the_background_loop_itself_ends_its_turn_and_blocks_nobody() -> None:
    agent, model = endless()
    streams = [agent.stream("go")]
    next(streams[0])

    async def forget() -> None:
        streams.clear()

    with BACKGROUND.acquire() as lease:
        lease.run(forget, timeout=PATIENCE)
        assert model.stopped.wait(PATIENCE)


def test_what_a_turn_fails_with_is_raised_where_it_is_read() -> None:
    def speak_then_fail(_: object) -> Reply:
        raise ModelError("gone")

    agent, _ = made(speak_then_fail, say("back"))
    with pytest.raises(ModelError, match="gone"):
        list(agent.stream("go"))
    assert "".join(agent.stream("go")) == "back"


@pytest.mark.anyio
async def test_a_client_that_leaves_in_the_middle_ends_the_turn() -> None:
    agent, model = endless()
    answer = agent.answer_chat(ChatRequest([{"role": "user", "content": "go"}]))
    assert await anext(answer) == "word "
    await answer.aclose()
    assert model.stopped.is_set()


@pytest.mark.anyio
async def test_a_client_whose_task_is_cancelled_ends_the_turn() -> None:
    agent, model = endless()
    begun = anyio.Event()

    async def read() -> None:
        async for _ in agent.answer_chat(ChatRequest([{"role": "user", "content": "go"}])):
            begun.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        with anyio.fail_after(PATIENCE):
            await begun.wait()
        tasks.cancel_scope.cancel()
    await wait_in_thread(model.stopped.wait)


class SlowToStop(FakeModel):
    """Takes as long to stop as it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.stopping, self.may_stop, self.stopped = threading.Event(), threading.Event(), threading.Event()

    async def stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[str | Reply]:
        """Say a word."""
        try:
            yield "word"
            await anyio.sleep_forever()
        finally:
            self.stopping.set()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.may_stop.wait, PATIENCE)
            self.stopped.set()


@pytest.mark.anyio
async def test_a_client_whose_task_is_cancelled_while_the_turn_ends_leaves_nothing_open() -> None:
    """As when a bridge closes: the call is cancelled, and then the loop that it runs on."""
    model = SlowToStop()
    agent = Agent(silent_mode=True, model=model)

    async def read() -> None:
        async for _ in agent.answer_chat(ChatRequest([{"role": "user", "content": "go"}])):
            begun.set()

    begun = asyncio.Event()
    reading = asyncio.create_task(read())
    with anyio.fail_after(PATIENCE):
        await begun.wait()
    reading.cancel()
    await wait_in_thread(model.stopping.wait)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    model.may_stop.set()
    await wait_in_thread(model.stopped.wait)
    agent.close()
    gc.collect()  # what is not closed warns


LEFT_OPEN = """
from gaia.agents.base import Agent
from tests.agents.chat.test_turn_stream import Endless

stream = Agent(silent_mode=True, model=Endless()).stream("go")
print(next(stream), flush=True)
"""


def test_a_program_that_leaves_a_stream_open_ends_in_silence() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("word \n", "", 0)
