"""The upstream servers that `serve` starts: those of the user, and those of the project that the user has approved.

A running bridge has them as its configuration files have them. A server whose entry did not change keeps its process,
and so does one where only that changed which of its tools are published, and how. A file that cannot be read changes
nothing: an editor that is half-way through saving a file must not stop anybody's servers.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config import Layer, LayerState, LoadReport, ServersConfig, TrustStore, current_folder
from gaia_bridge.config.documents import is_disabled
from gaia_bridge.config.expansion import referenced_files
from gaia_bridge.config.fingerprints import LAUNCH_KEYS, launch_line
from gaia_bridge.config.launching.programs import programs_of
from gaia_bridge.config.launching.workplaces import lies_in_workspace
from gaia_bridge.config.layers import is_local
from gaia_bridge.config.trust import approval_key, program_names
from gaia_bridge.errors import ConfigError, PublishError
from gaia_bridge.model import LeftOut, ServerSpec
from gaia_bridge.runtime.file_watch import FILE_INTERVAL, FileWatch
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)


class _ApprovedServer(Struct, frozen=True):
    """A server that needs an approval and has one, as it was approved."""

    file: Path
    entry: JSON
    spec: ServerSpec


class ConfiguredServers:
    """Reads the configuration, once at the start and again whenever a file changes.

    A file in the folder where we run may be written by an agent that works there, for a client. So what it lists beyond
    what it listed at the start needs an approval, as what a project lists does.

    A server whose entry or program is changed goes on as it was approved until the change is approved as well.
    Before each start of a server, its approval is checked again.

    Args:
        path: The one file that counts, approved by being named; if `None`, the user's file and the project's.

    Raises:
        ConfigError: There is no current folder.

    Attributes:
        left_out: The servers that are not used although nobody disabled them, and the files that cannot be.
    """

    def __init__(self, path: Path | None) -> None:
        self._config = ServersConfig(path, strict=True)
        self.left_out: tuple[LeftOut, ...] = ()
        self._path = path
        self._logged: frozenset[str] = frozenset()
        self._in_use: dict[str, _ApprovedServer] = {}
        self._folder = current_folder()
        self._exposed = {layer.path for layer in self._config.layers if lies_in_workspace(layer.path)}
        self._at_the_start = {
            approval_key(layer.path, name, entry): program_names(layer.path, entry)
            if layer.path in self._exposed
            else None
            for layer in self._config.layers
            if not is_local(layer)
            for name, entry in layer.entries.items()
            if is_object(entry)
        }

    @property
    def files(self) -> list[Path]:
        """The files that decide about the servers; those of approvals do as well."""
        files = [layer.path for layer in self._config.layers]
        if not self._path or self._exposed:
            with suppress(ConfigError):  # without a home folder nothing is ever approved
                files.append(TrustStore().path)
        return files

    @property
    def own_files(self) -> tuple[Path, ...]:
        """The files that decide what is started: `files`, and the programs and references of launch lines."""
        return (*self.files, *self.programs)

    @property
    def programs(self) -> tuple[Path, ...]:
        """The files that launch lines name, as programs or as references."""
        files: set[Path] = set()
        for layer in self._config.layers:
            for entry in filter(is_object, layer.entries.values()):
                for folder in {layer.path.parent, self._folder}:
                    files.update(programs_of(entry, folder).files)
                names = referenced_files(entry, LAUNCH_KEYS)
                files.update(layer.path.parent / os.path.expanduser(name) for name in names)
        return tuple(files)

    def first(self) -> Sequence[ServerSpec]:
        """Return the servers at the start. A broken file that was not named leaves its servers out.

        Raises:
            ConfigError: The file that was named cannot be used.
        """
        report = self._report(_Approvals(self._at_the_start))
        if self._path is not None and all(layer.state is LayerState.ABSENT for layer in self._config.layers):
            raise ConfigError(str(self._path), "cannot be read: No such file or directory")
        for error in report.errors:
            if self._path is not None:
                raise error
            logger.error("its servers are left out: %s", error)
        return self._use(report, {})

    def again(self) -> Sequence[ServerSpec]:
        """Return the servers after a change.

        Raises:
            ConfigError: A file cannot be used; whatever runs should stay as it is.
        """
        self._config.reload()
        approvals = _Approvals(self._at_the_start)
        report = self._report(approvals)
        for error in (*report.errors, *approvals.errors):
            raise error
        return self._use(report, self._held(report, approvals))

    def refusal(self, spec: ServerSpec) -> str | None:
        """Return why a server must not be started as it is now; `None` if it is what the user approved."""
        used = self._in_use.get(spec.name)
        if used is None or used.spec.options.approval != spec.options.approval:
            return "its entry is another one now"
        try:
            approval = _Approvals(self._at_the_start).approval(used.file, spec.name, used.entry)
        except ConfigError as error:
            return f"whether it was approved cannot be told: {error}"
        if approval == spec.options.approval:
            return None
        return f"it was changed since it was approved; run: {self._trust_command(spec.name)}"

    def _held(self, report: LoadReport, approvals: TrustStore) -> dict[str, _ApprovedServer]:
        """Return the servers that were changed since they were approved, as they were before."""
        return {
            name: used
            for layer_report in report.layers
            for name in layer_report.unapproved
            if (used := self._in_use.get(name)) is not None
            and used.file == _approved_as(layer_report.layer, name)
            and approvals.holds(used.file, name, used.spec.options.approval)
        }

    def _use(self, report: LoadReport, held: dict[str, _ApprovedServer]) -> Sequence[ServerSpec]:
        """Remember which entry was approved for each server, and log what is left out."""
        servers = {spec.name: spec for spec in report.servers} | {name: used.spec for name, used in held.items()}
        approved = {
            spec.name: _ApprovedServer(_approved_as(of_file.layer, spec.name), of_file.layer.entries[spec.name], spec)
            for of_file in report.layers
            for spec in of_file.servers
            if spec.options.approval
        }
        self._in_use = approved | held
        self._log(report, held)
        return tuple(servers.values())

    def _trust_command(self, name: str) -> str:
        file = "" if self._path is None else f"--config {shlex.quote(str(self._path))} "
        return f"gaia-bridge trust {file}{shlex.quote(name)}"

    def _report(self, approvals: TrustStore) -> LoadReport:
        return self._config.resolve(trust=approvals, asks=lambda layer: is_local(layer) or layer.path in self._exposed)

    def _log(self, report: LoadReport, held: Mapping[str, _ApprovedServer]) -> None:
        """Log what is left out and what is odd; no line that the previous reading logged."""
        lines = list(report.warnings)
        left_out = [LeftOut("file", error.place, error.problem) for error in report.errors]
        for layer in report.layers:
            kept = {name: used for name, used in held.items() if name in layer.unapproved}
            for name, used in kept.items():
                left_out.append(LeftOut("change", name, self._what_was_changed(used, layer.layer.entries[name])))
                lines.append(f"{layer.layer.path}: server {name}: {left_out[-1].reason}")
            skipped = [
                item
                for item in layer.skipped
                if item.name not in kept and not is_disabled(layer.layer.entries[item.name])
            ]
            lines += [f"{layer.layer.path}: server {item.name} is left out: {item.reason}" for item in skipped]
            left_out += [LeftOut("server", item.name, item.reason) for item in skipped]
        for line in lines:
            if line not in self._logged:
                logger.warning("%s", line)
        self._logged = frozenset(lines)
        self.left_out = tuple(left_out)

    def _what_was_changed(self, used: _ApprovedServer, entry: object) -> str:
        command = self._trust_command(used.spec.name)
        if is_object(entry) and launch_line(entry) == launch_line(used.entry):
            return (
                "its program was changed since it was approved; the approved version runs until it is restarted: "
                + command
            )
        return f"its entry was changed since it was approved; the approved one is used until: {command}"


class _Approvals(TrustStore):
    """Approves the entries that were there at the start, and remembers errors of questions about approvals.

    Args:
        given: The `approval_key`s that need no approval, as long as the entries would run the files of these names.
    """

    def __init__(self, given: Mapping[str, str | None]) -> None:
        super().__init__()
        self.errors: list[ConfigError] = []
        self._given = given

    def approval(self, file: Path, name: str, entry: JSON) -> str | None:
        key = approval_key(file, name, entry)
        if key in self._given and self._given[key] == program_names(file, entry):
            return key
        try:
            return super().approval(file, name, entry)
        except ConfigError as error:
            self.errors.append(error)
            raise

    def holds(self, file: Path, name: str, approval: str) -> bool:
        return approval in self._given or super().holds(file, name, approval)


def _approved_as(layer: Layer, name: str) -> Path:
    """Return the file that the entry of a server is approved as a part of."""
    return layer.approved_as(layer.entries[name]) or layer.path


class _Publishes(Protocol):
    async def add_upstream(self, spec: ServerSpec) -> str: ...

    def adjust_upstream(self, spec: ServerSpec) -> None: ...

    async def remove(self, name: str) -> None: ...


class Difference(Struct, frozen=True):
    """The steps that make the running servers those of the files."""

    removed: tuple[str, ...]
    """Names that are gone, and names of entries that changed."""
    added: tuple[ServerSpec, ...]
    """Entries that are new, and those that changed."""
    adjusted: tuple[ServerSpec, ...] = ()
    """Entries of which only the settings changed that say which tools are published, and how."""


def difference(running: Mapping[str, ServerSpec], wanted: Iterable[ServerSpec]) -> Difference:
    """Compare the running servers, by name, with the wanted ones, entry by entry; disabled ones are not wanted."""
    new = {spec.name: spec for spec in wanted if not spec.options.disabled}
    changed = {name for name, spec in running.items() if new.get(name) != spec}
    adjusted = {name for name in changed & new.keys() if _reached(running[name]) == _reached(new[name])}
    return Difference(
        removed=tuple(name for name in running if name in changed - adjusted),
        added=tuple(spec for name, spec in new.items() if running.get(name) != spec and name not in adjusted),
        adjusted=tuple(spec for name, spec in new.items() if name in adjusted),
    )


def _reached(spec: ServerSpec) -> ServerSpec:
    """Return an entry without its settings of published tools. Its secrets stay: keep it out of logs."""
    return replace(spec, options=replace(spec.options, allowed_tools=None, disabled_tools=(), tools={}))


class Reloader:
    """Applies the configuration to a bridge, now and whenever a file changes.

    Args:
        bridge: Where servers are published.
        read: Reads the configuration; raises `ConfigError` where it cannot be used.
        files: Returns the configuration's files, as they are now. They need not exist yet.

    Attributes:
        left_out: The servers that the bridge refused, or the file that keeps everything as it was.
    """

    def __init__(
        self, bridge: _Publishes, read: Callable[[], Sequence[ServerSpec]], files: Callable[[], Iterable[Path]]
    ) -> None:
        self._bridge = bridge
        self._read = read
        self._watch = FileWatch(files, FILE_INTERVAL)
        self.left_out: tuple[LeftOut, ...] = ()
        self._running: dict[str, ServerSpec] = {}
        self._lock = anyio.Lock()

    async def apply(self, wanted: Sequence[ServerSpec]) -> None:
        """Make the servers of the bridge those that are wanted. A server whose name is taken is left out and logged."""
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
