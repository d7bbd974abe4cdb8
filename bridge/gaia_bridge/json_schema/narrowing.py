"""Finds a part of a value that does not fit, level by level, where all errors at once would be too many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from gaia_bridge.text.json_types import at_pointer, is_array, is_object

_MAX_ITEMS: Final = 10_000
"""Items of a list that are looked at one by one, each in some microseconds."""


class Judge(Protocol):
    """Says whether a value fits."""

    def is_valid(self, instance: Any) -> bool:
        """Whether it does."""
        ...


class Judges(Protocol):
    """A judge for each part of a schema."""

    def get(self, pointer: str) -> Judge | None:
        """The judge of the part at a pointer; `None` if there is none."""
        ...


class Narrowed:
    """A part of a value that does not fit, and the part of the schema that it does not fit.

    Args:
        schema: The whole schema.
        value: A value that does not fit it.
    """

    def __init__(self, schema: Mapping[str, Any], value: Any) -> None:
        self._schema = schema
        self.part: Any = schema
        self.pointer = "#"
        self.value = value
        self.path: list[str | int] = []

    def step(self, judges: Judges) -> bool:
        """Go on to the first part in it that does not fit; returns whether there is one."""
        for pointer, part, steps, value in self._below():
            judge = judges.get(pointer)
            if judge is not None and not judge.is_valid(value):
                self.pointer, self.part, self.value = pointer, part, value
                self.path += steps
                return True
        return False

    def _below(self) -> Iterator[tuple[str, Any, list[str | int], Any]]:
        part, value = self.part, self.value
        if not is_object(part):
            return
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            yield reference, at_pointer(self._schema, reference), [], value
        branches = part.get("allOf")
        if is_array(branches):
            for index, branch in enumerate(branches):
                yield f"{self.pointer}/allOf/{index}", branch, [], value
        properties, items = part.get("properties"), part.get("items")
        if is_object(properties) and is_object(value):
            for name in properties.keys() & value.keys():
                yield f"{self.pointer}/properties/{_escaped(name)}", properties[name], [name], value[name]
        if is_object(items) and is_array(value):
            before = part.get("prefixItems")
            first = len(before) if is_array(before) else 0
            for index, item in enumerate(value[first:_MAX_ITEMS], first):
                yield f"{self.pointer}/items", items, [index], item


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
