"""Schemas of an OpenAPI document as JSON Schema 2020-12, each with every schema that it refers to. Pure.

Version 3.1 is JSON Schema already; keywords of 3.0 alone (`nullable`, `exclusiveMinimum: true`) are
translated. Only the API knows which values it accepts, so no value is refused here that it may accept: `oneOf` becomes
`anyOf`, and parts of `allOf` are not closed against each other. A child refers to its parent (`allOf`); the parent
states only by `discriminator` that it also stands for its children.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

from msgspec import Struct

from gaia_bridge.json_schema.parts import LISTS, NAMED, SINGLE, references
from gaia_bridge.json_schema.validation import MAX_DEPTH, MAX_PARTS
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.openapi.document import Document, OperationError

UNIONS: Final = ("anyOf", "oneOf")
"""Keywords that list alternatives."""


class Inheritance:
    """The parents and children among the definitions of a document.

    Args:
        document: The document.
    """

    def __init__(self, document: Document) -> None:
        self._document = document

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        """The references to the definitions that are built on another one, by the reference to that one."""
        found: dict[str, list[str]] = {}
        components = self._document.content.get("components")
        schemas = components.get("schemas") if is_object(components) else None
        for name, schema in schemas.items() if is_object(schemas) else ():
            for parent in items_of(schema, "allOf"):
                if isinstance(reference := parent.get("$ref"), str):
                    found.setdefault(reference, []).append(_reference(name))
        return found

    def has_kinds(self, reference: str, schema: JSON) -> bool:
        """Return whether a definition stands for others too: its children, or alternatives that are built on it.

        Args:
            reference: The reference to it.
            schema: The definition.
        """
        children = self._children.get(reference, ())
        return "discriminator" in schema or any(item.get("$ref") in children for item in alternatives(schema))

    def kinds(self, reference: str, schema: JSON) -> dict[str, str]:
        """Return references to all definitions that may replace a definition, each with its condition if one is stated.

        Args:
            reference: The reference to it.
            schema: The definition.
        """
        about: Any = schema.get("discriminator")
        values: dict[str, list[str]] = {
            ref: [] for item in alternatives(schema) if isinstance(ref := item.get("$ref"), str)
        }
        mapping = about.get("mapping") if is_object(about) else None
        for value, place in mapping.items() if is_object(mapping) else ():
            kind = str(place) if str(place).startswith("#") else _reference(str(place))
            if self._document.has(kind):
                values.setdefault(kind, []).append(repr(value))
        values |= {kind: [] for kind in self._descendants(reference) if kind not in values}
        if schema.keys() & {"allOf", "properties"}:
            values.setdefault(reference, [])
        return {
            kind: f"Where {about.get('propertyName')!r} is {' or '.join(said)}." if said else ""
            for kind, said in values.items()
        }

    def _descendants(self, reference: str) -> list[str]:
        found = {reference: None}
        waiting = [reference]
        while waiting and len(found) < MAX_PARTS:
            children = [child for child in self._children.get(waiting.pop(0), ()) if child not in found]
            found |= dict.fromkeys(children)
            waiting += children
        return list(found)[1:]


def items_of(schema: object, keyword: str) -> Iterator[JSON]:
    """Yield the schemas in a list of schemas."""
    items = schema.get(keyword) if is_object(schema) else None
    yield from filter(is_object, items if is_array(items) else ())


def alternatives(schema: JSON) -> Iterator[JSON]:
    """Yield the schemas of which one is to be chosen."""
    yield from (item for keyword in UNIONS for item in items_of(schema, keyword))


def _reference(name: str) -> str:
    """Return the reference to a definition by its name."""
    return "#/components/schemas/" + name.replace("~", "~0").replace("/", "~1")


_IN_PLACE: Final = frozenset({"$ref", "allOf", "const", *UNIONS})
"""Keywords beside which a `type` with `null` does not yet allow null."""

_DROPPED: Final = frozenset(
    {
        *("$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$schema", "$vocabulary"),
        *("discriminator", "example", "externalDocs", "nullable", "xml"),
    }
)
"""Keywords that are no JSON Schema, apply to the whole document, or are stated once for the whole tool."""

_TUPLE: Final = "items"
"""The keyword that was a list of schemas before it was one schema."""

_BOUNDS: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

_LITERAL: Final = re.compile(r"/\^|(?s:.*)[^\\]\$/[a-z]*\Z")
"""A regular expression between slashes as in JavaScript, which no text matches."""

_HOPS: Final = 16
"""The most references that lead to references in a row."""

_NULL: Final[JSON] = {"type": "null"}


class _Target(Struct, frozen=True):
    """A schema that others refer to."""

    reference: str
    """The reference as the document has it."""
    is_base: bool = False
    """Whether others are built on it (`allOf`): then it is open, and stands for itself, not for its children too."""


class _TranslatedSchema(Struct, frozen=True):
    """One schema, translated."""

    schema: JSON
    parts: int
    """The number of schemas in it."""
    targets: frozenset[_Target]
    """The targets of its references."""


class SchemaReader:
    """Reads the schemas of requests. A schema that many operations refer to is translated once.

    Args:
        document: The document of the schemas.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._inheritance = Inheritance(document)
        self._names: dict[_Target, str] = {}
        self._targets: dict[str, _Target] = {}
        self._known: dict[_Target, _TranslatedSchema] = {}
        self._parts = 0
        self._found: set[_Target] = set()
        self._is_definition = False

    def read(self, schema: object) -> JSON:
        """Return a schema, whose references lead to `#/$defs/...`.

        Args:
            schema: The schema as the document has it.

        Raises:
            OperationError: It is no schema, refers to nothing, or is too large.
        """
        return self._one(schema).schema

    def opened(self, schema: object) -> JSON:
        """Return a schema as `read` does; if it is only a reference, return the definition itself, for its keywords."""
        found = self.read(schema)
        return self.followed(found) if found.keys() == {"$ref"} else found

    def followed(self, schema: JSON) -> JSON:
        """Return the target of a schema that was read here; the schema itself if it has no reference."""
        for _ in range(_HOPS):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                break
            schema = self._definition(self._targets[_name_in(reference)]).schema
        return schema

    def complete(self, schema: JSON) -> JSON:
        """Return a schema with the definitions that it needs in `$defs`.

        Args:
            schema: A schema made of schemas that were read here.

        Raises:
            OperationError: One of them is no schema, refers to nothing, or they are too large together.
        """
        needed: dict[str, JSON] = {}
        parts = 0
        named = (_name_in(reference) for reference in references(schema))
        # References in unknown keywords were not read, and mean nothing.
        waiting = [self._targets[name] for name in named if name in self._targets]
        while waiting:
            target = waiting.pop()
            name = self._names[target]
            if name in needed:
                continue
            definition = self._definition(target)
            needed[name] = definition.schema
            waiting += sorted(definition.targets, key=lambda target: self._names[target])
            parts += definition.parts
            if parts > MAX_PARTS:
                raise OperationError(f"its schemas have more than {MAX_PARTS:,} parts")
        return {**schema, "$defs": dict(sorted(needed.items()))} if needed else schema

    def _definition(self, target: _Target) -> _TranslatedSchema:
        found = self._known.get(target)
        if found is None:
            found = self._known[target] = self._one(self._document.target(target.reference), target)
        return found

    def _one(self, schema: object, target: _Target | None = None) -> _TranslatedSchema:
        self._parts, self._found = 0, set()
        self._is_definition = target is not None
        is_base = target is not None and target.is_base
        if target is not None and is_object(schema) and self._inheritance.has_kinds(target.reference, schema):
            own = {key: value for key, value in schema.items() if key not in UNIONS}
            translated = self._translated(own, 0, is_base=True) if is_base else self._any_kind(target.reference, schema)
        else:
            translated = self._translated(schema, 0, is_base=is_base)
        return _TranslatedSchema(translated, self._parts, frozenset(self._found))

    def _translated(self, schema: object, depth: int, *, is_base: bool = False) -> JSON:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise OperationError(f"its schemas have more than {MAX_PARTS:,} parts")
        if depth > MAX_DEPTH:
            raise OperationError(f"its schemas are nested deeper than {MAX_DEPTH} levels")
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if not is_object(schema):
            raise OperationError("it has a schema that is no object")
        if isinstance(reference := schema.get("$ref"), str):
            found = self._referring(_Target(reference, is_base), schema, depth)
        elif "$ref" in schema:
            raise OperationError("it has a reference that is no text")
        else:
            found = self._own(schema, depth, is_base)
        return _or_null(found) if _is_nullable(schema) else found

    def _own(self, schema: JSON, depth: int, is_base: bool) -> JSON:
        """Return the translation of a schema's own keywords."""
        found = {
            key: self._value(key, value, depth, schema)
            for key, value in schema.items()
            if key not in _DROPPED and not key.startswith("x-")
        }
        _mend_earlier_drafts(found)
        if isinstance(pattern := found.get("pattern"), str) and _LITERAL.match(pattern):
            del found["pattern"]
        if found.get("type") == "array" and not found.keys() & {"items", "prefixItems"}:
            found["items"] = {}  # OpenAI refuses a list of tools for one that is missing
        if is_base or schema.keys() & {"allOf", *UNIONS}:  # else it would exclude the properties of the other parts
            if found.get("additionalProperties") is False:
                del found["additionalProperties"]
        if is_array(found.get("oneOf")):  # the API takes one of them where several fit
            kinds = {"anyOf": found.pop("oneOf")}
            if "anyOf" in found:
                found["allOf"] = [*found.get("allOf", ()), kinds]
            else:
                found |= kinds
        if "example" in schema and "examples" not in schema:
            found["examples"] = [schema["example"]]
        self._leave_out_read_only(found, schema)
        return found

    def _referring(self, target: _Target, schema: JSON, depth: int) -> JSON:
        referred = self._document.target(target.reference)
        if target.is_base and not (is_object(referred) and self._differs_as_base(target.reference, referred)):
            target = _Target(target.reference)
        name = self._names.get(target)
        if name is None:
            name = self._names[target] = self._free_name(target.reference)
            self._targets[name] = target
        self._found.add(target)
        found: JSON = {"$ref": f"#/$defs/{name}"}
        if self._document.early:  # in 3.0, keywords beside a reference are ignored
            return found
        beside = {key: value for key, value in schema.items() if key not in ("$ref", "nullable")}
        return {**self._translated(beside, depth + 1), **found} if beside else found

    def _value(self, key: str, value: Any, depth: int, schema: JSON) -> Any:
        if key in SINGLE and (is_object(value) or isinstance(value, bool)):
            return value if isinstance(value, bool) else self._translated(value, depth + 1)
        if (key in LISTS or key == _TUPLE) and is_array(value):
            # A single item only gets a description here: beside a reference, 3.0 needs `allOf` for that.
            inherits = key == "allOf" and (len(value) > 1 or "properties" in schema or self._is_definition_at(depth))
            return [self._translated(item, depth + 1, is_base=inherits) for item in value]
        if key in NAMED and is_object(value):
            return {name: self._translated(item, depth + 1) for name, item in value.items()}
        return value

    def _differs_as_base(self, reference: str, schema: JSON) -> bool:
        return schema.get("additionalProperties") is False or self._inheritance.has_kinds(reference, schema)

    def _is_definition_at(self, depth: int) -> bool:
        return depth == 0 and self._is_definition

    def _any_kind(self, reference: str, schema: JSON) -> JSON:
        """Return a definition together with all definitions that may replace it."""
        found = [self._translated(item, 1) for item in alternatives(schema) if "$ref" not in item]
        for kind, condition in self._inheritance.kinds(reference, schema).items():
            is_base = "discriminator" in self._document.resolved({"$ref": kind})
            one = self._translated({"$ref": kind}, 1, is_base=is_base)
            found.append({**one, "description": condition} if condition else one)
        whole: JSON = {key: schema[key] for key in ("title", "description") if key in schema}
        if found:
            whole["anyOf"] = found
        return _or_null(whole) if _is_nullable(schema) else whole

    def _leave_out_read_only(self, found: JSON, schema: JSON) -> None:
        """Remove the properties that only responses have; another part (`allOf`) may require one of them."""
        parts = (schema, *map(self._document.resolved, items_of(schema, "allOf")))
        described = [properties for part in parts if is_object(properties := part.get("properties"))]
        hidden = {name for properties in described for name, item in properties.items() if self._is_read_only(item)}
        if not hidden:
            return
        if is_object(own := found.get("properties")):
            found["properties"] = {name: item for name, item in own.items() if name not in hidden}
        for part in (found, *items_of(found, "allOf")):
            if is_array(required := part.get("required")):
                part["required"] = [name for name in required if isinstance(name, str) and name not in hidden]

    def _is_read_only(self, schema: object) -> bool:
        if not is_object(schema):
            return False
        if isinstance(reference := schema.get("$ref"), str) and "readOnly" not in schema:
            schema = self._document.target(reference)
        return is_object(schema) and schema.get("readOnly") is True

    def _free_name(self, reference: str) -> str:
        """Return a free name for the target of a reference: its last word, with a number if needed."""
        last = unquote(reference.rpartition("/")[2])
        wanted = re.sub(r"[^A-Za-z0-9_.-]", "_", last) or "schema"
        found, number = wanted, 1
        while found in self._targets:
            number += 1
            found = f"{wanted}_{number}"
        return found


