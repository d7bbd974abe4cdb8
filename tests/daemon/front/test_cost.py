"""What a front costs each window: the modules that it loads, which is most of its time and of its memory."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from gaia_bridge.constants import BRIDGE_PACKAGES
from gaia_bridge_daemon.front.greeting import format_greeting
from tests.cli.running import DEADLINE

OURS = {
    "gaia_bridge",
    "gaia_bridge.cli",
    "gaia_bridge.runtime",
    "gaia_bridge.runtime.descriptors",
    "gaia_bridge.version",
    "gaia_bridge_cli",
    "gaia_bridge_cli.collection",
    "gaia_bridge_cli.entry",
    "gaia_bridge_cli.interrupts",
    "gaia_bridge_daemon",
    "gaia_bridge_daemon.front",
}
"""And what is in the last one."""
SLOW = {"asyncio", "dataclasses", "inspect", "logging", "subprocess", "tempfile", "threading", "typing"}
"""Modules of the standard library that take longer than all that a front does."""
OF_THE_ENVIRONMENT = re.compile(r"__editable__|_virtualenv|sitecustomize|usercustomize|_distutils_hack|.*_coverage")
"""What a virtual environment, or a tool that measures, has each program load."""


@pytest.fixture
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="g") as made:
        yield Path(made)


def loaded_by(folder: Path, *words: str) -> set[str]:
    """The modules that a front loads from its start to its end, with a bridge that greets it."""
    sockets = folder / "gaia-bridge"
    sockets.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(sockets / "default.front.sock"))
        listener.listen()
        listener.settimeout(DEADLINE)

        def greet() -> None:
            with listener.accept()[0] as connection, suppress(ConnectionError):
                connection.recv(65_536)
                connection.sendall(format_greeting(pid=1))
                while line := connection.recv(65_536):
                    connection.sendall(line)

        thread = threading.Thread(target=greet)
        thread.start()
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "gaia_bridge", "connect", *words],
            input=b'{"jsonrpc":"2.0","method":"notifications/x"}\n',
            capture_output=True,
            timeout=DEADLINE,
            env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
            check=True,
        )
        thread.join(DEADLINE)
    return set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr.decode(), re.MULTILINE))


def test_it_loads_the_standard_library_alone_and_little_of_it(folder: Path) -> None:
    loaded = loaded_by(folder)
    ours = {name for name in loaded if name.partition(".")[0] in BRIDGE_PACKAGES}
    assert "gaia_bridge_daemon.front.relay" in ours
    assert {name for name in ours if not name.startswith("gaia_bridge_daemon.front.")} <= OURS
    others = {name.partition(".")[0] for name in loaded - ours} - set(sys.stdlib_module_names)
    assert {name for name in others if not OF_THE_ENVIRONMENT.match(name)} == set()
    assert not loaded & SLOW


def test_the_options_that_editors_are_given_cost_nothing_more(folder: Path) -> None:
    loaded = loaded_by(folder, "--all", "--keep", "5")
    assert "click" not in loaded
