"""Keeps standard output for results: what agents print while they load goes to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout

__all__ = ["stdout_to_stderr"]


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
