"""A bridge whose servers say when they are pinged: `python suspended_bridge.py SERVER...`.

It prints a line whenever a server is ready (`NAME ready PID`) and whenever one was pinged (`NAME pinged`). It notices a
suspension of less than a second, and ends with its input.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[2]))
from gaia_bridge.model import SourceState
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from tests.support.upstreams import FakeRequest, raw_server, text_of

LIMITS = UpstreamLimits(
    watch_interval=0.2, resume_spread=0.1, ping_timeout=0.5, stop_grace=0.1, terminate_grace=0.1, backoff_start=0.01
)


def say(*words: str) -> None:
    print(*words, flush=True)  # noqa: T201


async def follow(name: str) -> None:
    """Keep a server going, and tell of each of its connections."""
    upstream = Upstream(
        replace(raw_server("tell pings"), name=name), LIMITS, on_error_line=lambda line: say(name, line)
    )
    async with anyio.create_task_group() as tasks:
        await tasks.start(upstream.run)
        told = 0
        while True:
            if upstream.status.state is SourceState.READY and upstream.details["starts"] > told:
                told = upstream.details["starts"]
                say(name, "ready", text_of(await upstream.call_tool("pid", {}, FakeRequest())))
            await anyio.sleep(0.01)


async def main(names: list[str]) -> None:
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(partial(follow, name))
        await anyio.to_thread.run_sync(sys.stdin.read)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
