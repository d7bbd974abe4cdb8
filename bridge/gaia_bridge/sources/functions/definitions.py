"""Decorated functions as definitions of MCP, and the table of them: descriptions for clients, and calls."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from types import MethodType
from typing import Any, Self, TypeVar

from msgspec import Struct

from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.protocol.uri_template import UriTemplate
from gaia_bridge.sources.functions.marks import (
    TAGS_META_KEY,
    CompletionMark,
    DefinitionMark,
    Mark,
    PromptMark,
    ResourceMark,
    ToolMark,
)
from gaia_bridge.sources.functions.signatures import name_of, place_of
from gaia_bridge.sources.functions.typed_function import TypedFunction, then
from gaia_bridge.text.json_types import JSON, is_array, is_object

Marked = tuple[Callable[..., Any], Mark]
"""A function, or a bound method, and one of its marks."""


class _Function:
    """The common part of tools, prompts and resources."""

    typed: TypedFunction
    _is_unbound = False

    def unbound(self, owner: object) -> Self:
        """Return a copy without the object whose method this is, to be kept by that object."""
        function = self.typed.function
        if not isinstance(function, MethodType) or function.__self__ is not owner:
            return self
        return self._calling(function.__func__, is_unbound=True)

    def bound(self, owner: object) -> Self:
        """Return a copy that is bound to an object, if this is a method without one."""
        if not self._is_unbound:
            return self
        return self._calling(MethodType(self.typed.function, owner), is_unbound=False)

    def _calling(self, function: Callable[..., Any], *, is_unbound: bool) -> Self:
        other = copy(self)
        other.typed = self.typed.calling(function)
        other._is_unbound = is_unbound
        return other


class FunctionTool(_Function):
    """A function as a tool.

    Raises:
        TypeError: It cannot be called with named arguments, or its types have no JSON Schema.
    """

    def __init__(self, function: Callable[..., Any], mark: ToolMark) -> None:
        self.name = mark.name or name_of(function)
        self.place = place_of(function)
        self.mark = mark
        self.timeout = mark.timeout
        self.typed = TypedFunction(function, f"tool '{self.name}'")
        description = mark.description
        self.definition: JSON = _definition(
            mark,
            name=self.name,
            description=self.typed.docstring.description if description is None else description,
            inputSchema=self.typed.input_schema,
            outputSchema=self.typed.output_schema,
            annotations=None if mark.annotations is None else dict(mark.annotations),
        )

    def __call__(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function with JSON arguments; return the result of `execute_mcp_tool`, or an awaitable of it.

        Raises:
            ToolError: The arguments do not fit.
        """
        return self.typed.published(arguments)

    def call(self, /, **arguments: Any) -> Any:
        """Call the function with JSON arguments; return plain JSON, or an awaitable of it, without structured content.

        Raises:
            ToolError: The arguments do not fit.
        """
        return then(self.typed.call(arguments), self.typed.plain)


class FunctionPrompt(_Function):
    """A function as a prompt."""

    def __init__(self, function: Callable[..., Any], mark: PromptMark) -> None:
        self.name = mark.name or name_of(function)
        self.place = place_of(function)
        self.typed = TypedFunction(function, f"prompt '{self.name}'")
        description = mark.description
        schema = self.typed.input_schema
        required = schema.get("required", ())
        self.properties: Mapping[str, Any] = schema["properties"]
        self.definition: JSON = _definition(
            mark,
            name=self.name,
            description=self.typed.docstring.description if description is None else description,
            arguments=[
                _present(name=name, description=_of_argument(facts), required=name in required)
                for name, facts in self.properties.items()
            ],
        )

    def __call__(self, arguments: Mapping[str, str]) -> Any:
        """Fill in the prompt; return the result of `get_mcp_prompt`.

        Raises:
            ProtocolError: The arguments do not fit.
        """
        return then(_called(self.typed, arguments, self.properties), self.typed.plain)


