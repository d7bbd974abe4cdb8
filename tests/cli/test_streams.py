"""Whoever reads standard error may stop, be slow or be gone: nobody waits for it, and what was lost is said."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import pytest

from gaia_bridge.calls.call_log import CallRecord, tell_of
from gaia_bridge_cli.logs import log_to_stderr
from gaia_bridge_cli.streams import QueuedBytes, drain, queue_standard_streams
from tests.support.waiting import PATIENCE

LINES = (
    b"INFO    gaia_bridge.calls.call_log: client/1 #0001 tools/call work of code: ok in 1.5 ms, 10 B in, 20 B out\n"
    b"printed \\ud800\n"
)

FULL = 1024 * 1024
"""More than any pipe takes by default."""


@contextmanager
def piped() -> Generator[tuple[int, int]]:
    """Both ends of a pipe. The writing end stays open, to nowhere: a thread that was refused may yet write to it."""
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), writing)


def what_is_there(reading: int) -> bytes:
    """What is in a pipe: the thread that writes may begin before all lines have come, and say twice what it dropped."""
    os.set_blocking(reading, False)
    found: list[bytes] = []
    with suppress(BlockingIOError):
        while piece := os.read(reading, 65_536):
            found.append(piece)
    return b"".join(found)


def read_until(descriptor: int, end: bytes) -> bytes:
    found = b""
    while not found.endswith(end):
        found += os.read(descriptor, 65_536)
    return found


@pytest.mark.requirement("F-202")
def test_what_is_written_arrives_in_order() -> None:
    with piped() as (reading, writing):
        stream = QueuedBytes(writing)
        for number in range(100):
            stream.write(f"line {number}\n".encode())
        assert stream.drain(10)
        assert os.read(reading, 65_536) == b"".join(f"line {number}\n".encode() for number in range(100))


@pytest.mark.requirement("F-310")
def test_a_line_that_is_made_later_is_made_by_the_thread_that_writes_in_its_place() -> None:
    makers: list[str] = []

    def line(number: int) -> bytes:
        makers.append(threading.current_thread().name)
        return f"line {number}\n".encode()

    with piped() as (reading, writing):
        stream = QueuedBytes(writing)
        for number in range(0, 100, 2):
            stream.write(f"line {number}\n".encode())
            stream.write_later(partial(line, number + 1), 100)
        assert stream.drain(10)
        assert os.read(reading, 65_536) == b"".join(f"line {number}\n".encode() for number in range(100))
    assert set(makers) == {"gaia-stream"}


@pytest.mark.requirement("F-310", "F-313")
def test_lines_that_are_made_later_are_bounded_and_counted_too() -> None:
    with piped() as (reading, writing):
        stream = QueuedBytes(writing, limit=1_000)
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 1_000)
        for _ in range(100):
            stream.write_later(lambda: b"made\n", 100)
        stream.write(b"y" * 2_000)  # the beginning of a line that found no place
        stream.write_later(lambda: b"rest\n", 100)
        said = read_until(reading, b"nobody took them\n")
        assert stream.drain(10)
        said += what_is_there(reading)
    kept = said.count(b"made\n")
    assert 10 <= kept <= 40
    assert sum(int(dropped) for dropped in re.findall(rb"gaia-bridge: (\d+) log lines", said)) == 101 - kept
    assert b"rest" not in said


@pytest.mark.requirement("F-310")
def test_a_line_that_cannot_be_made_costs_no_other() -> None:
    with piped() as (reading, writing):
        stream = QueuedBytes(writing)
        stream.write_later(lambda: str(1 / 0).encode(), 10)
        stream.write(b"next\n")
        assert stream.drain(10)
        assert os.read(reading, 65_536) == b"gaia-bridge: a log line could not be made: ZeroDivisionError\nnext\n"


@pytest.mark.requirement("F-202")
def test_nobody_waits_for_a_pipe_that_nobody_reads_and_what_was_dropped_is_said() -> None:
    with piped() as (reading, writing):
        stream = QueuedBytes(writing, limit=FULL)
        for _ in range(20):
            stream.write(b"x" * (FULL // 8 - 1) + b"\n")
        assert not stream.drain(0.01)
        said = read_until(reading, b"nobody took them\n")
        assert stream.drain(10)
        said += what_is_there(reading)
    lines = said.splitlines()
    kept = lines.count(b"x" * (FULL // 8 - 1))
    told = [int(dropped) for dropped in re.findall(rb"^gaia-bridge: (\d+) log lines were dropped", said, re.MULTILINE)]
    assert (sum(told), len(told) + kept) == (20 - kept, len(lines))
    assert 0 < kept < 20


@pytest.mark.requirement("F-202")
def test_a_line_that_comes_in_pieces_is_dropped_as_a_whole() -> None:
    with piped() as (reading, writing):
        stream = QueuedBytes(writing, limit=FULL)
        while stream.drain(0.01):
            stream.write(b"x" * 65_535 + b"\n")
        stream.write(b"y" * FULL)
        stream.write(b"rest of it")
        stream.write(b"\n")
        assert b"rest of it" not in read_until(reading, b"nobody took them\n")
        stream.write(b"after\n")
        assert read_until(reading, b"after\n").endswith(b"after\n")


@pytest.mark.requirement("F-202")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_a_full_disk_stops_nothing() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    stream = QueuedBytes(descriptor)
    for _ in range(3):
        stream.write(b"lost\n")
        assert stream.drain(10)
    os.close(descriptor)


@pytest.mark.requirement("F-202")
def test_what_a_full_disk_has_cost_is_said_once_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    room, writes = threading.Event(), os.write

    def write(descriptor: int, data: Any) -> int:
        if not room.is_set():
            raise OSError(28, "No space left on device")
        return writes(descriptor, data)

    with piped() as (reading, writing):
        stream = QueuedBytes(writing)
        monkeypatch.setattr(os, "write", write)
        for _ in range(3):
            stream.write(b"lost\n")
            assert stream.drain(10)
        room.set()
        stream.write(b"again\n")
        assert (
            read_until(reading, b"took them\n") == b"again\ngaia-bridge: 3 log lines were dropped: nobody took them\n"
        )


@pytest.mark.requirement("F-202")
def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    with piped() as (reading, writing):
        os.set_blocking(writing, False)
        stream = QueuedBytes(writing)
        stream.write(b"x" * (FULL - 1) + b"\n")
        assert len(read_until(reading, b"\n")) == FULL
        assert stream.drain(10)


@pytest.mark.requirement("F-202")
def test_a_child_of_a_fork_still_says_something() -> None:
    with piped() as (reading, writing):
        stream = QueuedBytes(writing)
        stream.write(b"parent\n")
        assert stream.drain(10)
        child = os.fork()
        if child == 0:
            stream.write(b"child\n")
            stream.drain(10)
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 100) == b"parent\nchild\n"


@contextmanager
def own_streams(monkeypatch: pytest.MonkeyPatch, writing: int) -> Generator[TextIO]:
    """Standard error is a file of the test's own."""
    with os.fdopen(os.dup(writing), "w") as real:
        for name in ("stderr", "__stderr__"):
            monkeypatch.setattr(sys, name, real)
        yield real


