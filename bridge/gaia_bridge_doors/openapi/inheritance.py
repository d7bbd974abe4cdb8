"""Which definitions of an OpenAPI document stand for others too. Pure.

A child refers to its parent (`allOf`); that there are children, the parent says with `discriminator` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from gaia_bridge.json_schema.validation import MAX_PARTS
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.openapi.document import Document

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
        """The definitions that are built on another one, by its reference."""
        found: dict[str, list[str]] = {}
        components = self._document.content.get("components")
        schemas = components.get("schemas") if is_object(components) else None
        for name, schema in schemas.items() if is_object(schemas) else ():
            for parent in items_of(schema, "allOf"):
                if isinstance(reference := parent.get("$ref"), str):
                    found.setdefault(reference, []).append(_reference(name))
        return found

    def has_kinds(self, reference: str, schema: JSON) -> bool:
        """Whether a definition stands for others too: its children, or alternatives that are built on it.

        Args:
            reference: Where it is.
            schema: The definition.
        """
        children = self._children.get(reference, ())
        return "discriminator" in schema or any(item.get("$ref") in children for item in alternatives(schema))

    def kinds(self, reference: str, schema: JSON) -> dict[str, str]:
        """References to all that may stand in the place of a definition, with when each does, where that is said.

        Args:
            reference: Where it is.
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
    """The schemas in a list of schemas."""
    items = schema.get(keyword) if is_object(schema) else None
    yield from filter(is_object, items if is_array(items) else ())


def alternatives(schema: JSON) -> Iterator[JSON]:
    """The schemas of which one is to be chosen."""
    yield from (item for keyword in UNIONS for item in items_of(schema, keyword))


def _reference(name: str) -> str:
    """The reference to a definition by its name."""
    return "#/components/schemas/" + name.replace("~", "~0").replace("/", "~1")
