"""Standard output and error: their readers may be slow, or gone, and no server waits for them.

Output is queued, and one thread for each stream writes it to the descriptor. A terminal that is held, a pipe without
a reader and a full disk stop that thread, and nothing else. It writes at bounded intervals, because to wake it costs
more than a line does. Other commands use such a standard error too where it is no terminal, and wait for it until a
wait was in vain once, so that their output keeps its order.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

STREAM_BYTES: Final = 1024 * 1024
"""Bytes that a server has written to standard output or error and nobody has read yet; of more, lines are dropped.
Some thousand lines: a terminal that was held for a while shows them all when it goes on."""

STREAM_INTERVAL: Final = 0.02
"""Seconds between two writes to these streams: long enough for many lines of a busy server, too short to be noticed."""

STREAM_FAREWELL: Final = 1.0
"""Seconds at the end of the process for these lines to be read."""

STREAM_PATIENCE: Final = 1.0
"""Seconds that a command waits once for its standard error to be read: a pager that is just starting takes less."""

_WRITABLE: Final = 1.0
"""Seconds between two checks whether a descriptor that does not block can be written to."""


_DESCRIPTORS: Final = {"stdout": 1, "stderr": 2}


class QueuedBytes(io.BufferedIOBase):
    """A stream that never blocks and never fails. Lines for which there is no room are counted and reported.

    Args:
        descriptor: The descriptor to which a thread of its own writes.
        limit: The most bytes that wait to be written.
        patience: Seconds that a writer waits until its output is written; no longer once that was in vain.
    """

    def __init__(self, descriptor: int, limit: int = STREAM_BYTES, patience: float = 0) -> None:
        super().__init__()
        self.patience = patience
        self._descriptor = descriptor
        self._limit = limit
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Start empty; also in a forked child, which has no such thread and starts one when needed."""
        self._lock = threading.RLock()  # reentrant, because a signal handler may take it again
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[bytes | Callable[[], bytes]] = deque()
        self._queued = 0
        self._dropped = 0
        self._tells = False
        """Whether the thread is writing that lines were dropped."""
        self._in_line = False
        self._fails = False
        self._asleep = False
        """Whether the thread waits, and has to be notified of new output."""
        self._awaited = 0
        """The number of callers that wait until everything is written."""
        self._thread: threading.Thread | None = None

    def writable(self) -> bool:
        """Return `True`."""
        return True

    def fileno(self) -> int:
        """Return the descriptor to which the thread writes."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether the descriptor is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        """Queue bytes.

        Returns:
            The number of bytes, whether or not there was room for them.
        """
        data = bytes(data)
        with self._changed:
            if self._in_line or self._queued + len(data) > self._limit:
                self._in_line = not data.endswith(b"\n")  # else the rest of a dropped line would look like a line
                self._drop(data.count(b"\n"))
            else:
                self._queue(data, len(data))
        if self.patience and not self.drain(self.patience):
            self.patience = 0
        return len(data)

    def write_later(self, line: Callable[[], bytes], size: int) -> None:
        """Queue a line that is made just before it is written, by the thread that writes.

        Args:
            line: Returns the line, with its end.
            size: The bytes that it counts for until then.
        """
        with self._lock:
            if self._in_line or self._queued + size > self._limit:
                self._in_line = False
                self._drop(1)
                return
            self._waiting.append(line)
            self._queued += size
            if self._asleep or self._thread is None:
                self._wake()

    def drain(self, seconds: float) -> bool:
        """Wait until everything is written.

        Args:
            seconds: The longest wait.

        Returns:
            Whether everything is written.
        """
        with self._changed:
            self._awaited += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(self._is_written, seconds)
            finally:
                self._awaited -= 1

    def _is_written(self) -> bool:
        return not (self._queued or self._tells) and (self._fails or not self._dropped)

    def _queue(self, item: bytes | Callable[[], bytes], size: int) -> None:
        self._waiting.append(item)
        self._queued += size
        self._wake()

    def _drop(self, lines: int) -> None:
        self._dropped += lines
        self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="gaia-stream", daemon=True)
            self._thread.start()
        elif self._asleep:
            self._asleep = False
            self._changed.notify_all()

    def _write(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or (self._dropped and not self._fails)):
                    self._asleep = True
                    self._changed.wait()
                self._asleep = False
                lines, size = [*self._waiting], self._queued
                self._waiting.clear()
                dropped, self._dropped = self._dropped, 0
                self._tells = dropped > 0
            data = b"".join(line if isinstance(line, bytes) else _written(line) for line in lines)
            if dropped:
                data += f"gaia-bridge: {dropped} log lines were dropped: nobody took them\n".encode()
            unwritten = self._put(data)
            with self._changed:
                self._fails, self._tells = unwritten > 0, False
                self._dropped += unwritten and unwritten + dropped - (dropped > 0)
                self._queued -= size
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._awaited, STREAM_INTERVAL)

    def _put(self, data: bytes) -> int:
        """Write to the descriptor; return how many lines could not be written."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # other code has made it non-blocking
                select.select([], [self._descriptor], [], _WRITABLE)
            except OSError:  # the reader is gone, or the disk is full
                return max(1, bytes(rest).count(b"\n"))
        return 0


def _written(line: Callable[[], bytes]) -> bytes:
    try:
        return line()
    except Exception as error:  # the thread goes on with the other lines
        return f"gaia-bridge: a log line could not be made: {type(error).__name__}\n".encode()


def queue_standard_streams(descriptors: Mapping[str, int] = _DESCRIPTORS, patience: float = 0) -> Callable[[], None]:
    """Queue standard output and error from now on, so that no writer waits for their readers.

    Streams that were replaced, as tests do, are left alone.

    Args:
        descriptors: The descriptor of each stream.
        patience: Seconds that a writer waits all the same, until that was in vain once.

    Returns:
        A function that waits for a bounded time until all output is written, and restores the old streams.
    """
    before = {name: getattr(sys, name) for name in descriptors}
    for name, descriptor in descriptors.items():
        if isinstance(queue := getattr(before[name], "buffer", None), QueuedBytes):
            queue.patience = patience
        elif before[name] is getattr(sys, f"__{name}__"):
            if before[name] is not None:
                before[name].flush()
            queued: Any = QueuedBytes(descriptor, patience=patience)
            # Code that still holds the queued stream may write at the interpreter's end, after the old one is back.
            atexit.register(queued.drain, STREAM_FAREWELL)
            setattr(sys, name, io.TextIOWrapper(queued, "utf-8", "backslashreplace", write_through=True))

    def put_back() -> None:
        if drain():  # else there is no reader, and further output would wait for one
            for name, stream in before.items():
                setattr(sys, name, stream)

    return put_back


def queue_stderr() -> Callable[[], None]:
    """Bound the time that a command waits for the reader of its standard error; nothing changes on a terminal.

    Returns:
        A function that waits for a bounded time until all output is written, and restores the old stream.
    """
    if os.isatty(2):
        return lambda: None
    return queue_standard_streams({"stderr": 2}, STREAM_PATIENCE)


def drain(seconds: float = STREAM_FAREWELL) -> bool:
    """Wait until all output to standard output and error is written.

    Args:
        seconds: The longest wait.

    Returns:
        Whether all is written.
    """
    end = time.monotonic() + seconds
    queued = [getattr(stream, "buffer", None) for stream in (sys.stdout, sys.stderr)]
    drained = [each.drain(max(0.0, end - time.monotonic())) for each in queued if isinstance(each, QueuedBytes)]
    return all(drained)
