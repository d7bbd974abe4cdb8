"""Schemas of an OpenAPI document as JSON Schema 2020-12, each with all that it refers to. Pure.

Version 3.1 is JSON Schema already; what 3.0 says in words of its own (`nullable`, `exclusiveMinimum: true`) is
translated.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

from msgspec import Struct

from gaia_bridge.client.openapi.document import Document, OperationError
from gaia_bridge.json_schema.validation import MAX_DEPTH, MAX_PARTS, references
from gaia_bridge.protocol.json_types import JSON, is_array, is_object

__all__ = ["SchemaReader"]

_SINGLE: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords whose value is a schema."""

_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""

_NAMED: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose value is an object of schemas."""

_DROPPED: Final = frozenset(
    {
        *("$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$schema", "$vocabulary"),
        *("discriminator", "example", "externalDocs", "nullable", "xml"),
    }
)
"""Keywords that are no JSON Schema, mean something in the whole document only, or are said once for the whole tool."""

_TUPLE: Final = "items"
"""The keyword that was a list of schemas before it was one schema."""

_BOUNDS: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

_HOPS: Final = 16
"""References that lead to references, in a row."""

_NULL: Final[JSON] = {"type": "null"}


class _Translated(Struct, frozen=True):
    """One schema, translated."""

    schema: JSON
    parts: int
    """How many schemas are in it."""
    references: frozenset[str]
    """What it refers to, as the document says it."""


class SchemaReader:
    """Reads the schemas of one side of a document. What many operations refer to is translated once.

    Args:
        document: Where they are.
        sent: Whether they are of what is sent, where read-only properties have no place, or of what is received, where
            write-only ones have none.
    """

    def __init__(self, document: Document, *, sent: bool) -> None:
        self._document = document
        self._early = document.early
        self._other_side = "readOnly" if sent else "writeOnly"
        self._names: dict[str, str] = {}
        self._references: dict[str, str] = {}
        self._known: dict[str, _Translated] = {}
        self._parts = 0
        self._found: set[str] = set()

    def read(self, schema: object) -> JSON:
        """A schema, whose references lead to `#/$defs/...`.

        Args:
            schema: As the document has it.

        Raises:
            OperationError: It is none, refers to nothing, or is too large.
        """
        return self._one(schema).schema

    def opened(self, schema: object) -> JSON:
        """The same for a schema whose own keywords are needed: the definition itself where it only refers to one."""
        found = self.read(schema)
        return self.followed(found) if found.keys() == {"$ref"} else found

    def followed(self, schema: JSON) -> JSON:
        """What a schema that was read here refers to; itself where it refers to nothing."""
        for _ in range(_HOPS):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                break
            schema = self._definition(self._references[_name_in(reference)]).schema
        return schema

    def complete(self, schema: JSON) -> JSON:
        """A schema with the definitions that it needs in `$defs`.

        Args:
            schema: Made of schemas that were read here.

        Raises:
            OperationError: One of them is none, refers to nothing, or they are too large together.
        """
        needed: dict[str, JSON] = {}
        parts = 0
        named = (_name_in(reference) for reference in references(schema))
        # Those in keywords that nobody knows were not read, and mean nothing.
        waiting = [self._references[name] for name in named if name in self._references]
        while waiting:
            reference = waiting.pop()
            name = self._names[reference]
            if name in needed:
                continue
            definition = self._definition(reference)
            needed[name] = definition.schema
            waiting += sorted(definition.references)
            parts += definition.parts
            if parts > MAX_PARTS:
                raise OperationError(f"its schemas have more than {MAX_PARTS:,} parts")
        return {**schema, "$defs": dict(sorted(needed.items()))} if needed else schema

    def _definition(self, reference: str) -> _Translated:
        found = self._known.get(reference)
        if found is None:
            found = self._known[reference] = self._one(self._document.target(reference))
        return found

    def _one(self, schema: object) -> _Translated:
        self._parts, self._found = 0, set()
        translated = self._translated(schema, 0)
        return _Translated(translated, self._parts, frozenset(self._found))

    def _translated(self, schema: object, depth: int) -> JSON:
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
            return self._referring(reference, schema, depth)
        if "$ref" in schema:
            raise OperationError("it has a reference that is no text")
        found = {
            key: self._value(key, value, depth)
            for key, value in schema.items()
            if key not in _DROPPED and not key.startswith("x-")
        }
        _mend_earlier_drafts(found)
        if "example" in schema and "examples" not in schema:
            found["examples"] = [schema["example"]]
        if is_object(properties := schema.get("properties")):
            self._leave_out_other_side(found, properties)
        return _of_early(found, schema) if self._early else found

    def _referring(self, reference: str, schema: JSON, depth: int) -> JSON:
        name = self._names.get(reference)
        if name is None:
            self._document.target(reference)
            name = self._names[reference] = self._free_name(reference)
            self._references[name] = reference
        self._found.add(reference)
        found: JSON = {"$ref": f"#/$defs/{name}"}
        if self._early:  # where nothing beside a reference counts
            return found
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return {**self._translated(beside, depth + 1), **found} if beside else found

    def _value(self, key: str, value: Any, depth: int) -> Any:
        if key in _SINGLE and (is_object(value) or isinstance(value, bool)):
            return value if isinstance(value, bool) else self._translated(value, depth + 1)
        if (key in _LISTS or key == _TUPLE) and is_array(value):
            return [self._translated(item, depth + 1) for item in value]
        if key in _NAMED and is_object(value):
            return {name: self._translated(item, depth + 1) for name, item in value.items()}
        return value

    def _leave_out_other_side(self, found: JSON, properties: JSON) -> None:
        """Take away the properties that only the other side has."""
        others = {name for name, item in properties.items() if self._is_of_other_side(item)}
        if not others:
            return
        found["properties"] = {name: item for name, item in found["properties"].items() if name not in others}
        if is_array(required := found.get("required")):
            found["required"] = [name for name in required if isinstance(name, str) and name not in others]

    def _is_of_other_side(self, schema: object) -> bool:
        if not is_object(schema):
            return False
        if isinstance(reference := schema.get("$ref"), str) and self._other_side not in schema:
            schema = self._document.target(reference)
        return is_object(schema) and schema.get(self._other_side) is True

    def _free_name(self, reference: str) -> str:
        """A name for what a reference leads to: its last word, where no other has it."""
        last = unquote(reference.rpartition("/")[2])
        wanted = re.sub(r"[^A-Za-z0-9_.-]", "_", last) or "schema"
        found, number = wanted, 1
        while found in self._references:
            number += 1
            found = f"{wanted}_{number}"
        return found


def _name_in(reference: str) -> str:
    return reference.removeprefix("#/$defs/")


def _mend_earlier_drafts(found: JSON) -> None:
    """Say as the draft of today does what earlier ones said otherwise: 3.0 is made of them, and many a 3.1 as well."""
    if is_array(found.get(_TUPLE)):
        found["prefixItems"] = found.pop(_TUPLE)
    if not is_array(found.get("required", [])):  # it was said of the single property
        del found["required"]
    for exclusive, bound in _BOUNDS.items():
        if isinstance(flag := found.get(exclusive), bool):
            del found[exclusive]
            if flag and bound in found:
                found[exclusive] = found.pop(bound)


def _of_early(found: JSON, schema: JSON) -> JSON:
    """What 3.0 says in words of its own, in those of JSON Schema."""
    if schema.get("nullable") is not True:
        return found
    if isinstance(kind := found.get("type"), str):
        found["type"] = [kind, "null"]
        if is_array(values := found.get("enum")) and None not in values:
            found["enum"] = [*values, None]
        return found
    return {"anyOf": [found, _NULL]} if found.keys() & {"allOf", "anyOf", "oneOf"} else found
