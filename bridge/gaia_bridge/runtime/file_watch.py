"""Waits until files change, and are saved. By looking at them, not by a watch of the operating system.

A watch that reports changes takes a thread that wakes up twenty times a second, is one of few that a user may have,
which editors use up, and is silent on some file systems. A look waits for the disk, which may be one of a network that
does not answer: so it is a thread that looks, never the event loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from typing import Final

import anyio

_STEP: Final = 0.05
"""Seconds without a change after which a file is taken as saved: saving is several of them."""

_GATHERED: Final = 5
"""Steps after which a change is told although the files go on changing."""


Signature = dict[Path, tuple[int, ...]]
"""What is seen of each file that is there."""


class FileWatch:
    """Knows how files were when they were read last, and waits until they are otherwise.

    All methods but the coroutine wait for the disk: on an event loop, call them in a thread.

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
        self._seen = _signature(self._files)

    def read(self) -> None:
        """The files are about to be read: what changes from now on is a change."""
        self._seen = _signature(self._files)

    def follow(self) -> None:
        """Ask for the files again. Those that are new are as they should be; the others are as they were read."""
        if (files := self._named()) != self._files:
            self._adopt(files, _signature(files))

    def changed(self) -> frozenset[Path]:
        """The files that are otherwise now than when they were read."""
        now = _signature(self._files)
        return frozenset(path for path in self._files if now.get(path) != self._seen.get(path))

    async def until_saved(self) -> None:
        """Wait for a change, and then until the files stay as they are."""
        await self._until_changed()
        seen = await self._look()
        for _ in range(_GATHERED):
            await anyio.sleep(_STEP)
            before, seen = seen, await self._look()
            if seen == before:
                return

    async def _look(self) -> Signature:
        return await anyio.to_thread.run_sync(_signature, self._files, abandon_on_cancel=True)

    async def _until_changed(self) -> None:
        """Wait until a thread, which looks at the files now and then, has seen a change."""
        loop, changed, enough = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def compare(files: frozenset[Path], now: Signature) -> None:
            if files != self._files:
                self._adopt(files, now)
            if now != self._seen:
                changed.set()

        def look() -> None:
            while not enough.wait(self._interval):
                try:
                    files = self._named() if self._live else self._files
                except OSError:  # a folder that cannot be read now may be readable at the next look
                    continue
                now = _signature(files)
                if files != self._files or now != self._seen:
                    with suppress(RuntimeError):  # the loop has ended
                        loop.call_soon_threadsafe(compare, files, now)

        threading.Thread(target=look, name="file watch", daemon=True).start()  # it may hang with its disk
        try:
            await changed.wait()
        finally:
            enough.set()

    def _adopt(self, files: frozenset[Path], now: Signature) -> None:
        """Look at other files from now on: those that are new are as they should be, the others as they were read."""
        fresh, self._files = files - self._files, files
        before = {path: (now if path in fresh else self._seen).get(path) for path in files}
        self._seen = {path: signature for path, signature in before.items() if signature is not None}

    def _named(self) -> frozenset[Path]:
        return frozenset(path.absolute() for path in self._name_files())


def _signature(files: Iterable[Path]) -> Signature:
    """Return what tells one state of the files from the next, without reading them."""
    signature: Signature = {}
    for path in files:
        with suppress(OSError):
            about = os.stat(path)
            if S_ISDIR(about.st_mode):
                signature[path] = (hash(frozenset(name for name in os.listdir(path) if name.endswith(".py"))),)
                continue
            # The last is another one after a change of who may write the file, too.
            signature[path] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return signature
