"""The user's servers and the project's, one on top of the other.

`~/.gaia/mcp_servers.json` is the global layer and `./mcp_servers.json` the local one, whose entries replace global ones
of the same name as a whole; a file that is named explicitly stands alone. The files stay separate: an edit changes
only the file that has the entry, and nothing is ever copied from one into the other. A layer that cannot be read
is reported, does not stop the other, and is not written to.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Set
from copy import deepcopy
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from gaia_bridge.config.documents import (
    LEGACY_SERVERS_KEY,
    SERVERS_KEY,
    access_warnings,
    is_disabled,
    servers_of,
    to_text,
    with_servers_key,
)
from gaia_bridge.config.entries import ParsedEntry, parse_entry
from gaia_bridge.config.file_editor import edit_json
from gaia_bridge.config.file_reader import JsonFile, read_json, writable_by_others
from gaia_bridge.config.launching.workplaces import (
    folder_warning,
    in_own_folder,
    lies_in_workspace,
    needs_current_folder,
)
from gaia_bridge.config.paths import (
    SERVERS_FILE,
    current_folder,
    default_servers_path,
    expanded,
    is_current_folder,
    local_servers_path,
)
from gaia_bridge.config.problems import EntryError, kind_of
from gaia_bridge.config.process_rules import ONLY_SHOWN
from gaia_bridge.config.trust import TrustStore
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import ServerSpec, repr_without
from gaia_bridge.protocol.names import SERVER_NAME_RULE, is_server_name
from gaia_bridge.text.json_types import JSON, is_object


class LayerKind(Enum):
    """The kind of a file."""

    GLOBAL = "global"
    """The user's own: `~/.gaia/mcp_servers.json`."""
    LOCAL = "local"
    """The project's: `./mcp_servers.json`, or the one beside an agent's file. The author of the project wrote it."""
    EXPLICIT = "explicit"
    """A file that the user named."""


class LayerState(Enum):
    """The outcome of reading a file."""

    LOADED = "loaded"
    ABSENT = "absent"
    """The file does not exist."""
    FAILED = "failed"
    """The file exists, and cannot be used."""


class Layer(Struct, frozen=True):
    """One file, as it was when it was read."""

    kind: LayerKind
    path: Path
    state: LayerState
    entries: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The decoded entries by name, in the order of the file."""
    error: ConfigError | None = None
    """The error of a failed layer."""
    warnings: tuple[str, ...] = ()
    """Warnings about the permissions of the file."""

    def __repr__(self) -> str:
        return repr_without(self, "entries")

    @property
    def is_in_place(self) -> bool:
        """Whether its programs are started in the current folder: the file came with that folder, or lies in it."""
        return is_local(self) or (self.kind is LayerKind.EXPLICIT and lies_in_workspace(self.path))

    def placed(self, name: str, entry: Any) -> Any:
        """Return an entry with its program's folder as `cwd`, if it names none and that is not the current one."""
        return entry if self.is_in_place else in_own_folder(name, entry)

    def approved_as(self, entry: Any) -> Path | None:
        """Return the file as a part of which an entry needs an approval; `None` if it needs none."""
        if is_local(self):
            return self.path
        if not needs_current_folder(entry) or self.is_in_place:
            return None
        try:
            return current_folder() / SERVERS_FILE
        except ConfigError:  # where there is no folder, nothing was approved in it
            return self.path

    def parsed(self, name: str, entry: Any, environ: Mapping[str, str] | None = None) -> ParsedEntry:
        """Parse an entry of this file, with the folder that its program is started in; see `parse_entry`.

        Raises:
            EntryError: The entry cannot be used.
        """
        placed = self.placed(name, entry)
        parsed = parse_entry(name, placed, self.path.parent, environ)
        warning = "" if placed is entry else folder_warning(placed)
        return replace(parsed, warnings=(*parsed.warnings, warning)) if warning else parsed


class SkippedServer(NamedTuple):
    """An entry that was left out, and the reason."""

    name: str
    reason: str


class LayerReport(Struct, frozen=True):
    """The servers of one file, and its problems."""

    layer: Layer
    servers: tuple[ServerSpec, ...] = ()
    skipped: tuple[SkippedServer, ...] = ()
    """Entries that are not used, each with its reason."""
    unapproved: frozenset[str] = frozenset()
    """The skipped entries that need an approval and have none in their present form."""
    overridden: tuple[str, ...] = ()
    """Names that the layer above has too."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user about a file that can be used."""


