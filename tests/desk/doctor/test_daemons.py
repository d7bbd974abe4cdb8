"""Bridges in the background that hang, are of another version, publish what is gone, or are none."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.version import __version__
from gaia_bridge_cli.at_login import at_login
from gaia_bridge_daemon.front.launching import connected
from gaia_bridge_daemon.front.place import Place, Scope
from gaia_bridge_desk.doctor.daemons import DAEMONS
from tests.desk.doctor.looking import SOON, bad, by_id, look
from tests.support.waiting import eventually

FAKE = Path(__file__).parents[2] / "servers" / "fake_bridge.py"

Start = Callable[..., Place]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="gb") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        made = os.path.join(place, "gaia-bridge")
        os.mkdir(made, 0o700)
        yield made


@pytest.fixture
def start(folder: str) -> Generator[Start]:
    """Starts a program that answers like a bridge."""
    with ExitStack() as stack:

        def start(how: str = "greet", version: str = __version__) -> Place:
            place = Place(folder, "default")
            lock = os.open(os.devnull, os.O_RDONLY)
            words = [sys.executable, "-I", "-S", str(FAKE), place.front, how, version, str(lock)]
            process = subprocess.Popen(words, stderr=subprocess.DEVNULL, pass_fds=[lock])
            os.close(lock)
            stack.callback(process.wait)
            stack.callback(process.kill)

            def is_there() -> bool:
                connection = connected(place)
                if connection is not None:
                    connection.close()
                return connection is not None

            eventually(is_there)
            return place

        yield start


def telling(folder: str, stack: ExitStack, **status: Any) -> None:
    """Have somebody answer at the socket of the usual bridge, with a status."""
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(Place(folder, "default").front)
    listener.listen()
    stack.callback(listener.shutdown, socket.SHUT_RDWR)
    told: Any = {"gaia-bridge": {"version": __version__, "pid": 7, "fronts": ["one", "two"], **status}}

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    if connection.recv(4_096):
                        connection.sendall(json.dumps(told).encode() + b"\n")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()


def test_no_bridge_in_the_background_is_fine_and_no_folder_is_made(folder: str) -> None:
    os.rmdir(folder)
    assert set(by_id(look(DAEMONS))) == {"daemon.none"}
    assert not os.path.exists(folder)


def test_a_bridge_that_answers_is_told_of(start: Start) -> None:
    start()
    assert set(by_id(look(DAEMONS))) == {"daemon.fine"}


def test_one_that_takes_connections_and_says_nothing_is_found_within_its_time(start: Start) -> None:
    place = start("hang")
    finding = by_id(look(DAEMONS, limits=SOON))["daemon.mute"]
    assert finding.remedy == "gaia-bridge down" and place.log in finding.message
    other = Place(os.path.dirname(place.front), "servers-1234")
    os.rename(place.front, other.front)
    finding = by_id(look(DAEMONS, limits=SOON))["daemon.mute"]
    assert re.fullmatch(r"kill -9 \d+", finding.remedy)


def test_what_says_something_else_is_no_bridge(start: Start) -> None:
    start("stammer")
    assert bad(look(DAEMONS)) == {"daemon.strange"}


def test_one_that_ends_while_it_is_asked_is_no_finding(start: Start) -> None:
    start("close")
    assert set(by_id(look(DAEMONS))) == {"daemon.none"}


@pytest.mark.parametrize(("version", "id_"), [("0.0.1", "daemon.older"), ("999.0", "daemon.newer")])
def test_one_of_another_version_is_found(start: Start, version: str, id_: str) -> None:
    start("greet", version)
    finding = by_id(look(DAEMONS))[id_]
    assert version in finding.message and __version__ in finding.message


def test_one_whose_file_of_servers_is_gone_is_found_with_the_command_that_ends_it(folder: str, tmp_path: Path) -> None:
    gone, there = str(tmp_path / "my servers.json"), tmp_path / "there.py"
    there.write_text("", encoding="utf-8")
    scope = {"config": gone, "agents": [f"{there}:A", "package:B"], "folder": ""}
    end = f"gaia-bridge down --config '{gone}' {there}:A package:B"
    folders = {"": end, str(tmp_path): f"cd {tmp_path} && {end}", str(tmp_path / "no"): "gaia-bridge down --all"}
    for place, remedy in folders.items():
        with ExitStack() as stack:
            telling(folder, stack, scope={**scope, "folder": place})
            found = by_id(look(DAEMONS))
        os.unlink(Place(folder, "default").front)
        assert gone in found["daemon.gone"].message and found["daemon.gone"].remedy == remedy
        assert "2 windows" in found["daemon.fine"].message


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_a_program_that_is_gone_and_would_be_started_at_login_is_found(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    scope = Scope(str(tmp_path / "100% mine $x.json"))
    for executable, ids in (
        (sys.executable, {"daemon.none"}),
        ("/gone/python3", {"daemon.none", "daemon.at-login-gone"}),
    ):
        monkeypatch.setattr(sys, "executable", executable)
        written = at_login(scope, system)
        written.path.parent.mkdir(parents=True, exist_ok=True)
        written.path.write_text(written.text, encoding="utf-8")
        found = by_id(look(DAEMONS, platform=system))
        assert set(found) == ids
    finding = found["daemon.at-login-gone"]
    assert finding.remedy == f"gaia-bridge up --at-login --config '{scope.config}'"
    for text in ("nonsense", written.text[:60]):
        written.path.write_text(text, encoding="utf-8")
        assert set(by_id(look(DAEMONS, platform=system))) == {"daemon.none"}
