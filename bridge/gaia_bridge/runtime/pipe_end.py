"""One end of a pipe, whose descriptor is closed once, with asyncio as with uvloop.

asyncio only closes the file object. uvloop closes the descriptor, and then the file object: by then, another thread may
have opened something with that number, and would lose it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, TypeVar

_P = TypeVar("_P", bound=asyncio.BaseProtocol)

_STANDARD: Final = 2
"""The last descriptor of standard streams, which uvloop leaves to the file object. A pipe can have such a number if
the parent process had closed these streams."""


class PipeEnd:
    """A file object around a descriptor, in the form that event loops require.

    Args:
        descriptor: Of a pipe, a socket or a terminal; nobody else closes it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_ours = True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close the descriptor, unless it is closed already or the loop closes it."""
        if self._is_ours:
            self._is_ours = False
            os.close(self._descriptor)

    async def connect_reader(self, protocol: Callable[[], _P]) -> tuple[asyncio.ReadTransport, _P]:
        """Let the running loop read from the descriptor; closing the transport closes the descriptor."""
        return await self._left_to_its_closer().connect_read_pipe(protocol, self)

    async def connect_writer(self, protocol: Callable[[], _P]) -> tuple[asyncio.WriteTransport, _P]:
        """Let the running loop write to the descriptor; closing the transport closes the descriptor."""
        return await self._left_to_its_closer().connect_write_pipe(protocol, self)

    def _left_to_its_closer(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, after leaving the closing of the descriptor to it if it does not use `close`."""
        loop = asyncio.get_running_loop()
        left_to_us = isinstance(loop, asyncio.BaseEventLoop) or self._descriptor <= _STANDARD
        self._is_ours = self._is_ours and left_to_us
        return loop
