"""Checks the files of servers: whether they can be read, problems of their entries, and their approvals."""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Iterator
from functools import partial

from gaia_bridge.config import Layer, LayerKind, LayerState
from gaia_bridge.config.launching.workplaces import folder_warning
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.likeness import did_you_mean
from gaia_bridge_desk.doctor.checks import Finding, Kind, Level, Repair, Subject
from gaia_bridge_desk.doctor.repairing import OF_OTHERS, narrow
from gaia_bridge_desk.doctor.surroundings import ServerEntry, State, Surroundings

_FINE = Kind("config.fine", Level.OK, "the configuration can be read", "its servers are published")
_NONE = Kind(
    "config.none",
    Level.INFO,
    "no servers are configured",
    "the bridge publishes agents alone",
    "gaia-bridge add NAME COMMAND, or gaia-bridge import EDITOR",
)
_BROKEN = Kind(
    "config.broken",
    Level.ERROR,
    "a file of servers cannot be read",
    "none of its servers is published, and it is not written to",
    "mend it where the message says",
)
_NO_FILE = Kind(
    "config.no-file",
    Level.ERROR,
    "the file that was named is not there",
    "there is nothing to publish",
    "name another file; gaia-bridge add with --config makes it",
)
_UNKNOWN = Kind(
    "config.unknown-server",
    Level.ERROR,
    "the server that was named is not configured",
    "there is nothing to look at",
    "gaia-bridge list shows those that are",
)
_UNUSABLE = Kind(
    "config.unusable",
    Level.ERROR,
    "an entry cannot be used",
    "the server is left out; the others are published",
    "mend the entry as the message says",
)
_MISSING = Kind(
    "config.missing",
    Level.WARNING,
    "an entry refers to a variable, a file or a secret that is not there",
    "the server is left out here; where the variable is set, it is used",
    "set the variable where the bridge is started, or keep the value in a file: ${file:~/.gaia/secrets/NAME}",
)
_DOUBTFUL = Kind(
    "config.doubtful",
    Level.WARNING,
    "an entry has an unknown key, or a value that was probably not meant",
    "the key is ignored, or the value does something else than it says elsewhere",
    "change the entry as the message says",
)
_RELATIVE = Kind(
    "config.relative",
    Level.WARNING,
    "an entry of your own file names something in the folder that its program is started in",
    "your servers are started in folders of their own, because others write the folders that you work in",
    'write the folder that is meant into the entry: "cwd": "/FOLDER"; with "cwd": ".", it is the one where the bridge '
    "runs, once you approve the server there: gaia-bridge trust NAME",
)
_NO_KEYRING = Kind(
    "config.no-keyring",
    Level.WARNING,
    "an entry refers to the keyring, and the package for it is not installed",
    "the server is left out",
    "pip install 'gaia-mcp-bridge[keyring]', into the environment of gaia-bridge",
)
_OPEN_SECRET = Kind(
    "config.open-secret",
    Level.WARNING,
    "others can read a file of servers that holds a secret",
    "whoever reads it can use your token",
    "chmod go-rwx the file, or refer to the secret: ${env:NAME}",
    is_repairable=True,
)
_DISABLED = Kind(
    "config.disabled",
    Level.INFO,
    "servers are disabled",
    "they are not published",
    "gaia-bridge enable NAME",
)
_APPROVED = Kind(
    "trust.fine", Level.OK, "no server waits for an approval", "what a project lists is not started unseen"
)
_UNAPPROVED = Kind(
    "trust.unapproved",
    Level.WARNING,
    "a project lists a server that was not approved as it is",
    "it is not started: whoever wrote the project's file says what would run on your machine",
    "gaia-bridge trust NAME shows it, and asks",
)
_UNREADABLE = Kind(
    "trust.unreadable",
    Level.ERROR,
    "the approvals cannot be used",
    "no server of any project is started",
    "remove ~/.gaia/trust.json, and approve again: gaia-bridge trust",
)


