"""The parts of a JSON Schema, and the targets of its references. Nothing is fetched, nothing is validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urljoin

from gaia_bridge.text.json_types import at_pointer, is_array, is_object

_SHOWN_VALUE: Final = 80
_DATA: Final = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords that hold data, in which `$ref` is a name like any other."""
SINGLE: Final = frozenset(
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
"""Keywords that hold one schema."""
LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas."""
NAMED: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords that hold schemas by arbitrary names."""
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_RECURSIVE: Final = "$recursiveAnchor"
"""The key, among names of parts, of the targets of `$recursiveRef`."""


class SchemaError(ValueError):
    """A schema that cannot be compiled: not a schema, an unknown dialect, or a reference that leads nowhere.

    Args:
        path: The place in the schema, if one keyword is at fault.
    """

    def __init__(self, problem: str, path: Sequence[str | int] = ()) -> None:
        super().__init__(problem)
        self.path = path


def preview(value: Any) -> str:
    """Show a value so that a reader recognises it, short enough for an error line."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_VALUE else f"{shown[: _SHOWN_VALUE - 3]}..."


def inner_parts(part: Any) -> list[Any]:
    """Return the values directly inside of a schema, or of a list of schemas, that may be schemas themselves."""
    if is_array(part):
        return part
    parts: list[Any] = []
    if is_object(part):
        for key, value in part.items():
            if key in NAMED and is_object(value):
                parts.extend(value.values())
            elif key not in _DATA:
                parts.append(value)
    return parts


def schemas_in(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object in a schema that may be a schema itself."""
    if is_object(part):
        yield part
    for item in inner_parts(part):
        yield from schemas_in(item)


def references(schema: Any) -> Iterator[str]:
    """Yield the texts of all references in a schema."""
    for part in schemas_in(schema):
        yield from (part[keyword] for keyword in REFERENCES if _is_text(part, keyword))


class References:
    """Resolves the references of one schema, all inside the same schema.

    Args:
        brought: Beginnings of addresses of schemas that the validator has built in; these count as empty schemas.
    """

    def __init__(self, schema: Any, brought: tuple[str, ...] = ()) -> None:
        self._brought = brought
        self._base_of: dict[int, str] = {}
        self._resources: dict[str, Any] = {"": schema}
        self._named: dict[str, list[Any]] = {}
        self._targets_of: dict[int, Sequence[Any]] = {}
        is_old = is_object(schema) and "draft-04" in str(schema.get("$schema"))
        self._identifier = "id" if is_old else "$id"
        self._take(schema, "")

    def of(self, part: Any) -> Sequence[Any]:
        """Return the targets of the references of a part; several, where several parts have the same name.

        Raises:
            SchemaError: A reference has no known target.
        """
        targets = self._targets_of.get(id(part))
        if targets is None:
            targets = self._targets_of[id(part)] = [
                target
                for keyword in REFERENCES
                if is_object(part) and _is_text(part, keyword)
                for target in self._targets(part, keyword)
            ]
        return targets

    def _take(self, part: Any, base: str) -> None:
        """Record the names of a part and of its inner parts, and the base address of its references."""
        if is_object(part):
            if _is_text(part, self._identifier):
                base = urljoin(base, part[self._identifier]).partition("#")[0]
                self._resources.setdefault(base, part)
            for name in (part[key] for key in ("$id", "id", "$anchor", "$dynamicAnchor") if _is_text(part, key)):
                self._named.setdefault(name.removeprefix("#"), []).append(part)
            if part.get("$recursiveAnchor") is True:
                self._named.setdefault(_RECURSIVE, []).append(part)
            self._base_of[id(part)] = base
        for item in inner_parts(part):
            self._take(item, base)

    def _targets(self, part: Mapping[str, Any], keyword: str) -> Sequence[Any]:
        reference: str = part[keyword]
        base, fragment = self._base_of.get(id(part), ""), reference.removeprefix("#")
        if not reference.startswith("#"):
            base, _, fragment = urljoin(base, reference).partition("#")
        if base not in self._resources and base.startswith(self._brought):
            return [{}]
        if base not in self._resources:
            raise SchemaError(f"{keyword} leads outside of the schema: {preview(reference)}")
        if fragment and not fragment.startswith("/"):
            targets = self._named.get(fragment, [])
        else:
            targets = [at_pointer(self._resources[base], fragment)]
        if not targets or any(target is None for target in targets):
            raise SchemaError(f"{keyword} leads nowhere: {preview(reference)}")
        return [*targets, *self._named.get(_RECURSIVE, ())] if keyword == "$recursiveRef" else targets


def _is_text(part: Mapping[str, Any], key: str) -> bool:
    return isinstance(part.get(key), str)
