"""Estimates the cost of validating a value against a schema, before the engine starts.

The engine holds the interpreter for as long as it works, on whichever thread, and cannot be stopped. It caches its
verdicts where a schema refers to itself, so that a verdict costs no more than schemas times values; but the search for
errors visits every alternative, without a cache, and copies the value for each error.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.json_schema.parts import REFERENCES, References, SchemaError, inner_parts, schemas_in
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import is_array, is_object

MAX_REACH: Final = 100_000
"""The most schemas in one schema when each reference is replaced by its target. In a few hundred bytes, every line can
double that number, and some clients do replace references."""
MAX_VISITS: Final = 500_000
"""The most schemas times values in one verdict: each takes the engine 40 to 80 ns, with the reading of the values, so
that it is done within 40 ms."""
MAX_EXPLAINED: Final = 2_000
"""The most schemas times values whose errors are listed: the engine finds all errors before it yields the first, each
in some ten microseconds."""
_MAX_WEIGHED: Final = 40_000
"""The most values that are counted one by one, in half a microsecond each, if the size of their JSON is no proof that
they are few."""
_FEW: Final = 1_000
"""The most values that are counted one by one before the value is written as JSON, which long texts make costly."""
_MAX_STATES: Final = 500
"""The most combinations of schemas that apply to one value together; beyond, all schemas are assumed to."""
_MAX_MEETING: Final = 1_000
"""The most schemas that apply to one value together, likewise."""
_MAX_WALKED: Final = 10_000
"""The most pairs of schema and value that are visited to calculate their cost, each in two microseconds."""
_MAX_WEIGHT: Final = 20_000
"""The most values, and units of 20 characters, of a value whose errors are listed as a whole."""
_TEXT: Final = 20
"""Characters that cost as much as a visit: a pattern reads one in 2 ns."""
_COPIED: Final = 200
"""Characters whose copy costs as much as an error."""
_MEMORY: Final = 16
"""The fewest visits of a verdict that the engine caches, where a schema refers to others."""
_READING: Final = (
    *("pattern", "patternProperties", "format", "contentEncoding", "contentMediaType"),
    *("minLength", "maxLength", "uniqueItems"),
)
"""Keywords that read a text character by character. For all others, the cost of a text is independent of its length."""
_UNEVALUATED: Final = 3
"""The number of the engine's visits to the same schemas for `unevaluated...`, where it has no cache."""
_UNIQUE: Final = 15
"""Visits that cost as much as comparing one item with all others."""
_WORDS_A_VISIT: Final = 2
"""Entries of `enum`, `required` and the like that cost as much as a visit."""
_LOOKING: Final = 1_000
"""Visits that cost as much as a pattern with assertions or references on one text, under its limit of steps."""
_META: Final = ("http://json-schema.org/", "https://json-schema.org/")
"""Beginnings of the addresses of metaschemas, which the engine has built in."""
_AROUND: Final = re.compile(r"\(\?[=!<>]|\\[1-9k]")
"""Parts of patterns that only a backtracking engine can match."""
_SCALARS: Final = (int, float, type(None))
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_BY_NAMES: Final = ("dependentSchemas", "dependencies")
_OF_MEMBERS: Final = ("additionalProperties", "unevaluatedProperties")
_OF_ITEMS: Final = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_MARKING: Final = ("unevaluatedProperties", "unevaluatedItems")
_WORDS: Final = ("enum", "required", "dependentRequired", "dependencies")


class _TooMuchError(Exception):
    """The calculation of a cost exceeds its own bounds."""


class _AppliedSchemas(Struct, frozen=True):
    """The inner schemas that one schema applies, by the values that they apply to, and its own costs."""

    in_place: Sequence[Any]
    by_name: Mapping[str, Any]
    to_members: Sequence[Any]
    to_names: Sequence[Any]
    to_items: Sequence[Any]
    times: int
    words: int
    looks_around: int
    unique: bool
    reads: bool


def reach(part: Any, leads: References, counts: dict[int, int]) -> int:
    """Count the schemas in a part with its references replaced. A reference back to an outer part counts as one.

    Raises:
        SchemaError: A reference has no known target.
        RecursionError: References lead to references, and so on.
    """
    if not (is_object(part) or is_array(part)):
        return 0
    if (schemas := counts.get(id(part))) is not None:
        return schemas
    counts[id(part)] = 1  # until the count is known: a visit meanwhile is a reference back to this part
    schemas = 1 + sum(reach(item, leads, counts) for item in (*inner_parts(part), *leads.of(part)))
    counts[id(part)] = schemas
    return schemas


