"""The document that lists servers: `{"mcpServers": {NAME: ENTRY}}`; other keys are kept. Reads no file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final

from gaia_bridge.config.file_reader import readable_by_others, writable_by_others
from gaia_bridge.config.problems import kind_of
from gaia_bridge.config.tool_transforms import default_values
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge.text.redaction import redacted

SERVERS_KEY: Final = "mcpServers"
LEGACY_SERVERS_KEY: Final = "servers"
"""A key that is read where `mcpServers` is absent, and never written."""

_INDENT: Final = re.compile(r"^\s*\{[^\S\n]*\r?\n([ \t]+)\"")


def servers_of(document: JSON, path: Path) -> JSON:
    """Return the entries of a document, by name.

    Raises:
        ConfigError: The value of the key is no object; names the document's file, `path`.
    """
    key = LEGACY_SERVERS_KEY if SERVERS_KEY not in document and LEGACY_SERVERS_KEY in document else SERVERS_KEY
    entries = document.get(key, {})
    if not is_object(entries):
        raise ConfigError(str(path), f"'{key}' is {kind_of(entries)}", 'expected an object: {"name": {"command": ...}}')
    return entries


def is_disabled(entry: object) -> bool:
    """Return whether an entry is disabled; its references need not have values then."""
    return is_object(entry) and entry.get("disabled") is True


def access_warnings(entries: JSON, path: Path, status: os.stat_result) -> list[str]:
    """Return the warnings about the permissions of the file that has these entries."""
    warnings: list[str] = []
    if problem := writable_by_others(status):
        warnings.append(f"{path}: {problem}")
    secret = next((place for name, entry in entries.items() for place in _literal_secrets(name, entry)), None)
    if secret is not None and readable_by_others(status):
        advice = "run chmod 600, or write ${env:NAME} instead of the value"
        warnings.append(f"{path}: other users can read the secret in {secret}: {advice}")
    return warnings


def with_servers_key(document: JSON) -> JSON:
    """Return the document with its servers under `mcpServers`, at the place where they were."""
    if SERVERS_KEY in document:
        return dict(document)
    if LEGACY_SERVERS_KEY not in document:
        return {**document, SERVERS_KEY: {}}
    return {SERVERS_KEY if key == LEGACY_SERVERS_KEY else key: value for key, value in document.items()}


def to_text(document: JSON, old: str = "") -> str:
    """Return the document as a file's text, indented as the old text was."""
    match = _INDENT.match(old)
    indent = match[1] if match else "  "
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and UTF-8 cannot
        text = json.dumps(document, indent=indent, allow_nan=False)
    return text + "\n"


def _literal_secrets(name: str, entry: object) -> list[str]:
    """Return the places of an entry that hold a secret itself, by its name or its shape."""
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