class FunctionResource(_Function):
    """A function as a resource, or as a template of resources.

    Raises:
        TypeError: Its parameters are not the variables of its URI.
    """

    def __init__(self, function: Callable[..., Any], mark: ResourceMark) -> None:
        self.uri = mark.uri
        self.place = place_of(function)
        self.is_template = mark.is_template
        self._mime_type = mark.mime_type
        self._template = UriTemplate(mark.uri)
        self.typed = TypedFunction(function, f"resource '{mark.uri}'")
        self.properties: Mapping[str, Any] = self.typed.input_schema["properties"] if self.typed.parameters else {}
        _check_variables(mark.uri, self._template.names, self.typed)
        description = mark.description
        self.definition: JSON = _definition(
            mark,
            **{"uriTemplate" if self.is_template else "uri": mark.uri},
            name=mark.name or name_of(function),
            description=self.typed.docstring.description if description is None else description,
            mimeType=mark.mime_type,
            annotations=None if mark.annotations is None else dict(mark.annotations),
            size=mark.size,
        )

    def arguments_in(self, uri: str) -> Mapping[str, str | list[str]] | None:
        """Return the arguments that a URI holds; `None` if it is no URI of this resource."""
        if not self.is_template:
            return {} if uri == self.uri else None
        return self._template.variables(uri)

    def read(self, uri: str, arguments: Mapping[str, str | list[str]]) -> Any:
        """Read the resource; return the result of `read_mcp_resource`.

        Raises:
            ProtocolError: The variables do not fit.
        """
        return then(_called(self.typed, arguments, self.properties), lambda value: self._contents(uri, value))

    def _contents(self, uri: str, value: Any) -> Any:
        if value is None or isinstance(value, bytes | bytearray):
            return value if self._mime_type is None or value is None else _blob(uri, self._mime_type, bytes(value))
        plain = self.typed.plain(value)
        if self._mime_type is None or not isinstance(plain, str):
            return plain
        return {"contents": [{"uri": uri, "mimeType": self._mime_type, "text": plain}]}


def suggested_values(properties: Mapping[str, Any], argument: str, value: str) -> list[str]:
    """Return the values of a `Literal`, an `Enum` or a `bool` argument that begin with the typed text."""
    schema = properties.get(argument)
    options = _options(schema) if is_object(schema) else []
    texts = [item if isinstance(item, str) else json.dumps(item) for item in options]
    return [text for text in texts if text.casefold().startswith(value.casefold())]


def _options(schema: JSON) -> list[Any]:
    options = schema.get("enum")
    if is_array(options):
        return list(options)
    if "const" in schema:
        return [schema["const"]]
    if schema.get("type") == "boolean":
        return [True, False]
    branches = schema.get("anyOf")
    return [item for branch in branches if is_object(branch) for item in _options(branch)] if is_array(branches) else []


def _definition(mark: DefinitionMark, **fields: Any) -> JSON:
    meta = dict(mark.meta or {})
    if mark.tags:
        meta[TAGS_META_KEY] = list(mark.tags)
    icons = None if mark.icons is None else [dict(icon) for icon in mark.icons]
    return _present(**fields, title=mark.title, icons=icons, _meta=meta or None)


def _present(**fields: Any) -> JSON:
    return {name: value for name, value in fields.items() if value is not None}


def _of_argument(facts: object) -> str | None:
    """Describe an argument of a prompt. If it is no text, say how to write it, since clients send text."""
    if not is_object(facts):
        return None
    description = facts.get("description")
    if _is_text(facts):
        return description
    kind = facts.get("type")
    form = f"({kind})" if kind in ("integer", "number", "boolean") else "(JSON)"
    return form if description is None else f"{description} {form}"


def _is_text(facts: JSON) -> bool:
    if is_array(facts.get("anyOf")):
        return any(is_object(item) and _is_text(item) for item in facts["anyOf"])
    return facts.get("type", "string") == "string" and "$ref" not in facts


def _called(typed: TypedFunction, given: Mapping[str, Any], properties: Mapping[str, Any]) -> Any:
    """Call a function with texts; a text for another type is read as JSON if possible, or converted.

    Raises:
        ProtocolError: The arguments do not fit.
    """
    arguments = {name: _from_text(value, properties.get(name)) for name, value in given.items()}
    try:
        converted = typed.arguments(arguments) if typed.parameters else {}
    except ValueError as error:
        problem = f"The arguments do not fit {typed.what}:\n{typed.problems_of(error, arguments)}"
        raise ProtocolError(INVALID_PARAMS, problem) from None
    return typed.invoke(converted)


def _from_text(value: Any, facts: object) -> Any:
    if isinstance(value, str) and is_object(facts) and facts and not _is_text(facts):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _blob(uri: str, mime_type: str, data: bytes) -> JSON:
    import base64

    return {"contents": [{"uri": uri, "mimeType": mime_type, "blob": base64.b64encode(data).decode("ascii")}]}


