"""The merged, named view of all sources that one endpoint publishes.

A public name leads to `(source, original name)` through a map, never by taking names apart (design section 3). What a
client is shown is compiled once per change and era, not per request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import anyio

from gaia_bridge.contract import JSON, ChangeListener, Source
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError, PublishError
from gaia_bridge.inbound.addresses import Addresses
from gaia_bridge.model import Change, ChangeKind, NamingPolicy, ServerInfo, SourceState
from gaia_bridge.names import SourceName, assign_names, is_source_name
from gaia_bridge.wire import for_legacy

__all__ = ["Catalog"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a public name leads."""

    source: Source
    name: str
    definition: JSON


@dataclass(frozen=True)
class _View:
    """Everything compiled from the sources' offers at one moment."""

    tools: Mapping[str, _Target] = field(default_factory=dict[str, _Target])
    prompts: Mapping[str, _Target] = field(default_factory=dict[str, _Target])
    addresses: Addresses = field(default_factory=Addresses)
    capabilities: frozenset[str] = frozenset()

    @cached_property
    def lists(self) -> Mapping[tuple[str, bool], list[JSON]]:
        """The definitions to show, by kind and by whether the client is modern."""
        shown = {
            "tool": [target.definition for target in self.tools.values()],
            "prompt": [target.definition for target in self.prompts.values()],
            "resource": self.addresses.resources,
            "resource template": self.addresses.templates,
        }
        legacy = {
            (kind, False): [item for definition in definitions if (item := for_legacy(kind, definition)) is not None]
            for kind, definitions in shown.items()
        }
        return {(kind, True): definitions for kind, definitions in shown.items()} | legacy


