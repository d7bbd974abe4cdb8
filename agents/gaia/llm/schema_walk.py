"""A JSON Schema of any draft, brought into the one form that every provider's dialect begins with. Pure.

Only JSON pointers into the same document are followed. Where something cannot be said, what is written accepts more
than the original does and not less: the tool's server judges the arguments anyway. Every walk is bounded, also where a
schema contains itself or is a bomb; the schema that comes in is never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final
from urllib.parse import unquote

from gaia.llm.schema_merging import alternatives, conjunction, identity, modernised
from gaia_bridge.text.json_types import JSON, at_pointer, is_array, is_object, is_too_deep

__all__ = ["MAX_LEVELS", "MAX_SCHEMAS", "Rule", "Walk", "type_names"]

MAX_LEVELS: Final = 32
"""Schemas inside of each other; of a deeper one only the type is written."""

MAX_SCHEMAS: Final = 5_000
"""Schemas that are written for one tool; of each further one only the type is. A model learns nothing from more."""

Rule = Callable[[JSON], JSON]
"""Given one schema, whose parts are still to be converted, returns what a provider accepts of it."""

_ANNOTATIONS: Final = frozenset({"deprecated", "examples", "readOnly", "title", "writeOnly"})
"""Keywords that may stand beside a reference; the target is not written out for their sake."""

_OVERRIDING: Final = ("description", "default", *_ANNOTATIONS)
"""Keywords beside a reference that replace those of its target."""

_NAME: Final = 60
"""Characters of a definition's name."""

_TYPES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (dict, "object"),
    (list, "array"),
    (type(None), "null"),
)

Trail = tuple[str, ...]
"""The references that were followed to here, so that a schema that contains itself is not followed for ever."""


class Walk:
    """One conversion. Writes no `allOf` and `oneOf`, but what they come to.

    Args:
        root: The schema.
        references: Whether `$ref` may be written; else what it leads to is, as often as it is referred to.
        tuples: Whether `prefixItems` may be written; else `items` says what any element may be.
        rule: Applied to every schema below the root, before its parts are converted.
        root_rule: Applied to the root.
    """

    def __init__(self, root: JSON, *, references: bool, tuples: bool, rule: Rule, root_rule: Rule) -> None:
        self._document: JSON = {"type": "object"} if is_too_deep(root) else deepcopy(root)
        self._references = references
        self._tuples = tuples
        self._rule = rule
        self._root_rule = root_rule
        self._names: dict[str, str] = {}
        self._waiting: list[str] = []
        self._left = MAX_SCHEMAS

    def result(self) -> JSON:
        """Return the converted schema: of an object, without alternatives at its top, with `properties`."""
        root = self._flattened(self._document, ())
        root["type"] = "object"
        if not is_object(root.get("properties")):
            root["properties"] = {}
        converted = self._with_parts(self._root_rule(self._plain(root)), 0, ())
        definitions: JSON = {}
        while self._waiting:
            pointer = self._waiting.pop(0)
            definitions[self._names[pointer]] = self._schema(self._target(pointer), 1, (pointer,)) or {}
        if definitions:
            converted["$defs"] = definitions
        return converted

    def _schema(self, schema: object, level: int, trail: Trail) -> JSON | None:
        """Convert one schema; `None` for the one that accepts nothing."""
        if schema is False:
            return None
        schema = _unwrapped(modernised(schema)) if is_object(schema) else {}
        self._left -= 1
        if self._left < 0 or level > MAX_LEVELS:
            return self._bare(schema, level)
        reference = schema.get("$ref")
        if isinstance(reference, str) and self._target(reference) is not None:
            if self._references and (reference in trail or schema.keys() <= {"$ref", *_ANNOTATIONS}):
                return {"$ref": self._written(reference)}
            if reference in trail:
                return self._bare(schema, level)
        schema, trail = self._gathered(schema, trail)
        return self._with_parts(self._rule(self._plain(schema)), level, trail)

    def _flattened(self, schema: JSON, trail: Trail) -> JSON:
        """Return an object schema that has no reference, `allOf` or alternatives at its top."""
        merged, inside = self._gathered(schema, trail)
        return alternatives(merged, lambda branch: self._flattened(branch, inside))

    def _gathered(self, schema: JSON, trail: Trail) -> tuple[JSON, Trail]:
        """Return a schema with its reference and `allOf` merged into it, and the trail for the schemas inside of it."""
        schema = modernised(schema)
        reference = schema.pop("$ref", None)
        parts = schema.pop("allOf", None)
        annotations = {key: schema[key] for key in _OVERRIDING if key in schema}
        is_followed = isinstance(reference, str) and reference not in trail and len(trail) < MAX_LEVELS
        target = self._target(reference) if is_followed else None
        if target is not None:
            parts = [{"$ref": reference}, *(parts if is_array(parts) else ())]
        inside = trail
        for part in parts if is_array(parts) else ():
            if not is_object(part) or part.get("$ref") in inside:
                continue
            self._left -= 1
            if self._left < 0:
                break
            if part == {"$ref": reference} and target is not None:
                merged, inside = self._gathered(target, (*inside, str(reference)))
            else:
                merged, inside = self._gathered(part, inside)
            schema = conjunction(schema, merged)
        return {**schema, **annotations}, inside

    def _plain(self, schema: JSON) -> JSON:
        """Return a schema without `oneOf` and, unless they can be written, tuples; with its type, if it implies one."""
        plain = dict(schema)
        if "oneOf" in plain:
            options = plain.pop("oneOf")
            plain.setdefault("anyOf", options)
        if "prefixItems" in plain and not self._tuples:
            plain = _without_tuple(plain)
        if "type" not in plain and (names := _implied_types(plain)):
            plain["type"] = names[0] if len(names) == 1 else names
        return plain

    def _with_parts(self, schema: JSON, level: int, trail: Trail) -> JSON:
        """Return a schema, to which the rule was applied, with its parts converted."""
        converted = dict(schema)
        if is_object(properties := converted.get("properties")):
            parts = {name: self._schema(part, level + 1, trail) for name, part in properties.items()}
            converted["properties"] = {name: part for name, part in parts.items() if part is not None}
        if "anyOf" in converted:
            listed = converted.pop("anyOf")
            options = [self._schema(part, level + 1, trail) for part in (listed if is_array(listed) else ())]
            if kept := [option for option in options if option is not None]:
                converted["anyOf"] = kept
        if is_array(prefix := converted.get("prefixItems")):
            converted["prefixItems"] = [self._schema(part, level + 1, trail) or {} for part in prefix]
        if "items" in converted and not (converted["items"] is False and self._tuples):
            items: object = converted["items"] or {}  # no element at all is told by the lengths
            converted["items"] = self._schema(items, level + 1, trail)
        if is_object(others := converted.get("additionalProperties")):
            converted["additionalProperties"] = self._schema(others, level + 1, trail)
        return converted

    def _bare(self, schema: JSON, level: int) -> JSON:
        """Reduce a schema to its type."""
        reference = schema.get("$ref")
        names = type_names(schema) or type_names(
            (self._target(reference) if isinstance(reference, str) else None) or {}
        )
        bare: JSON = {"type": names[0] if len(names) == 1 else names} if names else {}
        return self._with_parts(self._rule(bare), level, ())

    def _written(self, pointer: str) -> str:
        """Return a pointer of the original as it is written; its target will be among the definitions."""
        if pointer == "#":
            return "#"
        if pointer not in self._names:
            taken = set(self._names.values())
            plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in unquote(pointer).rpartition("/")[2])
            name, number = plain[:_NAME] or "definition", 1
            while name in taken:
                number += 1
                name = f"{plain[:_NAME]}_{number}"
            self._names[pointer] = name
            self._waiting.append(pointer)
        return f"#/$defs/{self._names[pointer]}"

    def _target(self, reference: str) -> JSON | None:
        """Return the schema that a pointer leads to; `None` if it leads to none."""
        if not (reference == "#" or reference.startswith("#/")):
            return None
        target = at_pointer(self._document, reference)
        return target if is_object(target) else {} if target is True else None


