"""Lists servers that were still starting when a bridge ended, for the next bridge. Run as a program of its own.

Some clients start a bridge for each operation: they list, and end it. A server that takes longer than they wait would
be started and ended with every one of them, and never be listed. The client must not wait either, and ends a bridge
that keeps it waiting; so a process of its own starts the server once more, lists it, and ends.

Usage: `python -m gaia_bridge.sources.upstream.late_listing`, with a `_Work` as JSON on standard input. The
starting process holds a lock and hands it on, so that there is one such program for each server at a time.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import msgspec

from gaia_bridge.client.transport_factory import limits_for
from gaia_bridge.client.transports.children.guardian import AGENTS_MARK, MARK
from gaia_bridge.client.transports.children.guardian_client import GUARDIAN
from gaia_bridge.config.file_editor import make_private_folder
from gaia_bridge.config.fingerprints import fingerprint
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.listing.feature_cache import LOCK_SUFFIX, FeatureCache, Unseen, lock_entry
from gaia_bridge.sources.upstream.source import Upstream

logger = logging.getLogger(__name__)

_LOOK: Final = 0.1
"""Seconds between two checks whether the old process of a server is gone; the system sends no event."""


class _Work(msgspec.Struct, frozen=True):
    """The server to list."""

    spec: StdioServerSpec
    group: int
    """The process group of the server that is being ended: two that download at once may get in each other's way."""
    folder: str

    @property
    def lock(self) -> Path:
        """The file whose lock this program holds, beside the entry of the server in the cache."""
        return Path(self.folder) / f"{fingerprint(self.spec)}{LOCK_SUFFIX}"


def list_later(unseen: Iterable[Unseen]) -> None:
    """Start a process for each server that lists it later. Never raises."""
    for spec, pid, folder in unseen:
        if folder is not None and pid is not None and isinstance(spec, StdioServerSpec):
            try:
                _start(_Work(spec, pid, str(folder)))
            except (OSError, ValueError, TypeError, NotImplementedError) as error:
                logger.debug("%s is not listed later: %s", spec.name, error)


def _start(work: _Work) -> None:
    description = msgspec.json.encode(work)
    make_private_folder(Path(work.folder))
    lock = lock_entry(work.lock)
    if lock is None:
        logger.debug("%s is being listed by another process", work.spec.name)
        return
    try:
        reading, writing = os.pipe()
        try:
            os.set_blocking(writing, False)
            if os.write(writing, description) == len(description):  # an entry larger than a pipe is not worth it
                _spawn(reading, lock)
        finally:
            os.close(reading)
            os.close(writing)
    finally:
        os.close(lock)


def _spawn(reading: int, lock: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    # A bridge may be the child of another, which ends every process with the mark of its child.
    environ = {name: value for name, value in os.environ.items() if name not in (MARK, AGENTS_MARK)}
    words = [sys.executable, "-P", "-m", __name__]
    streams = [(os.POSIX_SPAWN_DUP2, here, there) for here, there in ((reading, 0), (null, 1), (null, 2), (lock, 3))]
    try:
        GUARDIAN.spare(os.posix_spawn(words[0], words, environ, file_actions=streams, setsid=True))
    finally:
        os.close(null)


async def _list(work: _Work) -> None:
    """Start the server, and end it when its lists are stored, or when that takes too long."""
    limits = UpstreamLimits()
    with anyio.move_on_after(2 * limits.rollback_grace):
        while _is_alive(work.group):  # noqa: ASYNC110 - the system has no event for the end of a group
            await anyio.sleep(_LOOK)
    upstream = Upstream(work.spec, limits, cache=FeatureCache(Path(work.folder), limits))
    async with anyio.create_task_group() as tasks:
        await tasks.start(upstream.run)
        with anyio.move_on_after(limits_for(limits, work.spec).start_timeout + limits.listing_patience):
            await upstream.wait_settled()
        tasks.cancel_scope.cancel()


def _is_alive(group: int) -> bool:
    with suppress(OSError):
        os.killpg(group, 0)
        return True
    return False


def _main() -> None:
    work = msgspec.json.decode(sys.stdin.buffer.read(), type=_Work)
    try:
        anyio.run(_list, work)
    finally:
        work.lock.unlink(missing_ok=True)  # still held, until this process ends


if __name__ == "__main__":
    _main()
