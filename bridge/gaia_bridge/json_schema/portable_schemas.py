"""Output schemas that every client can compile. Pure.

Some clients compile the output schemas of all tools while they list them (TypeScript SDK 1.x), and show no tool if one
schema does not compile. Others refuse to call such a tool (TypeScript SDK 2.x, Python SDK). A keyword that one of them
refuses is rewritten where that does not change its meaning. Otherwise it is left out, and the schema demands less.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from gaia_bridge.json_schema.keyword_values import NOTES, VALUES, are_names, is_common_pattern, is_type, put_right
from gaia_bridge.json_schema.parts import LISTS, NAMED, REFERENCES, SINGLE, References, SchemaError, preview
from gaia_bridge.json_schema.plain import PlainSchema
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, at_pointer, is_array, is_object, json_pointer

_DIALECTS: Final = re.compile(r"https?://json-schema\.org/draft(?:/2020-12|/2019-09|-07|-06)/schema#?")
"""The dialects of JSON Schema that clients know."""
_WITH_LISTS_AS_ITEMS: Final = re.compile(r"https?://json-schema\.org/draft(?:/2019-09|-07|-06)/schema#?")
_NAMES: Final = frozenset({"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})
"""Keywords that name a schema. Names are not needed when all references are pointers, and ajv refuses `id`, two schemas
of one name, and compares the results of two tools whose schemas have the same `$id` with the first of them."""
_FOUND_ANYWHERE: Final = frozenset({"$id", "$anchor", "$dynamicAnchor"})
"""Names that ajv also reads within keywords that it does not know."""
_OF_AJV: Final = frozenset(
    {"$async", "$vocabulary", "formatExclusiveMaximum", "formatExclusiveMinimum", "formatMaximum", "formatMinimum"}
)
"""Keywords with a meaning in ajv only, or whose value validators look up."""
_BY_NAME: Final = NAMED | {"dependencies"}
_APPLICATORS: Final = SINGLE | LISTS | _BY_NAME
_MAYBE_NULL: Final = frozenset({"const", "default", "example"})
"""Keywords that hold any value, and so null as well."""
_DEPENDENT: Final[Mapping[str, tuple[str, ...]]] = {
    "contains": ("minContains", "maxContains"),
    "if": ("then", "else"),
    "items": ("additionalItems",),
    "patternProperties": ("additionalProperties",),
    "prefixItems": ("items",),
    "properties": ("additionalProperties",),
}
"""Keywords, by the one without which they demand more."""
_NOT_MONOTONE: Final = frozenset(
    {
        "contains",
        "else",
        "if",
        "maxContains",
        "minContains",
        "not",
        "oneOf",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords that can demand more when a schema inside of them demands less."""
_PLAIN_REFERENCE: Final = re.compile(r"#(?:/[\w.$-]+)*", re.ASCII)
"""References that every client resolves alike."""


class PortableSchema(NamedTuple):
    """An output schema that every client can compile."""

    schema: JSON
    """The schema; the original one if all of it is portable."""
    fault: str | None = None
    """The first part that is left out, and so no longer demanded; `None` if there is none."""


def portable(schema: JSON) -> PortableSchema:
    """Rewrite a schema so that every client can compile it.

    Args:
        schema: An output schema. It has no `shape_problem`, and is not changed.
    """
    if PlainSchema.of(schema) is not None:
        return PortableSchema(schema)
    try:
        rewriter = _Rewriter(schema)
        written = rewriter.rewritten()
    except RecursionError:
        root: JSON = {"type": "object"} if schema.get("type") == "object" else {}
        return PortableSchema(root, "at (root): it is nested too deep, or its references are")
    if rewriter.fault is None:
        return PortableSchema(schema if written == schema else written)
    return PortableSchema(_weakened(written), rewriter.fault)


def for_draft_07(schema: JSON) -> JSON:
    """Rewrite an output schema for clients that validate by draft 7 whatever it declares (TypeScript SDK 1.x).

    There, `items` applies to all items, even if the first ones have schemas of their own (`prefixItems`), so that every
    tuple would be refused. Beside `prefixItems`, it is left out.

    Args:
        schema: A portable schema; not changed.
    """
    if b'"prefixItems"' not in to_json(schema):
        return schema
    without = _each_schema(schema, _without_items)
    return schema if without == schema else _weakened(without)


