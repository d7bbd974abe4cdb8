"""The merged, named view of all sources that one endpoint publishes.

A public name leads to `(source, original name)` through a map, never by taking names apart. The lists of a
client are compiled once per change and era, not per request: when somebody first looks, because a hundred
servers that start change a hundred times what nobody has asked for yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property, partial
from operator import is_
from typing import Any, Final, TypeVar
from urllib.parse import quote

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.contract import ChangeListener, ClientRequest, Introducible, Source, Starts
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError, PublishError
from gaia_bridge.model import Change, ChangeKind, NamingPolicy, Notification, ServerInfo, SourceKind, SourceState
from gaia_bridge.protocol.definition_repairs import with_named_properties
from gaia_bridge.protocol.kinds import PROMPT, TOOL, DefinitionKind, Listed, either, in_both_eras
from gaia_bridge.protocol.meta import with_public_task, without_key
from gaia_bridge.protocol.names import (
    MAX_NAME,
    SERVER_NAME_RULE,
    SourceName,
    assign_names,
    is_server_name,
    is_source_name,
    may_be_of,
    source_prefix,
    source_prefixes,
)
from gaia_bridge.protocol.vocabulary import for_legacy, for_modern, server_info
from gaia_bridge.server.instructions import whole
from gaia_bridge.server.resource_uris import ResourceUris
from gaia_bridge.server.skill_uris import UnlistedRoots, skill_prompts
from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.likeness import did_you_mean

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_OURS: Final = "gaia-bridge"
"""The qualifier of tools of ours where a source has a tool of that name."""
_COMPARED: Final = 32
"""The most names that are searched for a similar one: that keeps the event loop busy, for up to 20 ms."""


def name_conflict(source: Source, other: Source | None) -> str:
    """Return the problem of a source whose name another one has.

    Args:
        source: The source that cannot be published.
        other: The other one, if it is published already.
    """
    if other is None:
        return "another agent or server has that name; give one of them another"
    shown = f"the agent {other.features.info.name!r}" if other.kind is SourceKind.AGENT else "a server"
    if other.kind is source.kind:
        return f"{shown} has that name; give one of them another"
    return f"{shown} has that name; rename the agent's class, or the server where it is configured"


class _Target(Struct, frozen=True, dict=True):  # `dict` for the cached properties
    """The tool or prompt that a public name leads to."""

    source: Source
    name: str
    public: str
    declared: Listed
    kind: str
    as_listed: bool
    """Whether the definition is shown as the source lists it, except for its name."""
    skill: str = ""
    """The source's URI of the `SKILL.md` of the skill that a prompt stands for."""

    @cached_property
    def definition(self) -> JSON:
        """The definition, as clients are shown it."""
        return self._named(either(self.declared))

    @cached_property
    def modern(self) -> JSON | None:
        """The definition for clients of 2026-07-28."""
        return for_modern(self.kind, self.definition) if self.declared[0] is not None else None

    @cached_property
    def legacy(self) -> JSON | None:
        """The definition for clients before 2026-07-28."""
        new, old = self.declared
        return None if old is None else for_legacy(self.kind, self.definition if old is new else self._named(old))

    def _named(self, definition: Mapping[str, Any]) -> JSON:
        if self.kind == "tool" and not self.as_listed:
            definition = with_named_properties(definition)
        return {**definition, "name": self.public}


