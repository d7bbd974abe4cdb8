"""Secrets of entries: detected, stored in the keyring or files of their own, and replaced by references."""

from __future__ import annotations

import importlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.config.expansion import has_reference, referenced_files, texts_in, without_references
from gaia_bridge.config.file_editor import edit_file
from gaia_bridge.config.paths import expanded
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.redaction import redacted
from gaia_bridge_desk.review.launch_lines import is_secret

_SERVICE: Final = "gaia-bridge"
_FOLDER: Final = "~/.gaia/secrets"
_MOST_OF_A_NAME: Final = 100
"""The most secrets with one name in one place, each of another configuration."""
_KEPT_IN_KEYRING: Final = re.compile(rf"\$\{{keyring:{_SERVICE}/([^/}}]+)\}}")
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class Secret(Struct, frozen=True):
    """A secret that is written in an entry.

    Args:
        place: The keys that lead to it.
        label: Its name, for people and for its file.
        value: Its value.
    """

    place: tuple[str | int, ...]
    label: str
    value: str

    def __repr__(self) -> str:
        return f"Secret({self.place!r}, {self.label!r})"


def secrets_in(entry: JSON) -> list[Secret]:
    """Return the secrets that are written in an entry: in variables, headers, arguments, its address, and its login.

    Args:
        entry: The entry, in our form.
    """
    by_label: dict[str, Secret] = {}
    for secret in _secrets(entry):
        label = secret.label
        if label in by_label:
            label = f"{label}-{len(by_label) + 1}"
        # A file or the keyring holds the plain text: `$${` in it would not be unescaped to `${`.
        value = secret.value if has_reference(secret.value) else without_references(secret.value)
        by_label[label] = Secret(secret.place, label, value)
    return list(by_label.values())


def kept_files() -> frozenset[Path]:
    """Return the existing files of secrets."""
    folder = expanded(Path(_FOLDER))
    return frozenset(folder.iterdir()) if folder.is_dir() else frozenset()


def left_behind(old: object, new: JSON | None = None) -> list[str]:
    """Return the places of secrets that the old entry refers to and the new one does not. Other entries may use them.

    Args:
        old: The entry that was removed.
        new: The entry in its place.
    """
    if not is_object(old):
        return []
    gone = _references(old) - _references(new or {})
    return [f"the keyring (service {_SERVICE}, name {name})" if name else file for file, name in sorted(gone)]


def _references(entry: JSON) -> set[tuple[str, str]]:
    """Return our stored secrets that an entry refers to: each a file, or a name in the keyring."""
    files = {(file, "") for file in referenced_files(entry) if file.startswith(f"{_FOLDER}/")}
    return files | {("", name) for text in texts_in(entry) for name in _KEPT_IN_KEYRING.findall(text)}


def replaced(entry: JSON, secret: Secret, reference: str) -> JSON:
    """Return the entry with a reference in the place of a secret.

    Args:
        entry: The entry.
        secret: The secret.
        reference: The reference to its new place.
    """
    made: JSON = _replaced(entry, secret.place, reference)
    return made


def _in_file(server: str, secret: Secret) -> str:
    """Write a secret into a file that only its owner can read, without overwriting any: another configuration may have
    a server of that name."""
    content = f"{secret.value}\n".encode()
    for name in _names(server, secret):
        place = f"{_FOLDER}/{name}"
        path, there = expanded(Path(place)), list[bytes]()

        # The default value binds this round's list; a closure would follow the loop variable.
        def unless_there(old: bytes | None, _status: object, there: list[bytes] = there) -> bytes | None:
            if old is None:
                return content
            there.append(old)
            return None

        edit_file(path, unless_there, lock=path.parent / ".lock")
        if not there or there[0] == content:
            return f"${{file:{place}}}"
    raise _too_many(f"{_FOLDER}/{_name(server, secret)}")


def _name(server: str, secret: Secret) -> str:
    """Return a name for a secret, unique in its configuration, of characters that every place accepts."""
    return f"{_word(server)}.{_word(secret.label)}"