def without_nulls(schema: JSON) -> JSON:
    """Remove keywords that are null, as servers in Go and C# write absent ones: model services refuse all tools for one
    such schema. In place of a required schema, null becomes one that accepts anything.

    Args:
        schema: An input schema, unchecked and not changed. One that is nested too deep is returned as it is.
    """
    try:
        without: JSON = _each_schema(schema, _without_null_keywords)
    except RecursionError:
        return schema
    return schema if without == schema else without


def _without_null_keywords(part: JSON) -> JSON:
    for keyword in part.keys() & _BY_NAME:
        if is_object(named := part[keyword]):
            part[keyword] = {name: {} if inner is None else inner for name, inner in named.items()}
    for keyword in part.keys() & LISTS:
        if is_array(several := part[keyword]):
            part[keyword] = [{} if inner is None else inner for inner in several]
    return {keyword: value for keyword, value in part.items() if value is not None or keyword in _MAYBE_NULL}


def _each_schema(part: Any, change: Callable[[JSON], JSON], keyword: str = "") -> Any:
    """Apply a change to a schema and each schema in it, the inner ones first.

    Args:
        change: Takes a copy of a schema, which it may change, and returns the schema in its place.
    """
    if is_array(part):
        return [_each_schema(item, change) for item in part]
    if not is_object(part):
        return part
    if keyword in _BY_NAME:
        return {name: _each_schema(item, change) for name, item in part.items()}
    return change(
        {key: _each_schema(value, change, key) if key in _APPLICATORS else value for key, value in part.items()}
    )


def _without_items(part: JSON) -> JSON:
    if "prefixItems" in part:
        part.pop("items", None)
    return part


def _weakened(schema: JSON) -> JSON:
    """Remove keywords that can demand more when a part of the schema demands less, and references without a target."""
    monotone: JSON = _each_schema(schema, _monotone)

    def with_targets(part: JSON) -> JSON:
        if "$ref" in part and not is_object(at_pointer(monotone, part["$ref"])):
            del part["$ref"]
        return part

    weak: JSON = _each_schema(monotone, with_targets)
    return weak


def _monotone(part: JSON) -> JSON:
    choices = part.get("oneOf")
    weak = {keyword: value for keyword, value in part.items() if keyword not in _NOT_MONOTONE}
    return weak if choices is None else {"anyOf": choices, **weak}