def _check(at: Surroundings) -> list[Finding]:
    findings: list[Finding] = []
    for layer in at.servers.layers:
        findings += _of_layer(layer)
    if at.server is not None and not at.wanted:
        hint = did_you_mean(at.server, [entry.name for entry in at.entries])
        message = f"no server is called {printable(at.server, 100)!r}"
        findings.append(_UNKNOWN.finding(f"{message}; {hint}" if hint else message, at.server))
    for entry in at.wanted:
        findings += _of_entry(entry)
    off = [entry.name for entry in at.wanted if entry.state is State.DISABLED]
    if off:
        remedy = f"gaia-bridge enable {shlex.quote(off[0])}{at.config_words}"
        findings.append(_DISABLED.finding(f"disabled: {', '.join(off)}", off[0], remedy))
    if not at.entries and not findings:
        return [_NONE.finding("no servers are configured")]
    if not any(finding.level in (Level.WARNING, Level.ERROR) for finding in findings):
        number, used = len(at.wanted), sum(entry.state is State.USABLE for entry in at.wanted)
        files = ", ".join(str(layer.path) for layer in at.servers.layers if layer.state is LayerState.LOADED)
        rest = "" if used == number else f", {used} of them in use"
        findings.insert(0, _FINE.finding(f"{number} server{'s' * (number != 1)} in {files}{rest}", files))
    return findings


def _of_layer(layer: Layer) -> Iterator[Finding]:
    if layer.error is not None:
        yield _BROKEN.finding(str(layer.error), str(layer.path))
    elif layer.kind is LayerKind.EXPLICIT and layer.state is LayerState.ABSENT:
        yield _NO_FILE.finding(f"{layer.path} is not there", str(layer.path))
    for warning in layer.warnings:
        if "can read the secret" in warning:
            path = layer.path  # a project's file is the project's
            command = f"chmod go-rwx {shlex.quote(str(path))}"
            repair = (
                None
                if layer.kind is LayerKind.LOCAL or path.is_symlink()
                else Repair(command, partial(narrow, path, OF_OTHERS))
            )
            yield _OPEN_SECRET.finding(warning, str(path), command, repair)
        elif "names no servers" in warning:
            yield _DOUBTFUL.finding(warning, str(layer.path))


def _of_entry(entry: ServerEntry) -> Iterator[Finding]:
    where = f"{printable(entry.name, 100)} in {entry.layer.path}"
    if entry.has_keyring_reference and importlib.util.find_spec("keyring") is None:
        yield _NO_KEYRING.finding(f"{where} refers to the keyring", entry.name)
    elif entry.state is State.MISSING:
        yield _MISSING.finding(f"{where}: {entry.problem}", entry.name)
    elif entry.state is State.UNUSABLE:
        yield _UNUSABLE.finding(f"{where}: {entry.problem}", entry.name)
    placed = entry.layer.placed(entry.name, entry.layer.entries[entry.name])
    for warning in entry.warnings:
        kind = _RELATIVE if warning == folder_warning(placed) else _DOUBTFUL
        yield kind.finding(f"{where}: {warning}", entry.name)


def _check_trust(at: Surroundings) -> list[Finding]:
    if at.trust_problem:
        return [_UNREADABLE.finding(at.trust_problem)]
    waiting = [entry for entry in at.wanted if entry.state is State.UNAPPROVED]
    findings = [
        _UNAPPROVED.finding(
            f"{printable(entry.name, 100)} in {entry.layer.path} was not approved as it is now",
            entry.name,
            f"gaia-bridge trust {shlex.quote(entry.name)}{at.config_words}",
        )
        for entry in waiting
    ]
    return findings or [_APPROVED.finding("no server waits for an approval")]


CONFIGURATION = Subject(
    "Configuration",
    (
        *(_FINE, _NONE, _BROKEN, _NO_FILE, _UNKNOWN, _UNUSABLE, _MISSING, _DOUBTFUL, _RELATIVE),
        *(_NO_KEYRING, _OPEN_SECRET, _DISABLED),
    ),
    _check,
)
TRUST = Subject("Trust", (_APPROVED, _UNAPPROVED, _UNREADABLE), _check_trust)
