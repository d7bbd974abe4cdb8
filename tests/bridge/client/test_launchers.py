"""A launcher may download the server first: it is waited for, and ended gently. A server that fails starts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from gaia_bridge.client import ClientDelegate, connect
from gaia_bridge.client.transport import ConnectionLostError, StartTimeoutError
from gaia_bridge.client.transport_factory import limits_for, transport_for
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from tests.support.waiting import PATIENCE, comes_true, wait_in_thread

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

ROOT: Final = Path(__file__).parents[3]

SERVES: Final = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""

ROLLS_BACK: Final = """
import os, pathlib, signal, sys, threading
asked = threading.Event()
def note(number, frame):
    if asked.is_set():
        os._exit(1)
    asked.set()
signal.signal(signal.SIGTERM, note)
pathlib.Path("began").touch()
while not asked.wait(0.05):
    pass
threading.Event().wait(1)
pathlib.Path("rolled back").touch()
"""
"""As npm does it: the first SIGTERM begins it, a second one would end it."""


def launcher(folder: Path, code: str, name: str = "npx") -> StdioServerSpec:
    """A program in the place of a launcher."""
    program = folder / name
    program.write_text(f"#!{sys.executable} -S\n{code}", encoding="utf-8")
    program.chmod(0o755)
    return StdioServerSpec("up", str(program), ("-y", "some-server"), cwd=str(folder))


async def start(spec: StdioServerSpec, **limits: Any) -> None:
    """Connect, and disconnect."""
    bounds = limits_for(UpstreamLimits(**limits), spec)
    async with connect(transport_for(spec, bounds), ClientDelegate(), bounds):
        pass


async def test_a_launcher_that_says_nothing_has_longer_than_a_server(tmp_path: Path) -> None:
    silent = "import time; time.sleep(1.2)" + SERVES
    with anyio.fail_after(PATIENCE):
        await start(launcher(tmp_path, silent), connect_timeout=1, probe_timeout=0.1)
        with pytest.raises(StartTimeoutError, match=r"within 0\.001 s"):
            await start(launcher(tmp_path, SERVES, "server"), connect_timeout=0.001)


async def test_the_time_for_a_start_begins_when_something_else_than_a_download_shows(tmp_path: Path) -> None:
    hangs = "import sys, time; print('listening on port 3000', file=sys.stderr, flush=True); time.sleep(3600)"
    with anyio.fail_after(PATIENCE), pytest.raises(StartTimeoutError, match=r"within 0\.1 s of its first line"):
        await start(launcher(tmp_path, hangs), connect_timeout=0.1, stop_grace=0.1)


async def test_a_download_is_ended_by_one_signal_and_given_the_time_to_take_back_its_work(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: start(launcher(tmp_path, ROLLS_BACK), stop_grace=0.1, terminate_grace=0.1))
            await wait_in_thread(comes_true((tmp_path / "began").exists))
            tasks.cancel_scope.cancel()
    assert (tmp_path / "rolled back").exists()


@pytest.mark.parametrize("asked", [False, True], ids=["at once", "after it sent SIGTERM"])
def test_a_download_takes_back_its_work_although_the_bridge_is_killed(tmp_path: Path, asked: bool) -> None:
    launcher(tmp_path, ROLLS_BACK)
    code = (
        "import anyio, sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from tests.bridge.client.test_launchers import launcher, start, ROLLS_BACK\n"
        "anyio.run(lambda: start(launcher(Path.cwd(), ROLLS_BACK), stop_grace=0))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(ROOT)], cwd=tmp_path, stderr=subprocess.DEVNULL)
    assert comes_true((tmp_path / "began").exists)(PATIENCE)
    if asked:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)
    assert comes_true((tmp_path / "rolled back").exists)(PATIENCE)


async def test_a_server_that_ends_without_reading_the_question_is_started_once(tmp_path: Path) -> None:
    fails = "import sys, pathlib; pathlib.Path('starts').open('a').write('1'); sys.exit('no database')"
    with (
        anyio.fail_after(PATIENCE),
        pytest.raises(ConnectionLostError, match="^exited with code 1 before it completed"),
    ):
        await start(launcher(tmp_path, fails, "server"))
    assert (tmp_path / "starts").read_text() == "1"


async def test_of_a_server_that_hangs_when_it_is_started_again_the_first_end_is_told(tmp_path: Path) -> None:
    ends_then_hangs = (
        "import sys, pathlib, time; again = pathlib.Path('again'); sys.stdin.readline()\n"
        "time.sleep(3600) if again.exists() else (again.touch(), sys.exit(3))"
    )
    with (
        anyio.fail_after(PATIENCE),
        pytest.raises(ConnectionLostError, match="^exited with code 3 before it completed"),
    ):
        await start(launcher(tmp_path, ends_then_hangs, "server"), connect_timeout=2, stop_grace=0.1)
