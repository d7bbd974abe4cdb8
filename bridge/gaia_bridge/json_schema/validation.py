"""JSON Schema: compiled validators for tool arguments and results, and error texts a model can act on. All pure."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

from gaia_bridge.json_schema.cost import MAX_REACH, SchemaCost, reach
from gaia_bridge.json_schema.parts import NAMED, References, SchemaError, preview, schemas_in
from gaia_bridge.json_schema.plain import PlainSchema
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, at_pointer, is_array, is_object, json_pointer
from gaia_bridge.text.likeness import did_you_mean_each

if TYPE_CHECKING:
    import jsonschema_rs

_SHOWN_ERRORS = 5
MAX_DEPTH: Final = 64
"""The most levels of a definition: 32 nested schemas, each two levels of JSON. More breaks code that reads JSON
recursively, in us and in clients."""
MAX_PARTS: Final = 5_000
"""The most objects and arrays of one definition."""
_MAX_DROPPED: Final = 100
"""The most invalid keywords dropped from one schema: with more, little of its meaning would be left."""
_MAX_COMPILED: Final = 20
"""The most compilations of one schema: after each, all keywords are dropped that its metaschema refuses. The keywords
that only the compiler refuses go one by one: patterns with lone surrogates, and some of the oldest drafts."""
_STRICTER_WITHOUT: Final = frozenset({"if", "not", "oneOf"})
"""Keywords that may refuse more when a part of them is dropped; they are dropped whole."""
_MAX_STEPS: Final = 10_000
"""The most steps of a pattern with assertions or references on one text; honest ones need a few per character."""
_MAX_NARROWED: Final = 6
"""The most steps into a value whose errors are too many to list, each with verdicts on its inner values; two or three
lead to an argument, or to an item of a list."""
_UNJUDGED: Final = "- at (root): it is too large or too nested to be held against the schema"
_UNEXPLAINED: Final = "- at {}: it does not fit the schema, and is too large or too nested to say where"
_MAX_ITEMS: Final = 10_000
"""The most items of a list that are checked one by one, each in some microseconds."""
logger = logging.getLogger(__name__)


@cache
def _options() -> dict[str, Any]:
    import jsonschema_rs  # 8 MiB

    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_STEPS)
    return {"offline": True, "mask": "the value", "pattern_options": options}


class SchemaValidator:
    """A compiled schema.

    References are resolved inside the schema only, never over the network or from files, and patterns run on
    an engine without catastrophic backtracking.

    Args:
        schema: A JSON Schema of any draft; 2020-12 unless `$schema` says otherwise.

    Raises:
        SchemaError: The schema does not compile; the message has the reason.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._plain = PlainSchema.of(schema)
        if self._plain is None:
            self._validator  # noqa: B018 - compiled now, to say what is wrong with it

    @classmethod
    def tolerant(cls, schema: Mapping[str, Any]) -> Self:
        """Compile a schema without its invalid keywords, such as a `pattern` that is no regular expression.

        The rest of the schema is checked; the resulting `schema` allows every value that the original was to allow.

        Raises:
            SchemaError: The schema does not compile for another reason, has more than a hundred invalid keywords, or
                more than twenty that only the compiler refuses.
        """
        dropped = 0
        for _ in range(_MAX_COMPILED):
            try:
                return cls(schema)
            except SchemaError as error:
                if not error.path:
                    raise
                invalid, before = _invalid_keywords(schema) or [tuple(error.path)], schema
                for path in invalid:
                    with suppress(LookupError, TypeError):  # part of another, which is gone; or 7 and 007
                        schema = _without(schema, path)
                if schema is before:
                    raise
            dropped += len(invalid)
            if dropped > _MAX_DROPPED:
                raise SchemaError(f"more than {_MAX_DROPPED} of its keywords are invalid")
        raise SchemaError("too many of its keywords are invalid")

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator:
        """The engine's validator, which plain values of plain schemas do not need."""
        import jsonschema_rs

        try:
            return jsonschema_rs.validator_for(dict(self.schema), **_options())
        except jsonschema_rs.ValidationError as error:
            raise SchemaError(_problem(error), error.instance_path) from error
        except (ValueError, TypeError, RecursionError) as error:
            message = str(error).partition("\n")[0].strip() or type(error).__name__
            raise SchemaError(message) from error

    @cached_property
    def _cost(self) -> SchemaCost:
        return SchemaCost(self.schema)

    def errors(self, value: Any, unjudged: str | None = _UNJUDGED) -> str | None:
        """List the errors of a value; return `None` if it is valid.

        Each error is a line with the JSON pointer (RFC 6901), the value there, and the expectation; at most five lines.
        For a value that is too large or too nested for that, one line states that it does not fit. This takes some
        hundredths of a second at most, because the engine blocks all other threads meanwhile.

        Args:
            unjudged: The result for a value that cannot be validated in that time.
        """
        if self._plain is not None and self._plain.fits(value):
            return None
        try:
            if not self._cost.can_be_judged(value):
                return unjudged
            if self._validator.is_valid(value):
                return None
            lines = self._explained(value)
        except ValueError as error:  # lone surrogates, which no schema can judge
            lines = [f"- at (root): got {preview(value)}; expected JSON: {error}"]
        except RuntimeError:  # the engine gave up: schemas that refer to themselves by a dynamic reference
            return unjudged
        if len(lines) > _SHOWN_ERRORS:
            lines[_SHOWN_ERRORS:] = ["- and more"]
        return "\n".join(lines)

    def _explained(self, value: Any) -> list[str]:
        """List the errors of an invalid value; of a large value, those of the first part that does not fit."""
        narrowed = _Misfit(self.schema, value)
        for _ in range(_MAX_NARROWED):
            if self._cost.can_be_explained(narrowed.value, narrowed.part):
                break
            if not narrowed.step(self._parts):
                return [_UNEXPLAINED.format(json_pointer(narrowed.path))]
        else:
            return [_UNEXPLAINED.format(json_pointer(narrowed.path))]
        validator = self._parts[narrowed.pointer] if narrowed.pointer != "#" else self._validator
        errors = islice(validator.iter_errors(narrowed.value), _SHOWN_ERRORS + 1)
        return [f"- {_problem(error, narrowed.path, self._hint(error, narrowed.part))}" for error in errors]

    def _hint(self, error: jsonschema_rs.ValidationError, part: Any) -> str:
        """Return a hint at the properties for which others came, if the error is about their names.

        Args:
            error: The error.
            part: The part of the schema that the value was held against.
        """
        place, came = json_pointer(error.schema_path[:-1]), error.instance
        schema = at_pointer(part, place) or at_pointer(self.schema, place)  # behind a reference, from the whole schema
        if not is_object(schema) or not is_object(came) or not is_object(properties := schema.get("properties")):
            return ""
        if missing := getattr(error.kind, "property", None):
            if schema.get("additionalProperties") is False:  # another error is about the unknown names
                return ""
            return did_you_mean_each((name for name in came if name not in properties), [str(missing)])
        unknown: list[str] = getattr(error.kind, "unexpected", [])
        return did_you_mean_each(unknown, (name for name in properties if name not in came))

    @cached_property
    def _parts(self) -> jsonschema_rs.ValidatorMap:
        """A validator for every part of the schema, by its pointer."""
        import jsonschema_rs

        return jsonschema_rs.validator_map_for(dict(self.schema), **_options())