class LoadReport(Struct, frozen=True):
    """The servers and problems of all files together."""

    layers: tuple[LayerReport, ...]
    """The reports, the lowest layer first."""
    secrets: frozenset[str] = frozenset()
    """The values of references, for redaction."""

    def __repr__(self) -> str:
        return repr_without(self, "secrets")

    @property
    def servers(self) -> tuple[ServerSpec, ...]:
        """All servers that can be used."""
        return tuple(chain.from_iterable(report.servers for report in self.layers))

    @property
    def skipped(self) -> tuple[SkippedServer, ...]:
        """All entries that are not used."""
        return tuple(chain.from_iterable(report.skipped for report in self.layers))

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        """The errors of the files that could not be used."""
        return tuple(report.layer.error for report in self.layers if report.layer.error is not None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """All warnings."""
        return tuple(chain.from_iterable(report.warnings for report in self.layers))


_CHANGED: Final = (
    "its launch line was changed since the bridge was started, in a file that agents may be able to write; "
    "run: gaia-bridge trust"
)
_NOT_APPROVED: Final = {
    LayerKind.LOCAL: "a file of this project lists it, and its launch line was not approved; run: gaia-bridge trust",
    LayerKind.GLOBAL: _CHANGED,
    LayerKind.EXPLICIT: f"{_CHANGED} --config FILE",
}


def is_local(layer: Layer) -> bool:
    """Return whether a file came with the project, so that its entries need an approval."""
    return layer.kind is LayerKind.LOCAL


class ServersConfig:
    """All configured servers, and the one way to change them.

    Reading never raises: errors are in `layers` and in every report. The places of the files are decided once;
    the current folder may change later. Edits wait for other processes that edit the same file, a few seconds at most.

    Args:
        path: One file that stands alone; the global and the local one if not given.
        strict: Whether a file that other users could have written is refused. If not, it is a warning; and so
            it is for the project's file, whose entries need an approval anyway.
        beside: Folders to search for the project's file, if there is none in the current folder.
    """

    def __init__(self, path: Path | None = None, *, strict: bool = False, beside: Iterable[Path] = ()) -> None:
        explicit = None if path is None else _place(LayerKind.EXPLICIT, lambda: expanded(path), path)
        self._places = _stacked(tuple(beside)) if explicit is None else (explicit,)
        self._strict = strict
        self.reload()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The files, the lowest first."""
        return self._layers

    @property
    def entries(self) -> dict[str, Any]:
        """A copy of all entries, as decoded; of two with one name, the local one."""
        merged: dict[str, Any] = {}
        for layer in self._layers:
            merged |= layer.entries
        return deepcopy(merged)

    @property
    def save_target(self) -> Layer:
        """The file for a new entry: the local one if it existed when the files were read, else the global one."""
        return next(layer for layer in self._layers if layer.kind is self._target)

    def reload(self) -> None:
        """Read all files again."""
        self._layers = self._read()
        *_, top = self._layers
        self._target = self._layers[0].kind if top.state is LayerState.ABSENT else top.kind

    def owner(self, name: str) -> Layer | None:
        """Return the file whose entry of that name counts; `None` if there is no such entry."""
        return next((layer for layer in reversed(self._layers) if name in layer.entries), None)

    def counting(self, trust: TrustStore | None = None) -> tuple[dict[str, Layer], dict[str, str]]:
        """Return which file's entry of each name counts.

        Args:
            trust: As for `resolve`.

        Returns:
            The files by the names of servers; and of the entries that need an approval and have none, the reasons.
        """
        layers: dict[str, Layer] = {}
        refused: dict[str, str] = {}
        for layer in self._layers:
            held, _ = self._judged(layer, trust, is_local(layer)) if trust is not None else ({}, {})
            refused |= held
            layers |= dict.fromkeys(layer.entries.keys() - held.keys(), layer)
        return {name: layers[name] for name in self.entries if name in layers}, refused

    def resolve(
        self,
        environ: Mapping[str, str] | None = None,
        trust: TrustStore | None = None,
        asks: Callable[[Layer], bool] = is_local,
    ) -> LoadReport:
        """Parse all entries that count, and fill in their references.

        Args:
            environ: The variables for `${VAR}`; the process environment if not given.
            trust: If given, entries of the local file count only if they are approved there. Of the others not
                even the references are looked up. The store is not read where there are no such entries. An entry
                that is not approved replaces no global one.
            asks: Returns whether a file's entries need an approval.
        """
        environ = os.environ if environ is None else environ
        secrets: set[str] = set()
        above: set[str] = set()
        reports = list[LayerReport]()
        for layer in reversed(self._layers):
            refused, approved = ({}, {}) if trust is None else self._judged(layer, trust, asks(layer))
            reports.append(_resolved(layer, above, refused, approved, environ, secrets))
            above |= layer.entries.keys() - refused.keys()
        return LoadReport(tuple(reversed(reports)), frozenset(secrets))

    def target(self, name: str, to: LayerKind | None = None) -> Layer:
        """Return the file that `add` writes an entry into; relative paths in its references begin in that folder.

        Args:
            name: The server's name.
            to: The file; if not given, the one that has the entry already, or else `save_target`.

        Raises:
            ConfigError: The file is not in use.
        """
        if to is None:
            return self.owner(name) or self.save_target
        for layer in self._layers:
            if layer.kind is to:
                return layer
        raise ConfigError(f"the {to.value} file", "is not in use here", f"in use: {self._layers[0].path}")

    def add(self, name: str, entry: Mapping[str, Any], *, to: LayerKind | None = None, replace: bool = False) -> Path:
        """Write an entry into one file, which is returned.

        Args:
            name: The server's name.
            entry: The entry, as JSON.
            to: The file; as `target` chooses it if not given.
            replace: Whether an entry of that name in that file may be replaced.

        Raises:
            ConfigError: The name or the entry is not possible, the name is taken, or the file cannot be changed.
        """
        if not is_server_name(name):
            raise ConfigError(repr(name), "cannot be the name of a server", SERVER_NAME_RULE)
        value = _as_json(name, entry)
        layer = self.target(name, to)

        def change(entries: JSON) -> None:
            if name in entries and not replace:
                raise ConfigError(str(layer.path), f"there is a server {name!r} already")
            entries[name] = value

        self._edit(layer, change)
        return layer.path

    def remove(self, name: str, *, of: LayerKind | None = None) -> tuple[Path, ...]:
        """Remove an entry from every file that has it, so that it is gone; return these files.

        Args:
            name: The server's name.
            of: The only file to remove it from; a global entry may count then.

        Raises:
            ConfigError: A file cannot be changed.
        """
        layers = [layer for layer in self._read() if name in layer.entries and of in (None, layer.kind)]
        return tuple(layer.path for layer in layers if self._edit(layer, lambda entries: entries.pop(name, None)))

    def set_disabled(self, name: str, disabled: bool) -> Path:
        """Disable or enable a server in the file whose entry counts, which is returned.

        Raises:
            ConfigError: There is no such server, or the file cannot be changed.
        """
        if (layer := self.owner(name)) is None:
            names = ", ".join(self.entries) or "none"
            raise ConfigError(repr(name), "no configured server has that name", f"there are: {names}")

        def change(entries: JSON) -> None:
            entry = entries.get(name)
            if not is_object(entry):
                raise ConfigError(str(layer.path), f"server {name!r} is no object any more")
            if disabled or "disabled" in entry:
                entry["disabled"] = disabled

        self._edit(layer, change)
        return layer.path

    def _judged(self, layer: Layer, trust: TrustStore, asks: bool) -> tuple[dict[str, str], dict[str, str]]:
        """Return the entries of a file that need an approval and have none, with the reason and the entry that counts
        instead; and the approvals of the others."""
        below = {name: other for other in self._layers[: self._layers.index(layer)] for name in other.entries}
        reasons, approved = _approvals(layer, trust, asks)
        refused = {
            name: f"{reason}; until then, that of {below[name].path} counts" if name in below else reason
            for name, reason in reasons.items()
        }
        return refused, approved

    def _read(self) -> tuple[Layer, ...]:
        return tuple(place if place.error is not None else self._read_layer(place) for place in self._places)

    def _read_layer(self, place: Layer) -> Layer:
        path = place.path
        try:
            if not os.path.lexists(path):
                return place
            document, _, status = read_json(path)
            if self._strict and not is_local(place) and (problem := writable_by_others(status)):
                raise ConfigError(str(path), problem)
            entries = servers_of(document, path)
        except ConfigError as error:
            return Layer(place.kind, path, LayerState.FAILED, error=error)
        warnings = list(access_warnings(entries, path, status))
        if document and SERVERS_KEY not in document and LEGACY_SERVERS_KEY not in document:
            warnings.append(f'{path} names no servers; expected {{"mcpServers": {{NAME: {{"command": ...}}}}}}')
        return Layer(place.kind, path, LayerState.LOADED, entries, warnings=tuple(warnings))

    def _edit(self, layer: Layer, change: Callable[[JSON], object]) -> bool:
        """Change the current entries of a file, and read all files again; return whether the entries differ."""

        def edited(file: JsonFile | None) -> str | None:
            document = with_servers_key({} if file is None else file.document)
            entries = servers_of(document, layer.path)
            before = json.dumps(entries)  # the order of keys counts
            change(entries)
            return None if json.dumps(entries) == before else to_text(document, file.text if file else "")

        if ONLY_SHOWN.holds:
            return self._edit_in_memory(layer, change)
        place = next(place for place in self._places if place.kind is layer.kind)
        if (error := place.error or self._read_layer(place).error) is not None:
            raise error
        changed = edit_json(place.path, edited)
        self._layers = self._read()
        return changed

    def _edit_in_memory(self, layer: Layer, change: Callable[[JSON], object]) -> bool:
        entries = deepcopy(dict(layer.entries))
        change(entries)
        edited = replace(layer, entries=entries)
        self._layers = tuple(edited if each.kind is layer.kind else each for each in self._layers)
        return entries != layer.entries


def _stacked(beside: tuple[Path, ...]) -> tuple[Layer, ...]:
    places = (
        _place(LayerKind.GLOBAL, default_servers_path, Path("~/.gaia", SERVERS_FILE)),
        _place(LayerKind.LOCAL, lambda: local_servers_path(beside), Path(SERVERS_FILE)),
    )
    if any(place.error for place in places):
        return places
    first, second = (os.path.realpath(place.path) for place in places)
    return places[:1] if first == second else places  # they are the same when started in ~/.gaia


def _place(kind: LayerKind, find: Callable[[], Path], fallback: Path) -> Layer:
    """Return a file's place, not yet read; a failed layer if there is no such place."""
    try:
        return Layer(kind, find().absolute(), LayerState.ABSENT)
    except ConfigError as error:
        return Layer(kind, fallback, LayerState.FAILED, error=error)
    except OSError as error:  # a relative path, and no current folder
        problem = ConfigError(str(fallback), f"cannot be found: {error.strerror}")
        return Layer(kind, fallback, LayerState.FAILED, error=problem)


def _resolved(
    layer: Layer,
    above: Set[str],
    refused: Mapping[str, str],
    approved: Mapping[str, str],
    environ: Mapping[str, str],
    secrets: set[str],
) -> LayerReport:
    servers: list[ServerSpec] = []
    skipped: list[SkippedServer] = []
    warnings = list(layer.warnings)
    for name, entry in layer.entries.items():
        if name in above:
            continue
        try:
            if is_disabled(entry):
                raise EntryError("disabled")
            if name in refused:
                raise EntryError(refused[name])
            parsed = layer.parsed(name, entry, environ)
        except EntryError as problem:
            skipped.append(SkippedServer(name, str(problem)))
        else:
            options = replace(parsed.spec.options, approval=approved.get(name, ""))
            servers.append(replace(parsed.spec, options=options))
            warnings.extend(f"{layer.path}: server {name}: {warning}" for warning in parsed.warnings)
            secrets |= parsed.secrets
    overridden = tuple(name for name in layer.entries if name in above)
    unapproved = frozenset(refused.keys() - above)
    return LayerReport(layer, tuple(servers), tuple(skipped), unapproved, overridden, tuple(warnings))


def _approvals(layer: Layer, trust: TrustStore, asks: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the entries of a file that are not approved, or cannot be, with the reason; and the others' approvals.

    If the file as a whole needs no approval, only the entries that start in the current folder do.
    """
    reasons: dict[str, str] = {}
    approved: dict[str, str] = {}
    for name, entry in layer.entries.items():
        if is_disabled(entry):
            continue
        elsewhere = layer.approved_as(entry)
        if not asks and elsewhere is None:
            continue
        if not is_object(entry):
            reasons[name] = f"the entry is {kind_of(entry)}; expected an object"
            continue
        try:
            if (approval := trust.approval(elsewhere or layer.path, name, entry)) is not None:
                approved[name] = approval
            else:
                hint = f"{_not_approved(layer, asks)} {shlex.quote(name)}"
                reasons[name] = hint if is_server_name(name) else SERVER_NAME_RULE
        except ConfigError as error:
            reasons[name] = f"a file of this project lists it, and whether it was approved cannot be told: {error}"
    return reasons, approved


def _not_approved(layer: Layer, asks: bool) -> str:
    """Return the reason why an entry of that file is not used; the name of the server follows."""
    if not asks:
        named = f" --config {shlex.quote(str(layer.path))}" if layer.kind is LayerKind.EXPLICIT else ""
        return f"it is started in the current folder, and was not approved there; run: gaia-bridge trust{named}"
    reason = _NOT_APPROVED[layer.kind]
    is_elsewhere = is_local(layer) and not is_current_folder(layer.path.parent)
    return f"{reason} --config {shlex.quote(str(layer.path))}" if is_elsewhere else reason


def _as_json(name: str, entry: Mapping[str, Any]) -> JSON:
    """Return a copy that has only JSON values."""
    try:
        value: object = json.loads(json.dumps(dict(entry), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"server {name!r}", f"cannot be written as JSON: {error}") from None
    assert is_object(value)
    return value
