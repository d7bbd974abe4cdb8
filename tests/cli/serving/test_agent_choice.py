"""Which agents are served where: beyond loopback none that writes, unless somebody named it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gaia_bridge.errors import AgentLoadError
from gaia_bridge.server.http.access_policy import reaches_beyond
from gaia_bridge_cli.serving.agent_choice import AgentChoice


@pytest.mark.requirement("F-268", "S-2")
@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (AgentChoice((), wanted=True, beyond=False, configured=False), ["code", "project"]),
        (AgentChoice((), wanted=True, beyond=False, configured=True), ["code", "project"]),
        (AgentChoice((), wanted=True, beyond=True, configured=False), ["project"]),
        (AgentChoice((), wanted=True, beyond=True, configured=True), []),
        (AgentChoice(("code",), wanted=True, beyond=True, configured=True), ["code"]),
        (AgentChoice((), wanted=False, beyond=False, configured=False), []),
    ],
)
def test_an_agent_that_writes_is_served_beyond_loopback_only_if_it_is_named(
    choice: AgentChoice,
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert [agent.name for agent in choice.load(others=False)] == names
    told = "agent code can write, and other machines can reach it; name it to serve it"
    assert (told in caplog.text) == (names == ["project"])


@pytest.mark.requirement("F-262")
def test_agents_that_nobody_named_and_that_cannot_work_here_keep_no_server_from_being_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As where an editor starts the bridge: in the home folder, or in the root folder."""
    choice = AgentChoice((), wanted=True, beyond=False, configured=False)
    assert choice.load(others=True) == []
    assert "is your home folder" in caplog.text
    with pytest.raises(AgentLoadError, match="GAIA_WORKSPACE=FOLDER"):
        choice.load(others=False)
    with pytest.raises(AgentLoadError, match="GAIA_WORKSPACE=FOLDER"):
        AgentChoice(("code",), wanted=True, beyond=False, configured=True).load(others=True)


@pytest.mark.requirement("F-268")
@pytest.mark.parametrize(
    ("host", "allow_hosts", "beyond"),
    [
        ("127.0.0.1", [], False),
        ("localhost", ["localhost:1", "[::1]:1", "dev.localhost"], False),
        ("::1", [], False),
        ("0.0.0.0", [], True),
        ("::", [], True),
        ("192.168.1.5", [], True),
        ("bridge.example", [], True),
        ("127.0.0.1", ["bridge.example"], True),
        ("127.0.0.1", ["localhost", "fd00::1"], True),
    ],
)
def test_other_machines_come_by_the_address_or_through_a_proxy(host: str, allow_hosts: list[str], beyond: bool) -> None:
    assert reaches_beyond(host, allow_hosts) is beyond