def _check_variables(uri: str, variables: frozenset[str], typed: TypedFunction) -> None:
    parameters = typed.parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    named = {name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD}
    if missing := sorted(variables - named) if not takes_any else []:
        raise TypeError(f"resource {uri!r} has a variable {missing[0]!r}, which {typed.__name__}() does not take")
    needed = {name for name in named if parameters[name].default is inspect.Parameter.empty}
    if unknown := sorted(needed - variables):
        raise TypeError(f"{typed.__name__}() needs {unknown[0]!r}, which is no variable of resource {uri!r}")


_T = TypeVar("_T", FunctionTool, FunctionPrompt, FunctionResource)


class DefinitionTable:
    """Definitions by kind and name. Methods among them may be stored without their object (`unbound`)."""

    def __init__(self) -> None:
        self.tools: dict[str, FunctionTool] = {}
        self.prompts: dict[str, FunctionPrompt] = {}
        self.resources: dict[str, FunctionResource] = {}
        self.completions: dict[tuple[str, str], Callable[..., Any]] = {}
        self.completes = False

    @property
    def is_empty(self) -> bool:
        """Whether the table has no definitions."""
        return not (self.tools or self.prompts or self.resources or self.completions)

    @classmethod
    def of(cls, functions: Iterable[Marked]) -> DefinitionTable:
        """Return the table of the definitions of marked functions.

        Raises:
            TypeError: Two have the same name, or one cannot be published.
        """
        made = cls()
        for function, mark in functions:
            made._add(function, mark)
        made.completes = bool(made.completions) or made._suggests()
        return made

    def unbound(self, owner: object) -> DefinitionTable:
        """Return a copy without the object whose methods it holds, which can keep it without a reference cycle."""
        made = DefinitionTable()
        made.tools = {name: tool.unbound(owner) for name, tool in self.tools.items()}
        made.prompts = {name: prompt.unbound(owner) for name, prompt in self.prompts.items()}
        made.resources = {uri: item.unbound(owner) for uri, item in self.resources.items()}
        made.completions = {
            key: UnboundCompletion(function.__func__)
            if isinstance(function, MethodType) and function.__self__ is owner
            else function
            for key, function in self.completions.items()
        }
        made.completes = self.completes
        return made

    def __deepcopy__(self, memo: object) -> DefinitionTable:
        return self  # a copy of its object is bound when it is asked

    def __reduce__(self) -> tuple[Any, ...]:
        return (DefinitionTable, ())  # an object that was pickled finds out anew; see `decorated_functions`

    def _suggests(self) -> bool:
        """Return whether an argument has a known set of values, such as a `Literal`."""
        arguments = [
            *(it.properties for it in self.prompts.values()),
            *(it.properties for it in self.resources.values()),
        ]
        return any(suggested_values(properties, name, "") for properties in arguments for name in properties)

    def _add(self, function: Callable[..., Any], mark: Mark) -> None:
        match mark:
            case ToolMark():
                tool = FunctionTool(function, mark)
                _keep(self.tools, tool.name, tool, "tool")
            case PromptMark():
                prompt = FunctionPrompt(function, mark)
                _keep(self.prompts, prompt.name, prompt, "prompt")
            case ResourceMark():
                _keep(self.resources, mark.uri, FunctionResource(function, mark), "resource")
            case CompletionMark():
                key = (mark.of, mark.argument)
                if key in self.completions:
                    places = f"{place_of(self.completions[key])} and {place_of(function)}"
                    raise TypeError(f"two functions complete {mark.argument!r} of {mark.of!r}: {places}")
                self.completions[key] = function


class UnboundCompletion(Struct, frozen=True):
    """A method that suggests values, stored without its object."""

    function: Callable[..., Any]

    def __call__(self, *_: Any) -> Any:
        raise TypeError("a method without its object")


def _keep(existing: dict[str, _T], name: str, item: _T, kind: str) -> None:
    if name in existing:
        first, second = existing[name].place, item.place
        places = f"by {first} and by {second}"
        if first == second:
            places = f"by two decorators of {first}, or by one under two names"
        raise TypeError(f"{kind} {name!r} is defined twice: {places}")
    existing[name] = item
