"""`gaia-bridge serve` refuses what cannot be served, in one line, before anything is started."""

from __future__ import annotations

import json
import signal
import socket
import sys
from pathlib import Path

import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.bridge.discovery import LoadedAgent
from gaia_bridge.model import ToolSearchPolicy
from gaia_bridge.protocol.revisions import PUBLISHED, Revision
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.settings import ClientLimits
from gaia_bridge_cli import main
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.serving import bridge_runner
from gaia_bridge_cli.serving.agent_choice import AgentChoice
from gaia_bridge_cli.serving.banner import BannerFacts, ClientAccess
from gaia_bridge_cli.serving.bridge_runner import ServeOptions
from tests.cli.running import write_agent

pytestmark = pytest.mark.usefixtures("fresh_imports")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[ServeOptions]:
    """What the runner, which is not there, was given."""
    found: list[ServeOptions] = []

    def run(options: ServeOptions, deadline: object) -> int:
        found.append(options)
        return 0

    monkeypatch.setattr(bridge_runner, "run", run)
    return found


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> str:
    assert main(["serve", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err.strip().rpartition("\n")[2]


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ([], ToolSearchPolicy.AUTO),
        (["agent.py", "--tool-search"], ToolSearchPolicy.ALWAYS),
        (["--tool-search", "--stdio"], ToolSearchPolicy.ALWAYS),
        (["--tool-search=always"], ToolSearchPolicy.ALWAYS),
        (["--tool-search", "never", "agent.py"], ToolSearchPolicy.NEVER),
        (["--tool-search", "auto"], ToolSearchPolicy.AUTO),
    ],
)
def test_who_is_shown_a_search_is_said_on_the_command_line(
    given: list[ServeOptions], options: list[str], policy: ToolSearchPolicy
) -> None:
    assert main(["serve", *options]) == 0
    assert [options.settings.tool_search for options in given] == [policy]


def test_what_clients_are_given_is_said_on_the_command_line(
    given: list[ServeOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["--result-limit", "my=editor=20000", "--result-limit", "codex-mcp-client=off"]
    assert main(["serve", *own, "--instructions-limit", "off"]) == 0
    assert main(["serve", "--instructions-limit", "x=500", "--result-limit", "off"]) == 0
    results = (("my=editor", 20_000), ("codex-mcp-client", 0))
    assert [options.settings.clients for options in given] == [
        ClientLimits(results=results, known_instructions=False),
        ClientLimits(instructions=(("x", 500),), known_results=False),
    ]
    for wrong in ("20000", "=20000", "x=", "x=many", "x=-1", "x=٣", "x=100"):
        told = error_of(capsys, "--result-limit", wrong, code=ExitCode.USAGE)
        assert "expected" in told, wrong
    for option in ("--result-limit", "--instructions-limit"):
        told = error_of(capsys, option, "Codex=5000", option, "codex=off", code=ExitCode.USAGE)
        assert "('Codex', 5000) and ('codex', 0); expected one number for a client, whatever the case" in told


@pytest.mark.parametrize("command", ["serve", "dev"])
@pytest.mark.parametrize(
    ("options", "tools", "ask"),
    [
        ([], None, None),
        (["--agent-tools", "all", "--no-ask"], True, False),
        (["--agent-tools=none", "--ask"], False, True),
        (["--agent-tools", "hello, hang"], ("hello", "hang"), None),
    ],
)
def test_what_is_published_of_agents_is_said_on_the_command_line(
    given: list[ServeOptions],
    command: str,
    options: list[str],
    tools: bool | tuple[str, ...] | None,
    ask: bool | None,
) -> None:
    assert main([command, "agent.py", *options]) == 0
    assert [(options.agent_tools, options.ask) for options in given] == [(tools, ask)]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--agent-tools", "a,,b"], 64, "'a,,b': expected all, none, or the names of tools with commas in between"),
        (["--agent-tools", "all,a"], 64, "expected all, none, or the names of tools"),
        (["--agent-tools", "helo"], 78, "no agent has a tool 'helo'; the tools that there are: hang, hello"),
        (["--ask"], 78, "no agent can be asked"),
    ],
)
def test_what_no_agent_has_is_refused_with_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, problem: str
) -> None:
    write_agent(tmp_path)
    (tmp_path / "none.json").write_text("{}", encoding="utf-8")
    assert problem in error_of(capsys, "demo.py", "--port", "0", "--config", "none.json", *arguments, code=code)