class _View:
    """Everything that is compiled from the sources' offers at one moment, each part when it is first needed.

    Args:
        targets: Those of earlier views, by kind and public name; updated with those of this one. Unchanged
            targets are not made again.
        warn: Called with the name of a part, and warnings about what could not be published under its own name.
        as_listed: Whether it is the endpoint of one server, whose definitions are shown as it lists them.
    """

    def __init__(
        self,
        sources: tuple[Source, ...],
        policy: NamingPolicy,
        targets: dict[str, Mapping[str, _Target]],
        warn: Callable[[str, list[str]], None],
        *,
        unlisted: UnlistedRoots,
        as_listed: bool,
    ) -> None:
        self._as_listed = as_listed
        self._unlisted = unlisted
        self._sources = sources
        self._policy = policy
        self._targets = targets
        self._warn = warn
        self._lists: dict[tuple[str, bool, bool], list[JSON]] = {}
        self._own_names: dict[tuple[str, ...], Sequence[str]] = {}

    @cached_property
    def prefixes(self) -> Mapping[str, str]:
        """The first characters of the qualified names of each source."""
        prefixes = source_prefixes(source.name for source in self._sources)
        owners = {prefix: name for name, prefix in prefixes.items()}
        servers = [source.name for source in self._sources if source.kind is SourceKind.SERVER]
        warnings = [
            f"names of tools of {name!r} begin with {prefixes[name]}: {prefix} stands for {owners[prefix]!r}"
            for name in servers
            if (prefix := source_prefix(name)) != prefixes[name]
        ]
        self._warn("prefix", warnings)
        return prefixes

    @cached_property
    def tools(self) -> Mapping[str, _Target]:
        """The tools by their public names."""
        return self._named(TOOL, self.addresses.with_public_uri)

    @cached_property
    def prompts(self) -> Mapping[str, _Target]:
        """The prompts by their public names."""
        return self._named(PROMPT, self.addresses.with_public_skill)

    @cached_property
    def addresses(self) -> ResourceUris:
        """The resources and templates by their URIs."""
        addresses = ResourceUris(self._sources, self._unlisted)
        rewritten = [
            f"{uri} of {source.name} is published under another URI: its own is taken, or no URL"
            for source, uri in addresses.rewritten
        ]
        self._warn("resource", rewritten)
        return addresses

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """The capabilities that at least one source has."""
        return frozenset[str]().union(*(source.features.capabilities for source in self._sources))

    def own_names(self, names: tuple[str, ...]) -> Sequence[str]:
        """Return the names of tools of ours beside all others."""
        if names not in self._own_names:
            tools = self.definitions("tool", modern=True, marked=False)
            others = [SourceName("", SourceKind.AGENT, tool["name"]) for tool in tools]
            ours = [SourceName(_OURS, SourceKind.AGENT, name) for name in names]
            assigned, _ = assign_names([*others, *ours], NamingPolicy.BARE)
            self._own_names[names] = [*assigned][-len(names) :]
        return self._own_names[names]

    def definitions(self, kind: str, *, modern: bool, marked: bool) -> list[JSON]:
        """Return the definitions to show, with or without the ids of the bridges that they came through."""
        key = (kind, modern, marked)
        if key not in self._lists:
            shown = self._definitions_of(kind, modern)
            self._lists[key] = shown if marked else [without_key(definition, HOPS_META_KEY) for definition in shown]
        return self._lists[key]

    def _definitions_of(self, kind: str, modern: bool) -> list[JSON]:
        if kind in ("tool", "prompt"):
            targets = (self.tools if kind == "tool" else self.prompts).values()
            shown = ((target.modern if modern else target.legacy) for target in targets)
            return [definition for definition in shown if definition is not None]
        addresses = self.addresses
        if kind == "skill":
            return addresses.skills.entries(modern=modern)
        definitions = (addresses.resources if kind == "resource" else addresses.templates)(modern=modern)
        if modern:
            return definitions
        return [item for definition in definitions if (item := for_legacy(kind, definition)) is not None]

    def _named(
        self, kind: DefinitionKind, published: Callable[[Source, Mapping[str, Any]], Mapping[str, Any]]
    ) -> Mapping[str, _Target]:
        declared: dict[SourceName, tuple[Source, Listed]] = {}
        for source in self._sources:
            for listed in kind.listed(source.features):
                item = SourceName(source.name, source.kind, either(listed)["name"])
                declared[item] = source, in_both_eras(listed, partial(published, source))
        skills = dict[SourceName, str]()
        if kind is PROMPT and not self._as_listed:
            for source in self._sources:
                for item, uri, listed in skill_prompts(source):
                    declared[item], skills[item] = (source, in_both_eras(listed, partial(published, source))), uri
        assigned, collided = assign_names(declared, self._policy, self.prefixes)
        warnings = [
            f"{kind.name} {item.name} of {item.source} is published under a qualified name: its own is taken"
            for item in collided
        ]
        self._warn(kind.name, warnings)
        earlier, targets = self._targets.get(kind.name, {}), dict[str, _Target]()
        for public, item in assigned.items():
            source, listed = declared[item]
            target = earlier.get(public)
            if target is None or target.source is not source or not all(map(is_, target.declared, listed)):
                target = _Target(source, item.name, public, listed, kind.name, self._as_listed, skills.get(item, ""))
            targets[public] = target
        self._targets[kind.name] = targets
        return targets


