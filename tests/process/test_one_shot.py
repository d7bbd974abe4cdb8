"""Clients that write all that they want and close their output: `printf ... | gaia-bridge serve --stdio`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import INITIALIZE, request, running
from tests.process.driving import AGENTS
from tests.support.gated_servers import gate
from tests.support.upstreams import raw_server
from tests.support.waiting import eventually
from tests.upstreams.servers import entry_of


@pytest.mark.requirement("F-285", "F-118")
def test_a_client_that_asks_and_leaves_sees_servers_that_it_started_and_they_are_known_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time, the server is not even started."""
    monkeypatch.setenv("HOME", str(tmp_path))
    entry = entry_of(raw_server("slow", SLOW="0.5"))
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"up": entry}}), "utf-8")
    for is_known in (False, True):
        arguments = ("serve", "--stdio", f"{AGENTS}:CalmAgent", "--config", "servers.json", "--log-level", "info")
        with running(*arguments, cwd=tmp_path) as bridge:
            bridge.send(INITIALIZE, request(2, "tools/list"))
            bridge.close_input()
            greeting, listed = bridge.receive(), bridge.receive()
            assert bridge.ended() == 0
            errors = bridge.all_errors()
        assert {"tools", "prompts", "resources"} <= greeting["result"]["capabilities"].keys()
        assert "up__pid" in {tool["name"] for tool in listed["result"]["tools"]}
        assert ("up is ready: 11 tools, 1 prompt, 1 resource" in errors) == (not is_known)


@pytest.mark.parametrize("ending", ["end of input", "SIGTERM"])
def test_what_still_starts_when_its_client_leaves_is_listed_without_it_and_known_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """The client is not kept waiting; one that starts a bridge for each operation would never see the server."""
    monkeypatch.setenv("HOME", str(tmp_path))
    hello = json.loads(json.dumps(INITIALIZE))
    hello["params"]["clientInfo"]["name"] = "claude-code"  # which lists again, and so waits briefly
    with gate() as held:
        servers = {"up": held.server("up", hold=True)}
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
        for expected in (set[str](), {"up__answer"}):
            with running("serve", "--stdio", "--no-agents", "--config", "servers.json", cwd=tmp_path) as bridge:
                bridge.send(hello, request(2, "tools/list"))
                _, listed = bridge.receive(), bridge.receive()
                if ending == "SIGTERM":
                    bridge.process.terminate()
                bridge.close_input()
                assert bridge.ended() == 0
            assert {tool["name"] for tool in listed["result"]["tools"]} & {"up__answer"} == expected
            if not expected:
                held.wait("up", "born", 2)
                held.release("up")
                held.wait("up", "dead", 2)
        assert held.count("up", "born") == 2
    eventually(lambda: not [*(tmp_path / ".gaia" / "cache").glob("*.lock")])