def test_what_is_published_of_agents_is_for_those_that_there_are_and_for_no_bridge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--no-agents publishes no agents" in error_of(capsys, "--no-agents", "--no-ask", code=64)
    (tmp_path / "made.py").write_text("from gaia_bridge import Bridge\n\nbridge = Bridge()\n", encoding="utf-8")
    refusal = error_of(capsys, "made.py", "--agent-tools", "none", "--port", "0", code=78)
    assert "made.py:bridge is a Bridge, which says itself what it publishes" in refusal
    assert "leave it out, or write Bridge(agent_tools=...)" in refusal


def test_drafts_are_spoken_on_demand_and_it_is_said_if_there_are_none(
    given: list[ServeOptions], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--draft"]) == 0
    assert f"no draft of MCP is newer than {PUBLISHED.latest}" in capsys.readouterr().err
    monkeypatch.setattr("gaia_bridge_cli.serving.serve.DRAFTS", (Revision("2099-01-01"),))
    assert main(["serve", "--draft"]) == main(["serve"]) == 0
    served = [(options.settings.revisions.names, options.settings.upstream.revisions.names) for options in given]
    drafts = (*PUBLISHED.names, "2099-01-01")
    assert served == [(PUBLISHED.names,) * 2, (drafts,) * 2, (PUBLISHED.names,) * 2]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--port", "8765"], "--port"),
        (["--host", "127.0.0.1"], "--host"),
        (["--auth"], "--auth"),
        (["--allow-host", "x", "--allow-origin", "http://x"], "--allow-host, --allow-origin"),
        (["--public-url", "https://x", "--trust-proxy", "10.0.0.1"], "--public-url, --trust-proxy"),
    ],
)
def test_options_of_http_mean_nothing_on_stdio(
    capsys: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    assert error_of(capsys, "--stdio", *options, code=64) == (
        f"Error: --stdio listens on no address: leave out {named}"
    )


@pytest.mark.requirement("F-120")
def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert error_of(capsys, "--port", str(port), code=69) == (
            f"gaia-bridge: error: cannot listen on 127.0.0.1:{port}: the port is in use "
            "(stop the other program, or choose another --port)"
        )


@pytest.mark.requirement("S-2")
@pytest.mark.parametrize("options", [[], ["--allow-host", "bridge.example"], ["--auth"]])
def test_an_address_for_everyone_needs_a_token_and_names(
    capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    line = error_of(capsys, "--host", "0.0.0.0", "--port", "0", *options, code=69)
    assert "other machines can reach this address" in line


@pytest.mark.parametrize("options", [["--allow-host", "http://x/y"], ["--allow-origin", "*"]])
def test_a_host_or_origin_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert f"error: {options[0]}: " in error_of(capsys, "--port", "0", *options, code=78)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--public-url", "bridge.example"], "--public-url: 'bridge.example' is no address of a server"),
        (["--public-url", "https://a", "--trust-proxy", "proxy"], "--trust-proxy: 'proxy' does not appear"),
        (["--trust-proxy", "10.0.0.1"], "--trust-proxy: without --public-url"),
    ],
)
def test_a_public_url_or_a_proxy_that_is_none_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    problem: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert f"error: {problem}" in error_of(capsys, "--port", "0", *options, code=78)


def test_a_bridge_behind_a_proxy_has_a_token_and_leaves_out_agents_that_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies: list[AccessPolicy] = []
    choices: list[AgentChoice] = []

    class Stop(Exception):
        pass

    def asgi(self: Bridge, policy: AccessPolicy) -> None:
        policies.append(policy)
        raise Stop

    def load(self: AgentChoice, *, others: bool) -> list[LoadedAgent]:
        choices.append(self)
        return []

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Bridge, "asgi", asgi)
    monkeypatch.setattr(AgentChoice, "load", load)
    for more in ([], ["--trust-proxy", "10.0.0.1"]):
        assert main(["serve", "--port", "0", "--public-url", "https://bridge.example/x", *more]) == ExitCode.SOFTWARE
    for policy, choice, address in zip(policies, choices, ("127.0.0.1", "10.0.0.1"), strict=True):
        assert policy.token.text == (tmp_path / ".gaia/bridge-token").read_text().strip()
        assert "bridge.example" in policy.hosts
        scope = {"path": "/", "client": (address, 1)}
        seen = policy.proxies.of(scope, {b"x-forwarded-for": [b"203.0.113.9"]})
        assert seen.changes["client"] == ("203.0.113.9", 0)
        assert choice.beyond


