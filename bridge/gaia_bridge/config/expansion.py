"""Fills in `${...}` in the values of an entry (variables, files and the keyring), and `~/`. No shell, and only once.

Before `{`, `$$` stands for one `$`: `$${HOME}` is the text `${HOME}`, and `$$${HOME}` a `$` with the value behind it.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import expanded, home_folder
from gaia_bridge.config.problems import EntryError, MissingReferenceError
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, is_array, is_object

MAX_SECRET: Final = 64 * 1024
"""Bytes of a file that is named as a value; keys and certificates have a few KiB."""

HARMLESS: Final = frozenset(
    {"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "USER"}
)
"""Variables whose values are no secrets and are in every other line of a log."""

_AT_HOME: Final = ("~/", "~\\") if os.name == "nt" else ("~/",)
"""The beginnings of paths in the home folder."""

_REFERENCE = re.compile(r"(?<!\$)((?:\$\$)*)(?:\$\{([^}]*)\}|(?<=\$)(?=\{))")
"""Pairs of `$`, and a reference behind them; or pairs alone, and `{` behind them."""
_BEFORE_BRACE = re.compile(r"\$+(?=\{)")
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_FOREIGN = re.compile(r"(?!env:|file:|keyring:)([a-z]{1,20}):[^:$-][^$]*")
"""A reference of a kind that other programs have; its target is not shown."""
_KNOWN_FORMS: Final = "${VAR}, ${VAR:-default}, ${env:VAR}, ${file:/path} or ${keyring:SERVICE/NAME}"


def referenced_files(entry: JSON, keys: Iterable[str] | None = None) -> list[str]:
    """Return the files whose content is filled in, as the entry names them; only in the values of `keys`, if given."""
    texts = (text for key in (entry if keys is None else keys) for text in texts_in(entry.get(key)))
    references = (reference for text in texts for reference in references_in(text))
    return sorted({reference.removeprefix("file:") for reference in references if reference.startswith("file:")})


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts in a value."""
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield value
        elif is_array(value):
            values += value
        elif is_object(value):
            values += value.values()


def has_reference(value: object) -> bool:
    """Return whether a JSON value holds a reference in one of its texts."""
    return any(references_in(text) for text in texts_in(value))


def references_in(text: str) -> list[str]:
    """Return the text between the braces of each reference of a text."""
    return [match[2] for match in _REFERENCE.finditer(text) if match[2] is not None]


def without_references(text: str) -> str:
    """Return a text without its references."""
    return _REFERENCE.sub(_halved, text)


def as_text(text: str) -> str:
    """Return a text escaped for an entry, so that nothing in it is a reference."""
    return _BEFORE_BRACE.sub(lambda match: match[0] * 2, text)


