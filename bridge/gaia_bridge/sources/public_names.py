"""Names of tools and prompts where several sources share one endpoint. Pure, reversible through a map, never parsed.

One identity, `(source, name)`; several spellings. An agent's own name is never touched; a name
that is qualified has at most 64 characters of `[A-Za-z0-9_-]`, which is what every editor and model provider accepts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from unicodedata import category, normalize

from msgspec import Struct

from gaia_bridge.model import NamingPolicy, SourceKind

__all__ = [
    "MAX_NAME",
    "SourceName",
    "agent_name",
    "assign_names",
    "clean_name",
    "fitting_names",
    "is_source_name",
    "qualified_name",
    "words_of",
]

MAX_NAME = 64
"""Characters of a qualified name."""

_HASH = 8
_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of Unicode: controls, formats such as joiners and tags, halves of pairs, separators of lines."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_NOT_IN_SOURCE_NAMES = re.compile(r"[^a-z0-9_.-]+")


def is_source_name(name: str) -> bool:
    """Whether `name` can name a published agent or server: it becomes a path segment and a qualifier."""
    return _SOURCE_NAME.fullmatch(name) is not None


def words_of(name: str) -> list[str]:
    """The words that a name of any kind is made of, in ASCII: `MyHTTPAgent` of `My`, `HTTP` and `Agent`."""
    words: list[str] = _WORDS.findall(normalize("NFKD", name).encode("ascii", "ignore").decode())
    return words


def clean_name(name: str) -> str:
    """Make it `[a-z0-9][a-z0-9_.-]{0,63}`, so that it is also a safe path segment."""
    return _NOT_IN_SOURCE_NAMES.sub("-", name.lower()).lstrip("_.-")[:MAX_NAME].rstrip("-") or "agent"


def agent_name(class_name: str) -> str:
    """What an agent is published as: `CodeAgent` as `code`, `MyHTTPAgent` as `my-http`."""
    plain = normalize("NFKD", class_name).encode("ascii", "ignore").decode()
    return clean_name("-".join(words_of(plain.removesuffix("Agent"))))


class SourceName(Struct, frozen=True):
    """The identity of one tool or prompt."""

    source: str
    kind: SourceKind
    name: str


def qualified_name(item: SourceName, policy: NamingPolicy) -> str:
    """The spelling that names the source, in the style of `policy`."""
    if policy is NamingPolicy.GAIA:
        return _fit(f"mcp_{item.source}_{item.name}", item)
    return _fit(f"{item.source}__{item.name}", item)


def fitting_names(names: Iterable[str]) -> dict[str, str]:
    """Each name as model providers accept it: unchanged if it fits, else with a hash at its end; no two the same."""
    every = tuple(dict.fromkeys(names))
    found = {name: _fit(name, SourceName("", SourceKind.AGENT, name)) for name in every}
    taken = {name for name in every if found[name] == name}
    for name in every:
        while found[name] != name and found[name] in taken:
            found[name] = _with_hash(found[name], SourceName("", SourceKind.AGENT, name))
        taken.add(found[name])
    return found


def assign_names(items: Iterable[SourceName], policy: NamingPolicy) -> tuple[dict[str, SourceName], list[SourceName]]:
    """Give every item a public name of its own.

    Args:
        items: In the order in which sources were added; the first to claim a name keeps it.
        policy: How names are spelled.

    Returns:
        The map from public name to item, in the order of `items`, and those items that were qualified only because
        their plain name was taken.
    """
    assigned: dict[str, SourceName] = {}
    collided: list[SourceName] = []
    for item in items:
        name = qualified_name(item, policy) if _is_qualified(item, policy) else _own_name(item)
        if name in assigned:
            collided.append(item)
            name = qualified_name(item, policy)
        while name in assigned:
            name = _with_hash(name, item)
        assigned[name] = item
    return assigned, collided


def _is_qualified(item: SourceName, policy: NamingPolicy) -> bool:
    match policy:
        case NamingPolicy.DOUBLE:
            return True
        case NamingPolicy.BARE:
            return False
        case NamingPolicy.DEFAULT | NamingPolicy.GAIA:
            return item.kind is SourceKind.SERVER


def _own_name(item: SourceName) -> str:
    """The name that an item has itself; of a server's, what cannot be seen in it is replaced."""
    if item.kind is SourceKind.AGENT or not any(category(character) in _UNSEEN for character in item.name):
        return item.name
    return _fit(item.name, item)


def _fit(name: str, item: SourceName) -> str:
    safe = _UNSAFE.sub("_", name)
    return safe if safe == name and 0 < len(safe) <= MAX_NAME else _with_hash(safe, item)


def _with_hash(name: str, item: SourceName) -> str:
    identity = f"{item.source}\0{item.name}\0{name}"
    digest = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: MAX_NAME - _HASH - 1]}_{digest}"
