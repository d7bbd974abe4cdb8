"""What an agent waits for while it is loaded is named: a module, a line of its own, a server."""

from __future__ import annotations

import importlib
import logging
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gaia_bridge.bridge.discovery import find_agents
from gaia_bridge_cli.serving import agent_choice
from gaia_bridge_cli.serving.agent_choice import told_of_slow_imports

SLOW = """
import inner_module
"""
INNER = """
import sys
said = sys.modules["tests.cli.serving.test_slow_imports"].SAID
assert said.wait(10)
"""
SAID = threading.Event()
HINT = 'if it starts a server, move it under `if __name__ == "__main__":`'


class Heard(logging.Handler):
    """Hears what is said, and lets the import go on."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        if "inner_module.py" in record.getMessage():
            self.text = record.getMessage()
            SAID.set()


@pytest.mark.requirement("F-226")
def test_the_innermost_module_that_is_still_being_imported_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_agent.py").write_text(SLOW, encoding="utf-8")
    (tmp_path / "inner_module.py").write_text(INNER, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setitem(sys.modules, "tests.cli.serving.test_slow_imports", sys.modules[__name__])
    heard = Heard()
    logger = logging.getLogger(agent_choice.__name__)
    logger.addHandler(heard)
    try:
        with told_of_slow_imports(0.01):
            importlib.import_module("slow_agent")
    finally:
        logger.removeHandler(heard)
        for name in ("slow_agent", "inner_module"):
            sys.modules.pop(name, None)
    assert "module 'inner_module'" in heard.text
    assert f"{tmp_path / 'inner_module.py'}:4" in heard.text
    assert heard.text.endswith(f":4 ({HINT})")


def loading(reference: str, folder: Path) -> str:
    """Return what the log says of agents while they are loaded, after which `SAID` ends their wait."""

    class First(logging.Handler):
        text = ""

        def emit(self, record: logging.LogRecord) -> None:
            self.text = self.text or record.getMessage()
            SAID.set()

    SAID.clear()
    first, logger = First(), logging.getLogger(agent_choice.__name__)
    logger.addHandler(first)
    try:
        with told_of_slow_imports(0.05):
            find_agents([reference], root=folder)
    finally:
        logger.removeHandler(first)
    return first.text


CALLED = """
import sys
import server_library
server_library.run(sys.modules["tests.cli.serving.test_slow_imports"].SAID)
"""
IMPORTED = """
import sys
import server_library
"""


@pytest.mark.parametrize(
    ("agent", "library", "end"),
    [
        (CALLED, "def run(said): assert said.wait(10)", f":4 ({HINT})"),
        (IMPORTED, INNER, ":3"),
    ],
    ids=["a call", "an import"],
)
def test_a_call_that_takes_long_while_a_module_is_imported_is_named_with_the_remedy_for_servers(
    agent: str, library: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "server_library.py").write_text(library, encoding="utf-8")
    (tmp_path / "serving_agent.py").write_text(agent, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])
    real_path = sysconfig.get_path

    def get_path(kind: str) -> str:
        return str(packages) if kind == "purelib" else real_path(kind)

    monkeypatch.setattr(sysconfig, "get_path", get_path)
    monkeypatch.setitem(sys.modules, "tests.cli.serving.test_slow_imports", sys.modules[__name__])
    for name in ("serving_agent", "server_library"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    where = f"module 'serving_agent' is at {tmp_path / 'serving_agent.py'}{end}"
    assert loading("serving_agent.py", tmp_path).endswith(where)


MADE = """
import asyncio, sys
async def make():
    while not sys.modules["tests.cli.serving.test_slow_imports"].SAID.is_set():
        await asyncio.sleep(0.01)
"""


def test_where_no_line_of_an_agent_runs_its_reference_is_named_and_never_the_script_of_the_bridge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_agent.py").write_text(MADE, encoding="utf-8")
    monkeypatch.setitem(sys.modules, "tests.cli.serving.test_slow_imports", sys.modules[__name__])
    monkeypatch.setattr(agent_choice, "_OURS", {"gaia_bridge", __name__.partition(".")[0]})  # as if called by a command
    with ThreadPoolExecutor(1) as pool:  # below which no module of whatever runs this test is read
        said = pool.submit(loading, "made_agent.py:make", tmp_path).result()
    assert said == "agents are still being loaded after 0.05 s: made_agent.py:make is being read"


CONNECTS = """
from contextlib import suppress
from gaia.mcp.client.transports.stdio import StdioTransport

class Desk:
    def __init__(self, command, args):
        transport = StdioTransport(command, args=args)
        transport.name = "geo"
        with suppress(RuntimeError):
            transport.connect() and transport.send_request("initialize", {})
        transport.disconnect()
"""

WAITS = "import pathlib, sys, threading\nwhile not pathlib.Path(sys.argv[1]).exists(): threading.Event().wait(0.01)"
"""A server that never answers, and ends when it is told to."""


def test_an_agent_that_waits_for_a_server_is_named_with_its_line_and_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waiting_agent.py").write_text(CONNECTS, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    end = tmp_path / "end"

    class Ends(logging.Handler):
        text = ""

        def emit(self, record: logging.LogRecord) -> None:
            if "py:10, and waits" in record.getMessage():
                self.text = record.getMessage()
                end.touch()

    ends = Ends()
    logger = logging.getLogger(agent_choice.__name__)
    logger.addHandler(ends)
    try:
        with told_of_slow_imports(0.01):
            importlib.import_module("waiting_agent").Desk(sys.executable, ["-S", "-c", WAITS, str(end)])
    finally:
        logger.removeHandler(ends)
        sys.modules.pop("waiting_agent", None)
    line = f"Desk.__init__() is at {tmp_path / 'waiting_agent.py'}:10, and waits for its server 'geo'"
    assert ends.text.endswith(line)


def test_nothing_is_said_of_what_is_quick(caplog: pytest.LogCaptureFixture) -> None:
    with told_of_slow_imports(60):
        importlib.import_module("json")
    assert caplog.text == ""
