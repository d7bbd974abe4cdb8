"""The decorators `tool`, `prompt`, `resource` and `completion`. They only store their options on the function.

    class HelloAgent(MCPAgent):
        @tool
        def greet(self, name: str) -> str:
            '''Greet somebody by name.'''
            return f"Hello, {name}!"

The function itself stays as it is: it can be called and tested like any other. Its signature is read only when it is
published (`functions.typed_function`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, cast, overload

from msgspec import Struct

from gaia_bridge.protocol.uri_template import UriTemplate, UriTemplateError
from gaia_bridge.text.json_types import JSON

_MARKS: Final = "__mcp_marks__"
_OF_ITS_MODULE: Final = "__mcp_of_its_module__"
TAGS_META_KEY: Final = "io.gaia-mcp-bridge/tags"
"""The key of a definition's tags in its `_meta`."""
_Function = TypeVar("_Function", bound=Callable[..., Any])


class DefinitionMark(Struct, frozen=True, kw_only=True):
    """The options that tools, prompts and resources have."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    icons: Sequence[JSON] | None = None
    meta: Mapping[str, Any] | None = None
    tags: tuple[str, ...] = ()


class ToolMark(DefinitionMark, frozen=True, kw_only=True):
    """The options of a function decorated with `tool`."""

    annotations: Mapping[str, Any] | None = None
    timeout: float | None = None
    options: Mapping[str, Any] = {}
    """Options that a library adds for itself."""


class PromptMark(DefinitionMark, frozen=True, kw_only=True):
    """The options of a function decorated with `prompt`."""


class ResourceMark(DefinitionMark, frozen=True, kw_only=True):
    """The options of a function decorated with `resource`."""

    uri: str
    mime_type: str | None = None
    annotations: Mapping[str, Any] | None = None
    size: int | None = None

    @property
    def is_template(self) -> bool:
        """Whether the URI has variables."""
        return "{" in self.uri


class CompletionMark(Struct, frozen=True, kw_only=True):
    """The options of a function decorated with `completion`."""

    of: str
    """The name of a prompt, or the URI template of a resource."""
    argument: str


Mark = ToolMark | PromptMark | ResourceMark | CompletionMark


def add_mark(function: Callable[..., Any], mark: Mark) -> None:
    """Add a mark to a function, after the marks that it has.

    Raises:
        TypeError: The object cannot be marked, such as a bound method or a built-in function.
    """
    target: Any = function
    if isinstance(target, staticmethod | classmethod):
        target = cast(Any, target).__func__
    expect_function(target)
    if isinstance(target, type):
        raise TypeError(f"{target!r} is a class; decorate its methods, or an object of it that has __call__")
    try:
        setattr(target, _MARKS, (*marks_of(target), mark))
    except AttributeError:
        kind = type(target).__name__
        raise TypeError(
            f"{target!r} is a {kind}, which cannot be marked; decorate the function it is made of"
        ) from None


def expect_function(target: object) -> None:
    """Refuse an object that no decorator can stand above, such as the name in `@tool("greet")`.

    Raises:
        TypeError: It cannot be called.
    """
    if callable(target):
        return
    named = f"; a name is given as name={target!r}" if isinstance(target, str) else ""
    raise TypeError(f"{target!r} is no function; write @tool directly above a def{named}")


def is_marked(value: object) -> bool:
    """Return whether an object itself was marked, and not only its class."""
    return _MARKS in getattr(value, "__dict__", ())


def marks_of(value: object) -> tuple[Mark, ...]:
    """Return the marks of a function or method; none for anything else."""
    held: Any = getattr(value, _MARKS, ())
    marks: tuple[object, ...] = cast("tuple[object, ...]", held) if isinstance(held, tuple) else ()
    return tuple(mark for mark in marks if isinstance(mark, Mark))


def mark_as_of_its_module(function: Callable[..., Any]) -> None:
    """Note on a marked function that its module, or the function itself, is published as an agent of its own."""
    with suppress(AttributeError, TypeError):  # a bound method, which takes no attributes
        setattr(function, _OF_ITS_MODULE, True)


def is_of_its_module(function: object) -> bool:
    """Return whether a function is published as, or with, an agent of its own."""
    return _OF_ITS_MODULE in getattr(function, "__dict__", ())


@overload
def tool(function: _Function, /) -> _Function: ...


@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    icons: Sequence[JSON] | None = None,
    meta: Mapping[str, Any] | None = None,
    tags: Collection[str] = (),
    timeout: float | None = None,
) -> Callable[[_Function], _Function]: ...


def tool(
    function: _Function | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    icons: Sequence[JSON] | None = None,
    meta: Mapping[str, Any] | None = None,
    tags: Collection[str] = (),
    timeout: float | None = None,
) -> _Function | Callable[[_Function], _Function]:
    """Make a function or a method a tool, as `@tool` or `@tool(...)`. The function is returned unchanged.

    Its type hints give the `inputSchema`, and arguments arrive as those types (a pydantic model is a model); its
    return type gives the `outputSchema`; its docstring (Google, NumPy or reST) the descriptions. A parameter annotated
    with `RequestContext` gets the request, and no client sees it. The function may be a plain one, which runs in a
    thread, a coroutine function, or a generator that yields `Progress` and returns its result.

    Args:
        function: The function.
        name: The tool's name; by default the function's.
        title: The name for people.
        description: The tool's purpose; by default the docstring without its section of parameters.
        annotations: MCP's hints: `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`, `title`.
        icons: MCP's icons: `{"src": ..., "mimeType": ..., "sizes": [...]}`.
        meta: The definition's `_meta`.
        tags: Words to select the tool by.
        timeout: Seconds for one call; by default `AgentLimits.call_timeout`.

    Raises:
        TypeError: The function cannot be marked.
        ValueError: `timeout` is no positive number.
    """
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout={timeout!r}: expected a positive number of seconds")
    mark = ToolMark(
        name=name,
        title=title,
        description=description,
        annotations=annotations,
        icons=icons,
        meta=meta,
        tags=tuple(tags),
        timeout=timeout,
    )
    return _marked(function, mark)


@overload
def prompt(function: _Function, /) -> _Function: ...


@overload
def prompt(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[JSON] | None = None,
    meta: Mapping[str, Any] | None = None,
    tags: Collection[str] = (),
) -> Callable[[_Function], _Function]: ...


def prompt(
    function: _Function | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[JSON] | None = None,
    meta: Mapping[str, Any] | None = None,
    tags: Collection[str] = (),
) -> _Function | Callable[[_Function], _Function]:
    """Make a function or a method a prompt, as `@prompt` or `@prompt(...)`. The function is returned unchanged.

    It returns text, a list of messages (`gaia_bridge.content.user_message`), or an MCP prompt result. MCP sends the
    arguments of prompts as text: they are converted as the type hints say, from JSON where text would not do.

    Args:
        function: The function.
        name: The prompt's name; by default the function's.
        title: The name for people.
        description: The prompt's purpose; by default the docstring without its section of parameters.
        icons: MCP's icons.
        meta: The definition's `_meta`.
        tags: Words to select the prompt by.
    """
    mark = PromptMark(name=name, title=title, description=description, icons=icons, meta=meta, tags=tuple(tags))
    return _marked(function, mark)


def resource(
    uri: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    icons: Sequence[JSON] | None = None,
    size: int | None = None,
    meta: Mapping[str, Any] | None = None,
    tags: Collection[str] = (),
) -> Callable[[_Function], _Function]:
    """Make a function or a method a resource, or a template of resources. The function is returned unchanged.

        @resource("notes://{name}", mime_type="text/markdown")
        def note(self, name: str) -> str: ...

    The function returns text, bytes, or anything that JSON can carry; `None` if there is nothing at that URI.

    Args:
        uri: The URI; with `{variables}` (RFC 6570) a template, whose variables are the function's parameters.
        name: The resource's name; by default the function's.
        title: The name for people.
        description: The content's description; by default the docstring without its section of parameters.
        mime_type: The content's type; by default it follows from the function's return value.
        annotations: MCP's annotations: `audience`, `priority`, `lastModified`.
        icons: MCP's icons.
        size: Bytes of the content, if that is known.
        meta: The definition's `_meta`.
        tags: Words to select the resource by.

    Raises:
        TypeError: The decorator has no parentheses.
        ValueError: `uri` is no URI, or no URI template.
    """
    if callable(uri):
        raise TypeError('a resource needs its URI: write @resource("notes://all")')
    scheme, _, rest = uri.partition(":")
    if not scheme or not rest or "{" in scheme:
        raise ValueError(f'resource {uri!r} has no scheme; expected something like "notes://all"')
    try:
        UriTemplate(uri)
    except UriTemplateError as error:
        raise ValueError(f"resource {uri!r} is no URI template: {error}") from error
    mark = ResourceMark(
        uri=uri,
        name=name,
        title=title,
        description=description,
        mime_type=mime_type,
        annotations=annotations,
        icons=icons,
        size=size,
        meta=meta,
        tags=tuple(tags),
    )
    return _marker(mark)


def completion(of: str, argument: str) -> Callable[[_Function], _Function]:
    """Let a function or a method suggest values for an argument that a person types. It is returned unchanged.

        @completion("review", "language")
        def languages(self, value: str) -> list[str]:
            return [name for name in LANGUAGES if name.startswith(value)]

    The values of a `Literal` or an `Enum` are suggested without this decorator.

    Args:
        of: The name of the prompt, or the URI template of the resource.
        argument: The name of the argument. The function gets the text typed so far; if it has a second parameter,
            also with the arguments that are filled in already.
    """
    return _marker(CompletionMark(of=of, argument=argument))


def _marked(function: _Function | None, mark: Mark) -> _Function | Callable[[_Function], _Function]:
    return _marker(mark) if function is None else _marker(mark)(function)


def _marker(mark: Mark) -> Callable[[Any], Any]:
    def write(function: Any) -> Any:
        add_mark(function, mark)
        return function

    return write