def type_names(schema: JSON) -> list[str]:
    """Return the types that a schema names itself, one, several or none."""
    declared: Any = schema.get("type", ())
    names = [declared] if isinstance(declared, str) else declared if is_array(declared) else []
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _unwrapped(schema: JSON) -> JSON:
    """`{"allOf": [{"$ref": ...}], "description": ...}` is how many write a reference that they describe."""
    parts = schema.get("allOf")
    if "$ref" in schema or not is_array(parts) or len(parts) != 1 or not is_object(parts[0]) or "$ref" not in parts[0]:
        return schema
    return {**parts[0], **{key: value for key, value in schema.items() if key != "allOf"}}


def _implied_types(schema: JSON) -> list[str]:
    """Return the types of a schema that names none, but implies them by its values or keywords."""
    if "anyOf" in schema:
        return []
    values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    if is_array(values) and values:
        return list(dict.fromkeys(_type_of(value) for value in values))
    if is_object(schema.get("properties")):
        return ["object"]
    return ["array"] if "items" in schema or "prefixItems" in schema else []


def _type_of(value: object) -> str:
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "string")


def _without_tuple(schema: JSON) -> JSON:
    """Turn a tuple into an array whose elements may each be whatever any element of the tuple may be."""
    plain = {key: value for key, value in schema.items() if key not in ("prefixItems", "items")}
    parts: list[Any] = schema["prefixItems"] if is_array(schema["prefixItems"]) else []
    rest, longest = schema.get("items", True), schema.get("maxItems")
    if rest is False:
        plain.setdefault("maxItems", len(parts))
    elif not (isinstance(longest, int) and longest <= len(parts)):
        parts = [*parts, rest]
    distinct = [*{identity(part): part for part in parts}.values()]
    anything = not distinct or any(part is True or part == {} for part in distinct)
    plain["items"] = {} if anything else distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
    return plain
