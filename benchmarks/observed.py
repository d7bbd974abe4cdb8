"""A bridge in a process of its own, which tells for each line that comes how it is doing."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from gaia_bridge.bridge import Bridge
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import Settings
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache
from gaia_bridge_cli.collection import collect_in_larger_pieces

HOST: Final = "127.0.0.1"
_TICK: Final = 0.001
"""Seconds between two looks at the clock: a shorter turn of the loop holds nobody up."""

Looked = dict[str, float]


def run(
    port: int, fill: Callable[[Bridge], Awaitable[None]], look: Callable[[], Looked], settings: Settings | None = None
) -> None:
    """Serve until the input ends, and write how things are for each line that comes.

    Args:
        port: Where.
        fill: Adds agents and servers.
        look: Says how things are.
        settings: Of the bridge.
    """

    async def serve() -> None:
        sockets = bind(HOST, port)
        with tempfile.TemporaryDirectory() as folder:
            async with (
                Bridge(settings=settings or Settings(), cache=FeatureCache(Path(folder))) as bridge,
                anyio.create_task_group() as tasks,
            ):
                await fill(bridge)
                await tasks.start(HttpServer(bridge.asgi(AccessPolicy.for_address(HOST, port)), sockets=sockets).run)
                while await anyio.to_thread.run_sync(sys.stdin.readline):
                    sys.stdout.write(json.dumps(look()) + "\n")
                    sys.stdout.flush()
                tasks.cancel_scope.cancel()

    gc.freeze()  # as the program does, which has the same modules
    collect_in_larger_pieces()
    anyio.run(serve, backend_options={"use_uvloop": True})


@contextmanager
def serving(module: str, *words: str) -> Generator[subprocess.Popen[str]]:
    """A process that runs a module, which calls `run`."""
    command = [sys.executable, "-m", module, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def asked(process: subprocess.Popen[str]) -> Looked:
    """How things are with such a process."""
    assert process.stdin and process.stdout
    process.stdin.write("look\n")
    process.stdin.flush()
    looked: Looked = json.loads(process.stdout.readline())
    return looked


class Loop:
    """The event loop of this process, on which nothing else can happen during a turn. Made on the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = time.thread_time()
        self._longest = 0.0
        self._tick()

    def look(self) -> Looked:
        """CPU milliseconds: of the longest turn since the last look, and of all turns."""
        longest, self._longest = self._longest, 0.0
        return {"held_ms": longest * 1_000, "cpu_ms": time.thread_time() * 1_000}

    def _tick(self) -> None:
        now = time.thread_time()
        self._longest, self._began = max(self._longest, now - self._began), now
        self._loop.call_later(_TICK, self._tick)
