"""Entries as people paste them from documentation of servers, in whatever program's form. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from gaia_bridge.protocol.json_types import JSON, is_object
from gaia_bridge.sanitize.escaping import one_line
from gaia_bridge.sources.public_names import MAX_SERVER_NAME, is_server_name

__all__ = ["PasteError", "is_pasted", "pasted_entries"]

_LISTS: Final = ("mcpServers", "servers", "mcp_servers", "context_servers")
"""Under what programs list servers: Claude, Cursor and most others; VS Code; some others; Zed."""

_ENTRY_KEYS: Final = frozenset({"command", "url", "agent", "serverUrl", "httpUrl"})
"""One of these makes an object an entry."""

_URLS: Final = ("serverUrl", "httpUrl")
"""What `url` is called in Windsurf and in the Gemini CLI."""

_SHAPES: Final = 'expected {"mcpServers": {NAME: {"command": ...}}}, as documentation of servers has it'


class PasteError(ValueError):
    """What was pasted lists no servers; the text says why, and what was expected."""


def is_pasted(text: str) -> bool:
    """Whether a word is JSON that was pasted rather than a name or a command line; `-` stands for standard input."""
    return text == "-" or text.lstrip().startswith(("{", '"'))


def pasted_entries(text: str, name: str | None = None) -> dict[str, JSON]:
    """The entries of a pasted text, by name.

    Args:
        text: A whole configuration, the servers of one, or one entry.
        name: What to call a single entry.

    Raises:
        PasteError: There are none.
    """
    document = _parsed(text)
    if is_object(vscode := document.get("mcp")):  # settings.json of VS Code
        document = vscode
    found = next((document[key] for key in _LISTS if is_object(document.get(key))), document)
    if found is document and _ENTRY_KEYS & document.keys():
        if name is None:
            raise PasteError("that is one server without a name; expected gaia-bridge add NAME '{...}'")
        found = {name: document}
    if not found or not all(is_object(entry) for entry in found.values()):
        raise PasteError(f"that lists no servers; {_SHAPES}")
    if name is not None and len(found) == 1:
        found = dict.fromkeys((name,), *found.values())
    elif name is not None:
        raise PasteError(f"that lists {len(found)} servers, which have names of their own: leave out {name!r}")
    return {_name(key): _entry(entry) for key, entry in found.items()}


def _parsed(text: str) -> JSON:
    text = text.strip()
    if text.startswith('"'):  # `"time": {...}`, a line out of a file
        text = f"{{{text.removesuffix(',')}}}"
    try:
        document: object = json.loads(text)
    except RecursionError:
        raise PasteError("that is nested too deep") from None
    except ValueError as error:
        hint = (
            "comments and trailing commas are none of JSON"
            if "//" in text or re.search(r",\s*[}\]]", text)
            else _SHAPES
        )
        raise PasteError(f"that is not valid JSON: {error}; {hint}") from None
    if not is_object(document):
        raise PasteError(f"that is no JSON object; {_SHAPES}")
    return document


def _name(key: str) -> str:
    """The name as it is, or what can be kept of it."""
    return key if is_server_name(key) else one_line(key, MAX_SERVER_NAME).lstrip("-. ")


def _entry(entry: Any) -> JSON:
    """The entry as our file has it: with `url`, and without a type that says what `command` says."""
    made: JSON = {("url" if key in _URLS and "url" not in entry else key): value for key, value in entry.items()}
    if made.get("type") == "stdio" and "command" in made:
        del made["type"]
    return made
