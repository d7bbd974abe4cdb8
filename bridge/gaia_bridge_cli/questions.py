"""Whether there is somebody to ask, and what is said where there is nobody."""

from __future__ import annotations

import sys
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