class Catalog:
    """Merges sources under a naming policy.

    Args:
        info: Who the endpoint says it is while it has no or several sources; a single source speaks for itself.
        policy: How names are spelled where several sources meet.
    """

    def __init__(self, info: ServerInfo, policy: NamingPolicy) -> None:
        self._info = info
        self._policy = policy
        self._sources: dict[str, tuple[Source, Callable[[], None]]] = {}
        self._listeners: list[ChangeListener] = []
        self._view = _View()
        self._warned: frozenset[str] = frozenset()

    @property
    def sources(self) -> list[Source]:
        """The sources, in the order in which they were added."""
        return [source for source, _ in self._sources.values()]

    @property
    def info(self) -> ServerInfo:
        """Who the endpoint says it is (S1-16)."""
        sources = self.sources
        if len(sources) == 1:
            return sources[0].offer.info
        parts = [f"## {source.name}\n\n{text}" for source in sources if (text := source.offer.info.instructions)]
        return ServerInfo(
            name=self._info.name,
            version=self._info.version,
            title=self._info.title,
            description=self._info.description,
            instructions="\n\n".join(parts) or None,
        )

    @property
    def capabilities(self) -> frozenset[str]:
        """What at least one source can do (P-10)."""
        return self._view.capabilities

    def add(self, source: Source) -> None:
        """Publish a source beside those that are there.

        Raises:
            PublishError: The name is not allowed, or taken.
        """
        if not is_source_name(source.name):
            raise PublishError(
                source.name, "a name has 1 to 64 characters of A-Z a-z 0-9 _ . - and begins with none of _ . -"
            )
        if source.name in self._sources:
            raise PublishError(source.name, "another agent or server has that name")
        self._sources[source.name] = (source, source.listen(partial(self._on_change, source)))
        self._sources_changed()

    def remove(self, name: str) -> None:
        """Stop publishing a source; an unknown name is ignored."""
        source, stop_listening = self._sources.pop(name, (None, None))
        if stop_listening is not None:
            stop_listening()
        if source is not None:
            self._sources_changed()

    def listen(self, listener: ChangeListener) -> None:
        """Call `listener` after every change of the merged view."""
        self._listeners.append(listener)

    async def refresh(self) -> None:
        """Let every source look again, all at once."""
        sources = self.sources
        if len(sources) == 1:
            await sources[0].refresh()
            return
        async with anyio.create_task_group() as tasks:
            for source in sources:
                tasks.start_soon(source.refresh)

    def definitions(self, kind: str, *, modern: bool) -> list[JSON]:
        """The definitions to list: `tool`, `prompt`, `resource` or `resource template`."""
        return self._view.lists[kind, modern]

    def tool_schema(self, name: str) -> Mapping[str, Any] | None:
        """The input schema of a tool, by its public name."""
        target = self._view.tools.get(name)
        return None if target is None else target.definition["inputSchema"]

    def tool(self, name: str) -> tuple[Source, str]:
        """The source and original name of a tool.

        Raises:
            ProtocolError: No tool has that public name.
        """
        try:
            return _found(self._view.tools, name, "tool")
        except ProtocolError as error:
            if not (reason := self._absence(name)):
                raise
            raise ProtocolError(error.code, f"{error.message}; {reason}") from None

    def prompt(self, name: str) -> tuple[Source, str]:
        """The source and original name of a prompt.

        Raises:
            ProtocolError: No prompt has that public name.
        """
        return _found(self._view.prompts, name, "prompt")

    @property
    def addresses(self) -> Addresses:
        """Which source has what is at a URI."""
        return self._view.addresses

    def _absence(self, name: str) -> str:
        """Why a tool that looks like one of a source's is not there, if that source is not ready."""
        for source in self.sources:
            status = source.status
            if status.state is not SourceState.READY and name.startswith(source.name):
                return f"{source.kind.value} '{source.name}' is not ready: {status.reason}"
        return ""

    def _on_change(self, source: Source, change: Change) -> None:
        if change.kind.is_list:
            self._recompile()
        elif change.kind is ChangeKind.RESOURCE_UPDATED:
            change = Change(change.kind, self.addresses.public(source, change.uri))
        self._emit(change)

    def _sources_changed(self) -> None:
        before = self.capabilities
        self._recompile()
        for kind in (ChangeKind.PROMPTS, ChangeKind.RESOURCES):
            if kind.value in before | self.capabilities:
                self._emit(Change(kind))
        self._emit(Change(ChangeKind.TOOLS))  # always: listeners also look at who the sources are

    def _emit(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)

    def _recompile(self) -> None:
        sources = self.sources
        addresses = Addresses(sources)
        warnings = [
            f"{uri} of {source.name} is published under another URI: its own is taken"
            for source, uri in addresses.rewritten
        ]

        def tools(source: Source) -> Iterable[Mapping[str, Any]]:
            return (addresses.shown(source, definition) for definition in source.offer.tools)

        self._view = _View(
            tools=_named("tool", sources, self._policy, tools, warnings),
            prompts=_named("prompt", sources, self._policy, lambda source: source.offer.prompts, warnings),
            addresses=addresses,
            capabilities=frozenset[str]().union(*(source.offer.capabilities for source in sources)),
        )
        for warning in warnings:
            if warning not in self._warned:  # the view is compiled with every change
                logger.warning("%s", warning)
        self._warned = frozenset(warnings)


def _found(targets: Mapping[str, _Target], name: str, kind: str) -> tuple[Source, str]:
    target = targets.get(name)
    if target is None:
        raise ProtocolError(INVALID_PARAMS, f"Unknown {kind}: {name}")
    return target.source, target.name


def _named(
    kind: str,
    sources: Iterable[Source],
    policy: NamingPolicy,
    definitions: Callable[[Source], Iterable[Mapping[str, Any]]],
    warnings: list[str],
) -> dict[str, _Target]:
    known: dict[SourceName, tuple[Source, Mapping[str, Any]]] = {}
    for source in sources:
        for definition in definitions(source):
            known[SourceName(source.name, source.kind, definition["name"])] = (source, definition)
    assigned, collided = assign_names(known, policy)
    warnings += [
        f"{kind} {item.name} of {item.source} is published under a qualified name: its own is taken"
        for item in collided
    ]
    return {
        public: _Target(known[item][0], item.name, {**known[item][1], "name": public})
        for public, item in assigned.items()
    }
