"""The bridge's side of the guardian: one per process, which is notified of every child before its launch and after its
end, and of the processes that agents fork."""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from gaia_bridge.client.transports.children import guardian
from gaia_bridge.client.transports.children.guardian import AGENTS_MARK, MARK, parents

logger = logging.getLogger(__name__)

_PAUSE = 1.0
"""Seconds before a program that ended is replaced, so that repeated ends cause no busy loop."""


class Guardian:
    """The program `guardian.py` of this process. Every method may be called from any thread, and never raises."""

    _program: subprocess.Popen[bytes] | None

    def __init__(self) -> None:
        self._reports: int | None = None
        """The descriptor to which forked processes report themselves; -1 until there is one, `None` if they do not."""
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def watch_agents(self) -> None:
        """Have all further processes that code in this process starts, beside its children, ended with it."""
        identity = secrets.token_hex(8)
        os.environ[AGENTS_MARK] = identity  # inherited by all programs that are started, in whatever way
        self._reports = -1
        self.watch(identity)

    def watch_socket(self, path: str) -> None:
        """Have the file of a socket removed when this process is gone. For processes that called `watch_agents`."""
        with self._lock:
            self._sockets[path] = guardian.socket_identity(path)
            self._say(_socket_news(path, self._sockets[path]))

    def last_news(self) -> None:
        """Report all descendants of this process, which is about to end, whether they have the mark or not."""
        with self._lock:
            if self._reports is not None and self._program is not None:
                for pid in _descendants(os.getpid(), {self._program.pid, *self._children.values(), *self._spared}):
                    self._say(f"process {pid}")

    def spare(self, pid: int) -> None:
        """Exempt a process that we started, and that is to outlive us."""
        with self._lock:
            self._spared.add(pid)

    def watch(self, identity: str) -> None:
        """Report a child that is about to be launched with this mark; start the program if it does not run."""
        with self._lock:
            self._children[identity] = None
            if not self._say(f"watch {identity}"):
                self._start()

    def group(self, identity: str, pid: int) -> None:
        """Report that a child was launched, as the leader of its process group."""
        with self._lock:
            if identity in self._children:
                self._children[identity] = pid
                self._say(f"group {identity} {pid}")

    def pace(self, identity: str, word: str) -> None:
        """Report how a child is to be ended.

        Args:
            word: `slow` where it may be downloading, `asked` once it was sent SIGTERM, `quick` when it serves.
        """
        with self._lock:
            if identity in self._children:
                self._paces[identity] = word if word != "quick" else ""
                self._say(f"{word} {identity}")

    def leave(self, identity: str) -> None:
        """Report that a child and its descendants are gone; end the program with the last child."""
        with self._lock:
            self._children.pop(identity, None)
            self._paces.pop(identity, None)
            self._say(f"leave {identity}")
            if not self._children:
                self._stop()

    def _start(self) -> None:
        command = [sys.executable, "-I", "-S", guardian.__file__]
        try:
            self._program = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # A bridge may be the child of another, which ends all processes with the mark of its child.
                env={name: value for name, value in os.environ.items() if name not in (MARK, AGENTS_MARK)},
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            logger.warning("servers will outlive this process if it is killed: no guardian: %s", error)
            return
        if self._reports is not None and self._program.stdin is not None:
            self._reports = self._program.stdin.fileno()
        for identity, pid in self._children.items():
            self._say(f"watch {identity}" if pid is None else f"group {identity} {pid}")
        for identity, word in self._paces.items():
            for each in filter(None, ("slow" if word else "", word if word == "asked" else "")):
                self._say(f"{each} {identity}")
        for path, about in self._sockets.items():
            self._say(_socket_news(path, about))
        with suppress(RuntimeError):  # no thread can be started
            threading.Thread(target=self._keep, args=(self._program,), name="guardian", daemon=True).start()

    def _keep(self, program: subprocess.Popen[bytes]) -> None:
        """Replace a program that ends although there are children."""
        program.wait()
        if not self._is_missed(program):
            return
        time.sleep(_PAUSE)
        with self._lock:
            if self._is_missed(program):
                logger.warning("the guardian of this process's children was ended; it is started again")
                self._stop()
                self._start()

    def _is_missed(self, program: subprocess.Popen[bytes]) -> bool:
        return self._program in (program, None) and bool(self._children)

    def _say(self, line: str) -> bool:
        """Write a line to the program; return whether there is one that received it."""
        if self._program is None or self._program.stdin is None:
            return False
        try:
            self._program.stdin.write(line.encode() + b"\n")
        except OSError:
            self._stop()
            return False
        return True

    def _stop(self) -> None:
        """End the program; it does nothing more if it knows of no child."""
        program, self._program = self._program, None
        if program is None or program.stdin is None:
            return
        with suppress(OSError):
            program.stdin.close()
        program.kill()  # it ignores gentler signals, and has nothing to clean up
        program.wait()

    def _forked(self) -> None:
        """Report a forked process, from inside, to have it ended with its parent; its own forks do the same."""
        reports, program = self._reports, self._program
        if reports is not None and reports >= 0:
            with suppress(OSError):
                os.write(reports, b"process %d\n" % os.getpid())
            if program is not None:
                reports = os.dup(reports)
        self._forget()
        self._reports = reports

    def _forget(self) -> None:
        """Reset to no program. A forked child does not own the program of its parent, nor its children."""
        self._lock = threading.Lock()
        self._program = None
        self._children: dict[str, int | None] = {}
        self._paces: dict[str, str] = {}
        self._spared: set[int] = set()
        self._sockets: dict[str, str] = {}


def _socket_news(path: str, identity: str) -> str:
    return f"socket {os.fsencode(path).hex()} {identity}"


def _descendants(pid: int, besides: Collection[int | None]) -> list[int]:
    """Return the descendants of a process, without some and their descendants."""
    below: dict[int, list[int]] = {}
    for parent, child in parents() or _parents_listed():
        below.setdefault(parent, []).append(child)
    descendants: list[int] = []
    new = [pid]
    while new:
        new = [child for parent in new for child in below.get(parent, ()) if child not in besides]
        descendants += new
    return descendants


def _parents_listed() -> list[tuple[int, int]]:
    """Return the pairs of `parents` from the program `ps`, for systems without `/proc`."""
    command = ["ps", "-A", "-o", "ppid=,pid="]
    try:
        listed = subprocess.run(command, capture_output=True, timeout=_PAUSE, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [(int(parent), int(child)) for parent, child in map(bytes.split, listed.splitlines())]


GUARDIAN: Final = Guardian()
"""The guardian of this process."""