class SchemaCost:
    """Estimates the costs of one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._leads = References(schema, _META)
        self._applied: dict[int, _AppliedSchemas] = {}

    @cached_property
    def reach(self) -> int:
        """The number of schemas with references replaced, at least one; `MAX_REACH` if they cannot be counted."""
        try:
            return min(MAX_REACH, max(1, reach(self._schema, self._leads, {})))
        except (SchemaError, RecursionError):
            return MAX_REACH

    @cached_property
    def _parts(self) -> Sequence[Mapping[str, Any]]:
        return list(schemas_in(self._schema))

    @cached_property
    def _most(self) -> int:
        """The most visits for each value, without the length of texts; 0 if there is no bound for every value."""
        applied = [_applied(part, ()) for part in self._parts]
        if any(part.times > 1 for part in applied):
            return 0
        dearest = max(
            _LOOKING if any(part.looks_around for part in applied) else 1,
            _UNIQUE if any(part.unique for part in applied) else 1,
        )
        try:
            return dearest * self._meeting()
        except (_TooMuchError, SchemaError, RecursionError):
            forgetful = any(key in part for part in self._parts for key in REFERENCES)
            return dearest * (_MEMORY if forgetful else 1) * (self.reach + sum(part.words for part in applied))

    @cached_property
    def _reads_texts(self) -> bool:
        return any(_applied(part, ()).reads for part in self._parts)

    def can_be_judged(self, value: Any) -> bool:
        """Whether a verdict on a value is quick enough for a process whose other work waits meanwhile."""
        if self._most:
            limit = MAX_VISITS // self._most
            if _weighs_less(value, min(limit, _FEW), texts=self._reads_texts):
                return True
            if _weight_in_json(value, texts=self._reads_texts) <= limit:
                return True
            if _weighs_less(value, min(limit, _MAX_WEIGHED), texts=self._reads_texts):
                return True
        return self._costs(value, _visits, MAX_VISITS)

    def _meeting(self) -> int:
        """Calculate the highest cost of the schemas that apply to one value together, of all combinations there are.

        Each schema counts as often as it is applied, so that the result does not depend on the engine's cache.
        """
        seen: set[frozenset[tuple[int, int]]] = set()
        waiting: list[list[Any]] = [[self._schema]]
        dearest = 1
        while waiting:
            meeting = self._in_place_of(waiting.pop())
            key = frozenset(Counter(map(id, meeting)).items())
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > _MAX_STATES:
                raise _TooMuchError
            applied = [self._applied_by(part) for part in meeting]
            dearest = max(dearest, sum(1 + part.words // _WORDS_A_VISIT for part in applied))
            waiting += _meeting_below(applied)
        return dearest

    def _in_place_of(self, schemas: Sequence[Any]) -> list[Mapping[str, Any]]:
        """Return schemas together with all schemas that they apply to the same value."""
        schemas_in_place: list[Mapping[str, Any]] = []
        waiting = list(schemas)
        while waiting:
            part = waiting.pop()
            if is_object(part):
                schemas_in_place.append(part)
                waiting += self._applied_by(part).in_place
            if len(schemas_in_place) > _MAX_MEETING:
                raise _TooMuchError
        return schemas_in_place

    def can_be_explained(self, value: Any, part: Any = None) -> bool:
        """Whether the search for every error of a value is quick enough for a process whose other work waits.

        Args:
            part: The part of the schema to validate against, if not the whole schema.
        """
        if not _weighs_less(value, _MAX_WEIGHT):
            return False
        sizes: dict[int, int] = {}

        def own(applied: _AppliedSchemas, item: Any) -> int:
            return (1 + applied.words) * (1 + _size(item, sizes) // _COPIED)

        return self._costs(value, own, MAX_EXPLAINED, part)

    def _costs(self, value: Any, own: Callable[[_AppliedSchemas, Any], int], limit: int, part: Any = None) -> bool:
        """Whether the cost of a schema on a value is within a limit, where every path to each part counts."""
        costs: dict[tuple[int, int], int] = {}
        walked = count()

        def cost(part: Any, item: Any) -> int:
            if next(walked) >= _MAX_WALKED:
                raise _TooMuchError
            if not is_object(part):
                return 1
            key = (id(part), id(item))
            if (visits := costs.get(key)) is not None:
                return visits
            costs[key] = limit + 1  # until the cost is known: a loop of schemas on the same value has no bound
            applied = self._applied_by(part)
            inner = sum(cost(schema, item) for schema in applied.in_place)
            inner += sum(cost(schema, below) for schema, below in _below(applied, item))
            visits = costs[key] = own(applied, item) + applied.times * inner
            if visits > limit:
                raise _TooMuchError
            return visits

        try:
            return cost(self._schema if part is None else part, value) <= limit
        except (_TooMuchError, SchemaError, RecursionError):
            return False

    def _applied_by(self, part: Mapping[str, Any]) -> _AppliedSchemas:
        applied = self._applied.get(id(part))
        if applied is None:
            applied = self._applied[id(part)] = _applied(part, self._leads.of(part))
        return applied


def _meeting_below(applied: Sequence[_AppliedSchemas]) -> Iterator[list[Any]]:
    """Yield the combinations of schemas that apply to the inner values of a value, from those that apply to it."""
    members = [schema for part in applied for schema in part.to_members]
    for name in {name for part in applied for name in part.by_name}:
        yield [*members, *(part.by_name[name] for part in applied if name in part.by_name)]
    yield members
    yield [schema for part in applied for schema in part.to_names]
    yield [schema for part in applied for schema in part.to_items]


def _applied(part: Mapping[str, Any], leads: Sequence[Any]) -> _AppliedSchemas:
    properties, patterns, pattern = (part.get(key) for key in ("properties", "patternProperties", "pattern"))
    patterned: Mapping[str, Any] = patterns if is_object(patterns) else {}
    texts = [*patterned, pattern] if isinstance(pattern, str) else list(patterned)
    return _AppliedSchemas(
        in_place=[*leads, *_held(part, _IN_PLACE)],
        by_name=properties if is_object(properties) else {},
        to_members=[*patterned.values(), *_held(part, _OF_MEMBERS)],
        to_names=_held(part, ("propertyNames",)),
        to_items=_held(part, _OF_ITEMS),
        times=_UNEVALUATED if any(key in part for key in _MARKING) else 1,
        words=sum(len(part[key]) for key in _WORDS if is_array(part.get(key)) or is_object(part.get(key))),
        looks_around=sum(_AROUND.search(text) is not None for text in texts),
        unique=part.get("uniqueItems") is True,
        reads=any(key in part for key in _READING),
    )


def _held(part: Mapping[str, Any], keywords: Sequence[str]) -> list[Any]:
    """Return the schemas in some keywords, each with one schema, a list of them, or schemas by name."""
    schemas: list[Any] = []
    for keyword in keywords:
        held = part.get(keyword)
        if is_array(held):
            schemas += held
        elif is_object(held):
            schemas += held.values() if keyword in _BY_NAMES else [held]
    return schemas


def _below(part: _AppliedSchemas, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each schema that applies to an inner value of a value, and that inner value."""
    if is_object(value):
        for name, item in value.items():
            if name in part.by_name:
                yield part.by_name[name], item
            for schema in part.to_members:
                yield schema, item
            for schema in part.to_names:
                yield schema, name
    elif is_array(value):
        for schema in part.to_items:
            for item in value:
                yield schema, item


