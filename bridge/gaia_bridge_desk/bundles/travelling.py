"""Makes the entries of servers portable: another machine has everything they name, and secrets stay here.

Programs that everybody has under their own name (`npx`, `uvx`) are called by it. A secret, or a reference to a file or
a keyring of this machine, becomes a reference to a variable that the person who installs the bundle has to set.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from gaia_bridge.config.entries import KEYS_OF, OPTION_KEYS
from gaia_bridge.config.expansion import texts_in, without_references
from gaia_bridge.config.launching.command_lines import launch_words
from gaia_bridge.config.oauth_options import OAUTH_KEYS, PUBLIC_OAUTH_KEYS
from gaia_bridge.config.tool_transforms import default_values
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.redaction import redacted
from gaia_bridge_desk.review.launch_lines import is_secret

_LAUNCHERS: Final = frozenset(
    {"bun", "bunx", "deno", "dnx", "docker", "node", "npx", "pipx", "pnpm", "podman", "uv", "uvx"}
)
"""Programs that start servers on every machine, found by their names. A Python that is named by its path has
packages of its own."""

_REFERENCE: Final = re.compile(r"(?<!\$)\$\{([^}]*)\}")
_VARIABLE: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9]+")
_HERE: Final = re.compile(
    r"(?:^|[=:,\s'\"])(?:/(?!/)|\.{1,2}(?:[/\\]|$)|~[/\\]|[A-Za-z]:[/\\](?!/))|\b(?:file|unix):/", re.IGNORECASE
)
"""The beginning of a path that leads to another place on every machine, or to none."""
_NUMBER: Final = re.compile(r"[+-]?[0-9.]{1,7}|true|false|none|null", re.IGNORECASE)
"""Values that are no secret, whatever their name: `--max-tokens 4096`."""
_RANDOM: Final = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+=]{24,}")
"""A random word: too random to be typed, and not the name of a package or a folder."""
_ABOUT: Final = re.compile(r"(?i)[_-](?:file|id|limit|method|mode|name|provider|scopes?|server|timeout|type|ur[il])$")
"""Names of values that are no secret, but describe one: `--auth-type oauth`."""
_BEFORE_REFERENCE: Final = re.compile(r"(?:\b(?:bearer|basic|token)\s+)?\$\{[^}]*\}", re.IGNORECASE)
_NAMED: Final = re.compile(r"-*([A-Za-z0-9_.-]+)\s*[=:]\s*(?!//)(.+)", re.DOTALL)
"""A word that assigns a value to a name: `--token=...`, `TOKEN=...`, `Authorization: ...`."""
_EVERYWHERE: Final = frozenset(
    {"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "USER"}
)
"""Variables that every machine has, each with its own value."""
_HEEDED: Final = OPTION_KEYS.union(*KEYS_OF.values())
"""The keys that mean something to the bridge."""
_TABLES: Final = frozenset({"env", "headers", "oauth"})
"""The keys of tables in which a variable can stand for a secret."""
_ONLY_HERE: Final = ("cwd", "envFile")


class Variable(Struct, frozen=True):
    """A variable that the person who installs a bundle has to set.

    Args:
        name: Its name.
        users: The servers that use it, or none where agents do.
        default: Its default value; `None` if it has to be set.
    """

    name: str
    users: tuple[str, ...] = ()
    default: str | None = None


def travelling(entries: Mapping[str, Any], place: Path) -> dict[str, JSON]:
    """Return the entries in a form that works on another machine.

    Args:
        entries: The entries of a configuration.
        place: Its file, for messages.

    Raises:
        ConfigError: An entry names something that is only on this machine.
    """
    texts = (text for entry in entries.values() for text in texts_in(entry))
    referred = (_VARIABLE.fullmatch(reference) for text in texts for reference in _REFERENCE.findall(text))
    taken = {match[1]: "" for match in referred if match is not None}
    return {name: _PortableEntry(name, entry, place, taken).portable() for name, entry in entries.items()}


def variables_in(entries: Mapping[str, JSON]) -> list[Variable]:
    """Return the variables that entries refer to, in the order of their names.

    Args:
        entries: Portable entries.
    """
    users: dict[str, list[str]] = {}
    defaults: dict[str, list[str | None]] = {}
    for server, entry in sorted(entries.items()):
        for text in texts_in(entry):
            for match in filter(None, map(_VARIABLE.fullmatch, _REFERENCE.findall(text))):
                name, default = match.groups()
                if name not in _EVERYWHERE:
                    users.setdefault(name, []).append(server)
                    defaults.setdefault(name, []).append(default)
    return [
        Variable(name, tuple(dict.fromkeys(users[name])), None if None in values else values[0])
        for name, values in sorted(defaults.items())
    ]


class _PortableEntry:
    """Makes one entry portable.

    Args:
        name: Its name.
        entry: The entry.
        place: The file of the configuration.
        taken: The variables that are in use, with the value of each.
    """

    def __init__(self, name: str, entry: object, place: Path, taken: dict[str, str]) -> None:
        self._name = name
        self._entry = entry
        self._place = place
        self._taken = taken

    def portable(self) -> JSON:
        """Return the portable entry."""
        entry = self._entry
        if not is_object(entry):
            raise self._error("is no object", "mend it")
        if "agent" in entry:
            raise self._error(
                "is an agent of this process", "name its file with --agent, and choose servers with --only"
            )
        if key := next((key for key in _ONLY_HERE if entry.get(key)), None):
            raise self._error(f"has {key!r}, which is a place on this machine", "leave it out of the entry")
        entry = {key: value for key, value in entry.items() if key in _HEEDED}
        if entry.get("args") is None and "\\" not in str(entry.get("command")) and (words := launch_words(entry))[1:]:
            entry = {**entry, "command": words[0], "args": words[1:]}  # the command included its arguments
        portable = {key: self._part(key, _without_secret_defaults(value)) for key, value in entry.items()}
        self._refuse_kept(portable)
        return portable

    def _part(self, key: str, value: object) -> object:
        """Return the portable value of one key."""
        match key:
            case "command":
                return self._command(value)
            case "args" if is_array(value):
                return self._arguments(value)
            case "url" | "openapi" | "proxy":
                return self._address(key, value)
            case "env" | "headers" | "oauth" if is_object(value):
                heeded = OAUTH_KEYS if key == "oauth" else value.keys()
                return {name: self._value(key, name, text) for name, text in value.items() if name in heeded}
            case "args" | "env" | "headers" | "oauth" if value is not None and value is not False:
                raise self._error(f"has no such {key!r} as can be used", "mend it")
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
            shown = command.partition(" ")[0]  # arguments may be secrets
            raise self._error(f"starts {shown}, which is on this machine alone", "start it with npx, uvx or docker")
        return command

    def _arguments(self, words: list[Any]) -> list[Any]:
        """Return the arguments, after a check that they are portable."""
        for before, word in pairwise(["", *words]):
            if isinstance(word, str):
                self._check_word(before if isinstance(before, str) else "", word)
        return words

    def _check_word(self, before: str, word: str) -> None:
        plain = without_references(word)
        if _has_secret(before, word):
            raise self._error("has a secret among its arguments", "write ${env:NAME} instead, or put it into 'env'")
        if _HERE.search(plain):
            raise self._error(f"has the argument {redacted(word)}, a path of this machine", "write ${env:NAME} instead")
        if os.path.splitext(plain)[1] and os.path.isfile(self._place.parent / plain):
            raise self._error(
                f"has the argument {word}, a file of this machine", "publish the server as a package first"
            )

    def _address(self, key: str, value: object) -> object:
        if isinstance(value, str):
            if key == "openapi" and "://" not in value:
                raise self._error("names an OpenAPI document of this machine", "name one on the network")
            plain = without_references(value)
            if any(_is_secret_word(name, text) for name, text in _parts(plain)) or redacted(plain) != plain:
                raise self._error(f"has a secret in {key!r}", "write ${env:NAME} instead, or put it into 'headers'")
            if _HERE.match(plain):
                raise self._error(f"has a place of this machine in {key!r}", "name one on the network")
        return value

    def _value(self, key: str, name: str, value: object) -> object:
        """Return a value of a table; a secret is replaced by a reference to a variable."""
        if isinstance(value, int | float):  # a common slip, which is accepted
            return f"${{env:{self._variable(key, name, str(value))}}}" if is_secret(name, str(value)) else value
        if not isinstance(value, str) or (key == "oauth" and name in PUBLIC_OAUTH_KEYS):
            return value
        if is_secret(name, _REFERENCE.sub(_default, value)):
            variable = self._variable(key, name, value)
            scheme, blank, _ = value.partition(" ")
            return (
                f"{scheme} ${{env:{variable}}}"
                if blank and scheme.lower() in ("bearer", "basic", "token")
                else (f"${{env:{variable}}}")
            )
        if key == "env" and _HERE.search(without_references(value)):
            raise self._error(f"has a path of this machine in {name!r} of 'env'", "write ${env:NAME} instead")
        return _REFERENCE.sub(
            lambda match: f"${{env:{self._variable(key, name, value)}}}" if _is_kept(match[1]) else match[0], value
        )

    def _variable(self, key: str, name: str, value: str) -> str:
        """Return a variable that stands for a value, and for no other in the bundle."""
        words = (_NO_WORD.sub("_", word).strip("_").upper() for word in (self._name, name))
        plain = "_".join(filter(None, words)).lstrip("0123456789_") or "SECRET"
        own = [name] if key == "env" and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else []
        candidates = chain(own, [plain], (f"{plain}_{number}" for number in range(2, len(self._taken) + 3)))
        variable = next(each for each in candidates if self._taken.get(each, value) == value)
        self._taken[variable] = value
        return variable

    def _refuse_kept(self, portable: JSON) -> None:
        """Refuse secrets, and references to kept ones, where no variable can stand for them."""
        for label, value in default_values(portable):
            if isinstance(value, str) and is_secret(label, value):
                raise self._error(f"has a secret in 'tools': the default of {label!r}", "write ${env:NAME} instead")
        for text in texts_in({key: value for key, value in portable.items() if key not in _TABLES}):
            if reference := next(filter(_is_kept, _REFERENCE.findall(text)), None):
                kind = reference.partition(":")[0]
                raise self._error(f"refers to a {kind} of this machine", "write ${env:NAME} instead")

    def _error(self, problem: str, hint: str) -> ConfigError:
        return ConfigError(str(self._place), f"the server {self._name!r} {problem}", hint)


def _is_kept(reference: str) -> bool:
    """Return whether a reference leads to a file or the keyring."""
    return reference.startswith(("file:", "keyring:"))


def _default(reference: re.Match[str]) -> str:
    """Return the default value in a reference; a reference without a default stays as it is."""
    match = _VARIABLE.fullmatch(reference[1])
    return (match[2] if match is not None else None) or reference[0]


def _without_secret_defaults(value: Any) -> Any:
    """Return a value in which references to variables have no secrets as defaults."""
    if isinstance(value, str):
        return _REFERENCE.sub(_without_secret_default, value)
    if is_object(value):
        return {key: _without_secret_defaults(item) for key, item in value.items()}
    return [_without_secret_defaults(item) for item in value] if is_array(value) else value


def _without_secret_default(reference: re.Match[str]) -> str:
    match = _VARIABLE.fullmatch(reference[1])
    if match is None or not match[2] or not _is_secret_word(match[1], match[2]):
        return reference[0]
    return f"${{env:{match[1]}}}"


def _has_secret(before: str, word: str) -> bool:
    """Return whether an argument is a secret, or contains one.

    Args:
        before: The argument before it, which may name it.
        word: The argument, with its references.
    """
    option = before if before.startswith("-") and "=" not in before and not word.startswith("-") else ""
    name, value = match.groups() if (match := _NAMED.fullmatch(word)) is not None else ("", "")
    plain = _BEFORE_REFERENCE.sub("${}", word)
    return (
        _is_secret_word(option.lstrip("-"), plain)
        or _is_secret_word(name, value)
        or _RANDOM.fullmatch(plain) is not None
        or redacted(plain) != plain
    )


def _is_secret_word(name: str, value: str) -> bool:
    """Return whether a value of that name is a secret."""
    return bool(name) and not _NUMBER.fullmatch(value) and not _ABOUT.search(name) and is_secret(name, value)


def _parts(address: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of an address that may be secret, each with its name."""
    parts = urlsplit(address)
    yield from parse_qsl(parts.query) + parse_qsl(parts.fragment)
    if "@" in parts.netloc:
        yield "password", parts.netloc
    yield from (("secret", part) for part in parts.path.split("/") if _RANDOM.fullmatch(part))
