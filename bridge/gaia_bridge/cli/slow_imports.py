"""Says what is still being imported, where that takes long: an agent that waits looks like a bridge that hangs."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["told_of_slow_imports"]

logger = logging.getLogger(__name__)

_PATIENCE = 5.0
"""Seconds until that is said; a large library takes two or three."""

_SERVES = 'what starts a server belongs under `if __name__ == "__main__":`'


@contextmanager
def told_of_slow_imports(patience: float = _PATIENCE) -> Generator[None]:
    """While the block runs, say every so often which module the calling thread is importing.

    Args:
        patience: Seconds until that is said, and until it is said again.
    """
    done, importer = threading.Event(), threading.get_ident()

    def watch() -> None:
        waited = 0.0
        while not done.wait(patience):
            waited += patience
            frame = sys._current_frames().get(importer)  # pyright: ignore[reportPrivateUsage] # documented
            logger.warning("agents are still being loaded after %g s: %s", waited, _being_imported(frame))

    watcher = threading.Thread(target=watch, name="imports", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(_PATIENCE)  # what it is just saying is said before the block is over


def _being_imported(frame: FrameType | None) -> str:
    """The innermost module that a thread is importing, and the line of it that is being run."""
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            return f"module {frame.f_globals.get('__name__')!r} is at {where} ({_SERVES})"
        frame = frame.f_back
    return "no module is being imported"
