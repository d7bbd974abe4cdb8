"""Who has the port: nobody, a bridge, or a stranger that says nothing, nonsense, or too much."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge_cli import main
from gaia_bridge_desk.doctor import ports
from gaia_bridge_desk.doctor.ports import PORTS
from tests.cli.running import running, write_agent
from tests.desk.doctor.looking import SOON, bad, by_id, look


@pytest.fixture(autouse=True)
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """The usual port, which is free."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        number: int = one.getsockname()[1]
    monkeypatch.setattr(ports, "DEFAULT_PORT", number)
    return number


@contextmanager
def stranger(port: int, says: bytes) -> Generator[None]:
    """Another program of this machine, on a port."""
    with socket.create_server(("127.0.0.1", port)) as listener:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.recv(4_096)
                        connection.sendall(says)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_free_port_is_fine(port: int) -> None:
    assert set(by_id(look(PORTS))) == {"port.free"}


@pytest.mark.parametrize(
    "says", [b"", b"SSH-2.0-x\r\n", b'HTTP/1.1 200 OK\r\n\r\n{"status": "healthy"}', b"x" * 200_000]
)
def test_a_stranger_is_found_with_its_process(port: int, says: bytes) -> None:
    with stranger(port, says):
        finding = by_id(look(PORTS))["port.stranger"]
    assert str(port) in finding.message
    if Path("/proc/net/tcp").exists():
        assert f"process {os.getpid()}" in finding.message


def test_the_process_of_a_stranger_is_looked_for_beside_the_event_loop(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_in: list[int] = []

    def listener(number: int) -> str:
        looked_in.append(threading.get_ident())
        return f"the process of {number}"

    monkeypatch.setattr(ports, "_listener", listener)
    with stranger(port, b""):
        assert f"the process of {port}" in by_id(look(PORTS))["port.stranger"].message
    assert looked_in and threading.get_ident() not in looked_in


def test_a_stranger_that_says_nothing_is_found_within_its_time(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        assert bad(look(PORTS, limits=SOON)) == {"port.stranger"}


@pytest.mark.parametrize("options", [[], ["--auth"]])
def test_a_bridge_is_known_with_a_token_and_without(port: int, options: list[str]) -> None:
    agent = write_agent(Path.cwd())
    with running("serve", str(agent), "--port", str(port), *options, cwd=Path.cwd()) as bridge:
        bridge.until_error("/mcp")
        assert set(by_id(look(PORTS))) == {"port.ours"}


def test_an_editor_that_looks_where_nobody_listens_is_found() -> None:
    assert main(["install", "cursor", "--http", "--url", "http://127.0.0.1:9/mcp", "--yes"]) == 0
    found = by_id(look(PORTS))
    assert "Cursor" in found["port.nobody"].message and "port.free" in found


@given(st.binary(max_size=200))
def test_no_nonsense_is_taken_for_a_bridge(answer: bytes) -> None:
    assert not ports._is_bridge(answer)  # pyright: ignore[reportPrivateUsage]
