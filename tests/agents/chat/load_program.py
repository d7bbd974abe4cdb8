"""Many sessions of one agent, some of them at the same time. Prints what came of it, as JSON.

python -m tests.agents.chat.load_program BASE_URL SESSIONS AT_ONCE
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import psutil

from gaia.agents.base import Agent, tool


class CalculatingAgent(Agent):
    """Adds, under observation: how many tools run at once."""

    def _register_tools(self) -> None:
        @tool
        def add(name: str, a: int, b: int) -> str:
            """Add two numbers for somebody."""
            return f"{name} has {a + b}"


def expected(number: int) -> str:
    """What the agent has to say to somebody."""
    return f"So user{number} has {number + 7}."


async def converse(agent: Agent, sessions: int, at_once: int, note: Callable[[int], None]) -> list[str]:
    """One turn in each session; says what went wrong."""
    problems: list[str] = []
    places = anyio.Semaphore(at_once)
    done = 0

    async def one(number: int) -> None:
        nonlocal done
        async with places:
            answer = await agent.chat(f"I am user{number}: {number} plus 7?", session_id=f"user{number}")
        if answer != expected(number):
            problems.append(f"user{number} was told {answer!r}")
        done += 1
        note(done)

    async with anyio.create_task_group() as tasks:
        for number in range(sessions):
            tasks.start_soon(one, number)
    return problems


def main() -> None:
    """Run it."""
    base_url, sessions, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    agent = CalculatingAgent(silent_mode=True, model="scripted", base_url=base_url, api_key="none")
    process = psutil.Process()
    memory: dict[int, int] = {}

    def note(done: int) -> None:
        if done % (sessions // 4) == 0:
            memory[done] = process.memory_info().rss

    problems = anyio.run(converse, agent, sessions, at_once, note)
    found: dict[str, Any] = {
        "problems": problems,
        "memory": list(memory.values()),
        "threads": threading.active_count(),
        "sessions": len(agent.list_sessions()),
        "histories": [agent.get_session_history(f"user{number}")[1:] for number in range(sessions)],
    }
    agent.close()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)
    found["threads after"] = threading.active_count()
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
