"""Standard output and error: whoever reads them may be slow, or not there, and no server waits for it.

What is written is queued, and one thread for each writes it to the descriptor. A terminal that is held, a pipe that
nobody reads and a disk that is full stop that thread, and nothing else. It writes at most so often: to wake it costs
more than a line does. Other commands have such a standard error too where it is no terminal, and wait for it until that
was in vain once, so that their output keeps its order.
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

from gaia_bridge.constants import STREAM_BYTES, STREAM_FAREWELL, STREAM_INTERVAL, STREAM_PATIENCE

_WRITABLE: Final = 1.0
"""Seconds between two looks whether a descriptor that does not block can be written to."""


_DESCRIPTORS: Final = {"stdout": 1, "stderr": 2}


class QueuedBytes(io.BufferedIOBase):
    """A stream that never blocks and never fails. Lines that find no place are counted, and that is said.

    Args:
        descriptor: Where a thread of its own writes.
        limit: Bytes that wait to be written.
        patience: Seconds that whoever writes waits for it to be written, until that was in vain once.
    """

    def __init__(self, descriptor: int, limit: int = STREAM_BYTES, patience: float = 0) -> None:
        super().__init__()
        self.patience = patience
        self._descriptor = descriptor
        self._limit = limit
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Start empty: also in a child of a process that forked, where the thread is not and is made again."""
        self._lock = threading.RLock()  # which a signal handler may take again
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[bytes | Callable[[], bytes]] = deque()
        self._queued = 0
        self._dropped = 0
        self._tells = False
        """Whether the thread is writing that lines were dropped."""
        self._in_line = False
        self._fails = False
        self._asleep = False
        """Whether the thread has nothing to do, and is to be told when there is something."""
        self._awaited = 0
        """How many wait until everything is written."""
        self._thread: threading.Thread | None = None

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The descriptor that is written to in the end."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether that is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        """Queue bytes.

        Returns:
            How many they are, whether or not there was a place for them.
        """
        data = bytes(data)
        with self._changed:
            if self._in_line or self._queued + len(data) > self._limit:
                self._in_line = not data.endswith(b"\n")  # what is left of a line would be taken for one
                self._drop(data.count(b"\n"))
            else:
                self._queue(data, len(data))
        if self.patience and not self.drain(self.patience):
            self.patience = 0
        return len(data)

    def write_later(self, line: Callable[[], bytes], size: int) -> None:
        """Queue a line that is made when it is its turn, by the thread that writes it.

        Args:
            line: Makes it, with its end.
            size: Bytes that it counts for until then.
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
            seconds: How long at most.

        Returns:
            Whether it is.
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
        """Write to the descriptor; returns how many lines could not be."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # somebody else made it so
                select.select([], [self._descriptor], [], _WRITABLE)
            except OSError:  # nobody is there any more, or the disk is full
                return max(1, bytes(rest).count(b"\n"))
        return 0


def _written(line: Callable[[], bytes]) -> bytes:
    try:
        return line()
    except Exception as error:  # the thread has other lines to write
        return f"gaia-bridge: a log line could not be made: {type(error).__name__}\n".encode()


def queue_standard_streams(descriptors: Mapping[str, int] = _DESCRIPTORS, patience: float = 0) -> Callable[[], None]:
    """Let nobody wait for whoever reads standard output and error, from now on.

    Streams that somebody has replaced, as tests do, are left alone.

    Args:
        descriptors: Where each stream writes.
        patience: Seconds that whoever writes waits all the same, until that was in vain once.

    Returns:
        A function that waits for a bounded time until they are written, and puts the old streams back.
    """
    before = {name: getattr(sys, name) for name in descriptors}
    for name, descriptor in descriptors.items():
        if isinstance(queue := getattr(before[name], "buffer", None), QueuedBytes):
            queue.patience = patience
        elif before[name] is getattr(sys, f"__{name}__"):
            if before[name] is not None:
                before[name].flush()
            queued: Any = QueuedBytes(descriptor, patience=patience)
            # What is said while the interpreter ends may come after the stream was put back, by whoever still has it.
            atexit.register(queued.drain, STREAM_FAREWELL)
            setattr(sys, name, io.TextIOWrapper(queued, "utf-8", "backslashreplace", write_through=True))

    def put_back() -> None:
        if drain():  # else nobody reads, and whatever comes now would wait for it
            for name, stream in before.items():
                setattr(sys, name, stream)

    return put_back


def queue_stderr() -> Callable[[], None]:
    """Let a command wait for whoever reads its standard error, but not for ever; nothing changes on a terminal.

    Returns:
        A function that waits for a bounded time until it is written, and puts the old stream back.
    """
    if os.isatty(2):
        return lambda: None
    return queue_standard_streams({"stderr": 2}, STREAM_PATIENCE)


def drain(seconds: float = STREAM_FAREWELL) -> bool:
    """Wait until what was written to standard output and error has arrived.

    Args:
        seconds: How long at most.

    Returns:
        Whether it has.
    """
    end = time.monotonic() + seconds
    queued = [getattr(stream, "buffer", None) for stream in (sys.stdout, sys.stderr)]
    drained = [each.drain(max(0.0, end - time.monotonic())) for each in queued if isinstance(each, QueuedBytes)]
    return all(drained)
