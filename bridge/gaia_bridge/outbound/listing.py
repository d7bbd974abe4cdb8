"""What an upstream lists, as an offer. Pure.

A definition that MCP cannot carry is left out alone, with its reason; the rest is offered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mcp_types import InitializeResult

from gaia_bridge.jsontypes import JSON, is_object
from gaia_bridge.model import Change, ChangeKind, LeftOut, Offer, ServerInfo
from gaia_bridge.wire import definition_problem, normalised_tool

__all__ = ["LISTS", "ListedKind", "changes", "empty_offer", "with_list"]


@dataclass(frozen=True, slots=True)
class ListedKind:
    """One kind of definition."""

    kind: str
    """As in `wire.LIST_FIELDS` and `LeftOut`."""
    capability: str
    """What the server declares if it has this list."""
    field: str
    """Where `Offer` holds it."""
    key: str
    """What tells two definitions apart."""
    change: ChangeKind


LISTS: Final = (
    ListedKind("tool", "tools", "tools", "name", ChangeKind.TOOLS),
    ListedKind("prompt", "prompts", "prompts", "name", ChangeKind.PROMPTS),
    ListedKind("resource", "resources", "resources", "uri", ChangeKind.RESOURCES),
    ListedKind("resource template", "resources", "templates", "uriTemplate", ChangeKind.RESOURCES),
)
"""Every list that a server may have."""

_CAPABILITIES = ("tools", "prompts", "resources", "completions", "logging")


def empty_offer(name: str, greeting: InitializeResult | None = None) -> Offer:
    """The offer of a server whose lists were not read.

    Args:
        name: What the server is called here.
        greeting: How it introduced itself, if it did.
    """
    if greeting is None:
        return Offer(info=ServerInfo(name=name, version=""))
    told = greeting.server_info
    icons = tuple(icon.model_dump(mode="json", by_alias=True, exclude_none=True) for icon in told.icons or ())
    return Offer(
        info=ServerInfo(
            name=told.name,
            version=told.version,
            title=told.title,
            description=told.description,
            instructions=greeting.instructions,
            website_url=told.website_url,
            icons=icons,
        ),
        capabilities=frozenset(name for name in _CAPABILITIES if getattr(greeting.capabilities, name) is not None),
    )


def with_list(offer: Offer, listed: ListedKind, items: Sequence[object]) -> Offer:
    """The offer with one list replaced.

    Args:
        offer: The offer so far.
        listed: Which list.
        items: What the server listed, unchecked.
    """
    found: dict[str, JSON] = {}
    left_out = [other for other in offer.left_out if other.kind != listed.kind]
    for number, item in enumerate(items, 1):
        if not is_object(item):
            left_out.append(LeftOut(listed.kind, f"#{number}", "it is not an object"))
            continue
        definition = normalised_tool(item) if listed.kind == "tool" else item
        key = str(item.get(listed.key, f"#{number}"))
        problem = definition_problem(listed.kind, definition)
        if problem is None and key in found:
            problem = f"another {listed.kind} has the same {listed.key}"
        if problem is None:
            found[key] = definition
        else:
            left_out.append(LeftOut(listed.kind, key, problem))
    lists: Mapping[str, Any] = {listed.field: tuple(found.values())}
    return replace(offer, left_out=tuple(left_out), **lists)


def changes(old: Offer, new: Offer) -> tuple[Change, ...]:
    """What listeners are told when one offer replaces another."""
    kinds = {
        listed.change: None
        for listed in LISTS
        if getattr(old, listed.field) != getattr(new, listed.field)
        or (listed.capability in old.capabilities) != (listed.capability in new.capabilities)
    }
    return tuple(Change(kind) for kind in kinds)
