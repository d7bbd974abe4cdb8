"""What is printed: results alone on standard output, numbers as people write them; and who can be asked anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import IO, Any

import click


class NobodyToAskError(click.UsageError):
    """There is no terminal to ask on. The line was right, so that its usage is not shown."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Show the sentence alone."""
        click.echo(f"error: {self.format_message()}", file=file, err=file is None)


def can_ask() -> bool:
    """Whether there is a terminal on which questions are seen and answered."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def counted(number: int, noun: str) -> str:
    """A number of something, such as `2 tools`; nothing if there is none."""
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else ""


@contextmanager
def stdout_to_stderr() -> Generator[None]:
    """Send standard output to standard error: `print`, and also what writes to the descriptor itself."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
