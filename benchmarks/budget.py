"""What a `tools/call` costs in steps, which do not depend on the machine: a regression of a quarter is an error.

    python -m benchmarks.budget

A step is a call of a Python or C function on the event loop's thread, as `sys.setprofile` counts them; beside them, the
system calls that read and write (`/proc/self/io`). Both are the same on a busy machine, but for what happens beside the
calls, so that this can be a check where time cannot.

A call that is not passed on directly takes the ordinary way. Its functions of ours are counted, and their files:
whoever wants to understand a call has to read them.

Exit status: 0 all is within its budget; 1 something is not.
"""

from __future__ import annotations

import collections
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, Final, NamedTuple

import anyio
import anyio.to_thread

from benchmarks.echo_agent import EchoAgent
from benchmarks.load import LEGACY, MODERN, Client, HttpClient, PipeClient, free_port
from benchmarks.relay import running
from benchmarks.subjects import ECHO_SERVER
from gaia_bridge.bridge import Bridge
from gaia_bridge.model import HttpServerSpec, StdioServerSpec
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.server.transports.stdio import ClaimedStdio
from gaia_bridge.settings import Settings
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache

CALLS: Final = 300
WARM: Final = 50
ALLOWED: Final = 1.25
"""How much more than its budget a call may cost."""
ROUNDS: Final = 2
"""The cheaper one counts: on a busy machine, timers and late imports fall into one."""
HOST: Final = "127.0.0.1"
_OURS: Final = f"{os.sep}gaia_bridge{os.sep}"


class Cost(NamedTuple):
    """Of one call."""

    steps: float
    """Calls of functions."""
    system_calls: float
    """Of these, those of the system that read or write."""


APART: Final = "HTTP in two"
"""Head and body in a packet each."""

BUDGETS: Final = {
    (APART, "agent", LEGACY): Cost(94, 5),
    (APART, "agent", MODERN): Cost(94, 5),
    ("HTTP", "agent", LEGACY): Cost(88, 4),
    ("HTTP", "agent", MODERN): Cost(88, 4),
    ("HTTP", "stdio", LEGACY): Cost(73, 4),
    ("HTTP", "stdio", MODERN): Cost(85, 4),
    ("HTTP", "HTTP", LEGACY): Cost(137, 4.5),
    ("HTTP", "HTTP", MODERN): Cost(175, 4.5),
    ("stdio", "agent", LEGACY): Cost(102, 6),
    ("stdio", "agent", MODERN): Cost(103, 6),
    ("stdio", "stdio", LEGACY): Cost(87, 6),
    ("stdio", "stdio", MODERN): Cost(100, 6),
}
"""What a call cost when it was last looked at, by the client's transport, what is called, and the era."""


WAY: Final = {LEGACY: (105, 40), MODERN: (123, 44)}
"""The functions and the files of the ordinary way of a call, HTTP -> stdio, when it was last looked at."""

MORE: Final = 2
"""The functions, and files, beyond that which are no error."""


class Counter:
    """Counts the steps of the thread that starts it, and the calls of each function."""

    def __init__(self) -> None:
        self._steps = 0
        self._calls: collections.Counter[CodeType] = collections.Counter()

    def _count(self, frame: Any, event: str, arg: Any) -> None:
        if event in ("call", "c_call"):
            self._steps += 1
            if event == "call":
                self._calls[frame.f_code] += 1

    def way(self, calls: int) -> tuple[int, int]:
        """Return how many functions of ours each of so many calls went through, and in how many files they are."""
        ours = [code for code, times in self._calls.items() if times >= calls / 2 and _OURS in code.co_filename]
        return len(ours), len({code.co_filename for code in ours})

    def start(self) -> None:
        """Count from now on."""
        self._calls.clear()
        self._steps, self._system_calls = 0, _system_calls()
        sys.setprofile(self._count)

    def stop(self, calls: int) -> Cost:
        """Count no longer; returns what one of so many calls cost."""
        sys.setprofile(None)
        return Cost(self._steps / calls, (_system_calls() - self._system_calls) / calls)


def _system_calls() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text("ascii").splitlines())
    return int(fields["syscr"]) + int(fields["syscw"])