@pytest.mark.requirement("F-202")
def test_the_streams_of_a_process_are_put_back_once_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with piped() as (reading, writing), own_streams(monkeypatch, writing) as real:
        put_back = queue_standard_streams({"stderr": writing})
        stop = log_to_stderr("info")
        logging.getLogger("gaia_bridge.example").info("news")
        tell_of(lambda: CallRecord("client/1\n", 1, "tools/call", "work", "code", "ok", 0.0015, 10, 20))
        sys.stderr.write("printed \ud800\n")
        stop()
        put_back()
        assert sys.stderr is real
        assert os.read(reading, 65_536).endswith(LINES)


@pytest.mark.requirement("F-202")
def test_a_stream_that_nobody_reads_stays_queued_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with piped() as (reading, writing), own_streams(monkeypatch, writing) as real:
        put_back = queue_standard_streams({"stderr": writing})
        sys.stderr.write("x" * (FULL - 1) + "\n")
        put_back()
        assert sys.stderr is not real
        read_until(reading, b"\n")
        assert drain(10)


@pytest.mark.requirement("F-202")
def test_streams_that_somebody_has_replaced_are_left_alone() -> None:
    before = sys.stdout, sys.stderr
    put_back = queue_standard_streams()
    assert (sys.stdout, sys.stderr) == before
    put_back()


@pytest.mark.requirement("F-202")
def test_a_stream_is_not_written_as_long_as_what_was_dropped_is_not_said() -> None:
    with piped() as (reading, writing):
        size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4_096)
        os.write(writing, b"x" * size)
        stream = QueuedBytes(writing, limit=size)
        is_taken = threading.Event()

        def line() -> bytes:
            is_taken.set()
            return b"y" * (size - 1) + b"\n"

        stream.write_later(line, size)
        assert is_taken.wait(PATIENCE)
        stream.write(b"dropped\n")
        assert os.read(reading, size) == b"x" * size, "the first line finds a place, and what is said of the other none"
        assert not stream.drain(0.1)
        assert read_until(reading, b"nobody took them\n").startswith(b"y" * (size - 1) + b"\ngaia-bridge: 1 log lines")
        assert stream.drain(10)
