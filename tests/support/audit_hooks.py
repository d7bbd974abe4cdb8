"""What the interpreter really does: every process that it starts and every file that it writes, whoever asks it to."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Deeds", "deeds"]

_LAUNCHES = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.spawn", "os.fork", "os.forkpty")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_listening: list[Deeds] = []
_hooked: list[bool] = []


@dataclass
class Deeds:
    """What was done."""

    launched: list[str] = field(default_factory=list[str])
    """What was to be run, as the interpreter was told."""
    written: list[str] = field(default_factory=list[str])
    """Files that were opened to be written, or replaced."""


@contextmanager
def deeds() -> Generator[Deeds]:
    """Note what this process does until the end of the block."""
    if not _hooked:  # a hook stays for ever
        sys.addaudithook(_hear)
        _hooked.append(True)
    done = Deeds()
    _listening.append(done)
    try:
        yield done
    finally:
        _listening.remove(done)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listening:
        return
    if event in _LAUNCHES:
        _note("launched", f"{event} {arguments!r}")
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
        _note("written", str(arguments[0]))
    elif event in ("os.rename", "os.link", "os.symlink"):
        _note("written", str(arguments[1]))


def _note(kind: str, what: str) -> None:
    for done in _listening:
        getattr(done, kind).append(what)