def test_behind_a_proxy_the_banner_leads_editors_to_the_public_address_and_names_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[BannerFacts] = []

    class Stop(Exception):
        pass

    def banner(sources: object, access: ClientAccess, facts: BannerFacts) -> str:
        shown.append(facts)
        raise Stop

    (project := tmp_path / "project").mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("gaia_bridge_cli.serving.banner.banner", banner)
    options = ["--port", "0", "--public-url", "https://bridge.example", "--no-servers"]
    assert main(["serve", *options, "code"]) == ExitCode.SOFTWARE
    assert [(told.installed, told.has_auth) for told in shown] == [(None, True)]


def test_a_configuration_that_was_named_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "none.json" in error_of(capsys, "--port", "0", "--config", "none.json", code=78)


def test_a_broken_configuration_is_located(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "servers.json").write_text('{\n "mcpServers": {,}\n}', encoding="utf-8")
    assert "servers.json:2" in error_of(capsys, "--port", "0", "--config", "servers.json", code=78)


@pytest.mark.requirement("S3-21")
def test_a_broken_configuration_of_the_user_is_told_and_keeps_nothing_else_from_being_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gaia").mkdir()
    (tmp_path / ".gaia/mcp_servers.json").write_text("[]", encoding="utf-8")
    assert main(["serve", "--port", "0", "missing.py"]) == 66  # it got as far as the agents
    assert "its servers are left out: " in (said := capsys.readouterr().err)
    assert "mcp_servers.json: the file holds a list" in said


def test_a_home_that_cannot_be_looked_into_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", "/" + "x" * 300)  # what lies there cannot even be asked for
    assert "there is no file missing.py" in error_of(capsys, "--port", "0", "missing.py", code=66)


def test_an_agent_that_cannot_be_loaded_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_agent(tmp_path)
    assert error_of(capsys, "--port", "0", "demo.py", "missing.py", code=66) == (
        "gaia-bridge: error: agent 'missing.py': there is no file missing.py"
    )


def test_a_failure_leaves_no_socket_and_no_signal_handler_behind(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error_of(capsys, "--port", str(port), "missing.py", code=66)
    with socket.create_server(("127.0.0.1", port)) as again:
        assert again.getsockname()[1] == port
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.requirement("S-25", "C-19")
def test_a_server_of_the_project_is_not_started_before_it_was_approved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    touched = tmp_path / "touched"
    server = {"command": sys.executable, "args": ["-c", f"open({str(touched)!r}, 'w')"]}
    (tmp_path / "mcp_servers.json").write_text(json.dumps({"mcpServers": {"evil": server}}), encoding="utf-8")
    assert main(["serve", "--port", "0", "missing.py"]) == 66
    assert "server evil is left out: a file of this project lists it" in (said := capsys.readouterr().err)
    assert "run: gaia-bridge trust evil" in said
    assert not touched.exists()


def test_only_named_agents_are_followed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "gaia-bridge serve --reload FILE" in error_of(capsys, "--reload", code=64)
    assert main(["dev"]) == 64
    assert "Missing argument 'FILE...'" in capsys.readouterr().err


def test_a_file_with_a_bridge_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "made.py").write_text("from gaia_bridge import Bridge\nbridge = Bridge()\n", "utf-8")
    assert "serve it without reloading" in error_of(capsys, "--reload", "made.py", "--port", "0", code=66)


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_configured_servers_join_the_agents_of_a_file_unless_they_are_left_out(
    given: list[ServeOptions], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    for options in ([], ["--no-servers"]):
        assert main([command, "a.py", *options]) == 0
    assert [options.with_servers for options in given] == [True, False]
    assert main([command, "a.py", "--no-servers", "--config", "b.json"]) == 64
    assert "--no-servers leaves out what --config names: leave out one of them" in capsys.readouterr().err


def test_nothing_at_all_is_not_served(capsys: pytest.CaptureFixture[str]) -> None:
    told = error_of(capsys, "--no-agents", "--no-servers", code=64)
    assert "--no-agents and --no-servers leave nothing to publish: leave out one of them" in told


@pytest.mark.parametrize("agents", [[], ["code"]])
def test_the_home_folder_is_refused_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], agents: list[str]
) -> None:
    monkeypatch.chdir(Path.home())
    told = error_of(capsys, "--stdio", *agents, code=ExitCode.NO_AGENT)
    assert "agent 'code': the current folder: " in told
    assert "is your home folder, with all that is private in it (start in the folder of a project" in told
    assert "ValueError" not in told
    assert "workspace.py" not in told
