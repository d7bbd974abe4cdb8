"""Servers that a test watches and holds: `tests/servers/gated_server.py`, and where it reports to.

A server's connection to the gate lasts exactly as long as its process, so that its end is proof of that.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio.to_thread

from tests.support.waiting import PATIENCE

__all__ = ["Gate", "gate"]

_PROGRAM = Path(__file__).parents[1] / "servers" / "gated_server.py"


class Gate:
    """What servers told, by their names. Usable from any thread.

    Args:
        listener: What they connect to.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.port = int(listener.getsockname()[1])
        self._listener = listener
        self._told = Counter[str]()
        self._held: dict[str, socket.socket] = {}
        self._news = threading.Condition()

    def server(self, name: str, *tools: str, hold: bool = False, **env: str) -> dict[str, Any]:
        """The entry of a server.

        Args:
            name: What it calls itself.
            *tools: Tools that it has beside `answer pid env crash hang change`.
            hold: Whether it starts only after `release`.
            **env: Its environment.
        """
        env |= {"GATE": str(self.port), **({"HOLD": "1"} if hold else {})}
        return {"command": sys.executable, "args": ["-S", str(_PROGRAM), name, *tools], "env": env}

    def wait(self, name: str, word: str, times: int = 1) -> None:
        """Wait until a server said `born`, `hanging` or `cancelled` so often, or is `dead`."""
        with self._news:
            assert self._news.wait_for(lambda: self._told[f"{name} {word}"] >= times, PATIENCE), (
                f"{name} is not {word}; there was {dict(self._told)}"
            )

    def wait_all_dead(self) -> None:
        """Wait until all servers that were born are dead."""
        names = {key.rpartition(" ")[0] for key in self._told}
        for name in names:
            self.wait(name, "dead", self._told[f"{name} born"])

    async def told(self, name: str, word: str, times: int = 1) -> None:
        """The same, on an event loop that goes on meanwhile."""
        await anyio.to_thread.run_sync(self.wait, name, word, times)

    def count(self, name: str, word: str) -> int:
        """How often a server said something."""
        return self._told[f"{name} {word}"]

    def release(self, name: str) -> None:
        """Let a server start that is held."""
        self._held[name].sendall(b"!")

    def watch(self) -> None:
        """Take connections until the listener is closed."""
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._follow, args=(connection,), daemon=True).start()

    def _follow(self, connection: socket.socket) -> None:
        name = ""
        with suppress(ConnectionError), connection, connection.makefile() as lines:
            for line in lines:
                name, word = line.split()
                self._held[name] = connection
                self._note(name, word)
                connection.sendall(b".")
        self._note(name, "dead")

    def _note(self, name: str, word: str) -> None:
        with self._news:
            self._told[f"{name} {word}"] += 1
            self._news.notify_all()


@contextmanager
def gate() -> Generator[Gate]:
    """A place for servers to report to."""
    listener = socket.create_server(("127.0.0.1", 0))
    found = Gate(listener)
    thread = threading.Thread(target=found.watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE)
