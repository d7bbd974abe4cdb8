"""Entries as people paste them from documentation of servers, in whatever program's form. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from msgspec.structs import replace

from gaia_bridge.protocol.names import MAX_SERVER_NAME, is_server_name
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_desk.editors.jsonc import strict
from gaia_bridge_desk.editors.reading import Found, Surroundings, found_in, servers_in

_ENTRY_KEYS: Final = frozenset({"command", "url", "agent", "serverUrl", "httpUrl"})
"""One of these makes an object an entry."""

_PLACEHOLDER: Final = re.compile(
    r"<[^<>]*>|\[[^\[\]]*\]|(?i:your[-_ ].*|(?:insert|replace|enter)[-_ ].*|.*[-_ ]here|change[-_ ]?me|x{3,}|\*{3,})"
)
"""What documentation has in place of a secret."""

_SHAPES: Final = 'expected {"mcpServers": {NAME: {"command": ...}}}, as documentation of servers has it'


class PasteError(ValueError):
    """What was pasted lists no servers; the text says why, and what was expected."""


def is_pasted(text: str) -> bool:
    """Whether a word is JSON that was pasted rather than a name or a command line; `-` stands for standard input."""
    return text == "-" or text.lstrip().startswith(("{", '"'))


def pasted_entries(text: str, around: Surroundings, name: str | None = None) -> dict[str, Found]:
    """The servers of a pasted text, by name.

    Args:
        text: A whole configuration, the servers of one, or one entry.
        around: What its references stand for.
        name: What to call a single entry; one that has a name of its own needs none.

    Raises:
        PasteError: There are none.
    """
    document = _parsed(text)
    found = servers_in(document) or document
    if found is document and _ENTRY_KEYS & document.keys():
        name = name or _own_name(document)
        if name is None:
            raise PasteError("that is one server without a name; expected gaia-bridge add NAME '{...}'")
        found = {name: document}
    if not found or not all(is_object(entry) for entry in found.values()):
        raise PasteError(f"that lists no servers; {_SHAPES}")
    if name is not None and len(found) == 1:
        found = dict.fromkeys((name,), *found.values())
    elif name is not None:
        raise PasteError(f"that lists {len(found)} servers, which have names of their own: leave out {name!r}")
    servers = found_in(document, found, around)
    return {server_name(server.name): _as_typed(server, found[server.name]) for server in servers}


def _own_name(document: JSON) -> str | None:
    """The name in an entry, as `code --add-mcp` takes it."""
    own = document.get("name")
    return own if isinstance(own, str) and own.strip() else None


def _as_typed(server: Found, pasted: Any) -> Found:
    """A server as whoever pasted it means it: one line is split, and what stands for a secret is asked for."""
    entry, inputs = dict(server.entry), dict(server.inputs)
    if entry.get("args") == [] and isinstance(pasted.get("command"), str) and pasted.get("args") is None:
        del entry["args"]
    env = entry.get("env")
    for variable, value in env.items() if is_object(env) else ():
        if isinstance(value, str) and _PLACEHOLDER.fullmatch(value):
            entry["env"] = {**entry["env"], variable: f"${{env:{variable}}}"}
            inputs[variable] = f"{variable}, for which the text has {value}"
    return replace(server, entry=entry, inputs=inputs)


def _parsed(text: str) -> JSON:
    text = text.strip()
    if text.startswith('"'):  # `"time": {...}`, a line out of a file
        text = f"{{{text.removesuffix(',')}}}"
    try:
        document: object = json.loads(strict(text))
    except RecursionError:
        raise PasteError("that is nested too deep") from None
    except ValueError as error:
        raise PasteError(f"that is not valid JSON: {error}; {_SHAPES}") from None
    if not is_object(document):
        raise PasteError(f"that is no JSON object; {_SHAPES}")
    return document


def server_name(key: str) -> str:
    """A name as it is, or what can be kept of it.

    Args:
        key: What the server is called elsewhere.
    """
    return key if is_server_name(key) else one_line(key, MAX_SERVER_NAME).lstrip("-. ")
