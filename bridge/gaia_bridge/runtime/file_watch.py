"""Waits until files change and are saved, by polling and not by notifications of the operating system.

Notifications take a thread that wakes up twenty times a second, are few for each user and used up by editors, and do
not come from some file systems. A poll waits for the disk, which may be a network disk that does not answer: so a
thread polls, never the event loop.
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
"""Seconds without a change after which a file counts as saved, since saving makes several changes."""

_GATHERED: Final = 5
"""Steps after which a change is reported although the files go on changing."""


Signature = dict[Path, tuple[int, ...]]
"""The inode, size and times of each existing file; of a folder, a hash of the names of its Python files."""


FILE_INTERVAL: Final = 0.5
"""Seconds between two looks at a file of settings: hardly longer than an editor takes to save one."""


class FileWatch:
    """Remembers the state of files when they were read last, and waits until it is another one.

    All methods but the coroutine wait for the disk: on an event loop, call them in a thread.

    Args:
        name_files: Returns the files, and folders of Python files, whose names count. They need not exist yet.
        interval: Seconds between two polls.
        live: Whether `name_files` is called before each poll; else only by `follow`.
    """

    def __init__(self, name_files: Callable[[], Iterable[Path]], interval: float, *, live: bool = False) -> None:
        self._name_files = name_files
        self._interval = interval
        self._live = live
        self._files = self._named()
        self._seen = _signature(self._files)

    def read(self) -> None:
        """Remember the state of the files, which are about to be read: later changes count."""
        self._seen = _signature(self._files)

    def follow(self) -> None:
        """Call `name_files` again. The present state of new files counts as read; that of the others stays."""
        if (files := self._named()) != self._files:
            self._adopt(files, _signature(files))

    def changed(self) -> frozenset[Path]:
        """Return the files that have changed since they were read."""
        now = _signature(self._files)
        return frozenset(path for path in self._files if now.get(path) != self._seen.get(path))

    async def until_saved(self) -> None:
        """Wait for a change, and then until the files no longer change."""
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
        """Wait until a thread, which polls the files, has seen a change."""
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
        """Watch other files from now on: the present state of new files counts as read, that of the others stays."""
        fresh, self._files = files - self._files, files
        before = {path: (now if path in fresh else self._seen).get(path) for path in files}
        self._seen = {path: signature for path, signature in before.items() if signature is not None}

    def _named(self) -> frozenset[Path]:
        return frozenset(path.absolute() for path in self._name_files())


def _signature(files: Iterable[Path]) -> Signature:
    """Return the state of the files, by which changes are recognized, without reading them."""
    signature: Signature = {}
    for path in files:
        with suppress(OSError):
            about = os.stat(path)
            if S_ISDIR(about.st_mode):
                signature[path] = (hash(frozenset(name for name in os.listdir(path) if name.endswith(".py"))),)
                continue
            # The time of the inode (`st_ctime_ns`) also changes with the permissions of the file.
            signature[path] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return signature
