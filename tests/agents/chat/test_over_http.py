"""Agents and a model server that is another process: real connections, which break, hang, and end with their turns."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from gaia.agents.base import Agent
from gaia.background_loop import BACKGROUND
from gaia_bridge.errors import ModelError, ModelUnreachableError
from tests.support.scripted_model import ModelHandle, call, calls, fault, rule, say, script, scripted_model
from tests.support.waiting import PATIENCE, after_collection, eventually

HERE = Path(__file__).parents[3]
FILES = Path("/proc/self/fd")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelHandle]:
    """One server for all tests; each has it play another script."""
    with scripted_model() as running:
        yield running


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent_of(server: ModelHandle) -> Agent:
    return Agent(silent_mode=True, model="scripted", base_url=server.base_url, tools=[add])


def sockets() -> int:
    """How many this process has open."""
    found = 0
    for file in FILES.iterdir():
        with suppress(OSError):  # it was just closed
            found += str(file.readlink()).startswith("socket:")
    return found


def test_several_steps_with_calls_side_by_side_and_malformed_ones(server: ModelHandle) -> None:
    server.play(
        script(
            calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}), text="Let me see."),
            call("add", '{"a": 1, "b"'),
            call("ad", a=1),
            say("I have it."),
        )
    )
    agent = agent_of(server)
    assert "".join(agent.stream("go")) == "Let me see.\n\nI have it."
    last = server.requests()[-1].messages
    assert [message["content"] for message in last if message["role"] == "tool"][:2] == ["3", "7"]
    assert "are not JSON" in last[-3]["content"]
    assert "Did you mean add?" in last[-1]["content"]
    agent.close()


def test_half_a_character_from_the_model_does_not_break_the_next_request(server: ModelHandle) -> None:
    server.play(script(say(["half \ud83d"]), say("ok")))
    agent = agent_of(server)
    agent.run("one")
    assert agent.run("two") == "ok"
    agent.close()


@pytest.mark.parametrize("name", ["context_overflow", "error_in_stream", "bad_request"])
def test_a_server_that_fails_leaves_the_session_as_before(server: ModelHandle, name: str) -> None:
    server.play(script(say("A"), fault(name), say("B")))
    agent = agent_of(server)
    agent.run("one")
    with pytest.raises(ModelError):
        agent.run("two")
    assert agent.run("three") == "B"
    assert [message["content"] for message in agent.get_session_history("default")[1:]] == ["one", "A", "three", "B"]
    agent.close()


def test_whoever_stops_reading_hangs_up_on_the_model(server: ModelHandle) -> None:
    server.play(script(say("one two three", hold="gate")))
    agent = agent_of(server)
    with ThreadPoolExecutor(1) as pool:
        stream = agent.stream("go")
        piece = pool.submit(next, stream, "")
        server.wait_held("gate")
        agent.close()
        with pytest.raises(RuntimeError, match="this agent was closed"):
            piece.result(PATIENCE)
    server.wait_ended(outcome="disconnected")


@pytest.mark.anyio
async def test_a_cancelled_chat_hangs_up_on_the_model(server: ModelHandle) -> None:
    server.play(script(say("one two three", hold="gate")))
    agent = agent_of(server)
    chat = asyncio.create_task(agent.chat("go"))
    await server.until(server.wait_held, "gate")
    chat.cancel()
    with pytest.raises(asyncio.CancelledError):
        await chat
    await server.until(server.wait_ended, outcome="disconnected")
    agent.close()


@pytest.mark.skipif(not FILES.exists(), reason="this system does not show which files are open")
def test_agents_that_are_forgotten_close_their_connections(server: ModelHandle) -> None:
    server.play(script(rules=[rule(".", say("ok"), loop=True)]))
    with BACKGROUND.acquire():
        before = sockets()
        for _ in range(10):
            assert agent_of(server).run("go") == "ok"
        eventually(after_collection(lambda: sockets() <= before))


def test_nobody_at_the_address_is_an_error_that_says_what_to_do() -> None:
    agent = Agent(silent_mode=True, model="x", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnreachableError, match="127.0.0.1:9"):
        agent.run("go")
    agent.close()


PROGRAM = """
import sys
from gaia.agents.base import Agent

agent = Agent(silent_mode=True, model="scripted", base_url=sys.argv[1])
{use}
"""


@pytest.mark.parametrize(
    "use",
    [
        'print(agent.run("go"))',
        'stream = agent.stream("go"); print(next(stream), flush=True)',
        'import threading; print("ok"); threading.Thread(target=agent.run, args=("hang",), daemon=True).start()',
    ],
    ids=["answered", "half-way", "waiting"],
)
def test_a_program_ends_in_silence_whatever_it_leaves_open(server: ModelHandle, use: str) -> None:
    server.play(script(rules=[rule("go", say(["ok", "\n"])), rule("hang", say("never", hold="gate"))]))
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(use=use), server.base_url],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.stdout.strip(), ended.stderr, ended.returncode) == ("ok", "", 0)


FORK = """
import os, sys
from gaia.agents.base import Agent

agent = Agent(silent_mode=True, model="scripted", base_url=sys.argv[1])
print(agent.run("one"), flush=True)
child = os.fork()
answer = agent.run("from the child" if child == 0 else "from the parent")
os.write(1, f"{answer}\\n".encode())  # at once: two processes write
if child == 0:
    agent.close()
    os._exit(0)
os.waitpid(child, 0)
agent.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on this system")
def test_child_and_parent_have_connections_of_their_own(server: ModelHandle) -> None:
    server.play(script(rules=[rule("(.*)", say("$1"), loop=True)]))
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, server.base_url],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert sorted(ended.stdout.splitlines()) == ["from the child", "from the parent", "one"], ended.stderr
    connections = {request.client for request in server.requests()}
    assert len(connections) == 2