def _visits(part: _AppliedSchemas, value: Any) -> int:
    """Calculate the cost of one schema on one value, without its inner schemas."""
    visits = 1 + part.words // _WORDS_A_VISIT
    if isinstance(value, str):
        return visits + (len(value) // _TEXT if part.reads else 0) + part.looks_around * _LOOKING
    if is_object(value):
        return visits + len(value) * (1 + part.looks_around * _LOOKING)
    return visits + len(value) * _UNIQUE if part.unique and is_array(value) else visits


def _weight_in_json(value: Any, *, texts: bool) -> float:
    """Return an upper bound of the values in a JSON value and, if they cost, its units of 20 characters; quickly."""
    try:
        written = to_json(value)
    except ValueError:  # too deep, or with a lone surrogate
        return math.inf
    return 1 + sum(map(written.count, (b",", b"[", b"{"))) + (len(written) // _TEXT if texts else 0)


def _weighs_less(value: Any, limit: int, *, texts: bool = True) -> bool:
    """Whether a JSON value has no more than `limit` values and, if they cost, units of 20 characters. No recursion."""
    weight = 1
    waiting: list[Any] = [value]
    while waiting and weight <= limit:
        item = waiting.pop()
        if is_object(item):
            weight += 2 * len(item) + (sum(map(len, map(str, item))) // _TEXT if texts else 0)
            waiting.extend(item.values())
        elif is_array(item):
            weight += len(item)
            if weight <= limit:
                waiting.extend(below for below in item if not isinstance(below, _SCALARS))
        elif texts and isinstance(item, str):
            weight += len(item) // _TEXT
    return weight <= limit


def _size(value: Any, sizes: dict[int, int]) -> int:
    if isinstance(value, str):
        return len(value)
    if not (is_object(value) or is_array(value)):
        return 1
    if (size := sizes.get(id(value))) is None:
        items = value.values() if is_object(value) else value
        size = sizes[id(value)] = len(value) + sum(_size(item, sizes) for item in items)
    return size
