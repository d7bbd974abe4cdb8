"""Our side of the guardian: one per process, told of every child before it is launched and after it is gone."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

from gaia_bridge.outbound.transports import guardian
from gaia_bridge.outbound.transports.guardian import MARK

__all__ = ["GUARDIAN", "Guardian"]

logger = logging.getLogger(__name__)


class Guardian:
    """The program `guardian.py` of this process. Every method may be called from any thread, and never raises."""

    _lock: threading.Lock
    _program: subprocess.Popen[bytes] | None
    _children: dict[str, int | None]

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def watch(self, identity: str) -> None:
        """A child is about to be launched with this mark; the program is started if it does not run."""
        with self._lock:
            self._children[identity] = None
            if not self._say(f"watch {identity}"):
                self._start()

    def group(self, identity: str, pid: int) -> None:
        """The child was launched, as the leader of its process group."""
        with self._lock:
            if identity in self._children:
                self._children[identity] = pid
                self._say(f"group {identity} {pid}")

    def leave(self, identity: str) -> None:
        """The child and its descendants are gone; the program ends with the last one."""
        with self._lock:
            self._children.pop(identity, None)
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
                # A bridge may be the child of another, which ends whatever carries the mark of its child.
                env={name: value for name, value in os.environ.items() if name != MARK},
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            logger.warning("servers will outlive this process if it is killed: no guardian: %s", error)
            return
        for identity, pid in self._children.items():
            self._say(f"watch {identity}" if pid is None else f"group {identity} {pid}")

    def _say(self, line: str) -> bool:
        """Whether there is a program that was told."""
        if self._program is None or self._program.stdin is None:
            return False
        try:
            self._program.stdin.write(line.encode() + b"\n")
        except OSError:
            self._stop()
            return False
        return True

    def _stop(self) -> None:
        """End the program; it does nothing when it knows of no child."""
        program, self._program = self._program, None
        if program is None or program.stdin is None:
            return
        with suppress(OSError):
            program.stdin.close()
        program.kill()  # it ignores gentler signals, and has nothing to put away
        program.wait()

    def _forget(self) -> None:
        """Begin without a program. A forked child does not have the one of its parent, nor its children."""
        self._lock = threading.Lock()
        self._program = None
        self._children = {}


GUARDIAN: Final = Guardian()
"""The one of this process."""