class _Rewriter:
    """Rewrites one schema without the keywords that clients refuse."""

    def __init__(self, schema: JSON) -> None:
        self.fault: str | None = None
        self._schema = schema
        dialect = schema.get("$schema")
        self._has_lists_as_items = isinstance(dialect, str) and _WITH_LISTS_AS_ITEMS.fullmatch(dialect) is not None
        self._leads = References(schema)
        self._places: dict[int, tuple[str | int, ...]] = {}
        self._references: list[tuple[JSON, str, object, tuple[str | int, ...]]] = []

    def rewritten(self) -> JSON:
        """Return the rewritten schema; afterwards, `fault` is set if it demands less."""
        written: JSON = self._part(self._schema, ())
        for part, reference, target, place in self._references:
            pointer = self._places.get(id(target))
            if pointer is None:
                self._drop(part, "$ref", reference, place)
            elif not _PLAIN_REFERENCE.fullmatch(reference) or at_pointer(self._schema, reference) is not target:
                part["$ref"] = "#" + (quote(json_pointer(pointer), safe="/~$") if pointer else "")
            if "$ref" in part and not is_object(at_pointer(written, part["$ref"])):
                self._drop(part, "$ref", reference, place)  # what it led to is left out
        if self._references:
            self._end_loops(written)
        return written

    def _end_loops(self, written: JSON) -> None:
        """Drop references by which a value would be validated against the same schema endlessly."""
        is_open: dict[int, bool] = {}

        def visit(part: Any, place: tuple[str | int, ...]) -> None:
            if not is_object(part) or id(part) in is_open:
                return
            is_open[id(part)] = True
            for item in _in_place(part):
                visit(item, place)
            if (reference := part.get("$ref")) is not None:
                target = at_pointer(written, reference)
                if is_open.get(id(target)):
                    self._drop(part, "$ref", reference, place)
                else:
                    visit(target, place)
            is_open[id(part)] = False

        for part, _, _, place in self._references:
            visit(part, place)

    def _part(self, part: Any, place: tuple[str | int, ...]) -> Any:
        if not is_object(part):
            return part
        self._places.setdefault(id(part), place)
        written: JSON = {}
        for keyword, value in part.items():
            self._keyword(part, written, keyword, value, place)
        self._reference(part, written, place)
        for keyword, others in _DEPENDENT.items():
            if keyword in part and keyword not in written and part[keyword] is not None:
                for other in others:
                    written.pop(other, None)
        return written

    def _keyword(self, part: JSON, written: JSON, keyword: str, value: Any, place: tuple[str | int, ...]) -> None:
        if keyword in _APPLICATORS:
            self._applicator(written, keyword, value, (*place, keyword))
        elif (fits := VALUES.get(keyword)) is not None:
            value = put_right(keyword, value)
            if fits(value):
                written[keyword] = value
            elif value is not None and keyword not in NOTES:
                self._drop(written, keyword, value, place)
        elif _is_kept(part, keyword, value, is_root=not place):
            written[keyword] = value

    def _applicator(self, written: JSON, keyword: str, value: Any, place: tuple[str | int, ...]) -> None:
        if keyword == "items" and is_array(value) and not self._has_lists_as_items:
            keyword, place = "prefixItems", (*place[:-1], "prefixItems")  # the name of a list of items since 2020-12
        if keyword in _BY_NAME:
            if is_array(value) and not value:  # PHP encodes an empty map as an empty list
                value = {}
            written_value: Any = self._by_name(keyword, value, place) if is_object(value) else None
        elif keyword in LISTS or (keyword == "items" and is_array(value)):
            is_list = is_array(value) and value and all(map(_is_schema, value))
            written_value = (
                [self._part(item, (*place, number)) for number, item in enumerate(value)] if is_list else None
            )
        else:
            written_value = self._part(value, place) if _is_schema(value) else None
        if written_value is not None:
            written[keyword] = written_value
        elif value is not None:
            self._drop(written, keyword, value, place[:-1])

    def _by_name(self, keyword: str, value: JSON, place: tuple[str | int, ...]) -> JSON | None:
        written: JSON = {}
        for name, item in value.items():
            if name == "$id" and keyword in ("$defs", "definitions"):
                continue  # ajv reads it as the name of the schema around it; references to it are left out
            if keyword == "patternProperties" and not is_common_pattern(name):
                return None
            if _is_schema(item):
                written[name] = self._part(item, (*place, name))
            elif item is None:
                written[name] = {}
            elif keyword == "dependencies" and are_names(item):
                written[name] = item
            elif keyword == "dependencies":
                return None
            else:
                self._drop(written, name, item, place)
                written[name] = {}
        return written

    def _reference(self, part: JSON, written: JSON, place: tuple[str | int, ...]) -> None:
        keywords = [keyword for keyword in REFERENCES if part.get(keyword) is not None]
        if not keywords:
            return
        reference = part[keywords[0]]
        try:
            targets = {id(target): target for target in self._leads.of(part)}
        except SchemaError:
            targets = {}
        if len(keywords) > 1 or len(targets) != 1:
            self._drop(written, keywords[0], reference, place)
            return
        [target] = targets.values()
        written["$ref"] = reference
        self._references.append((written, reference, target, place))

    def _drop(self, written: JSON, keyword: str, value: Any, place: tuple[str | int, ...]) -> None:
        written.pop(keyword, None)
        if self.fault is None:
            self.fault = f"at {json_pointer((*place, keyword))}: {preview(value)}"


def _is_kept(part: JSON, keyword: str, value: Any, *, is_root: bool) -> bool:
    """Whether a keyword that validates nothing, or that JSON Schema does not have, is kept."""
    if keyword in REFERENCES or keyword in _NAMES or keyword in _OF_AJV:
        return False
    if keyword == "$schema":
        return is_root and isinstance(value, str) and _DIALECTS.fullmatch(value) is not None
    if keyword == "nullable":
        types: Any = part.get("type")
        return isinstance(value, bool) and is_type(types) and (value or "null" not in types)
    return not _has_names(value)


def _in_place(part: JSON) -> list[Any]:
    """Return the inner schemas that apply to the same value as the schema itself."""
    schemas = [part.get(keyword) for keyword in ("else", "if", "not", "then")]
    for keyword in ("allOf", "anyOf", "oneOf"):
        schemas += part.get(keyword, ())
    for keyword in ("dependencies", "dependentSchemas"):
        schemas += part.get(keyword, {}).values()
    return schemas


def _has_names(value: Any) -> bool:
    """Whether validators may read a part of an unknown keyword's value as a schema with a name."""
    if is_array(value):
        return any(map(_has_names, value))
    if not is_object(value):
        return False
    return not _FOUND_ANYWHERE.isdisjoint(value) or any(map(_has_names, value.values()))


def _is_schema(value: object) -> bool:
    return isinstance(value, dict | bool)
