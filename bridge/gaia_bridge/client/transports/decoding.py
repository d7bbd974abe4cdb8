"""Bodies that are compressed although it was asked not to be: decoded in pieces of bounded size."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

from gaia_bridge.client.transports.http1 import PIECE

_EITHER: Final = zlib.MAX_WBITS | 32
"""Has zlib find out whether it is gzip or its own format."""
_BARE: Final = -zlib.MAX_WBITS
"""What some servers take `deflate` for."""


class UndecodableError(Exception):
    """The body is not encoded as it says."""


class Decoder:
    """Decodes a body. A thousand bytes may come of one, so it is taken apart no faster than it is wanted.

    Args:
        coding: One of `CODINGS`.
        read: Waits for the next bytes of the body; empty at its end.
    """

    CODINGS: Final = ("gzip", "deflate")

    def __init__(self, coding: str, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read_on = read
        self._zlib = zlib.decompressobj(_EITHER)
        self._may_be_bare = coding == "deflate"
        self._rest = b""

    async def read(self) -> bytes:
        """Wait for the next bytes, decoded; empty at the end of the body.

        Raises:
            UndecodableError: The body is not encoded as it says.
        """
        while True:
            if self._rest:
                await asyncio.sleep(0)
            elif not (data := await self._read_on()):
                return b""
            else:
                self._rest = data
            if piece := self._decoded():
                return piece

    def _decoded(self) -> bytes:
        data = self._rest
        try:
            try:
                piece = self._zlib.decompress(data, PIECE)
            except zlib.error:
                if not self._may_be_bare:
                    raise
                self._zlib = zlib.decompressobj(_BARE)
                piece = self._zlib.decompress(data, PIECE)
        except zlib.error as error:
            raise UndecodableError(str(error)) from None
        self._may_be_bare = False
        self._rest = self._zlib.unconsumed_tail
        return piece