class Catalog:
    """Merges sources under a naming policy.

    Args:
        info: The endpoint's name and description while it has no or several sources; a single source has its own.
        merges: Whether sources come and go; if not, there is one, whose own endpoint it is.
    """

    def __init__(self, info: ServerInfo, policy: NamingPolicy, *, merges: bool = True) -> None:
        self.merges = merges
        self._info = info
        self._policy = policy
        self._sources: dict[str, tuple[Source, Callable[[], None]]] = {}
        self._listeners: list[ChangeListener] = []
        self._targets: dict[str, Mapping[str, _Target]] = {}
        self._warned: dict[str, list[str]] = {}
        self.unlisted_skills = UnlistedRoots()
        self._view = self._compiled()

    @property
    def sources(self) -> list[Source]:
        """The sources, in the order in which they were added."""
        return [source for source, _ in self._sources.values()]

    def info(self, *, modern: bool) -> ServerInfo:
        """Return the endpoint's name, version and instructions for clients of one era."""
        if len(sources := self.sources) == 1:
            return sources[0].features.for_era(modern=modern).info
        return replace(self._info, instructions=whole(self.instructions(modern=modern)) or None)

    def instructions(self, *, modern: bool) -> list[tuple[str, str]]:
        """Return the name and the instructions of each source that has instructions for clients of one era."""
        parts = ((source.name, source.features.for_era(modern=modern).info.instructions) for source in self.sources)
        return [(name, text) for name, text in parts if text]

    @property
    def server(self) -> Source | None:
        """The server, if the endpoint is a server's own, which clients reach as they do directly; `None` otherwise."""
        for source in () if self.merges else self.sources:
            if source.kind is SourceKind.SERVER:
                return source
        return None

    def implementation(self, *, modern: bool) -> JSON:
        """Return the `Implementation` object of the endpoint for clients of one era."""
        server = self.server
        own = None if server is None else server.features.for_era(modern=modern).implementation
        return server_info(self.info(modern=modern)) if own is None else dict(own)

    async def meet(self, request: ClientRequest) -> None:
        """Ask the server whose own endpoint this is for its introduction in the era of the client."""
        if isinstance(server := self.server, Introducible):
            await server.meet(request)

    @property
    def capabilities(self) -> frozenset[str]:
        """The capabilities that at least one source has."""
        return self._view.capabilities

    def add(self, source: Source) -> None:
        """Publish a source beside those that are there; raise `PublishError` if its name is not allowed, or taken."""
        if source.kind is SourceKind.SERVER and not is_server_name(source.name):
            raise PublishError(source.name, SERVER_NAME_RULE)
        if source.kind is SourceKind.AGENT and not is_source_name(source.name):
            rule = "a name has 1 to 64 characters of A-Z a-z 0-9 _ . - and begins with none of _ . -"
            raise PublishError(source.name, rule)
        if source.name in self._sources:
            raise PublishError(source.name, name_conflict(source, self._sources[source.name][0]))
        self._sources[source.name] = (source, source.listen(partial(self._on_change, source)))
        self._sources_changed(source)

    def remove(self, name: str) -> None:
        """Stop publishing a source; an unknown name is ignored."""
        source, stop_listening = self._sources.pop(name, (None, None))
        if stop_listening is not None:
            stop_listening()
        if source is not None:
            for kind, targets in self._targets.items():  # which would keep the source alive until somebody looks
                self._targets[kind] = {name: target for name, target in targets.items() if target.source is not source}
            self._sources_changed(source)

    def listen(self, listener: ChangeListener) -> None:
        """Call `listener` after every change of the merged view."""
        self._listeners.append(listener)

    @property
    def is_settled(self) -> bool:
        """Whether the offer of every source is known."""
        return all(source.features.is_known for source in self.sources)

    async def settle(self, *, listed_once: bool = False) -> None:
        """Wait until the offers of the sources are known, for as long as clients can be made to wait.

        Args:
            listed_once: Whether for a client that does not list again.
        """
        await self._each(lambda source: source.settle(listed_once=listed_once))

    @property
    def awaited(self) -> bool:
        """Whether a request waits for a source to start."""
        return any(source.awaited for source in self.sources if isinstance(source, Starts))

    async def started(self) -> None:
        """Wait until the sources that requests wait for have started, or failed to. Bounded by their own deadlines."""
        for source in self.sources:
            if isinstance(source, Starts):
                await source.started()

    async def refresh(self) -> None:
        """Let every source read its lists again if it does not announce changes."""
        await self._each(lambda source: source.refresh(), [source for source in self.sources if source.is_due])

    async def lookup(self, find: Callable[[], _T], name: str = "") -> _T:
        """Return the result of `find`; if it raises, the result after every source has read its lists again.

        Args:
            name: Its public name, if it is known by one: a source that it begins with is waited for until it has
                started, however long that may take it.

        Raises:
            ProtocolError: As `find` does.
        """
        try:
            return find()
        except ProtocolError:
            await self._each(lambda source: source.seek())
        try:
            return find()
        except ProtocolError:
            starting = [
                source for source in self.sources if not source.features.is_known and self._may_be_of(name, source)
            ]
            if not starting:
                raise
        for source in starting:
            await source.learn()
        return find()

    async def _each(
        self, do: Callable[[Source], Coroutine[Any, Any, None]], sources: Sequence[Source] | None = None
    ) -> None:
        """Do something with several sources at once; with all if none are given."""
        sources = self.sources if sources is None else sources
        if len(sources) < 2:
            for source in sources:
                await do(source)
            return
        async with anyio.create_task_group() as tasks:
            for source in sources:
                tasks.start_soon(do, source)

    def definitions(self, kind: str, *, modern: bool, marked: bool = False) -> list[JSON]:
        """Return the definitions to list of a kind: `tool`, `prompt`, `resource`, `resource template` or `skill`.

        Args:
            marked: Whether for another bridge, which sees the bridges that each definition came through.
        """
        return self._view.definitions(kind, modern=modern, marked=marked)

    def tool_definition(self, name: str) -> JSON | None:
        """Return the definition of a tool, by its public name."""
        target = self._view.tools.get(name)
        return None if target is None else target.definition

    def listed_tool(self, name: str) -> tuple[Source, str] | None:
        """Return the source and original name of a tool that is listed, or `None` if none has that public name."""
        target = self._view.tools.get(name)
        return None if target is None else (target.source, target.name)

    def tool(self, name: str) -> tuple[Source, str]:
        """Return the source and original name of a tool; raise `ProtocolError` if there is none."""
        return self._target(self._view.tools, name, "tool")

    def prompt(self, name: str) -> tuple[Source, str]:
        """Return the source and original name of a prompt; raise `ProtocolError` if there is none."""
        return self._target(self._view.prompts, name, "prompt")

    def skill_prompt(self, name: str) -> tuple[Source, str] | None:
        """Return the source of the skill that a prompt stands for, and its URI of the `SKILL.md`; `None` for others."""
        target = self._view.prompts.get(name)
        return (target.source, target.skill) if target is not None and target.skill else None

    def resource(self, uri: str) -> tuple[Source, str]:
        """Return the source that can read a URI, and its own URI for it; raise `ResourceNotFoundError` if none can."""
        server = self.server
        return self.addresses.find(uri) if server is None else (server, uri)

    def template(self, uri: str) -> tuple[Source, str]:
        """Return the same for a template or resource, exactly as it was listed."""
        server = self.server
        return self.addresses.find_template(uri) if server is None else (server, uri)

    @property
    def addresses(self) -> ResourceUris:
        """The resources and templates by their URIs."""
        return self._view.addresses

    def outward(self, source: Source, result: JSON) -> JSON:
        """Return a result of a source with the URIs and the ids of tasks that clients know."""
        if len(self._sources) < 2:
            return result
        return with_public_task(self._view.addresses.outward(source, result), self.task_prefix(source))

    def own_names(self, *names: str) -> Sequence[str]:
        """Return the names of tools of ours beside all others; like any tool, they give way to them."""
        return self._view.own_names(names)

    def _target(self, targets: Mapping[str, _Target], name: str, kind: str) -> tuple[Source, str]:
        if (target := targets.get(name)) is not None:
            return target.source, target.name
        if (server := self.server) is not None:  # which may have more than it lists
            return server, name
        reason = (self._absence(name) if kind == "tool" else "") or _likeness(targets, name)
        raise ProtocolError(INVALID_PARAMS, f"Unknown {kind}: {name}" + (f"; {reason}" if reason else ""))

    def _absence(self, name: str) -> str:
        """Return why a tool is missing, if its name is that of a source that is not ready; empty otherwise."""
        for source in self.sources:
            status = source.status
            if status.state is not SourceState.READY and self._may_be_of(name, source):
                return f"{source.kind.value} '{source.name}' is not ready: {status.reason}"
        return ""

    def _may_be_of(self, name: str, source: Source) -> bool:
        """Return whether the public name of a tool or prompt begins as a qualified one of a source does."""
        return may_be_of(name, self._view.prefixes[source.name])

    def task_prefix(self, source: Source) -> str:
        """Return the prefix of the ids of a source's tasks for clients, which tells one of several sources."""
        return f"{quote(source.name, safe='')}:" if len(self._sources) > 1 else ""

    def _on_change(self, source: Source, change: Change) -> None:
        if change.is_repeated and self.server is None:
            return
        if change.kind.is_offer:
            self._view = self._compiled()
        elif change.kind is ChangeKind.RESOURCE_UPDATED:
            change = Change(change.kind, self.addresses.public(source, change.uri))
        elif (notification := change.notification) is not None:
            params = with_public_task(dict(notification.params), self.task_prefix(source))
            change = replace(change, notification=Notification(notification.method, params))
        self._emit(change)

    def _sources_changed(self, source: Source) -> None:
        """Announce the lists of the source that came or went, and the capabilities that the endpoint gained or lost."""
        before = self.capabilities
        self._view = self._compiled()
        features, changed = source.features, before ^ self.capabilities
        for kind, lists in (
            (ChangeKind.PROMPTS, features.prompts + features.skills),
            (ChangeKind.RESOURCES, features.resources + features.templates + features.skills),
        ):
            if lists or kind.value in changed:
                self._emit(Change(kind))
        self._emit(Change(ChangeKind.TOOLS))  # always: listeners also look at who the sources are

    def _emit(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)

    def _compiled(self) -> _View:
        sources, unlisted, as_listed = tuple(self.sources), self.unlisted_skills, self.server is not None
        return _View(sources, self._policy, self._targets, self._warn, unlisted=unlisted, as_listed=as_listed)

    def _warn(self, part: str, warnings: list[str]) -> None:
        """Log the warnings that the last compilation of that part did not log."""
        before = frozenset(self._warned.get(part, ()))
        for warning in warnings:
            if warning not in before:
                logger.warning("%s", warning)
        self._warned[part] = warnings


def _likeness(targets: Mapping[str, _Target], name: str) -> str:
    """Return a guess at the intended name: that of a tool or prompt which its source calls so, or the closest."""
    own = next((public for public, target in targets.items() if target.name == name), None)
    if own is not None:
        return f"did you mean {own!r}?"
    return did_you_mean(name, targets) if len(name) <= MAX_NAME and len(targets) <= _COMPARED else ""