@asynccontextmanager
async def add_called(bridge: Bridge, called: str, era: str) -> AsyncGenerator[str]:
    """Add an agent, or a server that speaks this revision; returns the public name of the tool."""
    modern = ["modern"] if era == MODERN else []
    if called == "agent":
        await bridge.add_agent(EchoAgent(), "near")
        yield "echo"
    elif called == "stdio":
        await bridge.add_upstream(StdioServerSpec("far", sys.executable, ("-S", str(ECHO_SERVER), *modern)))
        yield "far__echo"
    else:
        port = free_port()
        command = [sys.executable, str(ECHO_SERVER), "http", str(port), *modern]
        with tempfile.TemporaryDirectory() as folder, running(command, Path(folder)):
            HttpClient(era, "", port, "/").close()  # the server listens
            await bridge.add_upstream(HttpServerSpec("far", f"http://{HOST}:{port}/mcp"))
            yield "far__echo"


@asynccontextmanager
async def connected(way: str, bridge: Bridge, era: str, tool: str) -> AsyncGenerator[Client]:
    """A client of a bridge of this process, which works in a thread of its own."""
    async with anyio.create_task_group() as tasks:
        if way in ("HTTP", APART):
            sockets = bind(HOST, 0)
            port: int = sockets[0].getsockname()[1]
            server = HttpServer(bridge.asgi(AccessPolicy.for_address(HOST, port)), sockets=sockets)
            await tasks.start(server.run)
            connect = partial(HttpClient, era, tool, port, "/mcp", apart=way == APART)
            client: Client = await anyio.to_thread.run_sync(connect)
        else:
            reading, to_bridge = os.pipe()
            from_bridge, writing = os.pipe()
            tasks.start_soon(bridge.serve_stdio, ClaimedStdio(reading, writing))
            pipes: Any = SimpleNamespace(stdin=os.fdopen(to_bridge, "wb", 0), stdout=os.fdopen(from_bridge, "rb"))
            client = PipeClient(era, tool, pipes)
        try:
            yield client
        finally:
            client.close()
            tasks.cancel_scope.cancel()


async def cost_of(way: str, called: str, era: str, *, direct: bool = True) -> tuple[Cost, tuple[int, int]]:
    """What one call costs, and the functions and files of its way."""
    with tempfile.TemporaryDirectory() as folder:
        async with Bridge(cache=FeatureCache(Path(folder)), settings=Settings(direct_calls=direct)) as bridge:
            async with (
                add_called(bridge, called, era) as tool,
                connected(way, bridge, era, tool) as client,
            ):

                def call(times: int) -> None:
                    for _ in range(times):
                        client.call()

                await anyio.to_thread.run_sync(client.greet)
                await anyio.to_thread.run_sync(call, WARM)
                costs: list[tuple[Cost, tuple[int, int]]] = []
                for _ in range(ROUNDS):
                    counter = Counter()
                    counter.start()
                    await anyio.to_thread.run_sync(call, CALLS)
                    costs.append((counter.stop(CALLS), counter.way(CALLS)))
                return min(costs)


def main() -> None:
    """Measure everything, print a table, and exit with the verdict."""
    exceeded = False
    for (way, called, era), budget in BUDGETS.items():
        cost, _ = anyio.run(cost_of, way, called, era, backend_options={"use_uvloop": True})
        over = cost.steps > ALLOWED * budget.steps or cost.system_calls > ALLOWED * budget.system_calls
        exceeded |= over
        sys.stdout.write(
            f"{f'{way} -> {called}':<21}{era:<12}{cost.steps:7.0f} steps, {cost.system_calls:5.2f} reads and writes; "
            f"budget {budget.steps:.0f}, {budget.system_calls:g}{'  EXCEEDED' if over else ''}\n"
        )
    for era, most in WAY.items():
        measure = partial(cost_of, "HTTP", "stdio", era, direct=False)
        cost, (functions, files) = anyio.run(measure, backend_options={"use_uvloop": True})
        over = functions > most[0] + MORE or files > most[1] + MORE
        exceeded |= over
        sys.stdout.write(
            f"{'the ordinary way':<21}{era:<12}{cost.steps:7.0f} steps, {functions} functions in {files} files; "
            f"budget {most[0]}, {most[1]}{'  EXCEEDED' if over else ''}\n"
        )
    sys.exit(1 if exceeded else 0)


if __name__ == "__main__":
    main()
