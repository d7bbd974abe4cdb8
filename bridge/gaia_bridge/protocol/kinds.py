"""The kinds of definitions, and the names that MCP has for each: its method, fields, capability and notification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from gaia_bridge.model import ChangeKind, ServerFeatures
from gaia_bridge.protocol.skills import SKILLS_EXTENSION, SKILLS_LIST, declares_skills

Kind = Literal["tool", "prompt", "resource", "resource template", "skill"]
"""The kind of a definition: a key of `KINDS`."""
Definition = Mapping[str, Any]
Listed = tuple[Definition | None, Definition | None]
"""A definition as its source has it for clients of 2026-07-28, and for those of the handshake era: often the same
object; `None` for clients that do not see it."""
_D = TypeVar("_D", bound=Definition)


class DefinitionKind(Struct, frozen=True):
    """One kind of definition, and its names."""

    name: Kind
    method: str
    """The request that lists the definitions."""
    field: str
    """The field of its result that holds the list."""
    attribute: str
    """The attribute of `ServerFeatures` that holds the list."""
    key: str
    """The field that identifies a definition."""
    capability: str
    """The capability, or the extension, that a server with this list declares."""
    change: ChangeKind

    def of(self, features: ServerFeatures) -> tuple[Definition, ...]:
        """Return the definitions of this kind."""
        definitions: tuple[Definition, ...] = getattr(features, self.attribute)
        return definitions

    def listed(self, features: ServerFeatures) -> Iterator[Listed]:
        """Yield the definitions of both eras in pairs."""
        if self.name == "skill":
            new, old = features.skills_for(modern=True), features.skills_for(modern=False)
        else:
            new, old = (self.of(features.for_era(modern=modern)) for modern in (True, False))
        if new is old:
            yield from zip(new, old, strict=True)
            return
        of_old = {definition[self.key]: definition for definition in old}
        for definition in new:
            yield definition, of_old.pop(definition[self.key], None)
        for definition in of_old.values():
            yield None, definition

    def is_declared(self, capabilities: Mapping[str, Any]) -> bool:
        """Return whether the capabilities of a server declare this list."""
        return declares_skills(capabilities) if self.name == "skill" else self.capability in capabilities


TOOL: Final = DefinitionKind("tool", "tools/list", "tools", "tools", "name", "tools", ChangeKind.TOOLS)
PROMPT: Final = DefinitionKind("prompt", "prompts/list", "prompts", "prompts", "name", "prompts", ChangeKind.PROMPTS)
RESOURCE: Final = DefinitionKind(
    "resource", "resources/list", "resources", "resources", "uri", "resources", ChangeKind.RESOURCES
)
TEMPLATE: Final = DefinitionKind(
    "resource template",
    "resources/templates/list",
    "resourceTemplates",
    "templates",
    "uriTemplate",
    "resources",
    ChangeKind.RESOURCES,
)
SKILL: Final = DefinitionKind("skill", SKILLS_LIST, "skills", "skills", "uri", SKILLS_EXTENSION, ChangeKind.RESOURCES)
KINDS: Final[Mapping[str, DefinitionKind]] = {kind.name: kind for kind in (TOOL, PROMPT, RESOURCE, TEMPLATE, SKILL)}
"""All kinds of definitions, by name."""
KIND_OF_METHOD: Final[Mapping[str, DefinitionKind]] = {kind.method: kind for kind in KINDS.values()}
"""All kinds of definitions, by the method that lists them."""

LISTS: Final = tuple(kind for kind in ChangeKind if kind.is_list)
"""The changes of lists; the value of each is the name of its capability."""
LIST_CHANGED: Final[Mapping[str, ChangeKind]] = {f"notifications/{kind.value}/list_changed": kind for kind in LISTS}
"""The change that each notification announces."""
LISTEN_FLAGS: Final[Mapping[str, ChangeKind]] = {f"{kind.value}ListChanged": kind for kind in LISTS}
"""The change that each field of a subscription is about (2026-07-28)."""


def list_changed(change: ChangeKind) -> str:
    """Return the notification that announces the change of a list."""
    return f"notifications/{change.value}/list_changed"


def either(listed: Listed) -> Definition:
    """Return a definition that any clients see."""
    return listed[0] or listed[1] or {}


def in_both_eras(listed: Listed, change: Callable[[Definition], _D]) -> tuple[_D | None, _D | None]:
    """Return both definitions changed; the same object where they are the same."""
    new, old = listed
    modern = None if new is None else change(new)
    return modern, modern if old is new else None if old is None else change(old)
