"""A program that serves in its last line, and files with a bridge."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge import Bridge, Client, serve, tool
from gaia_bridge.bridge.discovery import load_agent
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.program import program
from tests.support.waiting import PATIENCE

AGENT = """
from gaia.agents.base import MCPAgent, tool

print("printed before it serves")

class ClerkAgent(MCPAgent):
    @tool
    def stamp(self, text: str) -> str:
        print("printed by a tool")
        return f"[{text}]"

if __name__ == "__main__":
    ClerkAgent().serve(OPTIONS)
"""
BRIDGE = """
from gaia_bridge import Bridge, Settings, serve, tool

class Clerk:
    @tool
    def stamp(self, text: str) -> str:
        return f"[{text}]"

class Porter:
    @tool
    def carry(self, what: str) -> str:
        return f"carried {what}"

desk = Bridge(Clerk(), Porter())
if __name__ == "__main__":
    serve(desk)
"""


class Clerk:
    @tool
    def stamp(self, text: str) -> str:
        return f"[{text}]"


def written(folder: Path, text: str) -> Path:
    file = folder / "clerk_agent.py"
    file.write_text(text)
    return file


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_editor_that_starts_the_program_is_served_over_stdio(era: Any, tmp_path: Path) -> None:
    """What it prints, before and meanwhile, is no message."""
    file = written(tmp_path, AGENT.replace("OPTIONS", ""))
    async with Client([sys.executable, str(file)], era=era) as client:
        assert (await client.call_tool("stamp", text="paid")).text == "[paid]"


def test_a_port_means_http_and_a_signal_ends_it_well(tmp_path: Path) -> None:
    file = written(tmp_path, AGENT.replace("OPTIONS", "port=0"))
    with subprocess.Popen([sys.executable, str(file)], stderr=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            line = next(line.decode() for line in process.stderr if b"/mcp" in line)
            [url] = re.findall(r"http://\S+?/mcp", line)
            assert anyio.run(stamped, url) == "[paid]"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


async def stamped(url: str) -> str:
    async with Client(url) as client:
        return (await client.call_tool("stamp", text="paid")).text


@pytest.mark.anyio
async def test_a_file_with_a_bridge_is_what_the_bridge_publishes(tmp_path: Path) -> None:
    file = written(tmp_path, BRIDGE)
    [loaded] = load_agent(str(file))
    assert (loaded.name, loaded.reference.partition(":")[2]) == ("desk", "desk")
    for command in ([sys.executable, str(file)], [sys.executable, "-m", "gaia_bridge", "serve", "--stdio", str(file)]):
        async with Client(command) as client:
            assert [item["name"] for item in await client.list_tools()] == ["stamp", "carry"]
            assert (await client.call_tool("carry", what="it")).text == "carried it"
    async with Client(file) as client:
        assert (await client.call_tool("stamp", text="paid")).text == "[paid]"


def test_commands_take_a_file_with_a_bridge(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, BRIDGE)
    assert program.main(["call", str(file), "carry", "what=it"], standalone_mode=False) in (None, 0)
    assert "carried it" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (BRIDGE.replace("desk =", "other = Bridge()\ndesk ="), [], "one process serves one Bridge"),
        (BRIDGE, ["--config", "servers.json"], "says itself what it publishes"),
    ],
)
def test_what_does_not_go_with_a_bridge_is_refused(
    text: str, options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "servers.json").write_text('{"mcpServers": {}}')
    options = [str(tmp_path / option) if option.endswith("json") else option for option in options]
    arguments = ["serve", "--port", "0", str(written(tmp_path, text)), *options]
    code = program.main(arguments, standalone_mode=False)
    assert code in (ExitCode.NO_AGENT, ExitCode.CONFIG)
    assert words in capsys.readouterr().err


def test_what_cannot_be_served_is_one_line_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        serve(Clerk(), port=99999)
    assert raised.value.code == ExitCode.UNAVAILABLE
    [line] = capsys.readouterr().err.splitlines()
    assert "cannot listen on 127.0.0.1:99999" in line


def test_wrong_uses_say_what_is_right() -> None:
    with pytest.raises(TypeError, match="got prot; expected servers, config, stdio, host, port"):
        serve(Clerk(), prot=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nothing beside it"):
        serve(Bridge(Clerk()), Clerk())
    with pytest.raises(TypeError, match="got port='80'; expected a number"):
        serve(Clerk(), port="80")  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_in_a_coroutine_nothing_is_served_and_what_to_write_is_told() -> None:
    with pytest.raises(TypeError, match="was called where one is running; write `async with Bridge"):
        serve(Clerk(), port=0)
    bridge = Bridge(Clerk())
    for use in (bridge.serve_http(port=0), bridge.serve_stdio(), bridge.add_agent(Clerk())):
        with pytest.raises(RuntimeError, match="the bridge is not open; use it inside `async with Bridge"):
            await use


@pytest.mark.anyio
async def test_a_bridge_in_a_bridge_is_one_of_its_servers() -> None:
    inner = Bridge(Clerk())
    async with Bridge() as bridge:
        assert await bridge.add_agent(inner, "inner") == "inner"
        async with Client(bridge) as client:
            assert [item["name"] for item in await client.list_tools()] == ["inner__stamp"]
            assert (await client.call_tool("inner__stamp", text="paid")).text == "[paid]"
    assert not inner.is_open
