"""The specification's schema of each revision as a judge: what it says of a value, and which fields of it it knows.

In no revision does a definition close its objects: a member that it does not name is valid there. Unions are closed, by
the constants that tell their members apart: a kind of content, a method.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["REVISIONS", "definitions", "fields", "known", "problems", "taken_out"]

_FOLDER: Final = Path(__file__).parents[1] / "schemas"
REVISIONS: Final = tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))
"""Oldest first."""

Place = tuple[str | int, ...]


@cache
def definitions(revision: str) -> dict[str, JSON]:
    """The definitions of a revision's schema, by name."""
    found: dict[str, JSON] = json.loads((_FOLDER / f"{revision}.json").read_text("utf-8"))["$defs"]
    return found


def problems(revision: str, name: str, value: object) -> list[str]:
    """What a revision's definition says against a value."""
    found = _validator(revision, json.dumps({"$ref": f"#/$defs/{name}"})).iter_errors(value)
    return [f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in found]


def fields(revision: str, name: str) -> frozenset[str]:
    """The members that a revision's definition names."""
    return frozenset(definitions(revision)[name].get("properties", ()))


def known(revision: str, name: str, value: Any) -> Any:
    """A value with those members alone that a revision's definition names."""
    return _known(revision, definitions(revision)[name], value)


def taken_out(revision: str, name: str, value: Any) -> list[Place]:
    """Where a value has a member that an earlier revision has and this one has not any more."""
    return list(_taken_out(revision, {"$ref": f"#/$defs/{name}"}, value, ()))


@cache
def _validator(revision: str, schema: str) -> Any:
    return jsonschema_rs.Draft202012Validator({**json.loads(schema), "$defs": definitions(revision)})


def _resolved(revision: str, schema: JSON, value: Any) -> tuple[str, JSON]:
    """The schema behind references and choices that is meant for a value, and its name, if it has one."""
    name = ""
    while True:
        if (reference := schema.get("$ref")) is not None:
            name = reference.removeprefix("#/$defs/")
            schema = definitions(revision)[name]
        elif choices := schema.get("anyOf"):
            fitting = [item for item in choices if _validator(revision, json.dumps(item)).is_valid(value)]
            if not fitting:
                return name, {}
            schema = fitting[0]
        else:
            return name, schema


def _parts(schema: JSON, value: Any) -> Iterator[tuple[str | int, JSON, Any]]:
    """What is in a value, with its place and schema."""
    if is_array(value):
        for number, item in enumerate(value):
            yield number, schema.get("items") or {}, item
    elif is_object(value):
        told, more = schema.get("properties", {}), schema.get("additionalProperties")
        for key, item in value.items():
            yield key, told.get(key) or (more if is_object(more) else {}), item


def _known(revision: str, schema: JSON, value: Any) -> Any:
    _, schema = _resolved(revision, schema, value)
    if is_array(value):
        return [_known(revision, inner, item) for _, inner, item in _parts(schema, value)]
    if not is_object(value) or not schema.get("properties") or schema.get("additionalProperties") == {}:
        return value
    parts = _parts(schema, value)
    return {key: _known(revision, inner, item) for key, inner, item in parts if key in schema["properties"]}


def _taken_out(revision: str, schema: JSON, value: Any, place: Place) -> Iterator[Place]:
    name, schema = _resolved(revision, schema, value)
    if name and is_object(value):
        earlier = [older for older in REVISIONS[: REVISIONS.index(revision)] if name in definitions(older)]
        gone = frozenset[str]().union(*(fields(older, name) for older in earlier)) - fields(revision, name)
        yield from ((*place, key) for key in value if key in gone)
    for key, inner, item in _parts(schema, value):
        if inner:
            yield from _taken_out(revision, inner, item, (*place, key))
