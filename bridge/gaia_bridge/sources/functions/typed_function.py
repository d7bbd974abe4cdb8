"""A function with a JSON Schema of its arguments and of its result."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, cast, get_args, get_origin

from gaia_bridge.calls.request_context import RequestContext, get_request_context
from gaia_bridge.errors import ToolError
from gaia_bridge.sources.functions.docstrings import Docstring
from gaia_bridge.sources.functions.generators import Gathering, as_drained, drained, is_generator_function
from gaia_bridge.sources.functions.plain_types import PlainReader, PlainWriter, plain_type
from gaia_bridge.sources.functions.signatures import (
    called_function,
    described_function,
    is_context,
    may_be_none,
    name_of,
    no_schema,
    parameters_of,
    type_hints,
)
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_object

if TYPE_CHECKING:
    from gaia_bridge.sources.functions.pydantic_schemas import ArgumentReader, ResultWriter

RESULT: Final = "result"
"""The one property of structured content made of a value that is no object, since MCP requires one; as in FastMCP."""
_TAKEN_FOR_CONTENT: Final = frozenset({"content", "resultType", "type"})
"""Fields of MCP's results and blocks of content that an author's own type may have, too."""
_WRAPPERS: Final = (Awaitable, Coroutine)


class TypedFunction:
    """A function or bound method that is called with a JSON object of named arguments.

    Args:
        function: The function: plain, a coroutine function or a generator function; a `functools.partial`, or an
            object with `__call__`.
        what: The function's published name, for messages: `tool 'greet'`.

    Raises:
        TypeError: The function cannot be called with named arguments, or its types have no JSON Schema.
    """

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        self.function = function
        self.what = what
        self.docstring = Docstring.of(described_function(function))
        parameters = parameters_of(function, what)
        hints = type_hints(function, what)
        self._contexts = tuple(name for name, hint in hints.items() if name in parameters and is_context(hint))
        self._needs_request = not all(may_be_none(hints[name]) for name in self._contexts)
        self.parameters = {
            name: parameter.replace(annotation=hints.get(name, parameter.empty))
            for name, parameter in parameters.items()
            if name not in self._contexts
        }
        """The parameters that come from the client, with resolved annotations."""
        self._returns: Any = hints.get("return", Any)

    def calling(self, function: Callable[..., Any]) -> TypedFunction:
        """Return a copy for the method of another object; the schemas are shared."""
        other = copy(self)
        other.function = function
        return other

    @property
    def _annotated_texts(self) -> Mapping[str, str]:
        """Descriptions of parameters written as `Annotated[int, "how many"]`."""
        descriptions: dict[str, str] = {}
        for name, parameter in self.parameters.items():
            texts = [item for item in getattr(parameter.annotation, "__metadata__", ()) if isinstance(item, str)]
            if texts:
                descriptions[name] = texts[0]
        return descriptions

    @property
    def __name__(self) -> str:
        return name_of(self.function)

    @property
    def raw_function(self) -> Callable[..., Any]:
        """The function itself, as pydantic's `validate_call` names it."""
        return self.function

    def __call__(self, /, **arguments: Any) -> Any:
        """Call the function with named arguments, which are checked and converted; return the result of `call`.

        Raises:
            ValidationError: The arguments do not fit; pydantic's error, a `ValueError`.
        """
        return self.invoke(self.arguments(arguments))

    def published(self, given: Mapping[str, Any]) -> Any:
        """Call the function with JSON arguments; return its `result`, or an awaitable of it.

        Raises:
            ToolError: The arguments do not fit.
        """
        return then(self.call(given), self.result)

    @cached_property
    def input_schema(self) -> JSON:
        """The JSON Schema of the arguments.

        Raises:
            TypeError: One of the types has no JSON Schema.
        """
        schema = self._reader.schema
        for name, facts in schema.setdefault("properties", {}).items():
            description = self._annotated_texts.get(name) or self.docstring.parameters.get(name)
            if description is not None:
                facts.setdefault("description", description)
        return schema

    @cached_property
    def output_schema(self) -> JSON | None:
        """The JSON Schema of structured content; `None` where the return type does not state one."""
        schema = self._writer.schema
        if schema is None:
            return None
        if self._wraps:
            definitions = schema.pop("$defs", None)
            wrapped: JSON = {"type": "object", "properties": {RESULT: schema}, "required": [RESULT]}
            return wrapped if definitions is None else {**wrapped, "$defs": definitions}
        # Not by a reference: many a client looks for the properties here.
        return {"type": "object", **{key: item for key, item in schema.items() if key != "$ref"}, **_referred(schema)}

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Convert arguments to the types of the parameters.

        Raises:
            ValidationError: The arguments do not fit; pydantic's error, a `ValueError`.
        """
        return self._reader(given)

    def call(self, given: Mapping[str, Any]) -> Any:
        """Call the function with JSON arguments.

        Returns:
            The function's return value, an awaitable of it, or the result of its generator.

        Raises:
            ToolError: The arguments do not fit; the message says which, what came and what was expected.
        """
        try:
            arguments = self.arguments(given)
        except ValueError as error:
            raise ToolError(f"The arguments do not fit {self.what}:\n{self.problems_of(error, given)}") from None
        return self.invoke(arguments)

    def problems_of(self, error: ValueError, given: Mapping[str, Any]) -> str:
        """Describe the error that `arguments` raised, in lines."""
        from gaia_bridge.sources.functions.pydantic_schemas import problems_of

        return problems_of(error, given, self.parameters)

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function with converted arguments; return the result of `call`."""
        if self._contexts:
            arguments = {**arguments, **dict.fromkeys(self._contexts, self._context())}
        value: Any = self.function(**arguments)
        if inspect.isgenerator(value):
            return drained(cast("Generator[Any, None, Any]", value), self._gathering)
        if inspect.isasyncgen(value):
            return as_drained(cast("AsyncGenerator[Any, None]", value), self._gathering)
        return value

    def _context(self) -> RequestContext | None:
        """Return the request; outside of one `None`, if every parameter for the request may be `None`."""
        try:
            return get_request_context()
        except LookupError:
            if self._needs_request:
                raise
            return None

    def result(self, value: Any) -> Any:
        """Return the function's value as JSON: with structured content where its return type promises some."""
        plain = self._writer(value)
        if self._writer.schema is None:
            return plain
        if is_object(value) and (self._wraps or not _TAKEN_FOR_CONTENT.isdisjoint(value)):
            if not self._writer.accepts(value):  # a result of MCP, say, which the type does not know of
                return plain
        elif not self._wraps and (not is_object(plain) or _TAKEN_FOR_CONTENT.isdisjoint(plain)):
            return plain
        text = plain if isinstance(plain, str) else to_json(plain).decode()
        content: list[JSON] = [] if plain is None else [{"type": "text", "text": text}]
        return {"content": content, "structuredContent": {RESULT: plain} if self._wraps else plain}

    def plain(self, value: Any) -> Any:
        """Return the function's value as JSON."""
        return self._writer(value)

    @cached_property
    def _reader(self) -> ArgumentReader | PlainReader:
        make = partial(_argument_reader, self.__name__, self.parameters)
        if (plain := PlainReader.of(self.parameters, make)) is not None:
            return plain
        from gaia_bridge.sources.functions.pydantic_schemas import SCHEMA_ERRORS

        try:
            return make()
        except SCHEMA_ERRORS as problem:
            raise no_schema(self.function, self.what, problem) from problem

    @cached_property
    def _gathering(self) -> Gathering:
        return Gathering.of(self._returns)

    @cached_property
    def _writer(self) -> ResultWriter | PlainWriter:
        returns = self._returns
        if get_origin(returns) in _WRAPPERS:
            returns = get_args(returns)[-1]
        if is_generator_function(called_function(self.function)):
            returns = self._gathering.type
        returns = Any if returns in (None, type(None)) else returns
        make, kind = partial(_result_writer, returns), plain_type(returns)
        return make() if kind is None else PlainWriter(kind, make)

    @cached_property
    def _wraps(self) -> bool:
        """Whether the return type is no object, so that structured content needs a property around the value."""
        schema = self._writer.schema or {}
        return bool((_referred(schema) or schema).get("type") != "object")


def _argument_reader(name: str, parameters: Mapping[str, inspect.Parameter]) -> ArgumentReader:
    from gaia_bridge.sources.functions.pydantic_schemas import ArgumentReader

    return ArgumentReader(name, parameters)


def _result_writer(annotation: Any) -> ResultWriter:
    from gaia_bridge.sources.functions.pydantic_schemas import ResultWriter

    return ResultWriter(annotation)


def _referred(schema: JSON) -> JSON:
    """Return the definition that a schema refers to; empty if it refers to none."""
    reference: str | None = schema.get("$ref")
    definition: JSON = {} if reference is None else schema.get("$defs", {}).get(reference.rpartition("/")[2], {})
    return definition


def then(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return `convert` applied to a value; if the value is awaitable, an awaitable of that for its result."""
    return _converted(value, convert) if inspect.isawaitable(value) else convert(value)


async def _converted(value: Awaitable[Any], convert: Callable[[Any], Any]) -> Any:
    return convert(await value)
