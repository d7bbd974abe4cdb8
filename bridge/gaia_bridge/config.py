"""`mcp_servers.json`: which upstream servers to run, in the format that Claude Desktop made common.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"], "env": {"TOKEN": "${env:MY_TOKEN}"}}}}

Trouble with the file itself is a `ConfigError` that names the place. Trouble with one entry leaves that entry out, with
its reason, and the others load. No message and no `repr` shows a value: values may be secrets (S-36).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from gaia_bridge.errors import ConfigError
from gaia_bridge.jsontypes import JSON, is_array, is_object
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.names import is_source_name

__all__ = [
    "ServersFile",
    "SkippedServer",
    "current_folder",
    "default_servers_path",
    "load_servers",
    "parse_servers",
    "read_json_file",
]

MAX_BYTES: Final = 1024 * 1024
"""Bytes of one file. Real ones have a few KiB; whatever is larger was named by mistake."""

SERVERS_KEY: Final = "mcpServers"
LEGACY_SERVERS_KEY: Final = "servers"
"""Read where `mcpServers` is absent, never written (S0-47, S3-9)."""

_STRICT_JSON = "the file must be strict JSON: no comments, no trailing commas"
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


class SkippedServer(NamedTuple):
    """An entry that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServersFile:
    """What one configuration file says."""

    path: Path
    servers: tuple[StdioServerSpec, ...] = ()
    """In the order of the file."""
    skipped: tuple[SkippedServer, ...] = ()


class _SkipError(Exception):
    """Why one entry is left out."""


