"""What happens to a server in the middle of everything: clear errors, nobody else affected, back within ten seconds."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import ERAS, client_of, serving
from tests.interaction.results import call, older, text_of
from tests.support.bystanders import Holdings
from tests.support.on_demand import mcp, mcp_types
from tests.support.upstreams import raw_server, until_ready
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

SERVER = Path(__file__).with_name("mortal_server.py")
ROOT = Path(__file__).parents[2]
LIMITS = Settings(
    upstream=UpstreamLimits(
        announce_interval=0,
        refresh_interval=0,
        backoff_start=0.05,
        backoff_cap=0.2,
        call_timeout=2.0,
        ping_timeout=0.5,
        stop_grace=0.3,
        terminate_grace=0.3,
    )
)
RECOVERY = 10.0
"""Seconds after which everything works again."""


def kill(pid: int, version: Path) -> None:
    os.kill(pid, signal.SIGKILL)


def hang(pid: int, version: Path) -> None:
    os.kill(pid, signal.SIGSTOP)


def swap(pid: int, version: Path) -> None:
    version.write_text("two", "utf-8")
    os.kill(pid, signal.SIGKILL)


SLOW = [(kill, *ERAS[::-1]), (swap, *ERAS[::-1]), (hang, *ERAS), (swap, *ERAS)]


@pytest.mark.requirement("F-004", "P-5", "P-8")
@pytest.mark.parametrize(
    ("fault", "era", "upstream_era"),
    [
        (kill, *ERAS),
        (hang, *ERAS[::-1]),
        *(pytest.param(*fault, marks=pytest.mark.thorough) for fault in SLOW),
    ],
)
async def test_a_fault_in_the_middle_of_everything_is_told_and_mended(
    fault: Callable[[int, Path], None], era: str, upstream_era: str, tmp_path: Path
) -> None:
    version = tmp_path / "version"
    version.write_text("one", "utf-8")
    before = Holdings.now()
    upstream = StdioServerSpec(
        "up", sys.executable, (str(SERVER), upstream_era, str(version)), {"PYTHONPATH": f"{ROOT}"}
    )
    with anyio.fail_after(40):
        async with serving({}, LIMITS) as (url, bridge):
            await bridge.add_upstream(upstream)
            await bridge.add_upstream(replace(raw_server(), name="beside"))
            await until_ready(*bridge.sources)
            user = User()
            async with (
                client_of(f"{url}/mcp", era, elicitation_callback=user.answer, message_handler=user.hear) as client,
                client_of(f"{url}/mcp", era) as other,
                anyio.create_task_group() as tasks,
            ):
                await user.listen(client, era, tasks)
                started = anyio.Event()

                async def wait() -> str:
                    async def on_progress(*_: object) -> None:
                        started.set()

                    return await failure(client, "up__wait", progress_callback=on_progress)

                told: dict[str, str] = {}

                async def note(name: str, outcome: Callable[[], Any]) -> None:
                    told[name] = await outcome()

                pid = (await call(client, "up__who"))["structuredContent"]["pid"]
                tasks.start_soon(note, "ask", lambda: failure(client, "up__ask"))
                await user.asked.wait()
                # A server of the handshake era does not say for which call it asks, and requests without a session may
                # be of several clients: a call that may ask has the server for itself.
                at_once = {"ask"} if (era, upstream_era) == ("modern", "legacy") else {"ask", "wait"}
                if "wait" in at_once:
                    tasks.start_soon(note, "wait", wait)
                    await started.wait()

                fault(pid, version)
                with anyio.fail_after(1):
                    assert int(text_of(await call(other, "beside__pid"))) > 0
                user.decided.set()  # while a server waits for an answer, it need not give a sign of life
                await until(lambda: told.keys() == at_once)
                assert "upstream 'up'" in told.get("wait", "upstream 'up'")
                # A question of a server of 2026-07-28 is sealed by it, and it may not know it any more.
                known = "Invalid or expired requestState" if upstream_era == "modern" else "call again from the start"
                assert "upstream 'up'" in told["ask"] or known in told["ask"]

                with anyio.fail_after(RECOVERY):
                    now = await working(client)
                    assert now["pid"] != pid
                    assert now["version"] == version.read_text("utf-8")
                    await until_listed(client, f"up__only-in-{now['version']}")
                    user.updated = anyio.Event()
                    while not user.updated.is_set():
                        await call(client, "up__touch")
                        with anyio.move_on_after(0.5):
                            await user.updated.wait()
                assert int(text_of(await call(other, "beside__pid"))) > 0
                tasks.cancel_scope.cancel()
    await before.nothing_more()


class User:
    """In front of a client: is asked, and takes a while; hears of updates."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.decided = anyio.Event()
        self.updated = anyio.Event()

    async def answer(self, context: object, params: object) -> mcp_types.ElicitResult:
        self.asked.set()
        await self.decided.wait()
        return mcp_types.ElicitResult(action="accept", content={"sure": True})

    async def hear(self, message: object) -> None:
        if type(message).__name__ == "ResourceUpdatedNotification":
            self.updated.set()

    async def listen(self, client: mcp.Client, era: str, tasks: anyio.abc.TaskGroup) -> None:
        if era == "legacy":
            await older(client).subscribe_resource("state:1")
            return
        ready = anyio.Event()

        async def listen() -> None:
            async with client.listen(resource_subscriptions=["state:1"]) as events:
                ready.set()
                async for _ in events:
                    self.updated.set()

        tasks.start_soon(listen)
        await ready.wait()


async def failure(client: mcp.Client, name: str, **options: Any) -> str:
    """Why a tool failed."""
    try:
        result = await client.call_tool(name, **options)
    except mcp.MCPError as error:
        return str(error)
    assert result.is_error, result
    return text_of(result.model_dump(by_alias=True))


async def working(client: mcp.Client) -> JSON:
    """What the server says of itself, as soon as it answers."""
    while True:
        answer = await call(client, "up__who")
        if not answer.get("isError"):
            told: JSON = answer["structuredContent"]
            return told
        await anyio.sleep(0.05)


async def until_listed(client: mcp.Client, name: str) -> None:
    while name not in {tool.name for tool in (await client.list_tools()).tools}:  # noqa: ASYNC110
        await anyio.sleep(0.05)
