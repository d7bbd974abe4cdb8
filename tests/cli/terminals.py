"""`gaia-bridge` on a terminal of its own, with somebody who types."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.waiting import eventually

__all__ = ["CTRL_C", "CTRL_D", "Terminal", "terminal"]

DEADLINE = 30.0
"""Seconds for anything that a test waits for; only a broken program needs them."""

CTRL_C, CTRL_D = "\x03", "\x04"

ROWS, COLUMNS = 24, 80

ON_ITS_TERMINAL = """
import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("gaia_bridge", run_name="__main__", alter_sys=True)
"""
"""Makes the terminal the one that Ctrl-C of this session comes from, and then runs the program."""


class Terminal:
    """A program on a terminal.

    Args:
        process: The program.
        descriptor: Our end of its terminal.
    """

    def __init__(self, process: subprocess.Popen[str], descriptor: int) -> None:
        self.process = process
        self.shown = ""
        """Everything that the terminal was told to show, with all its control characters."""
        self._descriptor = descriptor
        self._end = time.monotonic() + DEADLINE

    @property
    def left(self) -> str:
        """What is left to see of it, if nothing moves the cursor but the removal of lines."""
        return self.shown.rpartition("\x1b[2K")[2]

    def type(self, text: str) -> None:
        """Press keys, once the program waits: Python overlooks a Ctrl-C that comes right before it begins to read."""
        eventually(lambda: psutil.Process(self.process.pid).status() == psutil.STATUS_SLEEPING)
        os.write(self._descriptor, text.encode())

    def until(self, text: str) -> None:
        """Wait until a text was shown.

        Raises:
            AssertionError: It never was.
        """
        while text not in self.shown:
            assert self._read(), f"it ended without {text!r}:\n{self.shown!r}"

    def ended(self) -> int:
        """The exit code, once it has ended and everything was shown."""
        while self._read():
            pass
        return self.process.wait(DEADLINE)

    def output(self) -> str:
        """What went to standard output, if that is not the terminal."""
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def _read(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], max(0, self._end - time.monotonic()))
        assert ready, f"nothing comes any more:\n{self.shown!r}"
        try:
            found = os.read(self._descriptor, 65_536)
        except OSError:  # Linux says so when the program has closed its end
            return False
        self.shown += found.decode(errors="replace")
        return bool(found)


@contextmanager
def terminal(
    *arguments: str, cwd: Path | None = None, output: int | None = None, errors: int | None = None
) -> Generator[Terminal]:
    """Run `gaia-bridge` on a terminal; it is killed in the end if it still runs.

    Args:
        arguments: Its command line.
        cwd: Its folder.
        output: Where its standard output goes if not to the terminal.
        errors: Where its standard error goes if not to the terminal.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    try:
        with subprocess.Popen(
            [sys.executable, "-c", ON_ITS_TERMINAL, *arguments],
            cwd=cwd,
            stdin=theirs,
            stdout=theirs if output is None else output,
            stderr=theirs if errors is None else errors,
            text=True,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        ) as process:
            os.close(theirs)
            try:
                yield Terminal(process, ours)
            finally:
                process.kill()
    finally:
        os.close(ours)
