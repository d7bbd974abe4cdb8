"""Lines that somebody types.

They are read on the event loop, not in a thread: a thread that reads cannot be called off, and would keep the process.
"""

from __future__ import annotations

import os
import termios
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import anyio
import click

_INPUT: Final = 0
"""The descriptor of standard input."""

_LONGEST: Final = 64 * 1024
"""Bytes of a line; a terminal takes 4,096."""


class NoLineError(Exception):
    """Whoever was asked typed no line: Ctrl-D, or more than a line may have."""


def say(*lines: str) -> None:
    """Show lines on standard error."""
    for line in lines:
        click.echo(line, err=True)


class TerminalLines:
    """The terminal that standard input is."""

    def __init__(self) -> None:
        self._typed = b""

    def forget(self) -> None:
        """Take what was typed so far for no answer."""
        termios.tcflush(_INPUT, termios.TCIFLUSH)
        self._typed = b""

    async def line(self, prompt: str, *, hidden: bool = False) -> str:
        """Ask for one line.

        Args:
            prompt: What is asked.
            hidden: Show nothing of what is typed.

        Raises:
            NoLineError: None was typed.
        """
        click.echo(prompt, nl=False, err=True)
        with _unseen() if hidden else _seen():
            while b"\n" not in self._typed:
                await anyio.wait_readable(_INPUT)
                piece = os.read(_INPUT, _LONGEST)
                if not piece or len(self._typed) > _LONGEST:
                    raise NoLineError
                self._typed += piece
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace")


@contextmanager
def _seen() -> Generator[None]:
    yield


@contextmanager
def _unseen() -> Generator[None]:
    """Show nothing of what is typed, to the end of the block."""
    before = termios.tcgetattr(_INPUT)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(_INPUT, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(_INPUT, termios.TCSADRAIN, before)
        click.echo(err=True)  # the end of the line, which was not shown either
