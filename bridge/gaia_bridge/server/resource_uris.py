"""The sources of URIs, where several sources share one endpoint, and the URIs that clients see.

A URI stays as it is as long as it leads to the source that uses it. Otherwise it is written in another way that names
the source and can be taken back exactly, wherever clients see it: in lists, results, templates, notifications, and in
the `ui://` references of MCP Apps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from gaia_bridge.calls.results.kept_results import RESULT_SCHEME
from gaia_bridge.contract import Source
from gaia_bridge.errors import ResourceNotFoundError
from gaia_bridge.protocol.kinds import RESOURCE, TEMPLATE, Listed, either, in_both_eras
from gaia_bridge.protocol.skills import SKILL_KEY
from gaia_bridge.protocol.uri_template import UriTemplate
from gaia_bridge.server.skill_uris import SkillRoots, UnlistedRoots
from gaia_bridge.text.json_types import JSON, is_array, is_object

_UI: Final = "ui://"
"""The scheme of MCP Apps. Hosts know the resources of these apps by the scheme, so it stays."""
_WITH_SOURCE: Final = re.compile(r"(?:mcp\d*|ui)://([^/]+)/", re.ASCII)
"""The beginning of a URI that names its source; see `_ways`."""
_OURS: Final = re.compile(r"mcp\d*", re.ASCII)
"""The schemes that we write URIs with."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
_PLAIN_URL: Final = re.compile(r"(?!https?:|wss?:|ftp:)[a-z][a-z0-9+.-]*:/{0,3}[A-Za-z0-9._~-]+(?:[/?#].*)?", re.ASCII)
"""URIs that are certainly URLs."""
_WEB: Final = frozenset({"http", "https"})
"""Schemes that clients are to fetch by themselves (MCP, server/resources, "Common URI Schemes")."""


class _ListedItem(Struct, frozen=True):
    """A resource, or a template, as it is listed."""

    source: Source
    uri: str
    """The source's own URI or template."""
    definitions: tuple[JSON | None, JSON | None]
    """The definition, as clients of 2026-07-28 are shown it, and those of the handshake era."""
    pattern: UriTemplate | None = None
    """The parsed template, if the item is one that can be parsed."""
    beginning: str = ""
    """The beginning of every URI that the template describes; compared first, because that costs next to nothing."""


