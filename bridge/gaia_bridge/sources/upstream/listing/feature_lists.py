"""Builds `ServerFeatures` from the capabilities and lists of an upstream. Pure.

An invalid definition is left out, with a reason; the others are published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from gaia_bridge.calls.bridge_hops import came_through
from gaia_bridge.client import ServerHandshake
from gaia_bridge.client.lists import ReadPage
from gaia_bridge.json_schema.validation import reference_problem, shape_problem
from gaia_bridge.model import Change, ChangeKind, LeftOut, ListPage, ServerFeatures, ServerInfo
from gaia_bridge.protocol.definition_repairs import OUTPUT_PART, repaired, with_portable_output
from gaia_bridge.protocol.kinds import KINDS, DefinitionKind
from gaia_bridge.protocol.meta import LEFT_OUT_KEY, SERVER_INFO_KEY, without_key
from gaia_bridge.protocol.skills import skill_labels
from gaia_bridge.protocol.vocabulary import (
    capability_problem,
    definition_problem,
    info_problem,
    read_server_info,
    server_info,
)
from gaia_bridge.text.escaping import one_line, without_hidden
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_array, is_object, value_at

_TEXTS: Final = ("title", "description")
"""Fields of definitions and schemas that models and people read."""
_DEFINITION_BYTES: Final = 256 * 1024
"""The largest definition that is published."""
_SKILL_BYTES: Final = 1024 * 1024
"""The largest entry of a skill, which lists up to 512 files."""
_REASON: Final = 500
"""Characters of a reason that a server gives."""
CAPABILITIES: Final = ("tools", "prompts", "resources", "completions", "logging")
EXTRAS: Final = ("tasks", "extensions", "experimental")


def has_list(features: ServerFeatures, listed: DefinitionKind) -> bool:
    """Return whether a server declares a list."""
    return listed.capability in features.capabilities or listed.capability in features.extras.get("extensions", {})


def no_features(name: str) -> ServerFeatures:
    """Return the features of an unknown server."""
    return ServerFeatures(info=ServerInfo(name=name, version=""), declared={})


def introduced(name: str, handshake: ServerHandshake) -> ServerFeatures:
    """Return the features of a server whose lists were not read yet.

    Args:
        name: The configured name, used if the server does not send its own.
    """
    declared, instructions = _declared(handshake), handshake.instructions
    visible = None if instructions is None else without_hidden(instructions)
    info, _ = read_server_info(handshake.info, name, instructions=visible)
    return ServerFeatures(
        info=info,
        capabilities=frozenset(item for item in CAPABILITIES if item in declared),
        extras={item: more for item in EXTRAS if is_object(more := declared.get(item))},
        declared=declared,
        modern=handshake.modern,
        implementation=None if info_problem(info, handshake.info) else {**handshake.info, **server_info(info)},
    )


def _declared(handshake: ServerHandshake) -> JSON:
    declared: JSON = {}
    for name, value in handshake.capabilities.items():
        if value is not None and capability_problem(name, value) is None:
            declared[name] = value
        elif value is not None and name in CAPABILITIES:  # the server has the capability, although its value is invalid
            declared[name] = {}
    if handshake.modern:
        declared.pop("tasks", None)  # an extension since 2026-07-28
    return declared


def with_lists_of(features: ServerFeatures, old: ServerFeatures) -> ServerFeatures:
    """Return features with the lists of older features, as far as the server still declares them."""
    kept: dict[str, Any] = {listed.attribute: listed.of(old) for listed in KINDS.values() if has_list(features, listed)}
    pages = {
        listed.name: old.pages[listed.name]
        for listed in KINDS.values()
        if listed.name in old.pages and has_list(features, listed)
    }
    return replace(features, left_out=old.left_out, pages=pages, **kept)


def with_list(
    features: ServerFeatures, listed: DefinitionKind, items: Sequence[object], own: str = ""
) -> ServerFeatures:
    """Return the features with one list replaced.

    Args:
        items: The items from the server, unchecked.
        own: Our id: definitions that came through this bridge are left out.
    """
    valid: dict[str, JSON] = {}
    kinds = (listed.name, OUTPUT_PART) if listed.name == "tool" else (listed.name,)
    left_out = [other for other in features.left_out if other.kind not in kinds]
    for number, item in enumerate(items, 1):
        if not is_object(item):
            left_out.append(LeftOut(listed.name, f"#{number}", "it is not an object"))
            continue
        definition = repaired(listed.name, item)
        key = str(item.get(listed.key, f"#{number}"))
        ours = bool(own) and own in came_through(definition)
        problem = "it came from this bridge itself" if ours else _refused(item) or _problem(listed.name, definition)
        if problem is None and key in valid:
            problem = f"another {listed.name} has the same {listed.key}"
        if problem is None and listed.name == "tool":
            definition, fault = with_portable_output(definition)
            problem = _schema_problem(definition)
            if problem is None and fault is not None:
                left_out.append(LeftOut(OUTPUT_PART, key, fault))
        if problem is None:
            # A client compares the entry of a skill with its file, to the last character.
            valid[key] = definition if listed.name == "skill" else _described_openly(definition)
        else:
            left_out.append(LeftOut(listed.name, key, problem))
    lists: Mapping[str, Any] = {listed.attribute: tuple(valid.values())}
    return replace(features, left_out=tuple(left_out), **lists)


def with_pages(
    features: ServerFeatures, listed: DefinitionKind, pages: Sequence[ReadPage], own: str = ""
) -> ServerFeatures:
    """Return the features with one list replaced, as by `with_list`, and its division into pages."""
    features = with_list(features, listed, [item for page in pages for item in page.items], own)
    seen: set[str] = set()
    cut: list[ListPage] = []
    for page in pages:
        keys = [key for item in page.items if is_object(item) and isinstance(key := item.get(listed.key), str)]
        new = tuple(key for key in dict.fromkeys(keys) if key not in seen)
        cut.append(ListPage(page.cursor, new, _sound(page.more)))
        seen.update(new)
    return replace(features, pages={**features.pages, listed.name: tuple(cut)})


def _sound(more: JSON) -> JSON:
    """Return the valid fields of a page other than its items."""
    sound = {
        name: value
        for name, value in more.items()
        if not (name in _SOUND and not _SOUND[name](value)) and name != "resultType"
    }
    return without_key(sound, SERVER_INFO_KEY)


_MAX_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON parser reads exactly (RFC 8259, section 6)."""
_SOUND: Final[Mapping[str, Callable[[Any], bool]]] = {
    "nextCursor": lambda value: isinstance(value, str),
    "ttlMs": lambda value: type(value) is int and 0 <= value <= _MAX_INTEGER,
    "cacheScope": lambda value: value in ("public", "private"),
    "_meta": is_object,
}


