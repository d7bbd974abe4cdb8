"""The offer of a source after all steps of its composition, and the source's own names for the clients' names. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.errors import INVALID_PARAMS, ProtocolError, ResourceNotFoundError
from gaia_bridge.model import LeftOut, ServerFeatures, SourceKind
from gaia_bridge.protocol.kinds import KINDS, Kind
from gaia_bridge.protocol.skills import files_of
from gaia_bridge.protocol.uri_template import UriTemplate
from gaia_bridge.sources.agent.envelope import without_envelope
from gaia_bridge.sources.composition.steps import Filtered, Step, StepResult
from gaia_bridge.text.json_types import JSON, is_array, is_object


class Offers:
    """The composed offer of a source at one moment, for clients of both eras."""

    def __init__(self, features: ServerFeatures, steps: Sequence[Step], kind: SourceKind) -> None:
        own = [features] if features.other is None else [replace(features, other=None), features.other]
        layers: list[list[StepResult]] = [[] for _ in own]
        offered = list(own)
        for step in steps:
            # A name that one era lacks may be in the other.
            unknown = tuple(step.unknown(_names(offered))) if _is_known(own) else ()
            for era, of_era in enumerate(layers):
                layer = step.applied(offered[era])
                of_era.append(layer)
                offered[era] = _without(layer.features, unknown)
        self._offers = [
            Offer(before, after, steps, of_era, in_envelopes=kind is SourceKind.AGENT)
            for before, after, of_era in zip(own, offered, layers, strict=True)
        ]
        self._modern = [before.modern for before in own]
        self.features = offered[0] if len(offered) == 1 else replace(offered[0], other=offered[1])

    def of_era(self, *, modern: bool) -> Offer:
        """Return the offer for clients of one era; see `ServerFeatures.for_era`."""
        return self._offers[-1] if self._modern[-1] is modern else self._offers[0]

    def names_of_tool(self, name: str) -> set[str]:
        """Return the source's names of a tool, of which each era may have another."""
        return {own for offer in self._offers if (own := offer.own_name(name)) is not None}

    def reads(self, uri: str) -> bool:
        """Return whether clients of one of the eras can read a resource."""
        return any(offer.reads(uri) for offer in self._offers)


class Offer:
    """The composed offer of a source for clients of one era."""

    def __init__(
        self,
        own: ServerFeatures,
        features: ServerFeatures,
        steps: Sequence[Step],
        layers: Sequence[StepResult],
        *,
        in_envelopes: bool,
    ) -> None:
        self._in_envelopes = in_envelopes
        self._own = own
        self._features = features
        self._layers = tuple(reversed(layers))
        self._tools = {tool["name"]: tool for tool in features.tools}
        self._prompts = frozenset(prompt["name"] for prompt in features.prompts)
        self._filters = [
            step for step in steps if isinstance(step, Filtered) and not step.kinds.isdisjoint(_READ_BY_URI)
        ]
        self._reading = _Reading(own, features) if self._filters else None

    def tool(self, name: str, arguments: JSON) -> tuple[str, JSON]:
        """Return the source's name of a tool, and the arguments for it.

        Raises:
            ProtocolError: No such tool is offered.
            ToolError: The tool is offered without one of the arguments.
        """
        if name not in self._tools:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
        own = name
        if self._in_envelopes and "kwargs" in arguments:
            properties = self._tools[name]["inputSchema"].get("properties")
            takes_kwargs = is_object(properties) and "kwargs" in properties
            arguments = without_envelope(arguments, takes_kwargs=takes_kwargs)
        for layer in self._layers:
            if (call := layer.calls.get(own)) is not None:
                own, arguments = call.name, call.arguments(name, arguments)
        return own, arguments

    def own_name(self, name: str) -> str | None:
        """Return the source's name of a tool; `None` if it is not offered."""
        if name not in self._tools:
            return None
        for layer in self._layers:
            name = layer.calls[name].name if name in layer.calls else name
        return name

    def prompt(self, name: str) -> str:
        """Return the source's name of a prompt.

        Raises:
            ProtocolError: No such prompt is offered.
        """
        if name not in self._prompts:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name}")
        for layer in self._layers:
            name = layer.prompts.get(name, name)
        return name

    @property
    def filters_resources(self) -> bool:
        """Whether a filter may have removed some of the resources."""
        return self._reading is not None

    def has_skill(self, uri: str) -> bool:
        """Return whether clients may ask for a skill: it is offered, or unlisted by a source without filters."""
        if any(entry["uri"] == uri for entry in self._features.skills):
            return True
        return self._reading is None and all(entry["uri"] != uri for entry in self._own.skills)

    def reads(self, uri: str) -> bool:
        """Return whether clients can read a resource.

        Without a filter of resources, the source decides. Otherwise a listed resource is read if it is still listed,
        and an unlisted one if a template that is still listed describes it and no filter excludes its URI.
        """
        if self._reading is None or uri in self._reading.resources:
            return True
        if uri in self._reading.gone or not all(step.permits("resource", uri) for step in self._filters):
            return False
        return uri in self._reading.of_skills or self._reading.describes(uri)

    def resource(self, uri: str) -> str:
        """Check that clients can read a resource, and return its URI.

        Raises:
            ResourceNotFoundError: Clients cannot read it.
        """
        if not self.reads(uri):
            raise ResourceNotFoundError(uri)
        return uri

    def template(self, uri: str) -> str:
        """Check that a template or resource is offered, and return its URI.

        Raises:
            ResourceNotFoundError: It is not offered.
        """
        if self._reading is None or uri in self._reading.templates or uri in self._reading.resources:
            return uri
        raise ResourceNotFoundError(uri)

    def page(self, kind: Kind, page: JSON) -> JSON:
        """Return a page of the source's list, limited to the definitions that are offered, and rewritten."""
        listed = KINDS[kind]
        if not is_array(items := page.get(listed.field)):
            return page
        offered = self._by_own_names(kind)
        keys = [key for item in items if is_object(item) and isinstance(key := item.get(listed.key), str)]
        return {**page, listed.field: [offered[key] for key in keys if key in offered]}

    def _by_own_names(self, kind: Kind) -> Mapping[str, Mapping[str, Any]]:
        """Return the offered definitions of a kind by the source's own names."""
        listed = KINDS[kind]
        definitions: dict[str, Mapping[str, Any]] = {}
        for item in listed.of(self._features):
            name: str = item[listed.key]
            if kind == "tool":
                name = self.own_name(name) or name
            elif kind == "prompt":
                name = self.prompt(name)
            definitions[name] = item
        return definitions


