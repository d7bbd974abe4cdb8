"""An agent whose code does not come to an end when the process should, in one way or in all."""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from tests.process.liveness import show_signs_of_life

_AGES = 600.0
_kept: list[Any] = []


def say(text: str) -> None:
    """Tell the test, which reads standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def live_on(name: str) -> None:
    """In a process of its own."""
    show_signs_of_life(name)
    time.sleep(_AGES)


class Clinging:
    """Takes its time to be forgotten."""

    def __del__(self) -> None:
        time.sleep(_AGES)


async def in_thread() -> None:
    say("hanging")
    await asyncio.to_thread(time.sleep, _AGES)


def in_executor() -> None:
    threads = ThreadPoolExecutor(1)
    _kept.append(threads)
    threads.submit(time.sleep, _AGES)


def in_own_thread() -> None:
    threading.Thread(target=time.sleep, args=(_AGES,), daemon=False).start()


def at_exit() -> None:
    atexit.register(time.sleep, _AGES)


def when_forgotten() -> None:
    sys.modules[__name__].__dict__["clinging"] = Clinging()


def in_pool() -> None:
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))
    _kept.append(pool)
    pool.submit(live_on, "pool")


def in_process() -> None:
    multiprocessing.get_context("spawn").Process(target=live_on, args=("process",)).start()


def in_program() -> None:
    code = "from tests.process.lasting_agents import live_on; live_on('program')"
    _kept.append(subprocess.Popen([sys.executable, "-c", code], start_new_session=True))


def terminated() -> int | None:
    """How a forked process ends that is told to."""
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(_AGES,))
    process.start()
    process.terminate()
    process.join()
    return process.exitcode


WAYS = {
    function.__name__.replace("_", "-"): function
    for function in (*(in_executor, in_own_thread, at_exit, when_forgotten, in_pool, in_process, in_program),)
}


class LastingAgent:
    """Starts what does not end."""

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        return [{"name": name, "inputSchema": {}} for name in (*WAYS, "in-thread", "everything", "terminated")]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        if tool_name in WAYS:
            WAYS[tool_name]()
        elif tool_name == "everything":
            for start in WAYS.values():
                start()
        elif tool_name == "terminated":
            return {"code": terminated()}
        else:
            return in_thread()
        return {"from": tool_name}
