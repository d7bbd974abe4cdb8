"""`gaia-bridge add`: where secrets go, what is asked for, and what is said of a server that does not start."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.text.json_types import JSON
from tests.cli.running import GLOBAL, Run, entries
from tests.cli.terminals import terminal
from tests.support.configured import load_servers

SERVER = Path(__file__).parents[2] / "servers" / "raw_server.py"
COMMAND = f"{sys.executable} -S {SERVER}"
TOKEN = "ghp_0123456789abcdefghij"
RAW = {"command": sys.executable, "args": ["-S", str(SERVER)]}
PASTED = json.dumps({"mcpServers": {"my raw": {**RAW, "env": {"API_KEY": TOKEN}}}})

WITH_SECRETS = [
    [PASTED],
    ["x", COMMAND, "--env", f"API_KEY={TOKEN}"],
    ["x", f"API_KEY={TOKEN} {COMMAND}"],
    ["x", f"API_KEY={TOKEN}", *COMMAND.split()],
    ["x", f"{COMMAND} --token {TOKEN}"],
    ["x", "docker", "run", "-i", "-e", f"API_KEY={TOKEN}", "image"],
    ["x", "https://x.org/mcp", "--header", f"Authorization: Bearer {TOKEN}"],
    ["x", f"https://x.org/mcp?api_key={TOKEN}"],
]


@pytest.mark.parametrize("words", WITH_SECRETS)
def test_a_secret_is_not_written_in_clear_unasked_and_nothing_is_started_before(run: Run, words: list[str]) -> None:
    code, out, err = run("add", *words)
    assert (code, out) == (64, "")
    assert "nothing was added: there are secrets" in err and "--secrets file, --secrets keyring" in err
    assert TOKEN not in err and not Path(".gaia").exists()


@pytest.mark.parametrize("words", WITH_SECRETS)
def test_a_secret_goes_into_a_file_of_its_own_and_the_entry_refers_to_it(run: Run, words: list[str]) -> None:
    assert run("add", "--secrets", "file", "--no-connect", *words)[0] == 0
    assert TOKEN not in Path(GLOBAL).read_text(encoding="utf-8")
    [secret] = [path for path in Path(".gaia/secrets").iterdir() if path.name != ".lock"]
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    loaded = load_servers(Path(GLOBAL), {})
    assert any(TOKEN in value for value in loaded.secrets)


def test_a_server_with_a_secret_that_does_not_work_leaves_no_secret_behind(run: Run) -> None:
    code, _, err = run("add", "x", "--secrets", "file", "--env", f"API_KEY={TOKEN}", "no-such-program")
    assert (code, "cannot be started" in err) == (69, True)
    assert not Path(".gaia/secrets").exists()
    assert run("add", "x", "--secrets", "file", "--env", f"API_KEY={TOKEN}", COMMAND)[0] == 0
    assert entries()["x"]["env"] == {"API_KEY": "${file:~/.gaia/secrets/x.API_KEY}"}
    assert run("tools", "x")[0] == 0


def test_on_a_terminal_it_is_asked_where_a_secret_goes_and_what_a_variable_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal("add", "--env", "MY_KEY", "x", f"{COMMAND} --token {TOKEN}") as user:
        user.until("these look like secrets: x: token")
        user.type("file\n")
        user.until("x: MY_KEY (empty: MY_KEY is set later)")
        user.type("typed-in-secretly\n")
        user.until("added x to")
        assert "typed-in-secretly" not in user.shown
    entry = entries()["x"]
    assert entry["env"] == {"MY_KEY": "${file:~/.gaia/secrets/x.MY_KEY}"}
    assert entry["args"][-1] == "${file:~/.gaia/secrets/x.token}"
    assert Path(".gaia/secrets/x.MY_KEY").read_text(encoding="utf-8") == "typed-in-secretly\n"


def test_a_variable_by_name_is_a_reference_and_never_a_copy(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", TOKEN)
    assert run("add", "--env", "MY_KEY", "x", COMMAND)[0] == 0
    assert run("add", "y", "--no-connect", "docker", "run", "-e", "MY_KEY", "image")[0] == 0
    assert {name: entry["env"] for name, entry in entries().items()} == dict.fromkeys("xy", {"MY_KEY": "${env:MY_KEY}"})
    monkeypatch.delenv("MY_KEY")
    code, _, err = run("add", "--env", "MY_KEY", "z", COMMAND)
    assert code == 78
    assert "needs the environment variable MY_KEY, which is not set (set it, or say --no-connect" in err


def test_what_documentation_has_in_place_of_a_secret_becomes_a_reference(run: Run, monkeypatch: Any) -> None:
    monkeypatch.setenv("API_KEY", TOKEN)
    assert run("add", "--yes", PASTED.replace(TOKEN, "<YOUR_KEY>"))[0] == 0
    assert entries()["my raw"]["env"] == {"API_KEY": "${env:API_KEY}"}


def test_a_pasted_file_of_variables_counts(run: Run) -> None:
    Path(".env").write_text(f"API_KEY={TOKEN}\n", encoding="utf-8")
    entry = {"command": "python3", "envFile": "${workspaceFolder}/.env", "args": ["-S", str(SERVER)]}
    assert run("add", "x", json.dumps(entry), "--secrets", "file", "--no-connect")[0] == 0
    assert entries()["x"]["env"] == {"API_KEY": "${file:~/.gaia/secrets/x.API_KEY}"}


def test_the_first_server_is_said_to_take_the_place_of_the_agents_that_ship_in_editors(run: Run) -> None:
    told = "instead of the agents code and project"
    add = ("add", "--no-connect", "--force")
    assert told not in run(*add, "x", COMMAND)[2], "no editor has the bridge"
    assert run("remove", "x")[0] == run("install", "codex", "--yes")[0] == 0
    code, _, err = run(*add, "x", COMMAND)
    assert (code, told in err, "gaia-bridge install EDITOR code project" in err) == (0, True, True), err
    assert told not in run(*add, "y", COMMAND)[2], "it is the second one"


def test_secrets_that_an_entry_leaves_behind_are_named(run: Run) -> None:
    def add(token: str) -> str:
        code, _, err = run(
            "add", "x", COMMAND, "--env", f"API_KEY={token}", "--secrets", "file", "--force", "--no-connect"
        )
        assert code == 0, err
        return err

    assert "old secret" not in add(TOKEN) + add(TOKEN)
    old, new = "~/.gaia/secrets/x.API_KEY", "~/.gaia/secrets/x.API_KEY-2"
    assert f"its old secret is still in {old};" in add(f"{TOKEN}9")
    assert entries()["x"]["env"] == {"API_KEY": f"${{file:{new}}}"}
    assert f"its old secret is still in {new};" in run("remove", "x")[2]


@pytest.mark.parametrize("reference", ["${file:~/.ssh/id}", "a ${keyring:gaia/token} b"])
def test_a_file_of_variables_hands_no_other_file_to_a_server(run: Run, reference: str) -> None:
    Path(".env").write_text(f"A='{reference}'\nB=1\n", encoding="utf-8")
    entry = {"command": "python3", "envFile": ".env", "args": ["-S", str(SERVER)]}
    Path("a.json").write_text(json.dumps({"mcpServers": {"x": entry}}), encoding="utf-8")
    for said in (("add", "x", json.dumps(entry), "--no-connect"), ("import", "a.json", "--force", "--yes")):
        code, _, err = run(*said)
        assert code == 0, err
        [server] = load_servers(Path(GLOBAL)).servers
        assert server.env == {"A": reference, "B": "1"}  # type: ignore[union-attr]  # it is a program


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("ModuleNotFoundError: No module named 'fastmcp'", "this Python does not have fastmcp"),
        ("invalid peer certificate: UnknownIssuer\n\nhint: use --system-certs", "--env SSL_CERT_FILE="),
        (
            "npm error code E404\nnpm error A complete log of this run can be found in: /x",
            "there is no such npm package",
        ),
    ],
)
def test_why_a_server_does_not_start_is_told_with_what_to_do(run: Run, said: str, told: str) -> None:
    code, _, err = run("add", "x", "--", sys.executable, "-c", f"import sys; sys.exit({said!r})")
    *_, last = err.strip().splitlines()
    assert (code, "it exited with code 1 before it completed the handshake; " in last) == (69, True)
    assert told in last and said.splitlines()[0] in last


def test_a_download_that_takes_longer_than_a_start_may_is_told_and_given_more(
    run: Run, tmp_path: Path, monkeypatch: Any
) -> None:
    runner = tmp_path / "npx"
    runner.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    runner.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    code, _, err = run("add", "--startup-timeout", "0.2", "x", "npx", "-y", "server")
    assert (code, "npx may still be downloading it: --startup-timeout 1200" in err) == (69, True)
    assert run("add", "--startup-timeout", "90", "x", COMMAND)[0] == 0
    assert entries()["x"]["startup_timeout"] == 90


def test_the_log_of_a_server_that_does_not_start_is_followed_by_what_to_do(run: Run) -> None:
    run("add", "x", "prog", "--no-connect")
    file = Path(".gaia/logs/x.log")
    file.parent.mkdir()
    line = "2026-11-25 12:00:00,000 [{}] {}\n"
    old, new = "ModuleNotFoundError: No module named 'old'", "ModuleNotFoundError: No module named 'new'"
    file.write_text(line.format(1, old) + line.format(2, "Traceback") + line.format(2, new), encoding="utf-8")
    code, out, err = run("logs", "x")
    assert (code, len(out.splitlines())) == (0, 3)
    assert err.startswith(f"note: if it does not start: {new}; this Python does not have new")
    file.write_text(line.format(1, old) + line.format(2, "listening"), encoding="utf-8")
    assert run("logs", "x")[2] == ""


def test_the_status_says_what_to_do_about_a_server_that_does_not_start(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = "SyntaxError: invalid syntax; " + 30 * "what to do "
    source = {"name": "x", "kind": "server", "state": "failed", "tools": 0, "reason": "it exited with code 1"}
    told: JSON = {
        "sources": [{**source, "connection": {"cause": cause}}, {**source, "name": "y", "connection": {"cause": None}}]
    }

    def bridge_status(url: str) -> JSON:
        return told

    monkeypatch.setattr("gaia_bridge_cli.running_bridge.bridge_status", bridge_status)
    _, first, second = run("status")[1].splitlines()
    assert first.endswith(f"it exited with code 1; {cause}".strip())
    assert second.endswith("it exited with code 1")


def test_who_has_python3_alone_is_told_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaia_bridge.config.launching.search_path.usual_folders", lambda: ())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "There is a python3" not in run("add", "x", "python -m server")[2]
    (tmp_path / "python3").symlink_to(sys.executable)
    assert (
        "'python': No such file or directory; is it installed, and on the PATH? There is a python3"
        in run("add", "x", "python -m server")[2]
    )


def test_a_file_in_place_of_a_command_is_told_how_its_servers_are_added(run: Run) -> None:
    Path("my servers.json").write_text(PASTED, encoding="utf-8")
    code, _, err = run("add", "my servers.json")
    assert code == 64 and "my servers.json is a file; gaia-bridge import 'my servers.json' takes over" in err
    assert run("import", "my servers.json", "--yes", "--secrets", "file")[0] == 0 and "my raw" in entries()


def test_an_option_of_ours_behind_a_program_is_told_to_be_the_programs(run: Run) -> None:
    code, _, err = run("add", "x", *COMMAND.split(), "quiet", "--no-connect")
    assert "note: --no-connect is the program's where it stands; options of `add` stand before NAME" in err
    assert (code, entries()["x"]["args"][-2:]) == (0, ["quiet", "--no-connect"])
