"""One end of a pipe, whose descriptor is closed once, by whichever event loop it is connected to.

asyncio leaves the closing to the file that it is given. uvloop closes the descriptor, and then the file: by then,
another thread may have opened something with that number, and would lose it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, TypeVar

_P = TypeVar("_P", bound=asyncio.BaseProtocol)

_STANDARD: Final = 2
"""Up to here, descriptors are those of standard streams, which uvloop leaves to the file. A pipe lies there where
whoever started the process had closed them."""


class PipeEnd:
    """A descriptor as event loops want it, which is as a file.

    Args:
        descriptor: Of a pipe, a socket or a terminal; nobody else closes it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_ours = True

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close the descriptor, unless that is done or is left to the loop."""
        if self._is_ours:
            self._is_ours = False
            os.close(self._descriptor)

    async def connect_reader(self, protocol: Callable[[], _P]) -> tuple[asyncio.ReadTransport, _P]:
        """Have the running loop read; closing the transport closes the descriptor.

        Args:
            protocol: Makes the protocol that is told what comes.
        """
        return await self._left_to_its_closer().connect_read_pipe(protocol, self)

    async def connect_writer(self, protocol: Callable[[], _P]) -> tuple[asyncio.WriteTransport, _P]:
        """Have the running loop write; closing the transport closes the descriptor.

        Args:
            protocol: Makes the protocol that is told when to pause.
        """
        return await self._left_to_its_closer().connect_write_pipe(protocol, self)

    def _left_to_its_closer(self) -> asyncio.AbstractEventLoop:
        """The running loop, which closes the descriptor from now on, if not through `close`."""
        loop = asyncio.get_running_loop()
        left_to_us = isinstance(loop, asyncio.BaseEventLoop) or self._descriptor <= _STANDARD
        self._is_ours = self._is_ours and left_to_us
        return loop