def _problem(error: jsonschema_rs.ValidationError, above: Sequence[str | int] = (), hint: str = "") -> str:
    problem = f"at {json_pointer([*above, *error.instance_path])}: got {preview(error.instance)}; {error.message}"
    return " ".join((f"{problem}; {hint}" if hint else problem).splitlines())  # names can hold line ends


def _invalid_keywords(schema: Mapping[str, Any]) -> Collection[tuple[str | int, ...]]:
    """Return the places of keywords that the metaschema refuses, and of patterns that do not compile.

    There are none if the engine has no metaschema under the name in `$schema`.
    """
    import jsonschema_rs

    dialect = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    reference = {"$schema": dialect, "$ref": dialect}
    try:
        metaschema = jsonschema_rs.validator_for(reference, validate_formats=True, **_options())
    except ValueError:
        return ()
    kinds = jsonschema_rs.ValidationErrorKind
    paths: dict[tuple[str | int, ...], None] = {}
    for error in metaschema.iter_errors(schema):
        path = tuple(error.instance_path)
        value: Any = error.instance
        if path[-1:] == ("patternProperties",) and isinstance(error.kind, kinds.Format | kinds.PropertyNames):
            names = value if is_object(value) else (value,)
            paths |= {(*path, name): None for name in names if not _is_pattern(name, dialect)}
        elif not isinstance(error.kind, kinds.Format) or (path[-1] == "pattern" and not _is_pattern(value, dialect)):
            paths[path] = None
    return paths


def _is_pattern(text: str, dialect: str) -> bool:
    """Whether the engine compiles a pattern: in new dialects, it accepts more than the format `regex`."""
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"$schema": dialect, "pattern": text}, **_options())
    except jsonschema_rs.ValidationError:
        return False
    return True


