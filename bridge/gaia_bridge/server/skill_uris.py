"""The URIs of skills of several sources on one endpoint: each directory of a skill is as a whole under one URI.

Two servers may have a skill at `skill://refunds/SKILL.md`. The first keeps it; the other's is at
`skill://NAME/refunds/SKILL.md`, with all of its files: the last part of the directory is the skill's name as before.

Clients that know prompts and no skills are given a prompt for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from gaia_bridge.contract import Source
from gaia_bridge.protocol.kinds import PROMPT, SKILL, Listed, either, in_both_eras
from gaia_bridge.protocol.names import SourceName
from gaia_bridge.protocol.skills import SKILL_KEY, SOURCE_KEY, root_of
from gaia_bridge.text.json_types import JSON, is_array, value_at

_SCHEME: Final = "skill://"
_NAMED: Final = re.compile(r"(?:skill|ui|mcp\d*)://([^/]+)", re.ASCII)
"""The beginning of a URI that may name a source."""
_MOST_UNLISTED: Final = 10_000
Ways = Callable[[Source, str], Iterator[str]]
"""A function that yields ways to write a URI with the name of its source, the best first."""
_OTHERWISE: Final = "skill"


class UnlistedRoots:
    """The directories of skills that are in no list, each of which a server has confirmed. The latest are kept.

    Listed skills come first: only for others are these directories looked up.
    """

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, str]] = {}

    def note(self, root: str, source: Source, own: str) -> None:
        """Remember the source of a directory, and the source's own URI for it."""
        self._owners.pop(root, None)
        while len(self._owners) >= _MOST_UNLISTED:
            del self._owners[next(iter(self._owners))]
        self._owners[root] = source.name, own

    def find(self, uri: str) -> tuple[str, str, str] | None:
        """Return the source of a file or directory: its name, its own URI for that, and the directory of the skill."""
        for directory in _ancestors(uri):
            if (owner := self._owners.get(directory)) is not None:
                name, own = owner
                return name, own + uri[len(directory) :], own
        return None


class SkillRoots:
    """The directories of all skills at one moment.

    Args:
        sources: In the order in which they were added, by their names as parts of URIs; the first keeps its URIs.
    """

    def __init__(self, sources: Mapping[str, Source], ways: Ways, unlisted: UnlistedRoots | None = None) -> None:
        self._unlisted = unlisted or UnlistedRoots()
        self._named = sources
        self._merges = len(sources) > 1
        self._sources = tuple(sources.values())
        self._owners: dict[str, tuple[Source, str]] = {}
        self._around: set[str] = set()
        """The directories that are taken, and those around them."""
        self._public: dict[tuple[str, str], str] = {}
        self.rewritten: list[tuple[Source, str]] = []
        """The directories that could not keep their URIs."""
        moved: list[tuple[str, Source, str]] = []
        for quoted, source in sources.items():
            for root in _outermost(root_of(either(item)["uri"]) for item in SKILL.listed(source.features)):
                if self._is_free(root) and self.named(root) in (None, source):
                    self._take(source, root, root)
                else:
                    moved.append((quoted, source, root))
        for quoted, source, root in moved:
            self.rewritten.append((source, root))
            first = (_with_name(quoted, root),) if root.startswith(_SCHEME) else ()
            public = next((way for way in (*first, *ways(source, root)) if self._is_free(way)), root)
            self._take(source, root, public)

    def find(self, uri: str) -> tuple[Source, str] | None:
        """Return the source of the skill that a file or directory belongs to, and the source's own URI for it."""
        for directory in _ancestors(uri):
            if (owner := self._owners.get(directory)) is not None:
                source, own = owner
                return source, own + uri[len(directory) :]
        name, own, _ = self._unlisted.find(uri) or ("", "", "")
        return next(((source, own) for source in self._sources if source.name == name), None)

    def named(self, uri: str) -> Source | None:
        """Return the source that a URI names, if it names one: such a URI is for no other source."""
        beginning = _NAMED.match(uri)
        return self._named.get(beginning[1]) if beginning is not None and self._merges else None

    def public(self, source: Source, uri: str) -> str | None:
        """Return the clients' URI for a file or directory of a skill of a source; `None` if it is in no skill."""
        for directory in _ancestors(uri):
            if (public := self._public.get((source.name, directory))) is not None:
                return public + uri[len(directory) :]
        quoted = next((quoted for quoted, other in self._named.items() if other is source), "")
        return next((way for way in (uri, _with_name(quoted, uri)) if self.find(way) == (source, uri)), None)

    def entries(self, *, modern: bool) -> list[JSON]:
        """Return all skills, as clients of one era are shown them."""
        listed = ((source, item) for source in self._sources for item in SKILL.listed(source.features))
        shown = ((source, item[0 if modern else 1]) for source, item in listed)
        return [self.entry(source, item) for source, item in shown if item is not None]

    def entry(self, source: Source, entry: Mapping[str, Any], public: str | None = None) -> JSON:
        """Return a skill under the URIs that clients know, or the client itself used, with the name of its source.

        Its digests stay as they are.
        """
        if not self._merges:
            return dict(entry)
        shown: JSON = {**entry, "_meta": {**(entry.get("_meta") or {}), SOURCE_KEY: source.name}}
        uri: str = entry["uri"]
        public = public or self.public(source, uri) or uri
        if public == uri:
            return shown
        resources = entry["resources"]
        own, root = root_of(uri), root_of(public)
        if is_array(resources):
            resources = [{**file, "uri": root + file["uri"].removeprefix(own)} for file in resources]
        return {**shown, "uri": public, "resources": resources}

    def _take(self, source: Source, root: str, public: str) -> None:
        self._owners[public] = source, root
        self._around.update(_ancestors(public))
        self._public[source.name, root] = public

    def _is_free(self, root: str) -> bool:
        """Return whether a directory is neither inside of one that is taken, nor around one."""
        return root not in self._around and not any(directory in self._owners for directory in _ancestors(root))