def _halved(match: re.Match[str]) -> str:
    """Return half of the `$` that stand before a reference: each pair stands for one."""
    dollars: str = match[1]
    return dollars[: len(dollars) // 2]


class Expander:
    """Fills in references and remembers their values, because those may be secret.

    Args:
        environ: The variables.
        folder: The folder where relative paths of files begin: that of the configuration file.
        entry: The entry, if the variables of its `env` come first, as for programs that fill in their own
            arguments. In `env` itself, a variable is one of `environ`.

    Raises:
        EntryError: A reference in `env` has no value or a wrong form.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path, entry: JSON | None = None) -> None:
        self._environ = environ
        self._folder = folder
        self.secrets: set[str] = set()
        """The values of references. Not for any log."""
        self._env: JSON | None = None
        table = None if entry is None else entry.get("env")
        if is_object(table):
            self._env = {name: self._value(f"{name!r} in 'env'", item, self.path) for name, item in table.items()}
            scalars = {name: item for name, item in self._env.items() if isinstance(item, str | int | float)}
            own = {name: item if isinstance(item, str) else json.dumps(item) for name, item in scalars.items()}
            self._environ = {**environ, **own}

    def entry(self, entry: JSON) -> JSON:
        """Return a copy of an entry with its references filled in; values other than texts stay as they are.

        Args:
            entry: The entry that this was made for, perhaps with its arguments in another form.

        Raises:
            EntryError: A reference has no value or a wrong form; the message names place and reference, no value.
        """
        filled = dict(entry)
        for key in ("command", "cwd", "url", "openapi", "proxy"):
            if isinstance(text := entry.get(key), str):
                filled[key] = (self.path if key in ("command", "cwd") else self.text)(f"'{key}'", text)
        if is_array(args := entry.get("args")):
            numbered = ((f"item {number} of 'args'", item) for number, item in enumerate(args, 1))
            filled["args"] = [self._value(place, item, self.path) for place, item in numbered]
        for key in ("headers", "oauth"):
            if is_object(table := entry.get(key)):
                filled[key] = {
                    name: self._value(f"{name!r} in '{key}'", item, self.text) for name, item in table.items()
                }
        return filled if self._env is None else {**filled, "env": self._env}

    def path(self, place: str, text: str) -> str:
        """Fill in a text that may be a path, as `text` does; a leading `~/` becomes the home folder.

        The values of references are not checked for `~`: a secret may begin with anything.

        Raises:
            EntryError: A reference has no value or a wrong form, or there is no home folder.
        """
        if not text.startswith(_AT_HOME):
            return self.text(place, text)
        try:
            home = str(home_folder())
        except RuntimeError:
            raise EntryError(f"{place} begins with '~', and there is no home folder; set HOME or write it") from None
        return home.rstrip(os.sep) + self.text(place, text[1:])

    def text(self, place: str, text: str) -> str:
        """Fill in the references of one text, which errors call `place`. The filled-in values are not searched again.

        Raises:
            EntryError: A reference has no value or a wrong form.
        """

        def looked_up(match: re.Match[str]) -> str:
            return _halved(match) + ("" if match[2] is None else self._looked_up(place, match[2]))

        return _REFERENCE.sub(looked_up, text)

    def value(self, place: str, value: Any) -> Any:
        """Fill in the references in all texts of a JSON value, however deep they are; keys stay as they are.

        Raises:
            EntryError: A reference has no value or a wrong form.
        """
        if is_object(value):
            return {key: self.value(place, item) for key, item in value.items()}
        if is_array(value):
            return [self.value(place, item) for item in value]
        return self.text(place, value) if isinstance(value, str) else value

    @staticmethod
    def _value(place: str, value: Any, fill: Callable[[str, str], str]) -> Any:
        if is_array(value):
            return [fill(place, item) if isinstance(item, str) else item for item in value]
        return fill(place, value) if isinstance(value, str) else value

    def _looked_up(self, place: str, reference: str) -> str:
        kind, _, rest = reference.partition(":")
        if "${" in reference or "$(" in reference:
            pass
        elif kind == "file" and rest and not rest.startswith("-"):  # `${file:-x}` is a variable with a default
            return self._remembered(self._from_file(place, rest))
        elif kind == "keyring" and rest and not rest.startswith("-"):
            return self._remembered(_from_keyring(place, rest))
        elif variable := _VARIABLE.fullmatch(reference):
            return self._from_environment(place, variable["name"], variable["default"])
        if form := _FOREIGN.fullmatch(reference):
            owner = " is VS Code's, which asks for it; here it" if form[1] == "input" else ""
            raise EntryError(f"{place}: ${{{form[1]}:...}}{owner} is not understood; expected {_KNOWN_FORMS}")
        raise EntryError(f"{place} has a ${{...}} that is not understood; expected {_KNOWN_FORMS}")

    def _from_environment(self, place: str, name: str, default: str | None) -> str:
        """Return the value of a variable; a default also replaces an empty one, as in a shell."""
        value = self._environ.get(name)
        if value:
            return value if name in HARMLESS else self._remembered(value)
        if default is not None:
            return default
        if value is None:
            raise MissingReferenceError(f"{place} needs the environment variable {name}, which is not set")
        return value

    def _from_file(self, place: str, name: str) -> str:
        try:
            content, _ = read_bytes(self._folder / expanded(Path(name)), MAX_SECRET)
            text = content.decode("utf-8")
        except ConfigError as error:
            raise MissingReferenceError(f"{place} needs a file: {error}") from None
        except UnicodeDecodeError as error:
            raise MissingReferenceError(f"{place} needs a file: {name}: byte {error.start + 1} is not UTF-8") from None
        # One line end, as every editor adds one; more of them may be part of the value.
        return text.removesuffix("\n").removesuffix("\r")

    def _remembered(self, value: str) -> str:
        if value:
            self.secrets.add(value)
        return value


def _from_keyring(place: str, reference: str) -> str:
    service, _, name = reference.rpartition("/")
    if not service or not name:
        raise EntryError(f"{place} has a keyring reference without a name; expected ${{keyring:SERVICE/NAME}}")
    try:
        keyring: Any = importlib.import_module("keyring")
    except ImportError:
        hint = "run: pip install 'gaia-mcp-bridge[keyring]'"
        raise MissingReferenceError(
            f"{place} needs the keyring, and the package for it is not installed; {hint}"
        ) from None
    try:
        value: object = keyring.get_password(service, name)
    except Exception as error:
        # A backend of the desktop may fail in any way, and its message is foreign text: only the type is shown.
        raise MissingReferenceError(f"{place} needs the keyring, which failed with {type(error).__name__}") from None
    if not isinstance(value, str):
        raise MissingReferenceError(f"{place} needs {name!r} of {service!r} in the keyring, which is not there")
    return value
