"""Makes the entries of servers travel: what they name has to be there on another machine, and secrets stay here.

Programs that everybody has under their own name (`npx`, `uvx`) are called by it. A secret, or a reference to a file or
a keyring of this machine, becomes a reference to a variable, which whoever installs the bundle is asked for.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.config.expansion import texts_in, without_references
from gaia_bridge.config.launch_lines import is_secret
from gaia_bridge.config.tool_transforms import default_values
from gaia_bridge.errors import ConfigError
from gaia_bridge.protocol.json_types import JSON, is_array, is_object
from gaia_bridge.sanitize.redaction import redacted

__all__ = ["Variable", "travelling", "variables_in"]

_LAUNCHERS: Final = frozenset(
    {"bun", "bunx", "deno", "dnx", "docker", "node", "npx", "pipx", "pnpm", "podman", "uv", "uvx"}
)
"""Programs that servers are started with everywhere, found by their names. A Python that is named by its path has
packages of its own."""

_REFERENCE: Final = re.compile(r"\$\{([^}]*)\}")
_VARIABLE: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9]+")
_ABSOLUTE: Final = re.compile(r"(?:^|[=:,])(?:/(?!/)|[A-Za-z]:\\|~[/\\])")
_EVERYWHERE: Final = frozenset(
    {"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "USER"}
)
"""Variables that every machine has, each with its own value."""
_TABLES: Final = frozenset({"env", "headers", "oauth"})
"""The keys of texts with names, in which a variable can stand for a secret."""
_ONLY_HERE: Final = ("cwd", "envFile")


class Variable(Struct, frozen=True):
    """A variable that whoever installs a bundle has to say.

    Args:
        name: Its name.
        users: The servers that use it, or none where agents do.
        default: What it is otherwise; `None` if it has to be said.
    """

    name: str
    users: tuple[str, ...] = ()
    default: str | None = None


def travelling(entries: Mapping[str, Any], place: Path) -> dict[str, JSON]:
    """Entries that work on another machine.

    Args:
        entries: The entries of a configuration.
        place: Its file, for messages.

    Raises:
        ConfigError: An entry names what is on this machine alone.
    """
    return {name: _Entry(name, entry, place).made() for name, entry in entries.items()}


def variables_in(entries: Mapping[str, JSON]) -> list[Variable]:
    """The variables that entries refer to, by their names.

    Args:
        entries: Entries that travel.
    """
    users: dict[str, list[str]] = {}
    defaults: dict[str, list[str | None]] = {}
    for server, entry in sorted(entries.items()):
        for text in texts_in(entry):
            for found in filter(None, map(_VARIABLE.fullmatch, _REFERENCE.findall(text))):
                name, default = found.groups()
                if name not in _EVERYWHERE:
                    users.setdefault(name, []).append(server)
                    defaults.setdefault(name, []).append(default)
    return [
        Variable(name, tuple(dict.fromkeys(users[name])), None if None in told else told[0])
        for name, told in sorted(defaults.items())
    ]


class _Entry:
    """One entry on its way.

    Args:
        name: Its name.
        entry: The entry.
        place: The file of the configuration.
    """

    def __init__(self, name: str, entry: object, place: Path) -> None:
        self._name = name
        self._entry = entry
        self._place = place

    def made(self) -> JSON:
        """The entry as it travels."""
        entry = self._entry
        if not is_object(entry):
            raise self._error("is no object", "mend it")
        if "agent" in entry:
            raise self._error(
                "is an agent of this process", "name its file with --agent, and choose servers with --only"
            )
        if key := next((key for key in _ONLY_HERE if entry.get(key)), None):
            raise self._error(f"has {key!r}, which is a place on this machine", "leave it out of the entry")
        made = {key: self._part(key, value) for key, value in entry.items()}
        self._refuse_kept(made)
        return made

    def _part(self, key: str, value: object) -> object:
        """What becomes of the value of one key."""
        match key:
            case "command":
                return self._command(value)
            case "args":
                return [self._word(word) for word in value] if is_array(value) else self._word(value)
            case "url" | "openapi":
                return self._address(key, value)
            case "env" | "headers" | "oauth" if is_object(value):
                return {name: self._value(key, name, text) for name, text in value.items()}
            case _:
                return value

    def _command(self, command: object) -> object:
        if not isinstance(command, str):
            return command
        program = re.split(r"[/\\]", command)[-1]
        plain = re.sub(r"(?i)\.(?:exe|cmd)$", "", program)
        if plain in _LAUNCHERS:
            return plain
        if program != command:
            raise self._error(f"starts {command}, which is on this machine alone", "start it with npx, uvx or docker")
        return command

    def _word(self, word: object) -> object:
        if not isinstance(word, str):
            return word
        told = without_references(word)
        if _ABSOLUTE.search(told):
            raise self._error(f"has the argument {redacted(word)}, a path of this machine", "write ${env:NAME} instead")
        if os.path.splitext(told)[1] and (self._place.parent / told).is_file():
            raise self._error(
                f"has the argument {word}, a file of this machine", "publish the server as a package first"
            )
        if redacted(told) != told:
            raise self._error("has a secret among its arguments", "write ${env:NAME} instead, or put it into 'env'")
        return word

    def _address(self, key: str, value: object) -> object:
        if isinstance(value, str):
            if key == "openapi" and "://" not in value:
                raise self._error("names an OpenAPI document of this machine", "name one on the network")
            words = without_references(value).replace("?", " ").replace("&", " ")
            if redacted(words) != words or "@" in words.partition("://")[2].partition("/")[0]:
                raise self._error(f"has a secret in {key!r}", "write ${env:NAME} instead, or put it into 'headers'")
        return value

    def _value(self, key: str, name: str, value: object) -> object:
        """A value of a table: a secret becomes a reference to a variable."""
        if not isinstance(value, str):
            return value
        variable = self._variable(key, name)
        if is_secret(name, value):
            scheme, blank, _ = value.partition(" ")
            return (
                f"{scheme} ${{env:{variable}}}"
                if blank and scheme.lower() in ("bearer", "basic", "token")
                else (f"${{env:{variable}}}")
            )
        if key == "env" and _ABSOLUTE.search(without_references(value)):
            raise self._error(f"has a path of this machine in {name!r} of 'env'", "write ${env:NAME} instead")
        return _REFERENCE.sub(lambda found: f"${{env:{variable}}}" if _is_kept(found[1]) else found[0], value)

    def _variable(self, key: str, name: str) -> str:
        word = _NO_WORD.sub("_", name).strip("_").upper()
        if key == "env" and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            return name
        return f"{_NO_WORD.sub('_', self._name).strip('_').upper()}_{word}".lstrip("0123456789_")

    def _refuse_kept(self, made: JSON) -> None:
        """Refuse secrets, and references to them, where no variable can stand for them."""
        for label, value in default_values(made):
            if isinstance(value, str) and is_secret(label, value):
                raise self._error(f"has a secret in 'tools': the default of {label!r}", "write ${env:NAME} instead")
        for text in texts_in({key: value for key, value in made.items() if key not in _TABLES}):
            if found := next(filter(_is_kept, _REFERENCE.findall(text)), None):
                kind = found.partition(":")[0]
                raise self._error(f"refers to a {kind} of this machine", "write ${env:NAME} instead")

    def _error(self, problem: str, hint: str) -> ConfigError:
        return ConfigError(str(self._place), f"the server {self._name!r} {problem}", hint)


def _is_kept(reference: str) -> bool:
    """Whether a reference leads to a file or the keyring."""
    return reference.startswith(("file:", "keyring:"))
