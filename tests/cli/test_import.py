"""`gaia-bridge import`, as it is typed: what is taken from editors, where secrets go, and what is left out."""

from __future__ import annotations

import io
import json
import re
import stat
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gaia_bridge_cli.servers.kept_secrets import secrets_in
from tests.cli.running import GLOBAL, Run, entries
from tests.cli.terminals import terminal
from tests.support.configured import load_servers

TOKEN = "ghp_0123456789abcdefghij"
PASSWORD = "hunter-22-hunter"
TAKE = ("--yes", "--no-connect")

VSCODE = """{
  // of this project
  "inputs": [{"id": "gh-token", "type": "promptString", "description": "GitHub token", "password": true}],
  "servers": {
    "My clock": {"type": "stdio", "command": "uvx", "args": ["mcp-server-time"], "env": {"ZONE": "UTC"}},
    "far": {"type": "http", "url": "https://x.org/mcp", "headers": {"Authorization": "Bearer ${input:gh-token}"}},
    "local": {"command": "node", "args": ["${workspaceFolder}/server.js"], "envFile": "${workspaceFolder}/.env"},
    "gaia-bridge": {"type": "stdio", "command": "/x/gaia-bridge", "args": ["connect"]},
    "asks": {"command": "${command:ext.pick}"},
  },
}
"""


