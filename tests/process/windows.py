"""A user with editors, whose windows share one bridge in the background; and all processes that this makes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from gaia_bridge.text.json_types import JSON
from tests.cli.running import DEADLINE, Running
from tests.process.driving import LEGACY, MODERN, LineClient
from tests.support.processes import command_of
from tests.support.waiting import eventually

__all__ = ["AGENT", "LISTS", "User", "Window", "has_ended", "user"]

AGENT: Final = Path(__file__).with_name("window_agent.py")
LISTS: Final = ("tools", "prompts", "resources")


class Window(LineClient):
    """A window of an editor, which has started `gaia-bridge connect`.

    Args:
        front: The program.
        modern: Whether it speaks 2026-07-28.
        roots: Its root folders.
    """

    def __init__(self, front: Running, modern: bool, roots: Collection[str] = ()) -> None:
        super().__init__(front)
        self.modern = modern
        self.roots = roots
        self.pid = front.process.pid
        self._capabilities: JSON = {"elicitation": {}, "roots": {}}

    def begin(self, **more: Any) -> JSON:
        """Say what an editor says first."""
        if self.modern:
            return self.result_of("server/discover", **more)
        who = {"name": "window", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": self._capabilities, "clientInfo": who, **more}
        greeting = self.result_of("initialize", **params)
        self.notify("notifications/initialized")
        return greeting

    def ask(self, method: str, **params: Any) -> int:
        """Send a request of our era; returns its id."""
        if self.modern:
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": self._capabilities,
                "io.modelcontextprotocol/clientInfo": {"name": "window", "version": "1"},
                **params.get("_meta", {}),
            }
        return self.send(method, **params)

    def result_of(self, method: str, **params: Any) -> JSON:
        """Send a request and wait for its result."""
        answer = self.answer(self.ask(method, **params))
        assert "result" in answer, answer
        result: JSON = answer["result"]
        return result

    def begin_call(self, tool: str, **arguments: Any) -> int:
        """Call a tool, and do not wait."""
        return self.ask("tools/call", name=tool, arguments=arguments)

    def told(self, tool: str, **arguments: Any) -> Any:
        """Call a tool; what it returned, as JSON or text."""
        result = self.result_of("tools/call", name=tool, arguments=arguments)
        assert not result.get("isError"), result
        return result.get("structuredContent") or result["content"][0]["text"]

    def question(self) -> JSON:
        """The next question of the bridge."""
        return self.until("elicitation/create")

    def until(self, method: str) -> JSON:
        """The next message with that method."""
        for message in self.others:
            if message.get("method") == method:
                self.others.remove(message)
                return message
        while (message := self.next()).get("method") != method:
            self.others.append(message)
        return message

    def reply(self, request: JSON, result: JSON) -> None:
        """Answer a request of the bridge."""
        self.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n")

    def heard(self) -> list[str]:
        """The methods of everything that came in between, which is forgotten."""
        told = [str(message.get("method", message.get("id"))) for message in self.others]
        self.others.clear()
        return told

    def leave(self) -> int:
        """Close the window; the exit code of its front."""
        self.bridge.close_input()
        return self.bridge.process.wait(DEADLINE)


class User:
    """A user of this machine, as far as our programs see: with a home, and a runtime folder."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.folder = folder
        self.sockets = folder / "run" / "gaia-bridge"
        self.config = folder / "servers.json"
        self._opened = opened
        self.environment: dict[str, str] = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GAIA_")},
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "NO_COLOR": "1",
        }

    def has_servers(self, servers: Mapping[str, JSON]) -> None:
        """Write the configuration that `--config` names."""
        self.config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    def start(self, *words: str, environment: Mapping[str, str] = {}, folder: Path | None = None) -> Running:
        """Start `gaia-bridge` in a folder, or at home, to the end of the test."""
        process = subprocess.Popen(
            [sys.executable, "-m", "gaia_bridge", *words],
            cwd=folder or self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **environment},
        )
        running = Running(process)
        self._opened.callback(_put_away, process, running)
        return running

    def window(
        self,
        *words: str,
        modern: bool = False,
        begin: bool = True,
        environment: Mapping[str, str] = {},
        folder: Path | None = None,
    ) -> Window:
        """Open a window; its editor starts a front."""
        window = Window(self.start("connect", *words, environment=environment, folder=folder), modern)
        if begin:
            window.begin()
        return window

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `gaia-bridge` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "gaia_bridge", *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
            env=self.environment,
            check=False,
        )

    def bridges(self) -> list[JSON]:
        """What the bridges in the background say of themselves."""
        done = self.run("ps", "--json")
        assert done.returncode == 0, done.stderr
        found: list[JSON] = json.loads(done.stdout)
        return found

    def processes(self) -> dict[int, str]:
        """All processes of this user, by what they run: whoever has this home, or descends from one that has."""
        found: dict[int, str] = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.folder) and (command := command_of(process)):
                    found[process.pid] = command
        return found

    def pids(self, part: str) -> list[int]:
        """The processes whose commands have a word in them."""
        return [pid for pid, command in self.processes().items() if part in command]

    def bridge_pid(self, besides: Collection[int] = ()) -> int:
        """The only bridge in the background, beside those that were there."""
        found: list[int] = []

        def is_there() -> bool:
            found[:] = [pid for pid in self.pids(" background ") if pid not in besides and not _leads_session(pid)]
            return bool(found)

        eventually(is_there)
        [pid] = found
        return pid

    def nothing_is_left(self) -> bool:
        """Whether there are neither processes nor sockets."""
        return not self.processes() and not list(self.sockets.glob("*.sock"))

    def files(self) -> list[str]:
        """What there is in the folder of sockets."""
        return sorted(path.name for path in self.sockets.iterdir())

    def log(self) -> str:
        """All that bridges have written."""
        return "".join(path.read_text(encoding="utf-8") for path in self.sockets.glob("*.log"))

    def end(self) -> None:
        """End all processes."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def user() -> Generator[User]:
    """A user with an empty home, whose path is short, as paths of sockets have to be."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="g"))
    (folder / "run").mkdir(mode=0o700)
    with ExitStack() as opened:
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        made = User(folder, opened)
        opened.callback(made.end)
        yield made


def _leads_session(pid: int) -> bool:
    """Whether a process is the one that the bridge leaves while it starts, or is gone."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return True


def has_ended(pid: int) -> bool:
    """Whether a process is gone, also if whoever should bury it has not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _put_away(process: subprocess.Popen[str], running: Running) -> None:
    process.kill()
    with suppress(BrokenPipeError), process:
        running.read_to_the_end()
