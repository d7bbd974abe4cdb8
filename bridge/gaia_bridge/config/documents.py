"""The document that lists servers: `{"mcpServers": {NAME: ENTRY}}`, whatever else is in it. Pure."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from gaia_bridge.config.problems import kind_of
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, is_object

SERVERS_KEY: Final = "mcpServers"
LEGACY_SERVERS_KEY: Final = "servers"
"""Read where `mcpServers` is absent, never written."""

_INDENT: Final = re.compile(r"^\s*\{[^\S\n]*\r?\n([ \t]+)\"")


def servers_of(document: JSON, path: Path) -> JSON:
    """The entries of a document, by name.

    Args:
        document: The document.
        path: Where it came from.

    Raises:
        ConfigError: They are not an object.
    """
    key = _key_of(document)
    entries = document.get(key, {})
    if not is_object(entries):
        raise ConfigError(str(path), f"'{key}' is {kind_of(entries)}", 'expected an object: {"name": {"command": ...}}')
    return entries


def with_servers_key(document: JSON) -> JSON:
    """The document with its servers under `mcpServers`, at the place where they were."""
    if SERVERS_KEY in document:
        return dict(document)
    if LEGACY_SERVERS_KEY not in document:
        return {**document, SERVERS_KEY: {}}
    return {SERVERS_KEY if key == LEGACY_SERVERS_KEY else key: value for key, value in document.items()}


def to_text(document: JSON, old: str = "") -> str:
    """The document as a file's text, indented as the old one was.

    Args:
        document: The document.
        old: The file's text until now.
    """
    found = _INDENT.match(old)
    indent = found[1] if found else "  "
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    if not _encodable(text):  # half of a surrogate pair, which JSON can spell and UTF-8 cannot
        text = json.dumps(document, indent=indent, allow_nan=False)
    return text + "\n"


def _key_of(document: JSON) -> str:
    return LEGACY_SERVERS_KEY if SERVERS_KEY not in document and LEGACY_SERVERS_KEY in document else SERVERS_KEY


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