def _names(server: str, secret: Secret) -> Iterator[str]:
    """Yield the possible names of a secret; the first that no other configuration uses is taken."""
    name = _name(server, secret)
    yield name
    yield from (f"{name}-{number}" for number in range(2, _MOST_OF_A_NAME + 1))


def _too_many(place: str) -> ConfigError:
    problem = f"there are {_MOST_OF_A_NAME} other secrets of this name already"
    return ConfigError(place, problem, "remove those that no configuration refers to")


def _word(text: str) -> str:
    word = _NO_WORD.sub("_", text)
    return word if word == text else f"{word}-{zlib.crc32(text.encode(errors='surrogatepass')):08x}"


def _in_keyring(server: str, secret: Secret) -> str:
    """Store a secret in the keyring of the desktop, without overwriting any other."""
    try:
        keyring: Any = importlib.import_module("keyring")
    except ImportError:
        hint = "run: pip install 'gaia-mcp-bridge[keyring]', or take --secrets file"
        raise ConfigError("--secrets keyring", "the package for the keyring is not installed", hint) from None
    try:
        name = _kept_in(keyring, secret.value, _names(server, secret))
    except Exception as error:  # a backend of the desktop may fail in any way
        problem = f"the keyring failed with {type(error).__name__}"
        raise ConfigError("--secrets keyring", problem, "take --secrets file") from None
    if name is None:
        raise _too_many(f"{_SERVICE}/{_name(server, secret)}")
    return f"${{keyring:{_SERVICE}/{name}}}"


def _kept_in(keyring: Any, value: str, names: Iterator[str]) -> str | None:
    """Store a secret under the first name that is free or has it already; return `None` if there is none."""
    for name in names:
        there: object = keyring.get_password(_SERVICE, name)
        if there is None:
            keyring.set_password(_SERVICE, name, value)
        if there is None or there == value:
            return name
    return None


KEEPERS: Final[dict[str, Callable[[str, Secret], str]]] = {"file": _in_file, "keyring": _in_keyring}
"""The places for secrets. Each function takes the server and the secret, and returns the reference to it."""


def _secrets(entry: JSON) -> Iterator[Secret]:
    for key in ("env", "headers", "oauth"):
        table = entry.get(key)
        for name, value in table.items() if is_object(table) else ():
            is_public = key == "oauth" and name != "clientSecret"
            if isinstance(value, str) and value and not is_public and is_secret(name, value):
                yield Secret((key, name), name, value)
    args = entry.get("args")
    for number, word in enumerate(args if is_array(args) else ()):
        before: object = args[number - 1] if is_array(args) and number else ""
        if isinstance(word, str) and _is_secret_word(word, before if isinstance(before, str) else ""):
            option = word.partition("=")[0] if word.startswith("-") else before
            named = isinstance(option, str) and option.startswith("-")
            label = str(option).lstrip("-") if named else f"argument-{number + 1}"
            yield Secret(("args", number), label, word)
    for key in ("url", "proxy"):
        url = entry.get(key)
        if isinstance(url, str) and not has_reference(url) and _shows_secret(url):
            yield Secret((key,), key, url)


def _shows_secret(url: str) -> bool:
    words = url.replace("?", " ").replace("&", " ")
    return redacted(words) != words


def _is_secret_word(word: str, before: str) -> bool:
    if has_reference(word) or word.startswith("--") and "=" not in word:
        return False
    named = f"{before.lstrip('-')}: {word}" if before.startswith("--") and "=" not in before else word
    return redacted(named) != named


def _replaced(value: Any, place: Sequence[str | int], reference: str) -> Any:
    if not place:
        return reference
    key, *rest = place
    if is_array(value):
        return [_replaced(item, rest, reference) if number == key else item for number, item in enumerate(value)]
    return {name: _replaced(item, rest, reference) if name == key else item for name, item in value.items()}
