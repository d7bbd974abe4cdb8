"""Names of tools and prompts where several sources share one endpoint. Pure, reversible through a map, never parsed.

A tool or prompt is identified by `(source, name)`; its public name depends on the naming policy. An agent's own name is
never changed; a qualified name has at most 44 characters of `[A-Za-z0-9_-]`: model providers accept 64, and editors put
the name of the bridge before it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final
from unicodedata import category, normalize

from msgspec import Struct

from gaia_bridge.model import NamingPolicy, SourceKind

MAX_NAME = 64
"""The most characters of a name that every model provider accepts."""
MAX_QUALIFIED = 44
"""The most characters of a name that begins with its source. Editors put the name of the bridge before it and cut at
64, Copilot CLI (`gaia-mcp-bridge-`) at the end, Gemini CLI (`mcp_gaia-mcp-bridge_`) in the middle: longer names that
differ only there would become the same."""
_LEAST_PREFIX = 12
"""The fewest characters kept of a source's name in a long name: the tool's own name is more useful to models."""
MAX_SERVER_NAME = 128
"""The most characters of a server's name in a configuration."""

SERVER_NAME_RULE = (
    f"the name of a server has 1 to {MAX_SERVER_NAME} characters that can be seen, blanks between them too; "
    "it does not begin with -, and is neither . nor .."
)
"""The rule that `is_server_name` checks, in words."""

_HASH = 8
_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of Unicode: controls, formats such as joiners and tags, halves of pairs, separators of lines."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_UNSAFE_RUN = re.compile(r"[^A-Za-z0-9_-]+")
_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_NOT_IN_SOURCE_NAMES = re.compile(r"[^a-z0-9_.-]+")
_EDITIONS: Final = (" - insiders", " - exploration", " insiders", " dev")
"""The suffixes of an editor's name in its preview editions."""
_VIA: Final = " (via "
"""The text that mcp-remote puts between the name of the client that it forwards for and its own."""


def is_source_name(name: str) -> bool:
    """Whether `name` can name a published agent: it is a path segment and a qualifier as it is."""
    return _SOURCE_NAME.fullmatch(name) is not None


def is_server_name(name: str) -> bool:
    """Whether `name` can name a server of a configuration.

    In a URL, a segment `.` or `..` would mean another path, percent-encoded or not. On a command line, a dash at its
    beginning would make it an option.
    """
    shown = name.isprintable() and name.strip() != ""
    return shown and len(name) <= MAX_SERVER_NAME and not name.startswith("-") and name not in (".", "..")


def source_prefix(name: str) -> str:
    """Return the prefix of qualified names: the name of the source, in the characters that names of tools may have.

    A name of the form `[A-Za-z0-9_-]{1,64}` stays unchanged, `@scope/my server` becomes `scope_my_server`. Two names
    may lead to the same prefix; see `source_prefixes`.
    """
    if _PREFIX.fullmatch(name):
        return name
    plain = normalize("NFKD", name).encode("ascii", "ignore").decode()
    return _UNSAFE_RUN.sub("_", plain).strip("_-")[:MAX_NAME] or _hashed_prefix(name)


def source_prefixes(names: Iterable[str]) -> dict[str, str]:
    """Give each source a prefix, no two the same: the first to claim one keeps it, another gets a hash at its end."""
    prefixes: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        prefix = source_prefix(name)
        while prefix in taken:
            prefix = _hashed_prefix(name, prefix)
        taken.add(prefix)
        prefixes[name] = prefix
    return prefixes


def file_name(server: str) -> str:
    """Return the name of a server's file or folder: its own, or a safe one, unique since no plain name has an `@`."""
    if is_source_name(server):
        return server
    return f"{source_prefix(server)}@{hashlib.sha256(server.encode(errors='surrogatepass')).hexdigest()[:16]}"


def words_of(name: str) -> list[str]:
    """Split a name of any kind into its words, in ASCII: `MyHTTPAgent` into `My`, `HTTP` and `Agent`."""
    words: list[str] = _WORDS.findall(normalize("NFKD", name).encode("ascii", "ignore").decode())
    return words


def clean_name(name: str) -> str:
    """Convert a name to the form `[a-z0-9][a-z0-9_.-]{0,63}`, so that it is also a safe path segment."""
    return _NOT_IN_SOURCE_NAMES.sub("-", name.lower()).lstrip("_.-")[:MAX_NAME].rstrip("-") or "agent"