class ResourceUris:
    """The resources and templates of several sources at one moment.

    Args:
        sources: In the order in which they were added; the first to list a URI keeps it.
    """

    def __init__(self, sources: Iterable[Source] = (), unlisted: UnlistedRoots | None = None) -> None:
        self._sources = {_quoted(source): source for source in sources}
        self._readers = [source for source in self._sources.values() if "resources" in source.features.capabilities]
        self.skills = SkillRoots(
            {quoted: source for quoted, source in self._sources.items() if source in self._readers},
            lambda source, uri: _ways(source, uri, len(self._sources)),
            unlisted,
        )
        self._resources: dict[str, _ListedItem] = {}
        self._templates: dict[str, _ListedItem] = {}
        self._schemes: Mapping[str, list[Source]] = {}
        """The sources that list URIs of each scheme; unlisted URIs of a scheme may be theirs, too."""
        self.rewritten: list[tuple[Source, str]] = list(self.skills.rewritten)
        """The sources and URIs that had to be rewritten."""
        for source in self._readers:
            for listed in RESOURCE.listed(source.features):
                self._add_resource(source, listed)
        for source in self._readers:
            for listed in TEMPLATE.listed(source.features):
                self._add_template(source, listed)
        self._schemes = self._sources_of_schemes()

    def resources(self, *, modern: bool) -> list[JSON]:
        """Return the definitions of all resources, as clients of one era are shown them."""
        return _of_era(self._resources, modern=modern)

    def templates(self, *, modern: bool) -> list[JSON]:
        """Return the definitions of all templates, as clients of one era are shown them."""
        return _of_era(self._templates, modern=modern)

    def find(self, uri: str) -> tuple[Source, str]:
        """Return the source that can read a URI, and its own URI for it; raise `ResourceNotFoundError` if none can.

        The source lists the URI, or has a template for it, or is named in it, or is the only one with URIs of that
        scheme, or the only one that reads any.
        """
        if (target := self._find(uri)) is None:
            raise ResourceNotFoundError(uri)
        return target

    def find_template(self, uri: str) -> tuple[Source, str]:
        """Return the same for a template or resource, exactly as it was listed."""
        if (listed := self._templates.get(uri)) is not None:
            return listed.source, listed.uri
        return self.find(uri)

    def public(self, source: Source, uri: str) -> str:
        """Return the URI by which a client reaches the `uri` of `source`.

        The URI itself where no other would reach it: the source reads no resources, or is no longer one of these; or
        where clients read it by themselves, since it is a web address and no source declares that it reads it.
        """
        if len(self._sources) < 2 or source not in self._readers:
            return uri
        if (of_skill := self.skills.public(source, uri)) is not None:
            return of_skill
        if self._find(uri) == (source, uri) and not self._is_of_another(source, uri) and _is_url(uri):
            return uri
        if _scheme(uri) in _WEB and self._find(uri) is None:
            return uri
        ways = _ways(source, uri, len(self._resources))
        return next((way for way in ways if self._find(way) == (source, uri)), uri)

    def outward(self, source: Source, result: JSON) -> JSON:
        """Return a result of `source` with the URIs that clients know: of a tool, a prompt, or a resource."""
        if len(self._sources) < 2:
            return result
        of_results: dict[str, str] = {}

        def renamed(item: JSON) -> JSON:
            uri = item.get("uri")
            return item if not isinstance(uri, str) else _with(item, "uri", self.public(source, uri))

        def block(item: JSON) -> JSON:
            if item.get("type") == "resource_link":
                link = renamed(item)
                if link is not item and item["uri"].startswith(RESULT_SCHEME):
                    of_results[item["uri"]] = link["uri"]
                return link
            return _changed(item, "resource", renamed) if item.get("type") == "resource" else item

        result = _each(_each(result, "content", block), "contents", renamed)
        if of_results:  # the text beside such a link says where the rest is
            result = _each(result, "content", lambda item: _with_text(item, of_results))
        return _each(result, "messages", lambda message: _each(_changed(message, "content", block), "content", block))

    def with_public_uri(self, source: Source, definition: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the definition of a tool with the `ui://` references that clients know (MCP Apps)."""
        if len(self._sources) < 2 or not is_object(definition) or "_meta" not in definition:
            return definition

        def renamed(holder: JSON, key: str) -> JSON:
            uri = holder.get(key)
            return holder if not isinstance(uri, str) else _with(holder, key, self.public(source, uri))

        def meta(item: JSON) -> JSON:
            return renamed(_changed(item, "ui", lambda ui: renamed(ui, "resourceUri")), "ui/resourceUri")

        return _changed(definition, "_meta", meta)

    def with_public_skill(self, source: Source, definition: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the definition of a prompt that stands for a skill, with the URI that clients know."""
        if len(self._sources) < 2 or not is_object(meta := definition.get("_meta")) or SKILL_KEY not in meta:
            return definition
        uri = meta[SKILL_KEY]
        return {**definition, "_meta": {**meta, SKILL_KEY: self.public(source, uri) if isinstance(uri, str) else uri}}

    def _add_resource(self, source: Source, listed: Listed) -> None:
        uri: str = either(listed)["uri"]
        if (public := self.skills.public(source, uri)) is None:
            taken = self._is_of_another(source, uri) or self.skills.find(uri) is not None
            taken = taken or (len(self._sources) > 1 and not _is_url(uri))
            public = self._free(source, uri, self._resources, taken=taken)
        self._resources[public] = _ListedItem(source, uri, in_both_eras(listed, lambda item: {**item, "uri": public}))

    def _add_template(self, source: Source, listed: Listed) -> None:
        uri: str = either(listed)["uriTemplate"]
        if (public := self.skills.public(source, uri)) is None:
            public = self._free_template(source, uri)
        definitions = in_both_eras(listed, lambda item: {**item, "uriTemplate": public})
        self._templates[public] = _ListedItem(
            source, uri, definitions, UriTemplate.parsed(public), public.partition("{")[0]
        )

    def _free_template(self, source: Source, uri: str) -> str:
        pattern = UriTemplate.parsed(uri)
        sample = None if pattern is None else pattern.sample
        taken = self._captures(source, uri)
        taken = taken or (sample is not None and (self._find(sample) or (source, sample)) != (source, sample))
        return self._free(source, uri, self._templates, taken=taken)

    def _is_of_another(self, source: Source, uri: str) -> bool:
        """Return whether a URI, or the beginning of a template, names another source than the one that lists it."""
        named = _WITH_SOURCE.match(uri)
        return named is not None and named[1] in self._sources and named[1] != _quoted(source)

    def _captures(self, source: Source, template: str) -> bool:
        """Return whether a template also describes URIs of others: of any scheme, or with any source's name."""
        if len(self._readers) < 2:
            return False
        beginning = template.partition("{")[0]
        scheme = _scheme(beginning) if ":" in beginning else ""
        if not scheme or self._is_of_another(source, beginning):
            return True
        return _OURS.fullmatch(scheme) is not None and _WITH_SOURCE.match(beginning) is None

    def _free(self, source: Source, uri: str, others: Mapping[str, _ListedItem], *, taken: bool) -> str:
        """Return a URI, rewritten if another source has it."""
        if uri not in others and not taken:
            return uri
        self.rewritten.append((source, uri))
        return next(way for way in _ways(source, uri, len(others)) if way not in others)

    def _find(self, uri: str) -> tuple[Source, str] | None:
        if (listed := self._resources.get(uri)) is not None:
            return listed.source, listed.uri
        if (of_skill := self.skills.find(uri)) is not None:
            return of_skill
        if (named := self._named(uri)) is not None:
            return named
        for listed in self._templates.values():
            if listed.pattern is None or not uri.startswith(listed.beginning):
                continue
            if listed.pattern.matches(uri) and not self._is_of_another(listed.source, uri):
                return listed.source, uri
        if len(self._readers) == 1:
            return None if self._is_of_another(self._readers[0], uri) else (self._readers[0], uri)
        owners = self._schemes.get(_scheme(uri), ())
        return (owners[0], uri) if len(owners) == 1 else None

    def _sources_of_schemes(self) -> dict[str, list[Source]]:
        schemes: dict[str, list[Source]] = {}
        for listed in (*self._resources.values(), *self._templates.values()):
            owners = schemes.setdefault(_scheme(listed.uri), [])
            if listed.source not in owners:
                owners.append(listed.source)
        for scheme in ["", *_WEB, *filter(_OURS.fullmatch, schemes)]:  # a URI with one of ours names its source itself
            schemes.pop(scheme, None)
        return schemes

    def _named(self, uri: str) -> tuple[Source, str] | None:
        if len(self._sources) < 2 or (beginning := _WITH_SOURCE.match(uri)) is None:
            return None
        source, rest = self._sources.get(beginning[1]), uri[beginning.end() :]
        if source is None or source not in self._readers:
            return None
        return source, _UI + rest if uri.startswith(_UI) else rest


def _of_era(items: Mapping[str, _ListedItem], *, modern: bool) -> list[JSON]:
    shown = (listed.definitions[0 if modern else 1] for listed in items.values())
    return [definition for definition in shown if definition is not None]


def _ways(source: Source, uri: str, taken: int) -> Iterator[str]:
    """Yield ways to write a URI with its source's name, the best first; more than the `taken` that others list."""
    if uri.startswith(_UI):
        yield f"{_UI}{_quoted(source)}/{uri.removeprefix(_UI)}"
    for number in range(taken + 1):
        yield f"mcp{number or ''}://{_quoted(source)}/{uri}"


def _quoted(source: Source) -> str:
    return quote(source.name, safe="")


def _scheme(uri: str) -> str:
    """Return the scheme of a URI or template (RFC 3986, section 3.1); empty if it has none."""
    scheme = uri.partition(":")[0].lower()
    return scheme if _SCHEME.fullmatch(scheme) else ""


def _is_url(uri: str) -> bool:
    """Return whether the Python SDK 1.x takes a URI: it refuses a whole list for one that is no URL."""
    if _PLAIN_URL.fullmatch(uri):
        return True
    from pydantic_core import Url  # takes milliseconds to load, and few URIs need it

    try:
        Url(uri)
    except ValueError:
        return False
    return True


def _with(item: JSON, key: str, value: Any) -> JSON:
    return item if item.get(key) is value else {**item, key: value}


def _with_text(item: JSON, names: Mapping[str, str]) -> JSON:
    """Return a block of content with other names in its text; blocks of other kinds stay as they are."""
    text = item.get("text")
    if item.get("type") != "text" or not isinstance(text, str):
        return item
    for old, new in names.items():
        text = text.replace(old, new)
    return {**item, "text": text}


def _changed(item: JSON, key: str, change: Callable[[JSON], JSON]) -> JSON:
    """Return an object with one of its members changed, if that member is an object."""
    value = item.get(key)
    return _with(item, key, change(value)) if is_object(value) else item


def _each(item: JSON, key: str, change: Callable[[JSON], JSON]) -> JSON:
    """Return an object with the objects in one of its members changed, if that member is a list."""
    value = item.get(key)
    if not is_array(value):
        return item
    changed = [change(part) if is_object(part) else part for part in value]
    return item if all(new is old for new, old in zip(changed, value, strict=True)) else {**item, key: changed}
