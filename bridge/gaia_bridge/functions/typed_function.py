"""A function whose signature is understood: what arguments it takes, as JSON Schema, and what it returns."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from functools import cached_property
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, cast, get_args, get_origin

from gaia_bridge.calls.request_context import RequestContext, get_request_context
from gaia_bridge.errors import ToolError
from gaia_bridge.functions.docstrings import Docstring
from gaia_bridge.functions.generators import as_drained, drained, drained_type, is_generator_function
from gaia_bridge.protocol.json_text import to_json
from gaia_bridge.protocol.json_types import JSON, is_object

if TYPE_CHECKING:
    from gaia_bridge.functions.pydantic_schemas import ArgumentReader, ResultWriter

__all__ = ["RESULT", "TypedFunction", "then"]

RESULT: Final = "result"
"""The one property of the structured content of what is no object, since MCP wants one. FastMCP names it so, too."""

_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_WRAPPERS: Final = (Awaitable, Coroutine)


class TypedFunction:
    """A function or bound method that is called with a JSON object of named arguments.

    Args:
        function: The function: plain, a coroutine function or a generator function.
        what: What it is published as, for messages: `tool 'greet'`.

    Raises:
        TypeError: It cannot be called with named arguments, or its types have no JSON Schema.
    """

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        self.function = function
        self.what = what
        self.docstring = Docstring.of(function)
        signature = _signature(function, what)
        hints = _type_hints(function, what)
        self._contexts = tuple(name for name, hint in hints.items() if name != "return" and _is_context(hint))
        self._parameters = {
            name: parameter.replace(annotation=hints.get(name, parameter.empty))
            for name, parameter in signature.parameters.items()
            if name not in self._contexts
        }
        self._returns: Any = hints.get("return", Any)

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    @property
    def raw_function(self) -> Callable[..., Any]:
        """The function itself, as pydantic's `validate_call` names it."""
        return self.function

    def __call__(self, /, **arguments: Any) -> Any:
        """Call the function with named arguments, which are checked and converted; returns as `call` does.

        Raises:
            ValidationError: They do not fit; pydantic's, a `ValueError`.
        """
        return self.invoke(self.arguments(arguments))

    def published(self, given: Mapping[str, Any]) -> Any:
        """Call the function with JSON arguments; returns its `result`, or an awaitable of it.

        Raises:
            ToolError: The arguments do not fit.
        """
        return then(self.call(given), self.result)

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters that come from the client, with resolved annotations."""
        return self._parameters

    @cached_property
    def input_schema(self) -> JSON:
        """The JSON Schema of the arguments.

        Raises:
            TypeError: One of the types has none.
        """
        schema = self._reader.schema
        for name, facts in schema.setdefault("properties", {}).items():
            if name in self.docstring.parameters:
                facts.setdefault("description", self.docstring.parameters[name])
        return schema

    @cached_property
    def output_schema(self) -> JSON | None:
        """The JSON Schema of structured content; `None` where the return type does not say what it is."""
        schema = self._writer.schema
        if schema is None:
            return None
        if self._wraps:
            definitions = schema.pop("$defs", None)
            wrapped: JSON = {"type": "object", "properties": {RESULT: schema}, "required": [RESULT]}
            return wrapped if definitions is None else {**wrapped, "$defs": definitions}
        return {"type": "object", **schema}

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Convert arguments to what the parameters are annotated with.

        Raises:
            ValidationError: They do not fit; pydantic's, a `ValueError`.
        """
        return self._reader(given)

    def call(self, given: Mapping[str, Any]) -> Any:
        """Call the function with JSON arguments.

        Args:
            given: The arguments.

        Returns:
            What the function returned, an awaitable of it, or what its generator came to.

        Raises:
            ToolError: The arguments do not fit; says which, what came and what was expected.
        """
        from pydantic import ValidationError

        try:
            arguments = self.arguments(given)
        except ValidationError as error:
            from gaia_bridge.functions.pydantic_schemas import problems_of

            raise ToolError(f"The arguments do not fit {self.what}:\n{problems_of(error, given)}") from None
        return self.invoke(arguments)

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function with converted arguments; returns as `call` does."""
        if self._contexts:
            arguments = {**arguments, **dict.fromkeys(self._contexts, get_request_context())}
        value: Any = self.function(**arguments)
        if inspect.isgenerator(value):
            return drained(cast("Generator[Any, None, Any]", value))
        return as_drained(cast("AsyncGenerator[Any, None]", value)) if inspect.isasyncgen(value) else value

    def result(self, value: Any) -> Any:
        """What the function returned, as JSON: with structured content where its return type promises some."""
        plain = self._writer(value)
        if self._writer.schema is None or not self._wraps or is_object(value):
            return plain
        text = plain if isinstance(plain, str) else to_json(plain).decode()
        content: list[JSON] = [] if plain is None else [{"type": "text", "text": text}]
        return {"content": content, "structuredContent": {RESULT: plain}}

    def plain(self, value: Any) -> Any:
        """What the function returned, as JSON."""
        return self._writer(value)

    @cached_property
    def _reader(self) -> ArgumentReader:
        from gaia_bridge.functions.pydantic_schemas import SCHEMA_ERRORS, ArgumentReader

        try:
            return ArgumentReader(self.__name__, self._parameters)
        except SCHEMA_ERRORS as problem:
            raise _no_schema(self.what, problem) from problem

    @cached_property
    def _writer(self) -> ResultWriter:
        from gaia_bridge.functions.pydantic_schemas import ResultWriter

        returns = self._returns
        if get_origin(returns) in _WRAPPERS:
            returns = get_args(returns)[-1]
        if is_generator_function(self.function):
            returns = drained_type(returns)
        return ResultWriter(Any if returns in (None, type(None)) else returns)

    @cached_property
    def _wraps(self) -> bool:
        """Whether what the function returns is no object."""
        schema: Any = self._writer.schema or {}
        if "$ref" in schema:
            schema = schema.get("$defs", {}).get(str(schema["$ref"]).rpartition("/")[2], schema)
        return bool(schema.get("type") != "object")


def then(value: Any, convert: Callable[[Any], Any]) -> Any:
    """`convert` applied to a value, or to what an awaitable comes to."""
    return _converted(value, convert) if inspect.isawaitable(value) else convert(value)


async def _converted(value: Awaitable[Any], convert: Callable[[Any], Any]) -> Any:
    return convert(await value)


def _signature(function: Callable[..., Any], what: str) -> inspect.Signature:
    if not isinstance(function, FunctionType | MethodType):
        raise TypeError(f"{what} is a {type(function).__name__}; expected a Python function or a bound method")
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            raise TypeError(
                f"{what} is a method without its object; register the bound method instead: "
                f"`tool(self.{function.__name__})` inside `_register_tools`"
            )
        if parameter.kind in _BY_POSITION:
            raise TypeError(f"{what} takes {parameter.name!r} by position, but it is called with named arguments only")
    return signature


def _type_hints(function: Callable[..., Any], what: str) -> dict[str, Any]:
    """The annotations, with those that are kept as text (PEP 563) resolved, also in what encloses the function."""
    plain: Any = inspect.unwrap(function)
    plain = getattr(plain, "__func__", plain)
    annotations: dict[str, Any] = dict(getattr(function, "__annotations__", {}))
    if not any(isinstance(annotation, str) for annotation in annotations.values()):
        return annotations
    try:
        return typing.get_type_hints(function, localns=_enclosed(plain) or None, include_extras=True)
    except NameError as problem:
        raise _no_schema(what, problem) from problem
    except (TypeError, ValueError, SyntaxError, AttributeError) as problem:
        raise _no_schema(what, problem) from problem


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """What encloses a function, as far as it refers to it and it is there already."""
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _is_context(hint: object) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is_context(item) for item in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, RequestContext)


def _no_schema(what: str, problem: Exception) -> TypeError:
    reason = str(problem).splitlines()[0]
    return TypeError(
        f"{what} has no JSON Schema: {reason} (annotate its parameters with types that JSON can carry, "
        "defined at the top level of a module)"
    )
