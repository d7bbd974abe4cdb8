"""JSON Schemas of types, and conversion in both directions, by pydantic. The only module that loads pydantic.

pydantic takes a tenth of a second to load: a program that decorates nothing should not wait for it.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import GenericAlias
from typing import Any, Final, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, SchemaError, to_jsonable_python

from gaia_bridge.json_schema.parts import preview
from gaia_bridge.sources.functions.plain_types import says_something
from gaia_bridge.text.json_types import JSON, is_array, is_object, json_pointer
from gaia_bridge.text.likeness import did_you_mean_each

SCHEMA_ERRORS: Final = (PydanticUserError, SchemaError, NameError, TypeError, ValueError)
"""Errors of a type without a JSON Schema. `NameError`: an annotation kept as text (PEP 563) that names nothing at the
function's module level. `TypeError`, `ValueError`: pydantic's report of a field that contradicts itself."""
_MISSING: Final = ("missing", "missing_argument", "missing_keyword_only_argument")
_PROTOCOL_PACKAGES: Final = ("mcp", "mcp_types")
_SHOWN_ERRORS: Final = 5


class ArgumentReader:
    """Converts JSON arguments to the types of a function's parameters.

    Args:
        parameters: Its parameters that come from the client, with resolved annotations.

    Raises:
        PydanticUserError: One of the types has no JSON Schema.
    """

    def __init__(self, name: str, parameters: Mapping[str, inspect.Parameter]) -> None:
        def capture(**arguments: Any) -> dict[str, Any]:
            return arguments

        capture.__name__ = capture.__qualname__ = name
        parameters = {name: _named(item) for name, item in parameters.items()}
        # Named: one with a default may stand before one without, as `= Field(description=...)` leaves it.
        capture.__dict__["__signature__"] = inspect.Signature(list(parameters.values()))
        capture.__annotations__ = {
            key: parameter.annotation
            for key, parameter in parameters.items()
            if parameter.annotation is not parameter.empty
        }
        # A function is as good as a type to pydantic, which its annotations do not say.
        self._adapter = TypeAdapter[dict[str, Any]](cast(Any, capture))
        self.schema: JSON = _without_names(self._adapter.json_schema(schema_generator=_PlainSchema))

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert arguments.

        Raises:
            ValidationError: The arguments do not fit.
        """
        return self._adapter.validate_python(arguments)


class ResultWriter:
    """Converts a function's return value to JSON, as its return type states.

    Args:
        annotation: The return type; anything if it is `Any`. The SDK's own types are blocks of content, and promise
            no structured content.
    """

    def __init__(self, annotation: Any) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        self.schema: JSON | None = None
        """The JSON Schema of the return type; `None` if the type states nothing."""
        if _is_of_protocol(annotation):
            return
        try:
            adapter = TypeAdapter[Any](annotation)
            schema = _without_names(adapter.json_schema(schema_generator=_PlainSchema, mode="serialization"))
        except SCHEMA_ERRORS:  # a class of the author's own: its values are converted one by one
            return
        self._adapter = adapter
        if schema.get("title") == getattr(annotation, "__name__", None):
            schema.pop("title", None)
        if says_something(schema):
            self.schema = schema

    def __call__(self, value: Any) -> Any:
        """Return the value as JSON; a value of another type, or without a JSON form, is returned as it is."""
        try:
            if self._adapter is None or self.schema is None:
                return to_jsonable_python(value)
            return self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        except (PydanticSerializationError, ValueError):
            return value

    def accepts(self, value: Any) -> bool:
        """Return whether a value is of the type, or can be converted to it."""
        if self._adapter is None:
            return True
        try:
            self._adapter.validate_python(value, by_alias=True, by_name=True)
        except ValidationError:
            return False
        return True


def problems_of(error: ValueError, arguments: Mapping[str, Any], parameters: Collection[str]) -> str:
    """Describe the problems of arguments, one line each: the JSON pointer, the value, the expected type.

    Args:
        error: The error; one that is not pydantic's is raised again.
        arguments: The arguments that came.
        parameters: The names of the function's parameters, of which one is suggested for a misspelled one.
    """
    if not isinstance(error, ValidationError):
        raise error
    problems = list(dict.fromkeys(_problem(it["loc"], it["msg"], it["type"], arguments) for it in error.errors()))
    if len(problems) > _SHOWN_ERRORS:
        problems[_SHOWN_ERRORS:] = ["- and more"]
    unknown = (name for name in arguments if name not in parameters)
    if hint := did_you_mean_each(unknown, [name for name in parameters if name not in arguments]):
        problems[-1] += f"; {hint}"
    return "\n".join(problems)


def _problem(place: tuple[int | str, ...], message: str, kind: str, arguments: Any) -> str:
    """Return one line. Its path has only steps that are in the arguments: pydantic adds the names of union branches."""
    value: Any = arguments
    path: list[str | int] = []
    for step in place:
        if is_object(value) and step in value:
            value = value[str(step)]
        elif is_array(value) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            continue
        path.append(step)
    text = f"{str(place[-1])!r} is required" if kind in _MISSING else message[:1].lower() + message[1:]
    return " ".join(f"- at {json_pointer(path)}: got {preview(value)}; {text}".splitlines())


def _without_names(schema: JSON) -> JSON:
    """Remove titles that only repeat the names of definitions, and return the schema."""
    for name, definition in schema.get("$defs", {}).items():
        if re.sub(r"[^\w.-]", "_", str(definition.get("title"))) == name:
            del definition["title"]
    return schema


def _named(parameter: inspect.Parameter) -> inspect.Parameter:
    takes_all = parameter.kind is parameter.VAR_KEYWORD
    if get_origin(parameter.annotation) is Iterable:  # which pydantic would look at only while the function reads it
        parameter = parameter.replace(annotation=GenericAlias(Sequence, get_args(parameter.annotation)))
    return parameter if takes_all else parameter.replace(kind=parameter.KEYWORD_ONLY)


def _is_of_protocol(annotation: Any) -> bool:
    """Return whether a type is, or contains, one of the SDK's types, which stand for content."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__module__.partition(".")[0] in _PROTOCOL_PACKAGES
    return any(_is_of_protocol(item) for item in get_args(annotation))


class _PlainSchema(GenerateJsonSchema):
    """Schemas without parts that only cost a model tokens: no titles repeating names, no defaults that are not JSON."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as problem:
            raise PydanticSerializationError(str(problem)) from problem
        return encoded
