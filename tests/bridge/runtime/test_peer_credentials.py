"""Who is at the other end of a socket in the file system, as each system tells it."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gaia_bridge.runtime import peer_credentials as module
from gaia_bridge.runtime.peer_credentials import is_of_this_user, peer_process


@pytest.fixture
def pair() -> Generator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


class MacSocket:
    """A socket whose other end is a user's, as macOS has them; nobody's, where it does not tell."""

    def __init__(self, user: int | None) -> None:
        self._user = user

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        assert (level, option, size) == (0, 1, 76)
        if self._user is None:
            raise OSError
        return struct.pack("2Ih16I", 0, self._user, 1, *[20] * 16)


def test_our_own_programs_are_let_in_and_no_descriptor_is_needed_for_it(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", no_more)
    assert is_of_this_user(pair[0])


@pytest.mark.parametrize(("user", "is_let_in"), [(501, True), (0, True), (502, False), (None, False)])
def test_as_macos_tells_it(monkeypatch: pytest.MonkeyPatch, user: int | None, is_let_in: bool) -> None:
    monkeypatch.setattr(module, "socket", SimpleNamespace())
    monkeypatch.setattr(os, "geteuid", lambda: 501)
    assert is_of_this_user(MacSocket(user)) is is_let_in


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="Linux tells it so")
@pytest.mark.parametrize(("user", "is_let_in"), [(501, True), (0, True), (502, False)])
def test_as_linux_tells_it(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, user: int, is_let_in: bool
) -> None:
    class Credentials:
        size = module._CREDENTIALS.size  # pyright: ignore[reportPrivateUsage]

        def unpack(self, told: bytes) -> tuple[int, int, int]:
            assert struct.unpack("3i", told) == (os.getpid(), os.getuid(), os.getgid())
            return 1, user, 1

    monkeypatch.setattr(module, "_CREDENTIALS", Credentials())
    monkeypatch.setattr(os, "geteuid", lambda: 501)
    assert is_of_this_user(pair[0]) is is_let_in


def test_who_listens_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as connection:
        listener.bind("a")
        listener.listen()
        connection.connect("a")
        assert peer_process(connection) == os.getpid()


def test_who_listens_is_known_on_macos_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class Connection:
        def getsockopt(self, level: int, option: int) -> int:
            assert (level, option) == (0, 2)
            return 77

    monkeypatch.setattr(module, "socket", SimpleNamespace())
    connection: Any = Connection()
    assert peer_process(connection) == 77
