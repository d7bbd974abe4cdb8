"""JSON Schema: compiled validators for tool arguments and results, and error texts a model can act on. All pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from gaia_bridge.jsontypes import at_pointer, is_array, is_object

__all__ = [
    "SchemaError",
    "SchemaValidator",
    "json_pointer",
    "preview",
    "reference_problem",
    "references",
    "shape_problem",
]

_SHOWN_ERRORS = 5
_SHOWN_VALUE = 80

MAX_DEPTH: Final = 64
"""Levels of a definition: 32 schemas, one inside the other (S-30), each two levels of JSON. More breaks what reads
JSON recursively, in us and in clients."""

MAX_PARTS: Final = 5_000
"""Objects and arrays of one definition (S-30)."""

MAX_REACH: Final = 100_000
"""Schemas that one schema stands for when each reference is replaced by what it leads to. A few hundred bytes can
double that with every line, and there are clients that do replace references (F-037)."""

MAX_EXPLAINED: Final = 20_000
"""Schemas times values whose errors are told one by one: the engine finds all of them before it tells the first, each
in some ten microseconds, and in a list of a million items every one may be wrong in every alternative."""

_DATA: Final = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords that hold values, in which `$ref` is a name like any other."""

_NAMED: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords that hold schemas by names, which may be any."""

_REFERENCES: Final = ("$ref", "$dynamicRef")


class SchemaError(ValueError):
    """A schema that cannot be compiled: not a schema, an unknown dialect, or a reference that leads nowhere."""


class SchemaValidator:
    """A compiled schema.

    References are resolved inside the schema only, never over the network or from files (S-30), and patterns run on
    an engine without catastrophic backtracking.

    Args:
        schema: A JSON Schema of any draft; 2020-12 unless `$schema` says otherwise.

    Raises:
        SchemaError: It does not compile; says why.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        try:
            self._validator = jsonschema_rs.validator_for(dict(schema), offline=True, mask="the value")
        except jsonschema_rs.ValidationError as error:
            raise SchemaError(_problem(error)) from error
        except (ValueError, TypeError, RecursionError) as error:
            message = str(error).partition("\n")[0].strip() or type(error).__name__
            raise SchemaError(message) from error

    @cached_property
    def reach(self) -> int:
        """How many schemas this one stands for; what judging one value may cost at most is in proportion to it."""
        return _reach_of(self._schema)

    def errors(self, value: Any) -> str | None:
        """Say what is wrong with `value`, or return `None` if nothing is.

        Each error is a line with the JSON pointer (RFC 6901), what came, and what was expected; at most five. Of a
        value that is too large for that, one line says that it does not fit.
        """
        try:
            if self._validator.is_valid(value):
                return None
            if _has_more_parts(value, MAX_EXPLAINED // self.reach):
                return "- at (root): it does not fit the schema, and is too large to say where"
            lines = [f"- {_problem(error)}" for error in islice(self._validator.iter_errors(value), _SHOWN_ERRORS + 1)]
        except ValueError as error:  # lone surrogates, which no schema can judge (F-105)
            lines = [f"- at (root): got {preview(value)}; expected JSON: {error}"]
        if len(lines) > _SHOWN_ERRORS:
            lines[_SHOWN_ERRORS:] = ["- and more"]
        return "\n".join(lines)


def json_pointer(path: Sequence[str | int]) -> str:
    """The RFC 6901 pointer to `path`, with the whole document shown as `(root)`."""
    if not path:
        return "(root)"
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def preview(value: Any) -> str:
    """`value` as a reader would recognise it, short enough for an error line."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_VALUE else f"{shown[: _SHOWN_VALUE - 3]}..."


def _problem(error: jsonschema_rs.ValidationError) -> str:
    problem = f"at {json_pointer(error.instance_path)}: got {preview(error.instance)}; {error.message}"
    return " ".join(problem.splitlines())  # names of properties can hold line ends


def shape_problem(value: Any) -> str | None:
    """Why a JSON value cannot be handed around, or `None` if it can: it is too deep or too large, or has a number that
    JSON can write but nobody can read, such as `1e999`. Costs no recursion.
    """
    parts = 0
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return "it has a number that is too large"
        inner: list[Any] = list(item.values()) if is_object(item) else item if is_array(item) else []
        if not inner:
            continue
        parts += 1
        if depth > MAX_DEPTH:
            return f"it is nested deeper than {MAX_DEPTH} levels"
        if parts > MAX_PARTS:
            return f"it has more than {MAX_PARTS:,} objects and arrays"
        waiting.extend((child, depth + 1) for child in inner)
    return None


def reference_problem(schema: Any) -> str | None:
    """Why a schema cannot be understood by itself, or is a bomb; `None` if neither (S-30, F-037).

    Nothing is fetched: a reference leads to a part of the same schema.

    Args:
        schema: A JSON Schema that has no `shape_problem`.
    """
    try:
        reach = _reach(schema, _targets(schema), {})
    except SchemaError as problem:
        return str(problem)
    except RecursionError:
        return "its references lead to references, and so on, without an end in reach"
    return f"with its references replaced, it has more than {MAX_REACH:,} parts" if reach > MAX_REACH else None


def references(schema: Any) -> Iterator[str]:
    """What the references in a schema say, wherever they are.

    Args:
        schema: A JSON Schema that has no `shape_problem`.
    """
    for part in _schemas(schema):
        yield from (part[keyword] for keyword in _REFERENCES if _is_text(part, keyword))


def _reach_of(schema: Any) -> int:
    """How many schemas a schema that compiles stands for, at least one; what cannot be counted counts as too many."""
    try:
        return max(1, _reach(schema, _targets(schema), {}))
    except (SchemaError, RecursionError):
        return MAX_REACH


def _targets(schema: Any) -> dict[int, list[Any]]:
    """What the references in each part of a schema lead to, by the identity of the part.

    Raises:
        SchemaError: One leads to nothing that we know.
    """
    parts = list(_schemas(schema))
    names = {part[key] for part in parts for key in ("$id", "$anchor", "$dynamicAnchor") if _is_text(part, key)}
    targets: dict[int, list[Any]] = {}
    for part in parts:
        for keyword in _REFERENCES:
            if not _is_text(part, keyword):
                continue
            try:
                targets.setdefault(id(part), []).append(_target(schema, part[keyword], names))
            except SchemaError as problem:
                raise SchemaError(f"{keyword} {problem}: {preview(part[keyword])}") from None
    return targets


def _has_more_parts(value: Any, limit: int) -> bool:
    """Whether a JSON value consists of more than so many values. Costs no recursion."""
    seen = 0
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        seen += 1
        waiting.extend(item.values() if is_object(item) else item if is_array(item) else ())
        if seen + len(waiting) > limit:
            return True
    return False


def _is_text(part: Mapping[str, Any], key: str) -> bool:
    return isinstance(part.get(key), str)


def _inner(part: Any) -> list[Any]:
    """What is directly inside of a schema, or of a list of schemas, and may be a schema itself."""
    if is_array(part):
        return part
    found: list[Any] = []
    if is_object(part):
        for key, value in part.items():
            if key in _NAMED and is_object(value):
                found.extend(value.values())
            elif key not in _DATA:
                found.append(value)
    return found


def _schemas(part: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a schema that may be a schema itself."""
    if is_object(part):
        yield part
    for item in _inner(part):
        yield from _schemas(item)


def _target(schema: Any, reference: str, names: Set[str]) -> Any:
    """What a reference leads to; an empty schema where it goes by a name that is there.

    Raises:
        SchemaError: It leads to nothing that we know.
    """
    base, _, fragment = reference.partition("#")
    if base and base not in names:
        raise SchemaError("leads outside of the schema")
    by_name = bool(fragment) and not fragment.startswith("/")
    if by_name and fragment not in names:
        raise SchemaError("leads nowhere")
    target: Any = {} if base or by_name else at_pointer(schema, fragment)
    if target is None:
        raise SchemaError("leads nowhere")
    return target


def _reach(part: Any, targets: Mapping[int, Sequence[Any]], known: dict[int, int]) -> int:
    """How many schemas a part stands for. One that leads back to itself counts as one where it does."""
    if not (is_object(part) or is_array(part)):
        return 0
    if (count := known.get(id(part))) is not None:
        return count
    known[id(part)] = 1  # until it is known; whoever comes here meanwhile was led back
    count = 1 + sum(_reach(item, targets, known) for item in [*_inner(part), *targets.get(id(part), ())])
    known[id(part)] = count
    return count