def current_folder() -> Path:
    """Where relative paths begin.

    Raises:
        ConfigError: It was deleted, or may not be looked up.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError("current folder", f"{error.strerror}", "change to a folder that exists") from None


def default_servers_path() -> Path:
    """Where the user's servers are listed when nothing else is said: `~/.gaia/mcp_servers.json` (S0-45).

    Raises:
        ConfigError: This user has no home folder.
    """
    return _expanded(Path("~/.gaia/mcp_servers.json"))


def load_servers(path: Path, environ: Mapping[str, str] | None = None) -> ServersFile:
    """Read a configuration file.

    Args:
        path: The file; a leading `~` is expanded.
        environ: Where `${...}` is looked up; the process environment if not given.

    Raises:
        ConfigError: The file cannot be read or is not a configuration file.
    """
    path = _expanded(path)
    return parse_servers(read_json_file(path), path, os.environ if environ is None else environ)


def parse_servers(document: Mapping[str, Any], path: Path, environ: Mapping[str, str]) -> ServersFile:
    """Understand the content of a configuration file. Keys that mean nothing here are ignored.

    Args:
        document: The content.
        path: Where it came from.
        environ: Where `${...}` is looked up.

    Raises:
        ConfigError: The servers are not an object.
    """
    key = LEGACY_SERVERS_KEY if SERVERS_KEY not in document and LEGACY_SERVERS_KEY in document else SERVERS_KEY
    entries = document.get(key, {})
    if not is_object(entries):
        raise ConfigError(str(path), f"'{key}' is {_kind(entries)}", 'expected an object: {"name": {"command": ...}}')
    servers: list[StdioServerSpec] = []
    skipped: list[SkippedServer] = []
    for name, entry in entries.items():
        try:
            servers.append(_server(name, entry, environ))
        except _SkipError as problem:
            skipped.append(SkippedServer(name, str(problem)))
    return ServersFile(path, tuple(servers), tuple(skipped))


def read_json_file(path: Path) -> JSON:
    """Read a JSON file strictly: one object, no duplicate keys, no NaN, UTF-8 with or without a byte order mark.

    Never blocks: whatever is not a regular file is refused before it is read (F-099b).

    Raises:
        ConfigError: It cannot be read or is not such a file; names line and column where they are known.
    """
    try:
        text = _read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"byte {error.start + 1} is not UTF-8", "save the file as UTF-8") from None
    try:
        document: object = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        problem = f"line {error.lineno}, column {error.colno} is not valid JSON: {error.msg}"
        raise ConfigError(place, problem, _STRICT_JSON) from None
    except _SkipError as problem:
        raise ConfigError(str(path), str(problem)) from None
    except RecursionError:
        raise ConfigError(str(path), "objects and lists are nested too deep") from None
    except ValueError:
        raise ConfigError(str(path), "a number has too many digits") from None
    if not is_object(document):
        raise ConfigError(
            str(path), f"the file holds {_kind(document)}", f'expected an object: {{"{SERVERS_KEY}": {{}}}}'
        )
    return document


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError(str(path), "there is no home folder to find '~' in", "set HOME or name a file") from None


def _read_bytes(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_open_regular) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(str(path), f"the file is larger than {MAX_BYTES:,} bytes", "is it the right file?")
    return content


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise ConfigError(path, "is a directory" if stat.S_ISDIR(mode) else "is not a regular file")


def _unique(pairs: list[tuple[str, Any]]) -> JSON:
    found: JSON = {}
    for key, value in pairs:
        if key in found:
            raise _SkipError(f"the key {key!r} appears twice in one object")
        found[key] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _SkipError(f"{name} is not JSON")


def _server(name: str, entry: object, environ: Mapping[str, str]) -> StdioServerSpec:
    """One entry as a launch line.

    Raises:
        _SkipError: It cannot or shall not be launched.
    """
    if not is_source_name(name):
        raise _SkipError("a name has 1 to 64 of A-Z a-z 0-9 _ . - and starts with a letter or digit")
    if not is_object(entry):
        raise _SkipError(f"the entry is {_kind(entry)}; expected an object")
    _check_enabled(entry)
    _check_transport(entry)
    values = _Values(entry, environ)
    command = values.text("command")
    if not command.strip():
        raise _SkipError("'command' is empty")
    return StdioServerSpec(
        name=name, command=command, args=values.args(), env=values.env(), cwd=values.text("cwd") or None
    )


def _check_enabled(entry: JSON) -> None:
    disabled = entry.get("disabled")
    if not (disabled is None or isinstance(disabled, bool)):
        raise _SkipError(f"'disabled' is {_kind(disabled)}; expected true or false")
    if disabled:
        raise _SkipError("disabled")


def _check_transport(entry: JSON) -> None:
    has_command, has_url = entry.get("command") is not None, entry.get("url") is not None
    if has_command and has_url:
        raise _SkipError("it has both 'command' and 'url'; keep one of them")
    if has_url:
        raise _SkipError("HTTP servers are not supported yet")
    if not has_command:
        raise _SkipError("it has no 'command'")
    if entry.get("type") not in (None, "stdio"):
        raise _SkipError("its 'type' does not go with 'command'; expected \"stdio\" or none")


class _Values:
    """The values of one entry, checked and with their references filled in; never through a shell (F-045)."""

    def __init__(self, entry: JSON, environ: Mapping[str, str]) -> None:
        self._entry = entry
        self._environ = environ

    def text(self, key: str) -> str:
        value = self._entry.get(key)
        return "" if value is None else self._filled(f"'{key}'", value)

    def args(self) -> tuple[str, ...]:
        args = self._entry.get("args")
        if args is None:
            return ()
        if not is_array(args):
            raise _SkipError(f"'args' is {_kind(args)}; expected a list of texts")
        return tuple(self._filled(f"item {number} of 'args'", arg) for number, arg in enumerate(args, 1))

    def env(self) -> dict[str, str]:
        env = self._entry.get("env")
        if env is None:
            return {}
        if not is_object(env):
            raise _SkipError(f"'env' is {_kind(env)}; expected an object")
        return {self._env_name(key): self._env_value(key, env[key]) for key in env if env[key] is not None}

    def _env_name(self, name: str) -> str:
        if not name or "=" in name or "\0" in name:
            raise _SkipError(f"{name!r} in 'env' cannot be the name of a variable")
        return name

    def _env_value(self, name: str, value: object) -> str:
        # Numbers and booleans are a common slip, and what is meant is clear (C9).
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        return self._filled(f"{name!r} in 'env'", value)

    def _filled(self, place: str, value: object) -> str:
        if not isinstance(value, str):
            raise _SkipError(f"{place} is {_kind(value)}; expected a text")
        if "\0" in value:
            raise _SkipError(f"{place} contains a NUL character")

        def looked_up(reference: re.Match[str]) -> str:
            return self._looked_up(place, reference[1])

        return _REFERENCE.sub(looked_up, value)

    def _looked_up(self, place: str, reference: str) -> str:
        """The value of `VAR`, `env:VAR` or `VAR:-default`; a default also replaces an empty value, as in a shell."""
        variable = _VARIABLE.fullmatch(reference)
        if variable is None or "${" in reference:
            raise _SkipError(f"{place} has a ${{...}} that is not understood; expected ${{VAR}} or ${{VAR:-default}}")
        value, default = self._environ.get(variable["name"]), variable["default"]
        if default is not None:
            return value or default
        if value is None:
            raise _SkipError(f"{place} needs the environment variable {variable['name']}, which is not set")
        return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
