"""Keeps the upstream servers of a running bridge as its configuration files have them.

A server whose entry did not change keeps its process, and so does one where only that changed which of its tools are
published, and how. What cannot be read changes nothing: an editor that is
half-way through saving a file must not stop anybody's servers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.errors import ConfigError, PublishError
from gaia_bridge.model import LeftOut, ServerSpec
from gaia_bridge.runtime.file_watch import FileWatch

logger = logging.getLogger(__name__)

_LOOK: Final = 0.5
"""Seconds between two looks at the files: hardly longer than an editor takes to save one."""


class _Publishes(Protocol):
    async def add_upstream(self, spec: ServerSpec) -> str: ...

    def adjust_upstream(self, spec: ServerSpec) -> None: ...

    async def remove(self, name: str) -> None: ...


class Difference(Struct, frozen=True):
    """What to do so that what runs is what the files say."""

    removed: tuple[str, ...]
    """Names that are gone, and those whose entry changed."""
    added: tuple[ServerSpec, ...]
    """Entries that are new, and those that changed."""
    adjusted: tuple[ServerSpec, ...] = ()
    """Entries where only that changed what is published of their servers."""


def difference(running: Mapping[str, ServerSpec], wanted: Iterable[ServerSpec]) -> Difference:
    """Compare what runs with what is wanted, entry by entry.

    Args:
        running: What runs, by name.
        wanted: What the files say. Disabled entries are not wanted.
    """
    new = {spec.name: spec for spec in wanted if not spec.options.disabled}
    changed = {name for name, spec in running.items() if new.get(name) != spec}
    adjusted = {name for name in changed & new.keys() if _reached(running[name]) == _reached(new[name])}
    return Difference(
        removed=tuple(name for name in running if name in changed - adjusted),
        added=tuple(spec for name, spec in new.items() if running.get(name) != spec and name not in adjusted),
        adjusted=tuple(spec for name, spec in new.items() if name in adjusted),
    )


def _reached(spec: ServerSpec) -> ServerSpec:
    """What an entry says of anything but the tools that are published. Secrets count: logs must be without them."""
    return replace(spec, options=replace(spec.options, allowed_tools=None, disabled_tools=(), tools={}))


class Reloader:
    """Applies the configuration to a bridge, now and whenever a file changes.

    Args:
        bridge: Where servers are published.
        read: Reads the configuration; raises `ConfigError` where it cannot be used.
        files: Tells the files that it comes from, as they are now. They need not exist yet.

    Attributes:
        left_out: What the bridge did not take, or what keeps everything as it was.
    """

    def __init__(
        self, bridge: _Publishes, read: Callable[[], Sequence[ServerSpec]], files: Callable[[], Iterable[Path]]
    ) -> None:
        self._bridge = bridge
        self._read = read
        self._watch = FileWatch(files, _LOOK)
        self.left_out: tuple[LeftOut, ...] = ()
        self._running: dict[str, ServerSpec] = {}
        self._lock = anyio.Lock()

    async def apply(self, wanted: Sequence[ServerSpec]) -> None:
        """Make the servers of the bridge those that are wanted. A name that is taken is left out and logged."""
        async with self._lock:
            await self._apply(wanted)

    async def reload(self) -> bool:
        """Read the configuration again and apply it.

        Returns:
            Whether it could be read; if not, everything stays as it was, and the log says why.
        """
        async with self._lock:  # while they are read as well: what was read first must not be applied last
            try:
                wanted = await anyio.to_thread.run_sync(self._read_again)
            except ConfigError as error:
                logger.error("the servers stay as they are: %s", error)
                self.left_out = (LeftOut("file", error.place, f"the servers stay as they were: {error.problem}"),)
                return False
            await anyio.to_thread.run_sync(self._watch.follow)
            before = dict(self._running)
            await self._apply(wanted)
            if before != self._running:
                logger.info("servers are now: %s", ", ".join(self._running) or "none")
            return True

    def _read_again(self) -> Sequence[ServerSpec]:
        """Read the configuration, which may wait for a disk or a keyring."""
        self._watch.read()
        return self._read()

    async def watch(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Reload after every change of a file, until cancelled."""
        task_status.started()
        while True:
            await self._watch.until_saved()
            await self.reload()

    async def _apply(self, wanted: Sequence[ServerSpec]) -> None:
        left_out: list[LeftOut] = []
        change = difference(self._running, wanted)
        for name in change.removed:
            del self._running[name]
            try:
                await self._bridge.remove(name)
            except PublishError:
                logger.debug("server %s was gone already", name)
        added = list(change.added)
        for spec in change.adjusted:
            try:
                self._bridge.adjust_upstream(spec)
            except PublishError:  # it broke, and may do better now
                del self._running[spec.name]
                added.append(spec)
            else:
                self._running[spec.name] = spec
        for spec in added:
            try:
                await self._bridge.add_upstream(spec)
            except PublishError as error:
                logger.error("server %s is left out: %s", spec.name, error)
                left_out.append(LeftOut("server", spec.name, error.problem))
            else:
                self._running[spec.name] = spec
        self.left_out = tuple(left_out)
