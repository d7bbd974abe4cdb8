"""A server of a project that is edited while it runs: what was approved goes on, and nothing else is started."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.bridge.configured_servers import ConfiguredServers, Reloader
from gaia_bridge.config import TrustStore
from gaia_bridge.model import SourceState
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.sources.upstream.source import Upstream
from tests.servers import raw_server
from tests.support.agents import one_tool
from tests.support.bridges import RunningBridge, both_eras, running_bridge, text_of
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

QUICK = Settings(upstream=UpstreamLimits(backoff_start=0.02, stop_grace=0.1, announce_interval=0))

PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(raw_server.__file__).parent)!r})
import raw_server as raw
raw.CALLS["meta"] = lambda number, params: raw.text(number, VERSION)
raw.main()
"""


def write(version: str) -> Path:
    file = Path("server.py")
    file.write_text(f"VERSION = {version!r}\n{PROGRAM}", encoding="utf-8")
    return file


def configure(entry: dict[str, Any], *, approve: bool) -> None:
    file = Path("mcp_servers.json").absolute()
    file.write_text(json.dumps({"mcpServers": {"up": entry}}), encoding="utf-8")
    if approve:
        TrustStore().approve(file, "up", entry)


class Project:
    """A bridge that serves the approved server `up` of the current folder."""

    def __init__(self, running: RunningBridge, entry: dict[str, Any], reloader: Reloader) -> None:
        self.reloader = reloader
        self._running = running
        self._entry = entry

    @property
    def upstream(self) -> Upstream:
        [found] = [source for source in self._running.bridge.sources if isinstance(source, Upstream)]
        return found

    async def call(self, tool: str, mode: str = "auto") -> str:
        async with self._running.client(mode) as client:
            return text_of(await client.call_tool(f"up__{tool}", {}))

    def configure(self, *more: str, approve: bool = False) -> None:
        configure({**self._entry, "args": [*self._entry["args"], *more]}, approve=approve)


@asynccontextmanager
async def project() -> AsyncGenerator[Project]:
    entry = {"command": sys.executable, "args": ["-S", "server.py"], "cwd": str(Path.cwd())}
    write("one")
    async with running_bridge(one_tool(lambda _: "ours"), settings=QUICK) as running:
        configure(entry, approve=True)
        configured = ConfiguredServers(None)
        running.bridge.refusal = configured.refusal
        reloader = Reloader(running.bridge, configured.again, lambda: configured.own_files)
        await reloader.apply(configured.first())
        found = Project(running, entry, reloader)
        await found.upstream.wait_settled()
        yield found


async def test_what_runs_goes_on_with_the_code_that_was_approved(caplog: pytest.LogCaptureFixture) -> None:
    async with project() as served:
        pid = await served.call("pid")
        async with anyio.create_task_group() as tasks:
            await tasks.start(served.reloader.watch)
            write("two")
            await until(lambda: "the approved version runs until it is restarted: gaia-bridge trust up" in caplog.text)
            tasks.cancel_scope.cancel()
        assert (await served.call("pid"), await served.call("meta")) == (pid, "one")


@both_eras
@pytest.mark.requirement("F-360", "S-25", "C-18")
@pytest.mark.parametrize("reloaded", [True, False])
async def test_a_crash_after_the_edit_starts_no_code_that_nobody_approved(mode: str, reloaded: bool) -> None:
    async with project() as served:
        write("two")
        if reloaded:  # the crash may come before the change was noticed
            assert await served.reloader.reload()
        await served.call("crash", mode)
        await until(lambda: served.upstream.status.state is SourceState.STOPPED)
        refused = "it is not started: it was changed since it was approved; run: gaia-bridge trust up"
        assert refused in served.upstream.status.reason
        starts = served.upstream.details["starts"]
        assert refused in await served.call("meta", mode)
        assert served.upstream.details["starts"] == starts + 1  # an attempt, which began no process
        assert await served.call("pid", mode) == await served.call("pid", mode)
        write("one")
        assert await served.call("meta", mode) == "one"


async def test_what_was_changed_and_approved_is_started_in_place_of_what_runs() -> None:
    async with project() as served:
        write("two")
        assert await served.reloader.reload()
        served.configure(approve=True)
        assert await served.reloader.reload()
        with anyio.fail_after(PATIENCE):
            await served.upstream.wait_settled()
            assert await served.call("meta") == "two"


@pytest.mark.requirement("F-360", "S-25")
async def test_a_changed_launch_line_starts_nothing_and_ends_nothing_before_it_is_approved() -> None:
    async with project() as served:
        pid = await served.call("pid")
        served.configure("legacy")
        assert await served.reloader.reload()
        assert await served.call("pid") == pid
        await served.call("crash")
        assert await served.call("meta") == "one"  # the line that was approved, whose program is as it was
        write("two")
        await served.call("crash")
        assert "it is not started" in await served.call("meta")
        served.configure("legacy", approve=True)
        assert await served.reloader.reload()
        await served.upstream.wait_settled()
        assert await served.call("meta") == "two"
