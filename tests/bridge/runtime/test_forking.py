"""A process that was forked keeps nothing of ours."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager

import pytest

from gaia_bridge.runtime.forking import FORKS
from gaia_bridge.server.http.listener import bind


@contextmanager
def forked(work: Callable[[], object] = lambda: None) -> Generator[None]:
    """While a forked process lives, that did something first."""
    reading, writing = os.pipe()
    done_reading, done_writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # without a way back into the test, whatever happens
        try:
            os.close(writing)
            work()
            os.write(done_writing, b"1")
            os.read(reading, 1)
        finally:
            os._exit(0)
    os.close(reading)
    os.close(done_writing)
    try:
        assert os.read(done_reading, 1) == b"1"
        yield
    finally:
        os.close(done_reading)
        os.close(writing)
        os.waitpid(pid, 0)


@pytest.mark.requirement("F-223")
def test_the_address_is_free_when_we_listen_no_longer_although_a_forked_process_lives() -> None:
    [listener] = bind("127.0.0.1", 0)
    address = listener.getsockname()
    with forked():
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        [again] = bind(*address)
        again.close()


@pytest.mark.requirement("F-223")
def test_what_is_not_ours_is_kept_also_under_a_number_that_was() -> None:
    ours, theirs = socket.socketpair()
    FORKS.conceal(ours.fileno())
    reading, writing = os.pipe()
    os.dup2(writing, ours.fileno())
    with closing(theirs), closing(ours), forked(lambda: os.write(ours.fileno(), b"x")):
        assert os.read(reading, 1) == b"x"
    os.close(reading)
    os.close(writing)


@pytest.mark.requirement("F-223")
def test_callbacks_are_called_in_forked_processes_until_they_are_called_off() -> None:
    reading, writing = os.pipe()
    end = FORKS.in_child(lambda: os.write(writing, b"x"))
    with forked():
        assert os.read(reading, 10) == b"x"
    end()
    end()
    with forked():
        os.set_blocking(reading, False)
        with pytest.raises(BlockingIOError):
            os.read(reading, 1)
    os.close(reading)
    os.close(writing)


@pytest.mark.requirement("F-223")
def test_a_client_sees_the_end_of_a_connection_that_a_forked_process_was_there_for() -> None:
    ours, client = socket.socketpair()
    FORKS.conceal(ours.fileno())
    with closing(client), forked():
        ours.close()
        client.settimeout(5)
        assert client.recv(1) == b""
