"""Calls real servers through a bridge for a long while, checks every answer, and looks for what grows.

    python -m benchmarks.soak --calls 20000 --minutes 30

Six servers of other hands stand behind one endpoint: time, fetch, git, filesystem, memory and server-everything.
Clients of both eras call them side by side; meanwhile the bridge is asked for its health twenty times a second.

Exit status: 0 all is well; 1 not so: a wrong answer, an answer to `/health` after more than a second, or growth.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import click
import httpx2
import psutil

from gaia_bridge.text.json_types import JSON
from tests.conformance.runner import HERE as CONFORMANCE
from tests.conformance.runner import bridge_command, free_port
from tests.upstreams.servers import Fixtures, entry_of, started

SERVERS: Final = ("time", "fetch", "git", "filesystem", "memory", "everything")
CLIENTS: Final = 4
"""At once; every other one speaks 2026-07-28."""
STALL: Final = 1.0
"""Seconds in which `/health` is answered, whatever goes on."""
PAUSE: Final = 0.05
"""Seconds between two such questions."""
WARM: Final = 0.3
"""Part of the calls after which nothing is made any more that is kept for the next time."""
GROWTH: Final = 16 * 1024 * 1024
"""Bytes by which the memory in use may differ: the allocator does not give back all that it has."""
LEGACY, MODERN = "2025-11-25", "2026-07-28"
PATIENCE: Final = 60.0

Check = Callable[[str], bool]


@dataclass
class Seen:
    """What has come of it."""

    calls: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    slowest: float = 0.0
    """Seconds until `/health` was answered, at worst."""
    holdings: list[tuple[int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int]])
    """Calls so far, bytes of memory, descriptors, threads."""


def call(server: str, number: int, base: str, folder: Path) -> tuple[str, JSON, Check]:
    """A call of one server: the tool, its arguments, and what an answer has to be like."""
    calls: dict[str, tuple[str, JSON, Check]] = {
        "time": (
            "time__convert_time",
            {"source_timezone": "UTC", "time": f"{number % 24:02}:07", "target_timezone": "UTC"},
            lambda text: f"{number % 24:02}:07" in text,
        ),
        "fetch": ("fetch__fetch", {"url": f"{base}/health?{number}", "raw": True}, lambda text: '"ok"' in text),
        "git": ("git__git_status", {"repo_path": str(folder)}, lambda text: "new.txt" in text),
        "filesystem": (
            "filesystem__read_text_file",
            {"path": str(folder / "README.md")},
            lambda text: text == "# Milk\n",
        ),
        "memory": ("memory__search_nodes", {"query": f"nobody-{number}"}, lambda text: '"entities": []' in text),
        "everything": (
            "everything__echo",
            {"message": f"number {number}"},
            lambda text: text.endswith(f"number {number}"),
        ),
    }
    return calls[server]


class Client:
    """One client over Streamable HTTP."""

    def __init__(self, http: httpx2.AsyncClient, url: str, *, modern: bool) -> None:
        self._http = http
        self._url = url
        self._modern = modern
        self.headers = {"accept": "application/json, text/event-stream"}
        """Of its next request."""
        self._numbers = itertools.count(1)

    async def greet(self) -> None:
        """Open a session, where there are sessions."""
        if self._modern:
            return
        about = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        await self.request("initialize", about)
        await self._http.post(
            self._url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=self.headers
        )

    async def request(self, method: str, params: JSON) -> JSON:
        """Make a request; the message that answers it."""
        headers = dict(self.headers)
        if self._modern:
            headers |= {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": params["name"]}
            params = params | {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
                }
            }
        number = next(self._numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        response = await self._http.post(self._url, json=message, headers=headers)
        if (session := response.headers.get("mcp-session-id")) is not None:
            self.headers |= {"mcp-session-id": session, "mcp-protocol-version": LEGACY}
        data = [line.removeprefix("data:").strip() for line in response.text.splitlines() if line.startswith("data:")]
        found = [json.loads(item) for item in data if item]
        answers = [item for item in found or [response.json()] if item.get("id") == number]
        answer: JSON = answers[0]
        return answer


async def soak(base: str, process: psutil.Process, folder: Path, calls: int, minutes: float, seen: Seen) -> None:
    """Make so many calls, spread evenly over the minutes."""
    numbers = iter(range(calls))
    began, pace = anyio.current_time(), 60 * minutes / calls

    async def work(modern: bool) -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            client = Client(http, f"{base}/mcp", modern=modern)
            await client.greet()
            for number in numbers:
                await anyio.sleep_until(began + number * pace)
                server = random.choice(SERVERS)
                tool, arguments, is_right = call(server, number, base, folder)
                try:
                    answer = await client.request("tools/call", {"name": tool, "arguments": arguments})
                    text = answer["result"]["content"][0]["text"]
                    right = is_right(text)
                except (KeyError, IndexError, ValueError, httpx2.HTTPError) as error:
                    text, right = repr(error), False
                seen.calls[server] += 1
                if not right:
                    seen.wrong.append(f"call {number}, {tool}: {text[:200]}")

    async def watch() -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            for turn in itertools.count():
                began = time.perf_counter()
                (await http.get(f"{base}/health")).raise_for_status()
                seen.slowest = max(seen.slowest, time.perf_counter() - began)
                if turn % 100 == 0:
                    held = process.memory_info().rss, process.num_fds(), process.num_threads()
                    seen.holdings.append((seen.calls.total(), *held))
                await anyio.sleep(PAUSE)

    async with anyio.create_task_group() as watching:
        watching.start_soon(watch)
        async with anyio.create_task_group() as tasks:
            for client in range(CLIENTS):
                tasks.start_soon(work, client % 2 == 1)
        held = process.memory_info().rss, process.num_fds(), process.num_threads()
        seen.holdings.append((seen.calls.total(), *held))
        watching.cancel_scope.cancel()


def problems_of(seen: Seen) -> list[str]:
    """What is not well."""
    found = [f"{len(seen.wrong)} wrong answers, such as {item}" for item in seen.wrong[:3]]
    if seen.slowest > STALL:
        found.append(f"/health was answered after {seen.slowest:.2f} s")
    total = seen.calls.total()
    warm = [item for item in seen.holdings if item[0] >= WARM * total]
    for index, what, allowed in ((1, "bytes of memory", GROWTH), (2, "descriptors", 8), (3, "threads", 4)):
        first, last = max(item[index] for item in warm[: len(warm) // 2 + 1]), warm[-1][index]
        if last - first > allowed:
            found.append(f"{last - first:,} {what} more than before: {first:,}, then {last:,}")
    return found


def run(fixtures: Fixtures, place: Path, calls: int, minutes: float) -> Seen:
    """Start a bridge with the servers, and call them."""
    config, port = place / "servers.json", free_port()
    entries = {name: entry_of(fixtures.specs[name]) | {"lazy": False} for name in SERVERS}
    config.write_text(json.dumps({"mcpServers": entries}), "utf-8")
    agent = f"{CONFORMANCE / 'neighbours.py'}:NeighbourAgent"
    command = [bridge_command(), "serve", agent, "--port", str(port), "--config", str(config)]
    base, seen = f"http://127.0.0.1:{port}", Seen()
    with (place / "bridge.log").open("wb") as log:
        bridge = subprocess.Popen(command, cwd=place, env={**os.environ, "HOME": str(place)}, stderr=log, stdout=log)
        try:
            _until_ready(base, bridge)
            anyio.run(soak, base, psutil.Process(bridge.pid), fixtures.folder, calls, minutes, seen)
        finally:
            bridge.terminate()
            bridge.wait(30)
    return seen


def _until_ready(base: str, bridge: subprocess.Popen[bytes]) -> None:
    states: dict[str, str] = {}
    for _ in range(600):
        try:
            sources: list[JSON] = httpx2.get(f"{base}/status", timeout=PATIENCE).json()["sources"]
        except httpx2.HTTPError:
            sources = []
        states = {item["name"]: item["state"] for item in sources}
        if all(states.get(name) == "ready" for name in SERVERS):
            return
        if bridge.poll() is not None:
            raise SystemExit("the bridge has ended")
        time.sleep(0.1)
    raise SystemExit(f"not ready: {states}")


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.option("--calls", default=20_000, show_default=True, help="How many calls.")
@click.option(
    "--minutes", default=30.0, show_default=True, help="What they are spread over; 0: as fast as answers come."
)
def main(calls: int, minutes: float) -> None:
    """Run, print what was seen, and exit with the verdict."""
    with tempfile.TemporaryDirectory() as name, started(Path(name)) as fixtures:
        began = time.monotonic()
        seen = run(fixtures, Path(name), calls, minutes)
        seconds = time.monotonic() - began
    first, last = seen.holdings[0], seen.holdings[-1]
    click.echo(f"{seen.calls.total():,} calls in {seconds:.0f} s: {dict(seen.calls)}")
    click.echo(f"/health after {seen.slowest * 1000:.0f} ms at worst")
    for index, what in ((1, "bytes of memory"), (2, "descriptors"), (3, "threads")):
        click.echo(f"{what}: {first[index]:,}, then {last[index]:,}")
    problems = problems_of(seen)
    for problem in problems:
        click.echo(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