def _name_in(reference: str) -> str:
    return reference.removeprefix("#/$defs/")


def _mend_earlier_drafts(found: JSON) -> None:
    """Replace keywords of earlier drafts by today's: 3.0 uses them, and so do many documents of 3.1."""
    if is_array(found.get(_TUPLE)):
        found["prefixItems"] = found.pop(_TUPLE)
    if not is_array(found.get("required", [])):  # in earlier drafts, a flag of a single property
        del found["required"]
    for exclusive, bound in _BOUNDS.items():
        if isinstance(flag := found.get(exclusive), bool):
            del found[exclusive]
            if flag and bound in found:
                found[exclusive] = found.pop(bound)


def _is_nullable(schema: JSON) -> bool:
    """Return whether null is allowed, by a schema itself or by one of its parts (`allOf`)."""
    return _says_null(schema) or any(map(_says_null, items_of(schema, "allOf")))


def _says_null(schema: JSON) -> bool:
    kinds, values = schema.get("type"), schema.get("enum")
    # Generators of 3.1 still use the word of 3.0.
    return (
        schema.get("nullable") is True or (is_array(kinds) and "null" in kinds) or (is_array(values) and None in values)
    )


def _or_null(found: JSON) -> JSON:
    """Return the schema that also allows null; a schema that allows everything stays as it is."""
    if found.keys() & _IN_PLACE:
        return {"anyOf": [found, _NULL]}
    kinds, values = found.get("type"), found.get("enum")
    if isinstance(kinds, str) and kinds != "null":
        found["type"] = [kinds, "null"]
    elif is_array(kinds) and "null" not in kinds:
        found["type"] = [*kinds, "null"]
    if is_array(values) and None not in values:
        found["enum"] = [*values, None]
    return found