_READ_BY_URI: frozenset[Kind] = frozenset({"resource", "resource template", "skill"})


class _Template(Struct, frozen=True):
    pattern: UriTemplate
    literal: int
    """Characters outside of expressions: of several templates that describe a URI, the most specific has most."""
    is_offered: bool


class _Reading:
    """The URIs that a source lists, and those that filters left."""

    def __init__(self, own: ServerFeatures, features: ServerFeatures) -> None:
        self.resources = frozenset(item["uri"] for item in features.resources)
        self.of_skills = _files(features)
        listed = frozenset(item["uri"] for item in own.resources)
        self.gone = (listed - self.resources) | (_files(own) - self.of_skills - self.resources)
        self.templates = frozenset(item["uriTemplate"] for item in features.templates)
        self._parsed = [
            _Template(pattern, _literal(text), text in self.templates)
            for text in dict.fromkeys(item["uriTemplate"] for item in own.templates)
            if (pattern := UriTemplate.parsed(text)) is not None
        ]

    def describes(self, uri: str) -> bool:
        """Return whether the template that describes a URI is offered: the most specific one, where several do."""
        matches = [template for template in self._parsed if template.pattern.matches(uri)]
        most = max((template.literal for template in matches), default=0)
        return bool(matches) and all(template.is_offered for template in matches if template.literal == most)


def _files(features: ServerFeatures) -> frozenset[str]:
    return frozenset(file["uri"] for entry in features.skills for file in files_of(entry))


def _literal(text: str) -> int:
    return sum(len(part.partition("}")[2] if number else part) for number, part in enumerate(text.split("{")))


def _names(offered: Iterable[ServerFeatures]) -> dict[Kind, Collection[str]]:
    return {
        listed.name: {item[listed.key] for features in offered for item in listed.of(features)}
        for listed in KINDS.values()
    }


def _is_known(own: Iterable[ServerFeatures]) -> bool:
    """Return whether the source's lists are known: a server that was not reached yet, or failed, declares nothing."""
    return all(features.is_known and (features.declared is None or bool(features.declared)) for features in own)


def _without(features: ServerFeatures, unknown: tuple[LeftOut, ...]) -> ServerFeatures:
    return replace(features, left_out=(*features.left_out, *unknown)) if unknown else features