def write(path: str, content: Any) -> None:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def test_a_projects_servers_are_taken_with_comments_inputs_and_files_of_variables(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Path("project").absolute()
    write("project/.vscode/mcp.json", VSCODE)
    write("project/.env", f"ZONE=UTC\nDB_PASSWORD={PASSWORD}\n")
    monkeypatch.chdir(project)
    code, _, err = run("import", "vscode", "--project-file", ".vscode/mcp.json", *TAKE, "--secrets", "file")
    monkeypatch.chdir(project.parent)
    assert code == 0
    assert entries() == {
        "My clock": {"command": "uvx", "args": ["mcp-server-time"], "env": {"ZONE": "UTC"}},
        "far": {"type": "http", "url": "https://x.org/mcp", "headers": {"Authorization": "Bearer ${env:GH_TOKEN}"}},
        "local": {
            "command": "node",
            "args": [f"{project}/server.js"],
            "env": {"ZONE": "UTC", "DB_PASSWORD": "${file:~/.gaia/secrets/local.DB_PASSWORD}"},
        },
    }
    assert "gaia-bridge is left out: it is this bridge itself" in err
    assert "asks is left out: it has ${command:...}" in err
    assert "set GH_TOKEN, which the editor asked for: GitHub token" in err
    assert PASSWORD not in err
    loaded = load_servers(Path(GLOBAL), {"GH_TOKEN": "t"})
    assert [server.name for server in loaded.servers] == ["My clock", "far", "local"]
    assert PASSWORD in loaded.secrets


def test_secrets_go_nowhere_unasked(run: Run) -> None:
    write("a.json", {"mcpServers": {"a": {"command": "x", "env": {"API_KEY": TOKEN}}, "b": {"command": "y"}}})
    code, out, err = run("import", "a.json", *TAKE)
    assert (code, "a: API_KEY" in err, "--secrets file, --secrets keyring, or --secrets clear" in err) == (
        64,
        True,
        True,
    )
    assert TOKEN not in out + err
    assert not Path(GLOBAL).exists()
    assert run("import", "a.json", *TAKE, "--secrets", "clear")[0] == 0
    assert entries()["a"]["env"] == {"API_KEY": TOKEN}
    assert stat.S_IMODE(Path(GLOBAL).stat().st_mode) == 0o600


def test_secrets_are_put_into_files_that_only_the_user_can_read(run: Run) -> None:
    server = {
        "command": "x",
        "args": ["--api-key", TOKEN, "--verbose", f"--token={TOKEN}", "plain"],
        "env": {"PASSWORD": PASSWORD, "PATH": "/bin", "REF": "${env:X}"},
    }
    remote = {"url": f"https://x.org/mcp?api_key={TOKEN}", "headers": {"X-Api-Key": TOKEN, "Accept": "a"}}
    write("a.json", {"mcpServers": {"a b": server, "far": remote}})
    code, out, err = run("import", "a.json", *TAKE, "--secrets", "file")
    assert code == 0
    assert TOKEN not in out + err and PASSWORD not in out + err
    assert TOKEN not in Path(GLOBAL).read_text(encoding="utf-8")
    blank = f"a_b-{zlib.crc32(b'a b'):08x}"  # another server may be called a_b
    files = {file.name: file for file in Path(".gaia/secrets").iterdir() if file.name != ".lock"}
    assert sorted(files) == [f"{blank}.PASSWORD", f"{blank}.api-key", f"{blank}.token", "far.X-Api-Key", "far.url"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files.values()} == {0o600}
    first, second = load_servers(Path(GLOBAL), {"X": "1"}).servers
    assert (first.args[1], first.args[3], first.env["PASSWORD"]) == (TOKEN, f"--token={TOKEN}", PASSWORD)  # type: ignore[union-attr]
    assert second.url == remote["url"]  # type: ignore[union-attr]


def test_a_secret_with_a_text_like_a_reference_is_kept_as_it_is(run: Run) -> None:
    write(".codex/config.toml", '[mcp_servers.a]\ncommand = "x"\nenv = {API_KEY = "pass${HOME}$${word"}\n')
    for place in ("clear", "file"):
        assert run("import", "codex", *TAKE, "--force", "--secrets", place)[0] == 0
        [server] = load_servers(Path(GLOBAL)).servers
        assert server.env == {"API_KEY": "pass${HOME}$${word"}  # type: ignore[union-attr]  # it is a program


def test_secrets_are_put_into_the_keyring(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[str, str], str] = {}

    def keep(service: str, name: str, value: str) -> None:
        kept[service, name] = value

    def find(service: str, name: str) -> str | None:
        return kept.get((service, name))

    fake = SimpleNamespace(set_password=keep, get_password=find)
    monkeypatch.setitem(sys.modules, "keyring", fake)
    write("a.json", {"mcpServers": {"a": {"command": "x", "env": {"API_KEY": TOKEN}}}})
    assert run("import", "a.json", *TAKE, "--secrets", "keyring")[0] == 0
    assert entries()["a"]["env"] == {"API_KEY": "${keyring:gaia-bridge/a.API_KEY}"}
    assert kept == {("gaia-bridge", "a.API_KEY"): TOKEN}
    assert TOKEN in load_servers(Path(GLOBAL)).secrets

    def locked(*words: str) -> None:
        raise RuntimeError(TOKEN)

    kept.clear()
    for fails in ("set_password", "get_password"):
        monkeypatch.setattr(fake, fails, locked)
        code, _, err = run("import", "a.json", *TAKE, "--secrets", "keyring", "--force")
        assert (code, "the keyring failed with RuntimeError" in err, TOKEN in err) == (78, True, False), fails


def test_without_the_package_for_the_keyring_it_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    write("a.json", {"mcpServers": {"a": {"command": "x", "env": {"API_KEY": TOKEN}}}})
    code, _, err = run("import", "a.json", *TAKE, "--secrets", "keyring")
    assert (code, "pip install" in err, Path(GLOBAL).exists()) == (78, True, False)


def test_what_has_a_name_that_is_taken_stays_unless_it_is_forced(run: Run) -> None:
    write("a.json", {"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    run("add", "a", "true", "--no-connect")
    code, _, err = run("import", "a.json", *TAKE)
    assert (code, "a is left out: there is a server 'a' already; --force replaces it" in err) == (0, True)
    assert {name: entry["command"] for name, entry in entries().items()} == {"a": "true", "b": "y"}
    assert run("import", "a.json", *TAKE)[1] == ""
    assert run("import", "a.json", *TAKE, "--force", "--only", "a")[0] == 0
    assert entries()["a"] == {"command": "x", "args": []}


def test_a_dry_run_and_a_look_around_change_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("import")[0] == 0
    write(".cursor/mcp.json", {"mcpServers": {"a": {"command": "x", "env": {"API_KEY": TOKEN}}}})
    write(".codex/config.toml", '[mcp_servers.b]\ncommand = "y"\n')
    write(".gemini/settings.json", "{")
    code, out, _ = run("import")
    rows = [line.split() for line in out.splitlines()]
    assert code == 0
    assert ["cursor", "a", str(Path(".cursor/mcp.json").absolute())] in rows
    assert ["codex", "b", str(Path(".codex/config.toml").absolute())] in rows
    assert "is not valid JSON" in out
    code, out, _ = run("import", "cursor", "--dry-run")
    assert (code, "a: x" in out, TOKEN in out) == (0, True, False)
    assert not Path(".gaia").exists()


def test_claude_codes_own_file_has_those_of_this_folder_as_well(run: Run) -> None:
    here = str(Path.cwd())
    write(
        ".claude.json",
        {"mcpServers": {"a": {"command": "x"}}, "projects": {here: {"mcpServers": {"b": {"command": "y"}}}}},
    )
    assert run("import", "claude-code", *TAKE)[0] == 0
    assert list(entries()) == ["a", "b"]


def test_a_projects_server_that_claude_code_was_not_allowed_to_start_is_named_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Path("project").absolute()
    own = {"disabledMcpjsonServers": ["off"], "enabledMcpjsonServers": ["allowed"]}
    write(".claude.json", {"mcpServers": {"a": {"command": "x"}}, "projects": {str(project): own}})
    write("project/.mcp.json", {"mcpServers": {name: {"command": "y"} for name in ("off", "allowed", "new")}})
    monkeypatch.chdir(project)
    note = "pending approval: Claude Code was not allowed to start it yet"
    _, out, err = run("import", "claude-code", "--dry-run")
    assert (out + err).count(note) == 1
    assert re.search(rf"^new: y\n +note: {note}$", out + err, re.MULTILINE)
    write(".claude/settings.local.json", {"enableAllProjectMcpServers": True})
    _, out, err = run("import", "claude-code", "--dry-run")
    assert note not in out + err
    write(".claude/settings.local.json", {})
    _, out, err = run("import", ".mcp.json", "--dry-run")  # without the file that would say so
    assert note not in out + err


def test_standard_input_and_files_of_toml_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"mcpServers": {"a": {"command": "./x",},}} // pasted'))
    assert run("import", "-", *TAKE)[0] == 0
    assert entries()["a"]["command"] == str(Path("x").absolute())
    write("b.toml", '[mcp_servers.b]\nurl = "https://x.org"\n')
    assert run("import", "b.toml", *TAKE)[0] == 0
    assert entries()["b"] == {"url": "https://x.org"}


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["curser"], 64, "did you mean 'cursor'?"),
        (["cursor"], 78, "has no file with servers here"),
        (["jetbrains"], 78, "has no file with servers here"),
        (["nowhere.json"], 78, "cannot be read"),
        (["broken.json"], 78, "is not valid JSON: line 1"),
        (["empty.json"], 78, "lists no servers"),
        (["one.json", "--only", "b"], 78, "lists no server 'b'"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(
    run: Run, arguments: list[str], code: int, reason: str
) -> None:
    write("broken.json", "{")
    write("empty.json", {"a": 1})
    write("one.json", {"mcpServers": {"a": {"command": "x"}}})
    found, _, err = run("import", *arguments, "--yes")
    assert (found, reason in err) == (code, True), err


def test_an_entry_that_cannot_be_used_is_named_and_the_others_are_taken(run: Run) -> None:
    write("a.json", {"mcpServers": {"bad": {"url": "ftp://x"}, "good": {"command": "x"}}})
    code, _, err = run("import", "a.json", *TAKE)
    assert (code, "server 'bad': 'url' is no address of a server" in err, list(entries())) == (78, True, ["good"])


def test_a_file_of_variables_that_is_missing_or_binary_is_named(run: Run) -> None:
    write("a.json", {"servers": {"a": {"command": "x", "envFile": "nowhere.env"}}})
    code, _, err = run("import", "a.json", *TAKE)
    assert (code, "its file of variables" in err, entries()["a"]) == (0, True, {"command": "x", "args": []})
    Path("b.env").write_bytes(b"A=\xff")
    write("b.json", {"servers": {"b": {"command": "x", "envFile": "b.env"}}})
    code, _, err = run("import", "b.json", *TAKE)
    assert (code, "b.env: byte 3 is not UTF-8" in err) == (78, True)


def test_a_file_of_variables_is_found_in_the_home_folder(run: Run) -> None:
    (Path.home() / "mine.env").write_text("A=1", encoding="utf-8")
    write("a.json", {"servers": {"a": {"command": "x", "envFile": "~/mine.env"}}})
    assert run("import", "a.json", *TAKE)[0] == 0 and entries()["a"]["env"] == {"A": "1"}


def test_on_a_terminal_it_asks_where_secrets_go_and_for_what_the_editor_asked() -> None:
    write("a.json", '{"inputs": [{"id": "t", "description": "A token"}], "servers": {"a": {"command": "x", "env": '
          f'{{"API_KEY": "{TOKEN}", "T": "${{input:t}}"}}}}}}}}')  # fmt: skip
    with terminal("import", "a.json", "--no-connect") as screen:
        screen.until("Take a?")
        screen.type("y\n")
        screen.until("as they are?")
        assert "a: API_KEY" in screen.shown
        screen.type("file\n")
        screen.until("A token")
        screen.type("typed-in\n")
        assert screen.ended() == 0
        assert TOKEN not in screen.shown and "typed-in" not in screen.shown
    assert entries()["a"]["env"] == {
        "API_KEY": "${file:~/.gaia/secrets/a.API_KEY}",
        "T": "${file:~/.gaia/secrets/a.T}",
    }
    assert Path(".gaia/secrets/a.T").read_text(encoding="utf-8") == "typed-in\n"


def test_references_and_public_values_are_no_secrets() -> None:
    entry = {
        "command": "x",
        "args": ["--port", "8080", "-t", "stdio", "--token", "${env:T}", "@scope/server-token@1.2.3"],
        "env": {"TOKEN": "${T}", "AUTH": "Bearer ${T}", "NODE_OPTIONS": "--x", "LEVEL": "debug"},
        "oauth": {"clientId": "0123456789abcdef0123", "issuer": "https://x.org"},
    }
    assert secrets_in(entry) == []
    twice = secrets_in({"env": {"token": TOKEN}, "args": ["--token", TOKEN, "--token", TOKEN]})
    assert len({secret.label for secret in twice}) == 3
    assert "value" not in repr(secrets_in({"env": {"TOKEN": "value-of-it"}}))
