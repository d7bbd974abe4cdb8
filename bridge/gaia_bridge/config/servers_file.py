"""One configuration file by itself, in the format that Claude Desktop made common.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"], "env": {"TOKEN": "${env:MY_TOKEN}"}}}}

Trouble with the file itself is a `ConfigError` that names the place. Trouble with one entry leaves that entry out, with
its reason, and the others load. No message and no `repr` shows a value: values may be secrets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from gaia_bridge.config.documents import servers_of
from gaia_bridge.config.entries import parse_entry
from gaia_bridge.config.file_reader import read_json, readable_by_others, writable_by_others
from gaia_bridge.config.paths import expanded
from gaia_bridge.config.problems import EntryError
from gaia_bridge.config.tool_transforms import default_values
from gaia_bridge.model import ServerSpec, repr_without
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge.text.redaction import redacted


class SkippedServer(NamedTuple):
    """An entry that was left out, and why."""

    name: str
    reason: str


class ServersFile(Struct, frozen=True):
    """What one configuration file says."""

    path: Path
    servers: tuple[ServerSpec, ...] = ()
    """In the order of the file."""
    skipped: tuple[SkippedServer, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the user should know although the file can be used."""
    secrets: frozenset[str] = frozenset()
    """What references led to, for redaction."""

    def __repr__(self) -> str:
        return repr_without(self, "secrets")


def load_servers(path: Path, environ: Mapping[str, str] | None = None) -> ServersFile:
    """Read a configuration file.

    Args:
        path: The file; a leading `~` is expanded.
        environ: Where `${...}` is looked up; the process environment if not given.

    Raises:
        ConfigError: The file cannot be read or is not a configuration file.
    """
    path = expanded(path)
    document, _, status = read_json(path)
    return parse_servers(document, path, os.environ if environ is None else environ, status)


def parse_servers(
    document: JSON, path: Path, environ: Mapping[str, str], status: os.stat_result | None = None
) -> ServersFile:
    """Understand the content of a configuration file.

    Args:
        document: The content.
        path: Where it came from.
        environ: Where `${...}` is looked up.
        status: What the system knows about the file, if its permissions are to be judged.

    Raises:
        ConfigError: The servers are not an object.
    """
    entries = servers_of(document, path)
    servers: list[ServerSpec] = []
    skipped: list[SkippedServer] = []
    warnings = [] if status is None else access_warnings(entries, path, status)
    secrets: set[str] = set()
    for name, entry in entries.items():
        try:
            if is_disabled(entry):
                raise EntryError("disabled")
            parsed = parse_entry(name, entry, path.parent, environ)
        except EntryError as problem:
            skipped.append(SkippedServer(name, str(problem)))
        else:
            servers.append(parsed.spec)
            warnings.extend(f"server {name}: {warning}" for warning in parsed.warnings)
            secrets |= parsed.secrets
    return ServersFile(path, tuple(servers), tuple(skipped), tuple(warnings), frozenset(secrets))


def is_disabled(entry: object) -> bool:
    """Whether an entry says that it is not to be used; what it refers to need not exist then."""
    return is_object(entry) and entry.get("disabled") is True


def access_warnings(entries: JSON, path: Path, status: os.stat_result) -> list[str]:
    """What the permissions of a file give away.

    Args:
        entries: Its entries.
        path: The file.
        status: What the system knows about it.
    """
    warnings: list[str] = []
    if problem := writable_by_others(status):
        warnings.append(f"{path}: {problem}")
    secret = next((place for name, entry in entries.items() for place in _literal_secrets(name, entry)), None)
    if secret is not None and readable_by_others(status):
        advice = "run chmod 600, or write ${env:NAME} instead of the value"
        warnings.append(f"{path}: other users can read the secret in {secret}: {advice}")
    return warnings


def _literal_secrets(name: str, entry: object) -> list[str]:
    """The places of an entry that hold a secret itself, by its name or its shape."""
    if not is_object(entry):
        return []
    tables: list[tuple[str, object]] = [(key, entry.get(key)) for key in ("env", "headers", "oauth")]
    tables.append(("proxy", {"proxy": entry.get("proxy")}))
    tables += [("tools", {label: value}) for label, value in default_values(entry)]
    return [
        f"{label!r} in '{key}' of server {name!r}"
        for key, table in tables
        if is_object(table)
        for label, value in table.items()
        if isinstance(value, str) and "${" not in value and redacted(line := f"{label}: {value}") != line
    ]
