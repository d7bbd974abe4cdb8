"""Plain types, such as `int` or `list[str]`, with the schemas that pydantic writes for them, and without pydantic.

That takes a tenth of a second and ten MiB to load. Whatever is not plain is left to `pydantic_schemas`, and so is each
value that does not fit as it is: pydantic may convert the value, or describes the problem.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol, Union, get_args, get_origin

import msgspec

from gaia_bridge.text.json_text import encode_json
from gaia_bridge.text.json_types import JSON, copied, is_array, is_object, is_small

_SCALARS: Final[Mapping[type, str]] = {bool: "boolean", float: "number", int: "integer", str: "string"}
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ERRORS: Final = (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError)


Reader = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Converts JSON arguments."""


class Writer(Protocol):
    """Converts a function's value to JSON."""

    def __call__(self, value: Any, /) -> Any: ...

    def accepts(self, value: Any, /) -> bool: ...


class PlainType(NamedTuple):
    """A type of Python, and its JSON Schema."""

    annotation: Any
    schema: JSON

    def read(self, value: object) -> Any:
        """Return a value as one of this type; raise one of several exceptions if it does not fit."""
        return msgspec.convert(value, self.annotation)


def plain_type(annotation: Any) -> PlainType | None:
    """Return a type with its schema; `None` if it is not plain."""
    if annotation is Any or annotation is inspect.Parameter.empty:
        return PlainType(Any, {})
    if isinstance(annotation, type) and annotation in _SCALARS:
        return PlainType(annotation, {"type": _SCALARS[annotation]})
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return plain_type(inner[0]) if all(type(item) is str for item in inner[1:]) else None
    if origin is Literal and all(type(item) is str for item in inner):
        values: JSON = {"const": inner[0]} if len(inner) == 1 else {"enum": list(inner)}
        return PlainType(annotation, {**values, "type": "string"})
    if annotation is list or origin is list:
        item = plain_type(inner[0] if inner else Any)
        return item and PlainType(list[item.annotation], {"items": item.schema, "type": "array"})  # type: ignore[name-defined]
    if annotation is dict or (origin is dict and inner[0] is str):
        item = plain_type(inner[1] if inner else Any)
        schema = {"additionalProperties": item.schema or True, "type": "object"} if item is not None else {}
        return item and PlainType(dict[str, item.annotation], schema)  # type: ignore[name-defined]
    if origin in (Union, UnionType) and len(inner) == 2 and inner[1] is NoneType:
        some = plain_type(inner[0])
        return some and PlainType(Union[some.annotation, None], {"anyOf": [some.schema, {"type": "null"}]})  # noqa: UP007
    return None


class _Parameter(NamedTuple):
    type: PlainType
    default: Any


def _parameter(parameter: inspect.Parameter) -> _Parameter | None:
    kind = plain_type(parameter.annotation)
    default: Any = parameter.default
    if kind is None or parameter.kind not in _NAMED or parameter.name.startswith("_"):
        return None
    is_plain = default is None or type(default) in _SCALARS or default is parameter.empty
    is_number = not isinstance(default, float) or math.isfinite(default)
    return _Parameter(kind, default) if is_plain and is_number else None


class PlainReader:
    """Converts JSON arguments as `pydantic_schemas.ArgumentReader` does; that is made when it is needed."""

    def __init__(self, parameters: Mapping[str, _Parameter], otherwise: Callable[[], Reader]) -> None:
        self._parameters = parameters
        self._otherwise = cache(otherwise)  # made once, and only if a value does not fit as it is
        empty = inspect.Parameter.empty
        properties: JSON = {}
        for name, (kind, default) in parameters.items():
            properties[name] = (
                {**kind.schema} if default is empty else dict(sorted({"default": default, **kind.schema}.items()))
            )
        required = [name for name, parameter in parameters.items() if parameter.default is empty]
        self.schema: JSON = {"additionalProperties": False, "properties": properties}
        if required:
            self.schema["required"] = required
        self.schema["type"] = "object"

    @classmethod
    def of(cls, parameters: Mapping[str, inspect.Parameter], otherwise: Callable[[], Reader]) -> PlainReader | None:
        """Return the reader of parameters whose types are all plain, and whose defaults are; else `None`."""
        plain: dict[str, _Parameter] = {}
        for name, parameter in parameters.items():
            if (known := _parameter(parameter)) is None:
                return None
            plain[name] = known
        return cls(plain, otherwise)

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert arguments.

        Raises:
            ValueError: The arguments do not fit; pydantic's error.
        """
        parameters = self._parameters
        try:
            if arguments.keys() <= parameters.keys():
                return {
                    name: kind.read(arguments[name]) if name in arguments else _given(default)
                    for name, (kind, default) in parameters.items()
                }
        except _ERRORS:
            pass
        return self._otherwise()(arguments)


def _given(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        raise ValueError("it is required")
    return default


class PlainWriter:
    """Converts a function's value to JSON as `pydantic_schemas.ResultWriter` does; that is made when it is needed."""

    def __init__(self, kind: PlainType, otherwise: Callable[[], Writer]) -> None:
        self._type = kind
        self._otherwise = cache(otherwise)  # made once, and only if a value does not fit as it is
        self.schema = kind.schema if says_something(kind.schema) else None

    def __call__(self, value: Any) -> Any:
        """Return the value as JSON; a value of another type, or without a JSON form, is returned as it is."""
        is_plain = is_small(value) if self.schema is None else self._fits(value)
        # A copy: the function may change its own later.
        return copied(value) if is_plain else self._otherwise()(value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is of the type, or can be converted to it."""
        return self._fits(value) or self._otherwise().accepts(value)

    def _fits(self, value: Any) -> bool:
        """Return whether a value is of the type, and pydantic would write it as it is."""
        try:
            read = self._type.read(value)
            # Written, 1 and 1.0 are not the same.
            return type(read) is type(value) and encode_json(read) == encode_json(value)
        except _ERRORS:
            return False


def says_something(schema: JSON) -> bool:
    """Return whether a schema is more than "anything", "an object" or "a list of those"."""
    if schema.get("type") == "array" and schema.keys() <= {"type", "items"}:
        items = schema.get("items", {})
        return is_object(items) and says_something(items)
    branches = schema.get("anyOf")
    if is_array(branches):
        others = [item for item in branches if item != {"type": "null"}]
        return bool(others) and all(is_object(item) and says_something(item) for item in others)
    if schema == {"type": "object", "additionalProperties": True}:
        return False
    return bool(schema) and schema != {"type": "object"} and schema != {"type": "null"}