def _without(schema: Mapping[str, Any], path: Sequence[str | int]) -> Mapping[str, Any]:
    """Remove the keyword at a path of the engine's from a copy of a schema."""
    keys: list[Any] = []
    part: Any = schema
    for step in path:
        key: Any = step
        if is_object(part) and isinstance(step, int):  # it turns `+07` into a number, which is the name of a property
            key = next((name for name in part if name.lstrip("+0") == str(step).lstrip("0")), step)
        keys.append(key)
        part = part[key]
        if key in _STRICTER_WITHOUT and keys[-2:-1] != ["properties"]:
            break
    while isinstance(keys[-1], int):  # of an `anyOf`, or of `required`, no single item
        keys.pop()
    without: dict[Any, Any] = dict(schema)
    inner = without
    for key in keys[:-1]:
        inner[key] = copy(inner[key])
        inner = inner[key]
    # The name of an invalid property stays, with a schema that accepts anything.
    if keys[-2:-1] and keys[-2] in NAMED and not is_object(inner[keys[-1]]):
        inner[keys[-1]] = {}
    else:
        del inner[keys[-1]]
    return without


def shape_problem(value: Any) -> str | None:
    """Explain why a JSON value cannot be processed safely; return `None` if it can. It is too deep or too large, or has
    a number such as `1e999`, which is valid JSON but has no finite value in Python. Does not recurse.
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
    """Explain why a schema has an invalid reference, or grows too large by its references; return `None` if neither.

    Nothing is fetched: a reference leads to a part of the same schema.

    Args:
        schema: A JSON Schema that has no `shape_problem`.
    """
    leads = References(schema)
    try:
        for part in schemas_in(schema):
            leads.of(part)
        parts = reach(schema, leads, {})
    except SchemaError as problem:
        return str(problem)
    except RecursionError:
        return "its references lead to references, and so on, without an end in reach"
    return f"with its references replaced, it has more than {MAX_REACH:,} parts" if parts > MAX_REACH else None


class _Misfit:
    """A part of a value that does not fit, and the part of the schema that it does not fit."""

    def __init__(self, schema: Mapping[str, Any], value: Any) -> None:
        self._schema = schema
        self.part: Any = schema
        self.pointer = "#"
        self.value = value
        self.path: list[str | int] = []

    def step(self, validators: jsonschema_rs.ValidatorMap) -> bool:
        """Move to the first inner part that does not fit; return whether there is one."""
        for pointer, part, steps, value in self._below():
            validator = validators.get(pointer)
            if validator is not None and not validator.is_valid(value):
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
                yield f"{self.pointer}/properties{json_pointer([name])}", properties[name], [name], value[name]
        if is_object(items) and is_array(value):
            before = part.get("prefixItems")
            first = len(before) if is_array(before) else 0
            for index, item in enumerate(value[first:_MAX_ITEMS], first):
                yield f"{self.pointer}/items", items, [index], item


class OutputSchemas:
    """The output schemas of one server's tools, each compiled when its tool first answers. Any thread may ask."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._promises: dict[str, _Promise] = {}

    def replace(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """Replace the output schemas by those of a new list of tools; unchanged ones stay compiled."""
        old, new = self._promises, dict[str, _Promise]()
        for tool in tools:
            name, schema = tool.get("name"), tool.get("outputSchema")
            if isinstance(name, str) and is_object(schema):
                promise = old.get(name)
                if promise is None or promise.schema != schema:
                    promise = _Promise(f"{self._server}: tool {name!r}", schema)
                new[name] = promise
        self._promises = new

    def problem(self, tool: str, result: Mapping[str, Any]) -> str | None:
        """List how a result violates its tool's output schema, as `errors` does; return `None` if it does not.

        The schema does not apply to a failure, nor to a round that asks for input (2026-07-28). Absent structured
        content is accepted, too: a client that needs it will complain, and others use the text.
        """
        promise, content = self._promises.get(tool), result.get("structuredContent")
        if promise is None or content is None or result.get("isError") is True:
            return None
        if result.get("resultType", "complete") != "complete":
            return None
        return promise.problem(content)


class _Promise:
    """One tool's output schema."""

    def __init__(self, whose: str, schema: JSON) -> None:
        self.schema = schema
        self._whose = whose

    def problem(self, content: Any) -> str | None:
        """List violations of the schema by structured content; `None` if there are none or a verdict costs too much."""
        validator = self._validator
        # The check is a courtesy to the client: content that cannot be judged is passed on unchanged.
        return None if validator is None else validator.errors(content, unjudged=None)

    @cached_property
    def _validator(self) -> SchemaValidator | None:
        try:
            return SchemaValidator(self.schema)
        except SchemaError as error:
            logger.warning("%s", printable(f"{self._whose}: its output schema cannot be used: {error}"))
        try:
            return SchemaValidator.tolerant(self.schema)
        except SchemaError:
            return None
