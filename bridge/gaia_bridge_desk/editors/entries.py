"""One server in the form of an editor, and whether an editor's entry is the bridge itself. Pure."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from gaia_bridge.constants import DEFAULT_PORT
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge_desk.editors.table import EntryShape

_OUR_NAMES: Final = frozenset({"gaia-bridge", "gaia-mcp-bridge", "gaia_bridge"})
"""The program, the package, and the module."""

_LAUNCHERS: Final = ("uvx", "uv", "pipx", "python", "python3", "env")

_REACHING: Final = frozenset(
    {"type", "command", "args", "cwd", "url", "serverUrl", "httpUrl", "headers", "http_headers"}
    | {"bearer_token_env_var", "source", "transport"}
)
"""Keys that decide how a server is reached, in any editor: those that are not written anew are removed."""

_OF_PROGRAMS: Final = frozenset({"dev", "env", "environment", "envFile", "env_vars"})
"""Keys that go only with a program, not with an address."""


def program_entry(shape: EntryShape, command: str, args: Sequence[str], *, cwd: str | None = None) -> JSON:
    """Return the entry of a server that the editor starts and talks to over stdio.

    Args:
        shape: The form of the editor's entries.
        command: The program.
        args: Its arguments.
        cwd: Its folder; left out where the editor has no key for it.
    """
    entry: JSON = dict(shape.stdio)
    if shape.args is None:
        entry[shape.command] = [command, *args]
    else:
        entry |= {shape.command: command, shape.args: list(args)}
    if cwd is not None and shape.cwd is not None:
        entry[shape.cwd] = cwd
    return entry | shape.further


def address_entry(
    shape: EntryShape, url: str, *, token_variable: str | None = None, token_input: str | None = None
) -> JSON | None:
    """Return the entry of a server that runs already.

    Args:
        shape: The form of the editor's entries.
        url: Its address.
        token_variable: The variable of the environment that holds the bearer token, if one is wanted.
        token_input: The name of the input with which the editor asks the user for the token instead.

    Returns:
        The entry; `None` if the editor's file cannot describe such a server.
    """
    if shape.http is None:
        return None
    entry: JSON = {**shape.http, shape.url: url}
    if token_input is not None:
        entry[shape.headers] = {"Authorization": f"Bearer ${{input:{token_input}}}"}
    elif token_variable is not None and shape.bearer_variable is not None:
        entry[shape.bearer_variable] = token_variable
    elif token_variable is not None and shape.variable is not None:
        entry[shape.headers] = {"Authorization": f"Bearer {shape.variable.format(token_variable)}"}
    elif token_variable is not None:
        return None
    return entry | shape.further


def token_input(name: str) -> JSON:
    """Return the input with which an editor asks for the bearer token and keeps it among its secrets.

    Args:
        name: The input's name.
    """
    return {
        "type": "promptString",
        "id": name,
        "description": "Token of gaia-bridge serve --auth (~/.gaia/bridge-token)",
        "password": True,
    }


def merged(old: object, new: JSON) -> JSON:
    """Return the new entry with the keys that the user added to the old one, such as approvals and timeouts.

    Args:
        old: The present value of the entry.
        new: The entry to write.
    """
    if not is_object(old):
        return new
    gone = _REACHING if "command" in new else _REACHING | _OF_PROGRAMS
    return new | {key: value for key, value in old.items() if key not in new and key not in gone}


def is_ours(entry: object) -> bool:
    """Return whether an entry of an editor leads to the bridge: to its program, its socket, or its usual address.

    Args:
        entry: The entry, in the form of any editor.
    """
    if not is_object(entry):
        return False
    words = [word for word in _words(entry) if isinstance(word, str)]
    if words and os.path.basename(words[0]) in _OUR_NAMES:
        return True
    if words and os.path.basename(words[0]).rstrip("0123456789.") in _LAUNCHERS:
        named = (os.path.basename(word).partition("@")[0].partition("=")[0].partition("[")[0] for word in words[1:])
        return not _OUR_NAMES.isdisjoint(named)
    return any(isinstance(url := entry.get(key), str) and _is_our_address(url) for key in ("url", "serverUrl"))


def _words(entry: JSON) -> Iterator[Any]:
    command = entry.get("command")
    for value in (command, entry.get("args")):
        if is_array(value):
            yield from value
        elif is_object(value):  # the form of older releases of Zed
            yield value.get("path")
        elif value is not None:
            yield value


def _is_our_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        if parts.scheme == "unix":
            return os.path.basename(os.path.dirname(parts.path)).startswith("gaia-bridge")
        return is_loopback_host(parts.hostname or "") and parts.port == DEFAULT_PORT
    except ValueError:
        return False