def agent_name(class_name: str) -> str:
    """Derive the published name of an agent from its class: `code` from `CodeAgent`, `my-http` from `MyHTTPAgent`."""
    plain = normalize("NFKD", class_name).encode("ascii", "ignore").decode()
    return clean_name("-".join(words_of(plain.removesuffix("Agent"))))


class SourceName(Struct, frozen=True):
    """The identity of one tool or prompt."""

    source: str
    kind: SourceKind
    name: str


def qualified_name(item: SourceName, policy: NamingPolicy, prefix: str | None = None) -> str:
    """Return the public name with the name of the source in it (by default its `source_prefix`), as `policy` wants."""
    prefix = source_prefix(item.source) if prefix is None else prefix
    if policy is NamingPolicy.GAIA:
        return _fit(f"mcp_{prefix}_{item.name}", item)
    name = f"{prefix}__{item.name}"
    if len(name) > MAX_QUALIFIED:
        most = max(_LEAST_PREFIX, len(prefix) - len(name) + MAX_QUALIFIED - _HASH - 1)
        name = f"{prefix[:most]}__{item.name}"
        return _with_hash(_UNSAFE.sub("_", name), item, MAX_QUALIFIED)
    return _fit(name, item, MAX_QUALIFIED)


def may_be_of(name: str, prefix: str) -> bool:
    """Whether a public name may be the qualified name of an item of the source with this prefix."""
    is_cut = len(name) == MAX_QUALIFIED and name.startswith(prefix[:_LEAST_PREFIX])
    return is_cut or name.startswith((prefix, f"mcp_{prefix}_"))


def fitting_names(names: Iterable[str]) -> dict[str, str]:
    """Map each name to one that model providers accept: unchanged if it fits, else with a hash; no two the same."""
    every = tuple(dict.fromkeys(names))
    fitting = {name: _fit(name, SourceName("", SourceKind.AGENT, name)) for name in every}
    taken = {name for name in every if fitting[name] == name}
    for name in every:
        while fitting[name] != name and fitting[name] in taken:
            fitting[name] = _with_hash(fitting[name], SourceName("", SourceKind.AGENT, name))
        taken.add(fitting[name])
    return fitting


def assign_names(
    items: Iterable[SourceName], policy: NamingPolicy, prefixes: Mapping[str, str] | None = None
) -> tuple[dict[str, SourceName], list[SourceName]]:
    """Give every item a public name of its own; the first to claim a name keeps it.

    Args:
        prefixes: The prefix of each source, and perhaps of more. Derived from the items if not given.

    Returns:
        The map from public name to item, in the order of `items`, and those items that were qualified only because
        their plain name was taken.
    """
    items = list(items)
    prefixes = source_prefixes(item.source for item in items) if prefixes is None else prefixes
    assigned: dict[str, SourceName] = {}
    collided: list[SourceName] = []
    for item in items:
        prefix = prefixes[item.source]
        name = qualified_name(item, policy, prefix) if _is_qualified(item, policy) else _own_name(item)
        if name in assigned:
            collided.append(item)
            name = qualified_name(item, policy, prefix)
        while name in assigned:
            name = _with_hash(name, item, MAX_QUALIFIED)
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
    """Return the item's own name; in that of a server's item, invisible characters are replaced."""
    if item.kind is SourceKind.AGENT or not any(category(character) in _UNSEEN for character in item.name):
        return item.name
    return _fit(item.name, item)


def _fit(name: str, item: SourceName, most: int = MAX_NAME) -> str:
    safe = _UNSAFE.sub("_", name)
    return safe if safe == name and 0 < len(safe) <= most else _with_hash(safe, item, most)


def _with_hash(name: str, item: SourceName, most: int = MAX_NAME) -> str:
    return _ending_in_hash(name, f"{item.source}\0{item.name}\0{name}", most)


def _hashed_prefix(source: str, prefix: str = "server") -> str:
    return _ending_in_hash(prefix, f"{source}\0{prefix}")


def _ending_in_hash(name: str, identity: str, most: int = MAX_NAME) -> str:
    digest = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: most - _HASH - 1]}_{digest}"


def known_name(client: str) -> str:
    """Normalize a client's name for tables: in lower case, without edition and without the proxy that forwards."""
    name = client.partition(_VIA)[0].strip().casefold()
    edition = next((edition for edition in _EDITIONS if name.endswith(edition)), "")
    return name.removesuffix(edition)
