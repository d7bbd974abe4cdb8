"""Two JSON Schemas in one, and those of earlier drafts as one of 2020-12. Pure; arguments are never changed.

The result accepts whatever the originals accept, and may accept more: most pairs of keywords have no exact counterpart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["alternatives", "conjunction", "identity", "modernised"]

_LARGER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SMALLER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_SHAPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "anyOf": list,
    "description": str,
    "enum": list,
    "format": str,
    "oneOf": list,
    "pattern": str,
    "prefixItems": list,
    "properties": dict,
    "type": (str, list),
}
"""The type of value that each keyword must have; with another value, the keyword is left out."""
_IDENTITY: Final = ("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$vocabulary", "$comment")
"""Keywords that a tool's parameters have no use for; if they took effect, references would lead elsewhere."""


def modernised(schema: JSON) -> JSON:
    """Convert one schema to draft 2020-12; the schemas inside of it stay as they are.

    Args:
        schema: Of draft 4 to 2020-12, or of OpenAPI 3.0, which says `nullable`.
    """
    modern = {key: value for key, value in schema.items() if key not in _IDENTITY}
    _modernise_bounds(modern)
    if is_array(modern.get("items")):  # until 2019-09
        modern["prefixItems"] = modern.pop("items")
        if "additionalItems" in modern:
            modern["items"] = modern["additionalItems"]
    modern.pop("additionalItems", None)
    if "required" in modern and not _is_texts(modern["required"]):  # draft 3 has it in the property
        del modern["required"]
    for key, kind in _SHAPES.items():
        if key in modern and not isinstance(modern[key], kind):
            del modern[key]
    if is_array(modern.get("type")) and not _is_texts(modern["type"]):
        del modern["type"]
    if modern.pop("nullable", False) is True:
        return _nullable(modern)
    return modern


def _modernise_bounds(schema: JSON) -> None:
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool):  # draft 4
            was_exclusive = schema.pop(exclusive)
            if was_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)


def conjunction(one: JSON, other: JSON) -> JSON:
    """Combine two schemas into one, as `allOf` does.

    Args:
        one: Its value counts where both have a keyword that cannot be combined.
        other: The other.
    """
    both = {**other, **one}
    for key in one.keys() & other.keys():
        both[key] = _combined(key, one[key], other[key])
    return both


def alternatives(schema: JSON, flattened: Callable[[JSON], JSON]) -> JSON:
    """Return an object schema with `anyOf` and `oneOf`, which providers refuse at the top, merged into its properties.

    The properties of all branches are there, and only those are required that all branches require.

    Args:
        schema: Of an object.
        flattened: Gives a branch without reference and `allOf`, and without alternatives of its own.
    """
    flat = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
    for key in ("anyOf", "oneOf"):
        listed = schema.get(key)
        branches = [flattened(branch) for branch in listed if is_object(branch)] if is_array(listed) else []
        branches = [branch for branch in branches if branch.get("type", "object") != "null"]
        if branches:
            _add_branches(flat, branches)
    return flat


def _add_branches(flat: JSON, branches: list[JSON]) -> None:
    variants: dict[str, dict[Hashable, Any]] = {}
    for branch in branches:
        properties = branch.get("properties")
        for name, part in properties.items() if is_object(properties) else ():
            variants.setdefault(name, {}).setdefault(identity(part), part)
    own: JSON = flat["properties"] if is_object(flat.get("properties")) else {}
    listed = {name: [*parts.values()] for name, parts in variants.items()}
    offered = {name: parts[0] if len(parts) == 1 else {"anyOf": parts} for name, parts in listed.items()}
    flat["properties"] = {**offered, **own}
    if flat.get("additionalProperties") is False and offered.keys() - own.keys():
        del flat["additionalProperties"]
    if any(branch.get("additionalProperties", False) is not False for branch in branches):
        flat.setdefault("additionalProperties", True)
    lists = [_texts(branch.get("required")) for branch in branches]
    shared = [name for name in lists[0] if all(name in names for names in lists)]
    if required := [*_texts(flat.get("required")), *shared]:
        flat["required"] = list(dict.fromkeys(required))
    if "description" not in flat and len(branches) == 1 and "description" in branches[0]:
        flat["description"] = branches[0]["description"]


def _combined(key: str, one: Any, other: Any) -> Any:
    if key == "properties" and is_object(one) and is_object(other):
        shared = {name: _all_of(one[name], other[name]) for name in one if name in other}
        return {**one, **{name: part for name, part in other.items() if name not in one}, **shared}
    if key == "required":
        return list(dict.fromkeys([*_texts(one), *_texts(other)]))
    if key == "type":
        return _shared_types(one, other)
    if key == "enum" and is_array(one) and is_array(other):
        allowed = set(map(identity, other))
        return [value for value in one if identity(value) in allowed] or one
    if key == "allOf" and is_array(one) and is_array(other):
        return [*one, *other]
    if key == "items":
        return _all_of(one, other)
    if key == "additionalProperties" and (one is False or other is False):
        return False
    if key in _LARGER and _is_number(one) and _is_number(other):
        return max(one, other)
    if key in _SMALLER and _is_number(one) and _is_number(other):
        return min(one, other)
    return one


def _all_of(one: Any, other: Any) -> Any:
    if one == other or other is True or other == {}:
        return one
    if one is True or one == {}:
        return other
    if one is False or other is False:
        return False
    parts: list[Any] = one["allOf"] if is_object(one) and one.keys() == {"allOf"} and is_array(one["allOf"]) else [one]
    return {"allOf": [*parts, other]}  # side by side, however many there are


def _shared_types(one: Any, other: Any) -> Any:
    names, others = _texts([one] if isinstance(one, str) else one), _texts([other] if isinstance(other, str) else other)
    shared = [name for name in names if name in others]
    if "number" not in shared and "integer" not in shared and {"integer", "number"} <= {*names, *others}:
        shared.append("integer")
    return one if not shared else shared[0] if len(shared) == 1 else shared


def _nullable(schema: JSON) -> JSON:
    kind = schema.get("type")
    if isinstance(kind, str) or is_array(kind):
        names = [kind] if isinstance(kind, str) else kind
        schema["type"] = [*names, *([] if "null" in names else ["null"])]
    elif is_array(schema.get("anyOf")):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if is_array(schema.get("enum")) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


def identity(value: Any) -> Hashable:
    """Return a key that equal JSON values share, and no others: in Python, `True` and `1` are equal, too."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else (isinstance(value, bool), value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_texts(value: Any) -> bool:
    return is_array(value) and all(isinstance(item, str) for item in value)


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if is_array(value) else []
