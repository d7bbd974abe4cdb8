"""Functions that report on their way: generators that yield `Progress`, and the results made of the rest.

Everything yielded beside `Progress` is a piece of the result: texts are joined; of a generator that reports progress
the last other piece is the result, as an asynchronous generator cannot return one; otherwise the pieces are a list. A
generator's return value comes before its pieces. The return type, if there is one, decides between these.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any, Final, Literal, Union, cast, get_args, get_origin

from msgspec import Struct

from gaia_bridge.calls.call_log import size_of
from gaia_bridge.calls.request_context import RequestContext, get_request_context
from gaia_bridge.constants import MIB
from gaia_bridge.errors import ToolError
from gaia_bridge.model import Progress

_MOST_PIECES: Final = 100_000
"""Pieces of one result: a generator may have no end, and its pieces are kept until then."""
_MOST_BYTES: Final = 256 * MIB
"""Bytes of one result as JSON: sixteen times the largest result that is passed on (`AgentLimits.result_bytes`)."""


def is_generator_function(function: Callable[..., Any]) -> bool:
    """Return whether a call of the function gives a generator, asynchronous or not."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


class Gathering(Struct, frozen=True):
    """The way to make a result of the pieces that a generator yields, by its return type.

    A result has to fit the published schema, whatever the generator yields in this call.
    """

    type: Any
    kind: Literal["any", "text", "last", "list", "returned"] = "any"
    """`any`: by the pieces. `text`: joined. `last`: the last piece. `list`: all. `returned`: the return value."""

    @classmethod
    def of(cls, annotation: Any) -> Gathering:
        """Return the way that a generator function's return type asks for."""
        arguments = get_args(annotation)
        if not arguments:
            return cls(Any)
        if len(arguments) == 3 and arguments[2] not in (None, type(None)):
            return cls(arguments[2], "returned")
        yielded = arguments[0]
        kinds = get_args(yielded) if get_origin(yielded) in (Union, types.UnionType) else (yielded,)
        others = tuple(kind for kind in kinds if kind is not Progress)
        if not others or Any in others:
            return cls(Any)
        piece = cast(Any, Union)[others]
        if piece is str:
            return cls(piece, "text")
        if len(others) < len(kinds):
            return cls(piece, "any" if str in others else "last")
        return cls(types.GenericAlias(list, (piece,)), "list")


class _Pieces:
    """The pieces that a generator yielded so far."""

    def __init__(self, gathering: Gathering) -> None:
        self._gathering = gathering
        self._request = _current_request()
        self._pieces: list[Any] = []
        self._bytes = 0
        self._reports = gathering.type is not Any  # a list has a kind of its own

    def take(self, piece: Any) -> None:
        """Report a piece if it is `Progress`, and keep it otherwise."""
        if isinstance(piece, Progress):
            self._reports = True
            if self._request is not None:
                self._request.report_progress(piece.progress, piece.total, piece.message)
        else:
            self._pieces.append(piece)
            if len(self._pieces) > _MOST_PIECES:
                raise ToolError(f"it yielded more than {_MOST_PIECES:,} pieces of a result; yield larger ones")
            self._bytes += len(piece) if isinstance(piece, str | bytes) else size_of(piece)
            if self._bytes > _MOST_BYTES:
                raise ToolError(f"it yielded more than {_MOST_BYTES:,} bytes of a result; yield less")
        if self._request is not None:
            self._request.raise_if_cancelled()

    def result(self, returned: Any = None) -> Any:
        """Return the result made of the pieces."""
        pieces, kind = self._pieces, self._gathering.kind
        if returned is not None:
            return returned
        if kind == "returned":
            return None
        is_text = all(isinstance(piece, str) for piece in pieces)
        if kind == "list":
            return pieces
        if is_text and (kind == "text" or (kind == "any" and pieces)):
            return "".join(pieces)
        if self._reports:
            return pieces[-1] if pieces else None
        return pieces


def drained(generator: Generator[Any, None, Any], gathering: Gathering) -> Any:
    """Run a generator to its end.

    Raises:
        RequestCancelledError: The request was cancelled meanwhile; the generator is closed.
    """
    pieces = _Pieces(gathering)
    returned: list[Any] = []
    with closing(_delegating(generator, returned)) as yielded:
        for piece in yielded:
            pieces.take(piece)
    return pieces.result(returned[0])


def _delegating(generator: Generator[Any, None, Any], returned: list[Any]) -> Generator[Any]:
    returned.append((yield from generator))


async def as_drained(generator: AsyncGenerator[Any, None], gathering: Gathering) -> Any:
    """Run an asynchronous generator to its end, as `drained` does."""
    pieces = _Pieces(gathering)
    async with aclosing(generator):
        async for piece in generator:
            pieces.take(piece)
    return pieces.result()


def _current_request() -> RequestContext | None:
    try:
        return get_request_context()
    except LookupError:  # the agent's own model has called it
        return None
