"""Output helpers: only results on standard output, numbers as people write them; and whether questions can be asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import IO, Any

import click


class NobodyToAskError(click.UsageError):
    """There is no terminal to ask on. The command line was valid, so its usage is not shown."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Show the message alone."""
        click.echo(f"error: {self.format_message()}", file=file, err=file is None)


def can_ask() -> bool:
    """Return whether there is a terminal on which questions are seen and answered."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `2 tools`; empty for zero."""
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else ""


@contextmanager
def stdout_to_stderr() -> Generator[None]:
    """Send standard output to standard error: `print`, and also writes to the descriptor itself."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
