"""Functions that report on their way: generators that yield `Progress`, and what their result is.

What is yielded beside `Progress` are pieces of the result: texts are joined; of a generator that reports progress the
last other thing is the result, as an asynchronous generator cannot return one; otherwise they are a list. What a
generator returns counts more.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any, Final, Union, cast, get_args, get_origin

from gaia_bridge.calls.request_context import RequestContext, get_request_context
from gaia_bridge.errors import ToolError
from gaia_bridge.model import Progress

__all__ = ["as_drained", "drained", "drained_type", "is_generator_function"]

_MOST_PIECES: Final = 100_000
"""Of one result: a generator may have no end, and what it yields is kept until then."""


def is_generator_function(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a generator, asynchronous or not."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


class _Pieces:
    """What a generator yielded so far."""

    def __init__(self) -> None:
        self._request = _current_request()
        self._pieces: list[Any] = []
        self._reports = False

    def take(self, piece: Any) -> None:
        """Report it, or keep it.

        Raises:
            RequestCancelledError: Nobody waits for the rest.
        """
        if isinstance(piece, Progress):
            self._reports = True
            if self._request is not None:
                self._request.report_progress(piece.progress, piece.total, piece.message)
        else:
            self._pieces.append(piece)
            if len(self._pieces) > _MOST_PIECES:
                raise ToolError(f"it yielded more than {_MOST_PIECES:,} pieces of a result; yield larger ones")
        if self._request is not None:
            self._request.raise_if_cancelled()

    @property
    def result(self) -> Any:
        """What they come to."""
        pieces = self._pieces
        if pieces and all(isinstance(piece, str) for piece in pieces):
            return "".join(pieces)
        if self._reports:
            return pieces[-1] if pieces else None
        return pieces


def drained(generator: Generator[Any, None, Any]) -> Any:
    """Run a generator to its end.

    Raises:
        RequestCancelledError: The request was cancelled meanwhile; the generator is closed.
    """
    pieces = _Pieces()
    returned: list[Any] = []
    with closing(_delegating(generator, returned)) as yielded:
        for piece in yielded:
            pieces.take(piece)
    return pieces.result if returned[0] is None else returned[0]


def _delegating(generator: Generator[Any, None, Any], returned: list[Any]) -> Generator[Any]:
    returned.append((yield from generator))


async def as_drained(generator: AsyncGenerator[Any, None]) -> Any:
    """`drained` for asynchronous generators."""
    pieces = _Pieces()
    async with aclosing(generator):
        async for piece in generator:
            pieces.take(piece)
    return pieces.result


def drained_type(annotation: Any) -> Any:
    """The type of the result of a generator function with this return type."""
    arguments = get_args(annotation)
    if not arguments:
        return Any
    if len(arguments) == 3 and arguments[2] not in (None, type(None)):
        return arguments[2]
    yielded = arguments[0]
    kinds = get_args(yielded) if get_origin(yielded) in (Union, types.UnionType) else (yielded,)
    others = tuple(kind for kind in kinds if kind is not Progress)
    if not others:
        return Any
    piece = cast(Any, Union)[others]
    if piece is str or len(others) < len(kinds):
        return piece
    return types.GenericAlias(list, (piece,))


def _current_request() -> RequestContext | None:
    try:
        return get_request_context()
    except LookupError:  # the agent's own model has called it
        return None
