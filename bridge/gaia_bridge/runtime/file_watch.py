"""Waits until files change, and are saved. By looking at them, not by a watch of the operating system.

A watch that reports changes takes a thread that wakes up twenty times a second, is one of few that a user may have,
which editors use up, and is silent on some file systems.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from typing import Final

import anyio

__all__ = ["FileWatch"]

_STEP: Final = 0.05
"""Seconds without a change after which a file is taken as saved: saving is several of them."""

_GATHERED: Final = 5
"""Steps after which a change is told although the files go on changing."""


class FileWatch:
    """Knows how files were when they were read last, and waits until they are otherwise.

    Args:
        name_files: Tells the files, and folders of Python files, whose names count. They need not exist yet.
        interval: Seconds between two looks.
        live: Whether `name_files` is asked before each look; else only by `follow`.
    """

    def __init__(self, name_files: Callable[[], Iterable[Path]], interval: float, *, live: bool = False) -> None:
        self._name_files = name_files
        self._interval = interval
        self._live = live
        self._files = self._named()
        self._seen = self._signature()

    def read(self) -> None:
        """The files are about to be read: what changes from now on is a change."""
        self._seen = self._signature()

    def follow(self) -> None:
        """Ask for the files again. Those that are new are as they should be; the others are as they were read."""
        if (files := self._named()) == self._files:
            return
        fresh, self._files = files - self._files, files
        now = self._signature()
        told = {path: (now if path in fresh else self._seen).get(path) for path in files}
        self._seen = {path: signature for path, signature in told.items() if signature is not None}

    def changed(self) -> frozenset[Path]:
        """The files that are otherwise now than when they were read."""
        now = self._signature()
        return frozenset(path for path in self._files if now.get(path) != self._seen.get(path))

    async def until_saved(self) -> None:
        """Wait for a change, and then until the files stay as they are."""
        await self._until_changed()
        seen = self._signature()
        for _ in range(_GATHERED):
            await anyio.sleep(_STEP)
            before, seen = seen, self._signature()
            if seen == before:
                return

    async def _until_changed(self) -> None:
        """Look at the files now and then. By a timer, since an idle bridge does little else: a task that sleeps between
        two looks costs twice as much."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            if self._live:
                self.follow()
            if self._signature() != self._seen:
                changed.set()
            else:
                timer = loop.call_later(self._interval, look)

        timer = loop.call_later(self._interval, look)
        try:
            await changed.wait()
        finally:
            timer.cancel()

    def _named(self) -> frozenset[Path]:
        return frozenset(path.absolute() for path in self._name_files())

    def _signature(self) -> dict[Path, tuple[int, ...]]:
        """What tells one state of the files from the next, without reading them."""
        found: dict[Path, tuple[int, ...]] = {}
        for path in self._files:
            with suppress(OSError):
                about = os.stat(path)
                if S_ISDIR(about.st_mode):
                    found[path] = (hash(frozenset(name for name in os.listdir(path) if name.endswith(".py"))),)
                    continue
                # The last is another one after a change of who may write the file, too.
                found[path] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        return found
