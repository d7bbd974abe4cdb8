"""What is printed: results alone on standard output, and numbers as people write them."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout


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