def _described_openly(value: Any) -> Any:
    """Return the definition without hidden characters in titles and descriptions. Names and URIs are not changed."""
    if is_array(value):
        return [_described_openly(item) for item in value]
    if not is_object(value):
        return value
    return {
        key: without_hidden(item) if key in _TEXTS and isinstance(item, str) else _described_openly(item)
        for key, item in value.items()
    }


def _refused(item: JSON) -> str | None:
    """Return the reason if the lister of a definition does not offer it; `None` if it does."""
    reason = value_at(item, "_meta", LEFT_OUT_KEY)
    return one_line(reason, _REASON) if isinstance(reason, str) else None


def _problem(kind: str, definition: JSON) -> str | None:
    """Return why a definition is left out, or `None`. The shape is checked first: that keeps the other checks cheap."""
    problem = shape_problem(definition) or definition_problem(kind, definition)
    most = _SKILL_BYTES if kind == "skill" else _DEFINITION_BYTES
    if problem is None and (size := len(to_json(definition))) > most:
        problem = f"it has {size:,} bytes; at most {most:,} are published"
    return problem


def _schema_problem(tool: JSON) -> str | None:
    schemas = ((field, tool.get(field)) for field in ("inputSchema", "outputSchema"))
    problems = ((field, reference_problem(schema)) for field, schema in schemas if schema is not None)
    return next((f"{field}: {text}" for field, text in problems if text is not None), None)


def summary(features: ServerFeatures) -> str:
    """Return the number of definitions of each kind, in words."""
    counts = {listed.name: len(listed.of(features)) for listed in KINDS.values()}
    return (
        ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items() if count) or "no tools"
    )


def changes(old: ServerFeatures, new: ServerFeatures) -> tuple[Change, ...]:
    """Return the changes between two features, for listeners."""
    kinds: dict[ChangeKind, None] = {}
    for modern in (True, False):
        kinds |= _changes(old.for_era(modern=modern), new.for_era(modern=modern))
    return tuple(Change(kind) for kind in sorted(kinds, key=list(ChangeKind).index))


def _changes(old: ServerFeatures, new: ServerFeatures) -> dict[ChangeKind, None]:
    kinds = {
        listed.change: None
        for listed in KINDS.values()
        if listed.of(old) != listed.of(new) or has_list(old, listed) != has_list(new, listed)
    }
    if skill_labels(old.skills) != skill_labels(new.skills):  # of which clients that know no skills have prompts
        kinds[ChangeKind.PROMPTS] = None
    return kinds if _introduction(old) == _introduction(new) else {**kinds, ChangeKind.INTRODUCTION: None}


def _introduction(features: ServerFeatures) -> object:
    """Return everything about a server except its lists, for comparison."""
    return (
        features.info,
        features.implementation,
        features.capabilities,
        features.extras,
        features.declared,
        features.is_known,
    )
