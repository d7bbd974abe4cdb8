"""Facts about a callable before its call: the Python function that runs, its parameters and its types."""

from __future__ import annotations

import builtins
import inspect
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from gaia_bridge.calls.request_context import RequestContext

_ADVICE_OF_PYDANTIC: Final = ". Set `arbitrary_types_allowed=True`"
"""Advice for fields of models, which is no help where a function's parameter has the type."""
_BY_NAME_OR_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


def name_of(function: Callable[..., Any]) -> str:
    """Return a function's name; for a partial, the name of its function; for an object, the name of its class."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def place_of(function: Callable[..., Any]) -> str:
    """Return a function's place in the code, for messages: `Shop.price_of (shop.py:12)`."""
    plain: Any = inspect.unwrap(called_function(function))
    code = getattr(getattr(plain, "__func__", plain), "__code__", None)
    where = f" ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})" if code is not None else ""
    return f"{getattr(plain, '__qualname__', repr(plain))}{where}"


def called_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Python function that runs: for a partial, its function; for an object, its `__call__`."""
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, FunctionType | MethodType) or hasattr(function, "__wrapped__"):  # as of `functools.cache`
        return function
    call: Any = getattr(type(function), "__call__", None)  # noqa: B004 - to be read, not only to be there
    return MethodType(call, function) if isinstance(call, FunctionType) else function


def described_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the owner of the docstring: for a partial, its function; for an object, itself or its `__call__`."""
    inner: Any = function
    while type(inner) is partial:  # a subclass may have a docstring of its own
        inner = inner.func
    return inner if inspect.isroutine(inner) or inspect.getdoc(inner) else called_function(inner)


def parameters_of(function: Callable[..., Any], what: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of a callable.

    Raises:
        TypeError: The callable cannot be called with named arguments.
    """
    called = inspect.unwrap(called_function(function))
    if not isinstance(called, FunctionType | MethodType):
        raise TypeError(f"{what} is a {type(function).__name__}; expected a Python function or a bound method")
    if _has_no_self(called):
        raise TypeError(f"{what} is a method without 'self', in {place_of(function)}; write it before the others")
    signature = inspect.signature(function)
    for position, parameter in enumerate(signature.parameters.values()):
        if position == 0 and parameter.name in ("self", "cls") and parameter.annotation is parameter.empty:
            raise TypeError(
                f"{what} is a method without its object; register the bound method instead: "
                f"`tool(self.{called.__name__})` inside `_register_tools`"
            )
        if parameter.kind in _BY_POSITION:
            raise TypeError(_by_position(function, what, parameter))
    return dict(signature.parameters)


def _has_no_self(called: FunctionType | MethodType) -> bool:
    """Return whether a method has no parameter for its object, or one annotated with another type than the object's."""
    if not isinstance(called, MethodType) or isinstance(called.__self__, type):
        return False
    first = next(iter(inspect.signature(called.__func__).parameters.values()), None)
    if first is None or first.name == "self" or first.kind not in _BY_NAME_OR_POSITION:
        return first is None
    hint = first.annotation
    if isinstance(hint, str):  # as all are after `from __future__ import annotations`
        hint = getattr(builtins, hint.partition("[")[0], None)
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or kind is first.empty:
        return False
    with suppress(TypeError):  # a type that has no instance check, such as `Any` or a protocol
        return not isinstance(called.__self__, kind)
    return False


def _by_position(function: Callable[..., Any], what: str, parameter: inspect.Parameter) -> str:
    instead = "leave the '/' out"
    if parameter.kind is parameter.VAR_POSITIONAL:
        instead = f"write {parameter.name}: list[...] instead of *{parameter.name}"
    return (
        f"{what} takes {parameter.name!r} by position, but it is called with named arguments only: "
        f"{instead}, in {place_of(function)}"
    )


def type_hints(function: Callable[..., Any], what: str) -> dict[str, Any]:
    """Return the annotations; those kept as text (PEP 563) are resolved, also in the scopes around the function.

    Raises:
        TypeError: One of them cannot be resolved.
    """
    plain: Any = inspect.unwrap(called_function(function))
    plain = getattr(plain, "__func__", plain)
    annotations: dict[str, Any] = dict(getattr(plain, "__annotations__", {}))
    if not any(isinstance(annotation, str) for annotation in annotations.values()):
        return annotations
    try:
        return typing.get_type_hints(plain, localns=_enclosed(plain) or None, include_extras=True)
    except (NameError, TypeError, ValueError, SyntaxError, AttributeError) as problem:
        raise no_schema(function, what, problem) from problem


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """Return the variables of enclosing scopes that a function refers to, as far as they are set already."""
    variables: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            variables[name] = cell.cell_contents
    return variables


def is_context(hint: object) -> bool:
    """Return whether a parameter of this type gets the request."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return any(is_context(item) for item in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, RequestContext)


def may_be_none(hint: object) -> bool:
    """Return whether a type has `None` among others."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return type(None) in get_args(hint)


def no_schema(function: Callable[..., Any], what: str, problem: Exception) -> TypeError:
    """Return the error of a function whose types have no JSON Schema."""
    reason = str(problem).splitlines()[0].partition(_ADVICE_OF_PYDANTIC)[0]
    return TypeError(
        f"{what} has no JSON Schema: {reason} (annotate its parameters with types that JSON can carry, such as a "
        f"dataclass or a pydantic model, defined at the top level of a module), in {place_of(function)}"
    )
