"""A program that forgets to clean up ends all the same, and takes its servers along. With real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.gated_servers import Gate
from tests.support.waiting import PATIENCE

PROGRAM = """
import asyncio, json, os, sys
from gaia.mcp.aio import ManagerLimits, MCPClientManager

ending, config = sys.argv[1], json.loads(sys.argv[2])
manager = MCPClientManager(config=config, limits=ManagerLimits(connect_wait=float(sys.argv[3])))

async def main():
    await manager.connect_to_servers()
    print((await manager.execute_tool("pid"))["success"], flush=True)
    match ending:
        case "raise":
            raise LookupError("as it was told to")
        case "in flight":
            asyncio.create_task(manager.execute_tool("hang"))
            sys.stdin.readline()
        case "exit":
            sys.exit(4)
        case "hard":
            os._exit(5)
        case "wait":
            await asyncio.Event().wait()

if ending == "open loop":
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
else:
    asyncio.run(main())
"""


def started(ending: str, config: Mapping[str, Any], wait: float = 10) -> subprocess.Popen[str]:
    """A program that connects and makes a call, has said so, and ends in this way."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, ending, json.dumps(config), str(wait)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


@pytest.mark.requirement("S2-31")
@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ("return", 0, ""),
        ("raise", 1, "as it was told to"),
        *(
            pytest.param(*other, "", marks=pytest.mark.thorough)
            for other in [("open loop", 0), ("exit", 4), ("hard", 5)]
        ),
    ],
)
def test_a_program_that_forgets_to_clean_up_ends_and_leaves_no_server(
    servers: Gate, ending: str, code: int, said: str
) -> None:
    with started(ending, {"mcpServers": {"a": servers.server("a")}}) as process:
        _, errors = process.communicate(timeout=3 * PATIENCE)
    assert process.returncode == code
    assert said in errors
    assert ("Traceback" in errors) is (ending == "raise")
    servers.wait("a", "dead")


@pytest.mark.requirement("S2-7", "S2-31")
def test_a_server_that_never_started_is_not_left_either(servers: Gate) -> None:
    config = {"mcpServers": {"a": servers.server("a"), "slow": servers.server("slow", hold=True)}}
    with started("return", config, wait=2) as process:
        process.communicate(timeout=3 * PATIENCE)
    assert process.returncode == 0
    servers.wait("slow", "dead")


@pytest.mark.requirement("S2-31")
def test_a_program_that_ends_in_the_middle_of_a_call_leaves_no_server(servers: Gate) -> None:
    with started("in flight", {"mcpServers": {"a": servers.server("a")}}) as process:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.close()
        assert process.wait(3 * PATIENCE) == 0
    servers.wait("a", "dead")


@pytest.mark.requirement("S2-31")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_ended_by_a_signal_leaves_no_server(servers: Gate, number: signal.Signals) -> None:
    with started("wait", {"mcpServers": {"a": servers.server("a")}}) as process:
        process.send_signal(number)
        process.communicate(timeout=3 * PATIENCE)
    assert process.returncode == -number
    servers.wait("a", "dead")
