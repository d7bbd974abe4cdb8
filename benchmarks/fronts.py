"""What windows of editors cost that share one bridge by `gaia-bridge connect`, beside windows with one each.

    python -m benchmarks.fronts [--calls 2000] [--windows 10] [--servers 5] [--server "COMMAND ARG ..."]
        [--tool NAME] [--arguments JSON] [--json]

Memory is PSS: pages that processes share are counted once. Without `--server`, the servers are `echo_server.py`, which
cost next to nothing: whatever real ones take is saved as well, once for each window but one.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.load import LEGACY, MODERN, PipeClient, message
from benchmarks.subjects import ECHO_SERVER

MIB = 1024 * 1024
STARTS = 21
SETTLED = 60.0
"""Seconds for all servers of a window to be listed."""

Row = dict[str, float]


class User:
    """A home whose processes can be told from all others.

    Args:
        folder: The home.
        servers: The command of each server.
    """

    def __init__(self, folder: Path, servers: list[list[str]]) -> None:
        self.folder = folder
        self.config = folder / "servers.json"
        entries = {f"s{number}": {"command": words[0], "args": words[1:]} for number, words in enumerate(servers)}
        self.config.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
        (folder / "run").mkdir(mode=0o700)
        self.environment = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder / "run"), "PATH": os.environ["PATH"]}

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a program of ours, or Python."""
        return subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environment,
            cwd=self.folder,
        )

    def connect(self) -> subprocess.Popen[bytes]:
        """A window that shares the bridge."""
        return self.start("-m", "gaia_bridge", "connect", "--config", str(self.config))

    def serve(self) -> subprocess.Popen[bytes]:
        """A window with a bridge of its own."""
        return self.start("-m", "gaia_bridge", "serve", "--stdio", "--no-agents", "--config", str(self.config))

    def up(self) -> None:
        """Start the bridge that is shared."""
        command = [sys.executable, "-m", "gaia_bridge", "up", "--config", str(self.config)]
        subprocess.run(command, env=self.environment, cwd=self.folder, check=True, capture_output=True)

    def processes(self) -> list[psutil.Process]:
        """All that run with this home."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.folder):
                    found.append(process)
        return found


@contextmanager
def user(servers: list[list[str]]) -> Generator[User]:
    """A home, all processes of which are ended in the end."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="g", ignore_cleanup_errors=True) as folder:
        made = User(Path(folder), servers)
        try:
            yield made
        finally:
            for process in made.processes():
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Generator[subprocess.Popen[bytes]]:
    """End a process."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def pss(*processes: psutil.Process) -> float:
    """Memory in MiB."""
    return float(sum(process.memory_full_info().pss for process in processes)) / MIB


def first_answers(user: User) -> dict[str, Row]:
    """How long it takes until a window is answered, where the bridge runs, and what its front takes."""
    user.up()
    rounds: dict[str, list[Row]] = {"python -c pass": [], "connect": []}
    for _ in range(STARTS):
        began = time.perf_counter()
        with ended(user.start("-c", "print(1, flush=True); input()")) as process:
            assert process.stdout is not None
            process.stdout.readline()
            took = time.perf_counter() - began
            info = psutil.Process(process.pid).memory_info()
            rounds["python -c pass"].append(
                {"seconds": took, "rss": info.rss / MIB, "pss": pss(psutil.Process(process.pid))}
            )
        began = time.perf_counter()
        with ended(user.connect()) as process:
            client = PipeClient(LEGACY, "s0__echo", process)
            client.ask(message("ping", {}))
            took = time.perf_counter() - began
            info = psutil.Process(process.pid).memory_info()
            rounds["connect"].append({"seconds": took, "rss": info.rss / MIB, "pss": pss(psutil.Process(process.pid))})
    return {
        name: {key: statistics.median(row[key] for row in rows) for key in rows[0]} for name, rows in rounds.items()
    }


def calls(user: User, era: str, number: int) -> dict[str, Row]:
    """What a call costs, by a front and the bridge, and by a bridge alone; both at once, in turn."""
    user.up()
    with ended(user.connect()) as front, ended(user.serve()) as alone:
        clients = {"connect": PipeClient(era, "s0__echo", front), "serve --stdio": PipeClient(era, "s0__echo", alone)}
        for client in clients.values():
            client.greet()
            for _ in range(200):
                client.call()
        [bridge] = [process for process in user.processes() if " background " in " ".join(process.cmdline())]
        ours = {"connect": [psutil.Process(front.pid), bridge], "serve --stdio": [psutil.Process(alone.pid)]}
        times: dict[str, list[float]] = {name: [] for name in clients}
        cpu = dict.fromkeys(clients, 0.0)
        for _ in range(10):
            for name, client in clients.items():
                before = _cpu(ours[name])
                times[name] += [client.call() for _ in range(number // 10)]
                cpu[name] += _cpu(ours[name]) - before
        return {
            name: {"cpu_ms": cpu[name] / len(told) * 1_000, "p50_ms": statistics.median(told) * 1_000}
            for name, told in times.items()
        }


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def windows(
    user: User, start: Callable[[User], subprocess.Popen[bytes]], number: int, tool: str, arguments: dict[str, Any]
) -> Row:
    """Open all windows at once, as an editor does that is opened again, and call each server once from each."""
    hello: dict[str, Any] = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}}
    names = list(json.loads(user.config.read_text(encoding="utf-8"))["mcpServers"])
    with ExitStack() as opened:
        began = time.perf_counter()
        clients = [PipeClient(LEGACY, "", opened.enter_context(ended(start(user)))) for _ in range(number)]
        for client in clients:
            client.tell(message("initialize", hello))
        answered: list[float] = []
        for client in clients:
            _answer(client, 0)
            client.tell(message("notifications/initialized", {}, None))
            answered.append(time.perf_counter() - began)
        for client in clients:
            for name in names:
                deadline = time.monotonic() + SETTLED
                while b'"isError":true' in (answer := _called(client, f"{name}__{tool}", arguments)) or (
                    b'"error"' in answer
                ):
                    if time.monotonic() > deadline:
                        raise RuntimeError(answer.decode(errors="replace"))
                    time.sleep(0.02)
        called = time.perf_counter() - began
        processes = user.processes()
        return {
            "processes": len(processes),
            "memory_mib": pss(*processes),
            "first_answer_s": answered[0],
            "last_answer_s": answered[-1],
            "all_called_s": called,
            "cpu_s": _cpu(processes),
        }


def _called(client: PipeClient, tool: str, arguments: dict[str, Any]) -> bytes:
    client.tell(message("tools/call", {"name": tool, "arguments": arguments}, 1))
    return _answer(client, 1)


def _answer(client: PipeClient, number: int) -> bytes:
    """The answer to a request, whatever comes before it."""
    while b'"id":%d,' % number not in (line := client.line()):
        pass
    return line


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--servers", type=int, default=5)
    parser.add_argument("--server", default=shlex.join([sys.executable, "-S", str(ECHO_SERVER)]))
    parser.add_argument("--tool", default="echo")
    parser.add_argument("--arguments", type=json.loads, default={"text": "hello"})
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    commands = [shlex.split(options.server)] * options.servers
    found: dict[str, Any] = {}
    echo = [[sys.executable, "-S", str(ECHO_SERVER)], [sys.executable, "-S", str(ECHO_SERVER)]]
    with user(echo) as one:
        found["start"] = first_answers(one)
    for era, more in ((LEGACY, []), (MODERN, ["modern"])):
        with user([[*words, *more] for words in echo]) as one:
            found[f"calls {era}"] = calls(one, era, options.calls)
    for name, start in (("connect", User.connect), ("serve --stdio", User.serve)):
        with user(commands) as one:
            found[f"{options.windows} x {name}"] = windows(one, start, options.windows, options.tool, options.arguments)
    if options.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return
    for name, rows in found.items():
        for subject, row in rows.items() if isinstance(next(iter(rows.values())), dict) else [("", rows)]:
            told = ", ".join(f"{key} {value:.3g}" for key, value in row.items())
            sys.stdout.write(f"{name:24} {subject:16} {told}\n")


if __name__ == "__main__":
    main()