def _with_name(quoted: str, uri: str) -> str:
    return f"{_SCHEME}{quoted}/{uri.removeprefix(_SCHEME)}"


def _ancestors(uri: str) -> Iterator[str]:
    """Yield a URI, and the directories that it is in, from the inside out."""
    _, _, path = uri.partition("://")
    least = len(uri) - len(path)
    end = len(uri)
    while end > least:
        yield uri[:end]
        end = uri.rfind("/", least, end)


def _outermost(roots: Iterable[str]) -> list[str]:
    """Return the directories without those that are inside of others."""
    kept: set[str] = set()
    for root in sorted(set(roots), key=len):
        if kept.isdisjoint(_ancestors(root)):
            kept.add(root)
    return sorted(kept)


def skill_prompts(source: Source) -> Iterator[tuple[SourceName, str, Listed]]:
    """Yield the prompts that stand for the skills of a source, in both eras, each with the URI of its skill.

    A skill that the source has a prompt for itself has no second one. The name is that of the skill; of two skills of
    one name, and where a prompt has it, that of its path.
    """
    taken: set[str] = set()
    covered: set[object] = set()
    for new, old in PROMPT.listed(source.features):
        for prompt in (new, old):
            if prompt is not None:
                taken.add(prompt["name"])
                covered.add(value_at(prompt, "_meta", SKILL_KEY))
    for listed in SKILL.listed(source.features):
        entry = either(listed)
        if entry["uri"] not in covered:
            name = _free(entry, taken)
            taken.add(name)
            prompts = in_both_eras(listed, partial(_prompt, name))
            yield SourceName(source.name, source.kind, name), entry["uri"], prompts


def _free(entry: Mapping[str, Any], taken: Collection[str]) -> str:
    name: str = entry["frontmatter"]["name"]
    path = "-".join(map(unquote, root_of(entry["uri"]).partition("://")[2].split("/")))
    ways = (name, path, f"{_OTHERWISE}-{name}", f"{_OTHERWISE}-{path}")
    numbered = (f"{_OTHERWISE}-{path}-{number}" for number in range(2, len(taken) + 3))
    return next(way for way in (*ways, *numbered) if way not in taken)


def _prompt(name: str, entry: Mapping[str, Any]) -> JSON:
    description = entry["frontmatter"]["description"]
    return {"name": name, "description": description, "_meta": {SKILL_KEY: entry["uri"]}}
