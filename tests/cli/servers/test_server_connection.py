"""What is shown while a launcher downloads a server."""

from __future__ import annotations

import anyio
import pytest

from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge_cli.servers.common import Activity
from gaia_bridge_cli.servers.server_connection import LauncherProgress

pytestmark = pytest.mark.anyio


class Said(Activity):
    """Keeps the lines, and lets a test wait for the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.first = anyio.Event()

    def say(self, line: str) -> None:
        """Keep a line."""
        self.lines.append(line)
        self.first.set()


async def test_a_start_that_is_stopped_says_that_npx_removes_its_unfinished_download() -> None:
    said = Said()
    spec = StdioServerSpec(name="files", command="npx", args=("-y", "server"))
    with anyio.fail_after(10):
        async with LauncherProgress(spec, UpstreamLimits(), said).shown():
            with anyio.CancelScope() as start:
                start.cancel()
                try:
                    await anyio.sleep_forever()
                finally:
                    with anyio.CancelScope(shield=True):
                        await said.first.wait()
    assert said.lines == ["Stopping: waiting for npx to remove its unfinished download"]
