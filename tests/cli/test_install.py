"""`gaia-bridge install`, as it is typed: what it shows, asks, writes, refuses, and ends with."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from gaia_bridge_daemon.front.place import Place, Scope, runtime_folder
from tests.cli.running import Run, write_agent
from tests.cli.terminals import CTRL_C, terminal

PROGRAM = "/opt/gaia/bin/gaia-bridge"
CURSOR = ".cursor/mcp.json"


@pytest.fixture(autouse=True)
def own_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our program is in a place of which tests know."""
    monkeypatch.setattr("gaia_bridge_cli.install.own_program", lambda: [PROGRAM])


def content(path: str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def test_without_a_terminal_it_shows_the_change_and_writes_nothing_unasked(run: Run) -> None:
    code, out, err = run("install", "cursor")
    assert code == 64
    assert f'+      "command": "{PROGRAM}"' in out
    assert err.startswith("error: nothing was changed: there is no terminal to ask on; --yes writes it")
    assert not Path(CURSOR).exists() and not Path(".gaia").exists()


def test_a_link_puts_the_same_in_by_the_editor_itself(run: Run) -> None:
    code, out, err = run("install", "cursor", "--link")
    link, on_the_web = out.splitlines()
    assert code == 0 and link.startswith("cursor://") and on_the_web.startswith("https://")
    [config] = parse_qs(urlsplit(link).query)["config"]
    assert json.loads(base64.b64decode(config)) == {"type": "stdio", "command": PROGRAM, "args": ["connect"]}
    assert "they lead to a program of this machine" in err
    http = ("--http", "--auth", "--url", "https://mcp.example.com/mcp", "--link")
    code, out, err = run("install", "vscode", *http)
    told = json.loads(unquote(out.splitlines()[0].partition("?")[2]))
    assert (code, err, told["inputs"][0]["password"]) == (0, "", True)
    assert told["headers"] == {"Authorization": f"Bearer ${{input:{told['inputs'][0]['id']}}}"}
    assert "installs by no link (those do: vscode, vscode-insiders, cursor)" in run("install", "zed", "--link")[2]
    assert run("install", "--all", "--link")[0] == 64
    assert not Path(CURSOR).exists() and not Path(".gaia").exists()


def test_what_is_written_is_shown_first_and_what_was_there_is_kept(run: Run) -> None:
    Path(".cursor").mkdir()
    Path(CURSOR).write_text('{\n  "mcpServers": {}\n}\n', encoding="utf-8")
    code, out, err = run("install", "cursor", "--yes")
    assert (code, content(CURSOR)["mcpServers"]["gaia-bridge"]["args"]) == (0, ["connect"])
    assert out.startswith(f"--- {Path(CURSOR).absolute()}\n+++ ")
    [backup] = Path(".gaia/backups").glob("*.bak-1")
    assert str(backup.absolute()) in err and "next: " in err
    assert backup.read_text(encoding="utf-8") == '{\n  "mcpServers": {}\n}\n'
    assert os.environ["PATH"].rpartition(os.pathsep)[2] in Path(".gaia/path").read_text(encoding="utf-8")
    assert "nothing to do" in run("install", "cursor", "--yes")[2]


def test_agents_stand_behind_the_editor_and_the_configured_servers_can_be_left_out(run: Run) -> None:
    agent = write_agent(Path.cwd())
    for words in ([agent.name], ["--agent", agent.name]):
        _, out, _ = run("install", "cursor", *words, "--no-servers", "--print")
        [entry] = json.loads(out)["mcpServers"].values()
        assert entry["args"] == ["connect", "--no-servers", "--agent", str(agent)]
    _, out, _ = run("install", "vscode", "--workspace", "--stdio", agent.name, "--no-servers", "--print")
    assert json.loads(out)["servers"]["gaia-bridge"]["args"] == ["serve", "--stdio", "--no-servers", str(agent)]
    code, _, err = run("install", agent.name)
    assert code == 64 and f"the editor comes first: gaia-bridge install EDITOR {agent.name}" in err
    code, _, err = run("install", "cursor", "--no-servers", "--config", agent.name)
    assert code == 64 and "--no-servers leaves out what --config names" in err


def test_vscodes_second_file_is_named_where_it_is_there(run: Run) -> None:
    note = "VS Code reads .mcp.json of this folder as well as mcp.json: have the bridge in one of them"
    assert note not in run("install", "vscode", "--workspace", "--yes")[2]
    Path(".mcp.json").write_text("{}", encoding="utf-8")
    assert note in run("install", "vscode", "--yes")[2]
    assert "as well as" not in run("install", "cursor", "--yes")[2]
    assert content(".mcp.json") == {}


def test_a_file_for_all_folders_is_for_the_user_alone_and_one_of_a_folder_for_whoever_shares_it(run: Run) -> None:
    mask = os.umask(0o022)
    try:
        for scope, mode in (("--workspace", 0o644), ("--user", 0o600)):
            Path(CURSOR).unlink(missing_ok=True)
            assert run("install", "cursor", scope, "--yes")[0] == 0
            assert stat.S_IMODE(Path(CURSOR).stat().st_mode) == mode
    finally:
        os.umask(mask)


def test_secrets_beside_the_change_are_not_shown(run: Run) -> None:
    Path(".cursor").mkdir()
    secret = "ghp_0123456789abcdefghij"
    line = json.dumps({"mcpServers": {"a": {"command": "a", "env": {"API_TOKEN": secret}}}})
    for text in (line, json.dumps(json.loads(line), indent=1)):
        Path(CURSOR).write_text(text, encoding="utf-8")
        _, out, err = run("install", "cursor", "--yes")
        assert "API_TOKEN" in out and secret not in out + err
        assert content(CURSOR)["mcpServers"]["a"]["env"]["API_TOKEN"] == secret


@pytest.mark.parametrize(
    ("options", "entry"),
    [
        ([], {"type": "stdio", "command": PROGRAM, "args": ["connect"]}),
        (["--stdio"], {"type": "stdio", "command": PROGRAM, "args": ["serve", "--stdio"]}),
        (["--http"], {"type": "http", "url": "http://127.0.0.1:8765/mcp"}),
        (["--http", "--url", "https://x.org/mcp"], {"type": "http", "url": "https://x.org/mcp"}),
        (
            ["--http", "--auth"],
            {
                "type": "http",
                "url": "http://127.0.0.1:8765/mcp",
                "headers": {"Authorization": "Bearer ${input:gaia-bridge-token}"},
            },
        ),
    ],
)
def test_print_shows_what_to_paste_and_writes_nothing(run: Run, options: list[str], entry: Any) -> None:
    code, out, _ = run("install", "vscode", "--print", *options)
    document = json.loads(out)
    assert (code, document["servers"]) == (0, {"gaia-bridge": entry})
    assert ("inputs" in document) == ("--auth" in options)
    assert not Path(".config").exists()


def test_a_bridge_of_its_own_works_in_the_folder_that_is_open(run: Run) -> None:
    agent = write_agent(Path.cwd())
    _, out, _ = run("install", "vscode", "--workspace", "--print", "--stdio", "--agent", agent.name)
    entry = json.loads(out)["servers"]["gaia-bridge"]
    assert entry["args"] == ["serve", "--stdio", str(agent)]
    assert entry["cwd"] == "${workspaceFolder}"


def test_agents_and_files_of_servers_are_named_by_their_whole_paths(run: Run) -> None:
    agent = write_agent(Path.cwd())
    Path("servers.json").write_text("{}", encoding="utf-8")
    _, out, _ = run("install", "codex", "--print", "--agent", f"{agent.name}:DemoAgent", "--config", "servers.json")
    config = Path("servers.json").absolute()
    assert f'args = ["connect", "--config", "{config}", "--agent", "{agent}:DemoAgent"]' in out
    code, _, err = run("install", "codex", "--print", "--config", "nowhere.json")
    assert (code, "there is no such file" in err) == (64, True)


def test_an_agent_is_looked_up_before_it_is_written_and_a_module_becomes_its_file(run: Run) -> None:
    agent = write_agent(Path.cwd())
    for name, written in (("demo", str(agent)), ("demo:DemoAgent", f"{agent}:DemoAgent"), ("code", "code")):
        _, out, _ = run("install", "cursor", "--print", "--agent", name)
        assert json.loads(out)["mcpServers"]["gaia-bridge"]["args"] == ["connect", "--agent", written]
    for name, problem in (
        ("nowhere.py", "there is no file nowhere.py"),
        ("nowhere", "there is no module 'nowhere'"),
        ("https://x.example/mcp", "gaia-bridge add NAME https://x.example/mcp adds a server"),
    ):
        code, _, err = run("install", "cursor", name, "--yes")
        assert (code, problem in err, Path(CURSOR).exists()) == (66, True, False), err


def test_the_agents_that_a_second_run_replaces_are_named_with_the_command_for_all(run: Run) -> None:
    first = write_agent(Path.cwd())
    second = write_agent(Path.cwd(), file="second.py")
    assert "no longer" not in run("install", "cursor", first.name, "--yes")[2]
    again = f"gaia-bridge install cursor {first} {second}"
    for way in ([], ["--stdio"]):
        told = again.replace("cursor", f"cursor {' '.join(way)}") if way else again
        _, _, err = run("install", "cursor", second.name, *way)
        assert f"no longer published: demo.py; to publish all of them: {told}\n" in err
    assert run("install", "cursor", *again.split()[3:], "--yes")[0] == 0
    assert "no longer" not in run("install", "cursor", f"{first.name}:DemoAgent", second.name)[2]
    assert "no longer published: demo.py, second.py; " in run("install", "cursor")[2]
    first.unlink()
    assert "no longer published: second.py; " in run("install", "cursor")[2]


def test_a_socket_is_named_where_the_editor_reaches_it(run: Run) -> None:
    _, out, _ = run("install", "vscode", "--print", "--unix")
    socket = Place(runtime_folder(), Scope().name).http
    assert json.loads(out)["servers"]["gaia-bridge"] == {"type": "http", "url": f"unix://{socket}#/mcp"}
    assert "gaia-bridge up" in run("install", "vscode", "--unix", "--yes")[2]
    code, _, err = run("install", "cursor", "--unix", "--yes")
    assert (code, "Cursor --unix: it does not reach sockets" in err) == (78, True)


def test_a_token_is_asked_for_by_the_editor_or_taken_from_a_variable_and_never_written(run: Run) -> None:
    _, _, err = run("install", "vscode", "--http", "--auth", "--yes")
    assert "it asks for the token" in err
    [asked] = content(".config/Code/User/mcp.json")["inputs"]
    assert (asked["id"], asked["password"]) == ("gaia-bridge-token", True)
    for name, reference in (("cursor", "${env:GAIA_BRIDGE_TOKEN}"), ("claude-code", "${GAIA_BRIDGE_TOKEN}")):
        _, out, _ = run("install", name, "--http", "--auth", "--print")
        assert json.loads(out)["mcpServers"]["gaia-bridge"]["headers"] == {"Authorization": f"Bearer {reference}"}
    _, out, _ = run("install", "vscode", "--remote", "--http", "--auth", "--print")
    assert "${env:GAIA_BRIDGE_TOKEN}" in out and "inputs" not in out  # which are not asked for there
    _, out, _ = run("install", "vscode", "--http", "--token-variable", "MINE", "--print")
    assert "Bearer ${env:MINE}" in out and "inputs" not in out
    _, out, _ = run("install", "codex", "--http", "--token-variable", "MINE", "--print")
    assert 'bearer_token_env_var = "MINE"' in out
    code, _, err = run("install", "zed", "--http", "--auth", "--print")
    assert (code, "it takes no token" in err) == (78, True)


def test_where_no_other_program_can_write_it_is_said_what_to_paste(run: Run) -> None:
    code, out, err = run("install", "jetbrains")
    assert (code, json.loads(out)["mcpServers"]["gaia-bridge"]["command"]) == (0, PROGRAM)
    assert "Settings, Tools, AI Assistant" in err
    code, _, err = run("install", "claude-desktop", "--http", "--yes")
    assert (code, "Add custom connector" in err) == (78, True)
    assert run("install", "jetbrains", "--remove")[0] == 78


def test_all_writes_into_every_editor_that_is_there_and_goes_on_after_a_broken_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert run("install", "--all", "--yes")[0] == 78
    for folder in (".cursor", ".codex", ".gemini"):
        Path(folder).mkdir()
    Path(CURSOR).write_text("{", encoding="utf-8")
    code, _, err = run("install", "--all", "--yes")
    assert (code, f"{CURSOR}: is not valid JSON" in err) == (78, True)
    assert Path(".codex/config.toml").exists() and Path(".gemini/settings.json").exists()
    Path(CURSOR).unlink()
    assert run("install", "--all", "--yes")[0] == 0
    assert run("install", "--all", "--remove", "--yes")[0] == 0
    assert [os.listdir(folder) for folder in (".cursor", ".codex", ".gemini")] == [[], [], []]


def test_an_editor_that_is_not_there_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    note = "Cursor was not found on this machine: the entry waits for it\n"
    assert note not in run("install", "cursor", "--workspace", "--yes")[2]
    Path(CURSOR).unlink()
    Path(CURSOR).parent.rmdir()
    assert note in run("install", "cursor", "--yes")[2]
    assert note not in run("install", "cursor", "--no-servers", "--yes")[2]


def test_without_an_editor_all_are_listed_and_nothing_is_written(run: Run) -> None:
    Path(".cursor").mkdir()
    code, out, _ = run("install")
    assert code == 0
    [cursor] = [line for line in out.splitlines() if line.startswith("cursor")]
    assert cursor.split() == ["cursor", "Cursor", "yes", str(Path(CURSOR).absolute())]
    assert os.listdir(".cursor") == []


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["vscod"], 64, "did you mean 'vscode'?"),
        (["emacs"], 64, "expected one of vscode"),
        (["cursor", "--all"], 64, "leave out one"),
        (["cursor", "--url", "http://x"], 64, "go with --http"),
        (["cursor", "--auth"], 64, "go with --http"),
        (["cursor", "--http", "--agent", "code"], 64, "leave out code here; name it where you start the bridge: "),
        (["cursor", "--http", "--no-servers", "code"], 64, "the bridge: gaia-bridge serve --no-servers code"),
        (["cursor", "--http", "--token-variable", "a b"], 64, "expected the name of a variable"),
        (["cursor", "--name", "a\nb", "--yes"], 64, "--name 'a b'"),
        (["windsurf", "--workspace", "--yes"], 78, "it has: --user"),
        (["cursor", "--remote", "--yes"], 78, "it has: --user, --workspace"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_can(run: Run, arguments: list[str], code: int, reason: str) -> None:
    found, _, err = run("install", *arguments)
    assert (found, reason in err) == (code, True), err


def test_a_program_that_will_not_stay_or_that_others_do_not_have_is_pointed_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gaia_bridge_cli.install.own_program", lambda: ["/h/.cache/uv/archive-v0/x/bin/gaia-bridge"])
    assert "use uv tool install" in run("install", "cursor", "--yes")[2]
    assert "whoever shares the folder" in run("install", "vscode", "--workspace", "--yes")[2]


def test_another_name_makes_another_entry(run: Run) -> None:
    run("install", "cursor", "--yes")
    run("install", "cursor", "--name", "mine", "--stdio", "--yes")
    assert list(content(CURSOR)["mcpServers"]) == ["gaia-bridge", "mine"]
    assert run("install", "cursor", "--name", "mine", "--remove", "--yes")[0] == 0
    assert list(content(CURSOR)["mcpServers"]) == ["gaia-bridge"]


def test_on_a_terminal_it_asks() -> None:
    with terminal("install", "cursor") as screen:
        screen.until("Write it? [Y/n]")
        screen.type("n\n")
        assert screen.ended() == 0
        assert "nothing was changed" in screen.shown
    assert not Path(CURSOR).exists()
    with terminal("install", "cursor") as screen:
        screen.until("Write it? [Y/n]")
        screen.type("\n")
        assert screen.ended() == 0
    assert Path(content(CURSOR)["mcpServers"]["gaia-bridge"]["command"]).is_absolute()
    with terminal("install", "cursor", "--remove") as screen:
        screen.until("Remove it? [Y/n]")
        screen.type(CTRL_C)
        assert screen.ended() == 130
    assert Path(CURSOR).exists()


def test_what_an_editor_will_be_shown_is_told_where_no_server_is_configured(run: Run) -> None:
    told = "no server is configured yet: gaia-bridge add"
    assert (
        f"{told} NAME COMMAND, or gaia-bridge import. Until then it has the agents that ship"
        in (run("install", "cursor", "--yes")[2])
    )
    assert "which work in the folder where the editor starts it" in run("install", "cursor", "--stdio", "--yes")[2]
    assert "of which a socket tells nothing" in run("install", "vscode", "--unix", "--yes")[2]
    assert told not in run("install", "cursor", "--agent", str(write_agent(Path.cwd())), "--yes")[2]
    Path(".gaia").mkdir(exist_ok=True)
    servers = {"a": {"command": "a", "disabled": True}}
    Path(".gaia/mcp_servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    assert told in run("install", "zed", "--yes")[2]
    servers["b"] = {"command": "b"}
    Path(".gaia/mcp_servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    assert told not in run("install", "codex", "--yes")[2]
