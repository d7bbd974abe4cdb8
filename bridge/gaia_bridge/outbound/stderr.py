"""What child processes write to their error output, line by line in our log."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from gaia_bridge.text import MAX_SHOWN, printable

__all__ = ["ErrorOutput", "error_output"]

logger = logging.getLogger(__name__)

_CHUNK: Final = 64 * 1024
"""Bytes of one read, which is what a pipe holds on Linux; also the longest line that is waited for."""

_CHUNKS_AT_ONCE: Final = 16
"""Chunks that are read without giving way to other tasks."""


class ErrorOutput:
    """The reading end of one child's error output. Made by `error_output`.

    A pipe of its own, because it is always drained, so that no child blocks on it (P-8, F-013), because every line
    can be named, and because our own error output may be closed or no file at all.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._unread, write_end = os.pipe()
        os.set_blocking(self._unread, False)
        self._partial = b""
        self._scope = anyio.CancelScope(shield=True)
        self.writer = os.fdopen(write_end, "w", encoding="utf-8")
        """What to launch the child with; close it once the child has it."""
        self.last_line = ""

    async def drain(self) -> None:
        """Log until the last process that holds the pipe is gone, or until `stop`.

        Shielded: a child that is being shut down has the most to say.
        """
        with self._scope:
            while self._read() != 0:
                await anyio.wait_readable(self._unread)
        self._read_all()

    def stop(self) -> None:
        """End `drain`."""
        self._scope.cancel()

    def last_words(self) -> str:
        """The last line that is not blank, of all that the child has written."""
        self._read_all()
        return self.last_line

    def close(self) -> None:
        """Release the pipe, after `drain` returned."""
        self.writer.close()
        os.close(self._unread)

    def _read_all(self) -> None:
        # Not for ever: a process that the child left behind may write faster than we read.
        for _ in range(_CHUNKS_AT_ONCE):
            if not self._read():
                return

    def _read(self) -> int | None:
        """Log a chunk; its length, 0 at the end of the output, or `None` if nothing is there right now."""
        try:
            chunk = os.read(self._unread, _CHUNK)
        except BlockingIOError:
            return None
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        if self._partial and (not chunk or len(self._partial) > _CHUNK):
            lines.append(self._partial)
            self._partial = b""
        for line in lines:
            if text := printable(line[: 4 * MAX_SHOWN].decode(errors="replace").strip()):
                self.last_line = text
                logger.info("%s: %s", self._server, text)
        return len(chunk)


@asynccontextmanager
async def error_output(server: str) -> AsyncGenerator[ErrorOutput]:
    """An error output for one child, drained for as long as the context is open.

    Args:
        server: Whose output it is, for the log.

    Raises:
        OSError: The process has no file descriptors left.
    """
    output = ErrorOutput(server)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(output.drain)
            try:
                yield output
            finally:
                output.stop()
    finally:
        output.close()
