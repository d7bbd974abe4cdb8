"""An approval holds for exactly what was shown, is the user's alone, and cannot come with a project."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.config import TrustStore
from gaia_bridge.config.entries import KEYS_OF
from gaia_bridge.config.fingerprints import LAUNCH_KEYS, digest, launch_line
from gaia_bridge.errors import ConfigError

ENTRY = {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "${TOKEN}"}, "cwd": "/srv"}
FILE = Path("/project/mcp_servers.json")


def store() -> Path:
    return Path(os.environ["HOME"], ".gaia", "trust.json")


def test_nothing_is_approved_at_first() -> None:
    assert not TrustStore().is_approved(FILE, "x", ENTRY)
    assert not store().exists()


@pytest.mark.requirement("S-25")
def test_an_approval_is_remembered_for_the_user_alone() -> None:
    TrustStore().approve(FILE, "x", ENTRY)
    assert TrustStore().is_approved(FILE, "x", ENTRY)
    assert stat.S_IMODE(store().stat().st_mode) == 0o600
    assert stat.S_IMODE(store().parent.stat().st_mode) == 0o700


@pytest.mark.requirement("S-25", "C-18")
@pytest.mark.parametrize(
    "change",
    [
        {"command": "npx "},
        {"args": ["-y", "server", ""]},
        {"args": ["-y server"]},
        {"args": ["server", "-y"]},
        {"args": None},
        {"env": {"TOKEN": "${TOKEN2}"}},
        {"env": {"TOKEN": "${TOKEN}", "LD_PRELOAD": "x"}},
        {"env": None},
        {"cwd": "/srv2"},
        {"inherit_env": True},
        {"type": "stdio"},
        {"url": "https://example.com"},
        {"headers": {"A": "b"}},
        {"oauth": {"clientId": "b"}},
        {"oauth": False},
        {"tools": {"a": {"description": "b"}}},
    ],
)
def test_any_change_of_the_launch_line_voids_it(change: dict[str, Any]) -> None:
    trust = TrustStore()
    trust.approve(FILE, "x", ENTRY)
    assert not trust.is_approved(FILE, "x", {**ENTRY, **change})


@pytest.mark.requirement("C-18")
@given(st.text(), st.text())
def test_any_change_of_a_word_is_another_launch_line(one: str, other: str) -> None:
    digests = [digest(launch_line({"command": "a", "args": [word]})) for word in (one, other)]
    assert (digests[0] == digests[1]) == (one == other)


@pytest.mark.requirement("S-25")
def test_another_server_or_file_is_not_approved(tmp_path: Path) -> None:
    trust = TrustStore()
    trust.approve(FILE, "x", ENTRY)
    assert not trust.is_approved(FILE, "y", ENTRY)
    assert not trust.is_approved(tmp_path / "mcp_servers.json", "x", ENTRY)


@pytest.mark.requirement("S-25")
def test_a_file_is_the_same_however_it_is_reached(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    trust = TrustStore()
    trust.approve(tmp_path / "real" / ".." / "real" / "f.json", "x", ENTRY)
    assert trust.is_approved(tmp_path / "link" / "f.json", "x", ENTRY)


@pytest.mark.requirement("S-25", "C-18")
def test_a_link_to_an_approved_file_is_not_approved_where_its_relative_paths_lead_elsewhere(tmp_path: Path) -> None:
    for folder in ("own", "strange"):
        (tmp_path / folder).mkdir()
    (tmp_path / "strange" / "f.json").symlink_to("../own/f.json")
    entry = {"command": "python3", "args": ["server.py"]}
    trust = TrustStore()
    trust.approve(tmp_path / "own" / "f.json", "x", entry)
    assert not trust.is_approved(tmp_path / "strange" / "f.json", "x", entry)


@pytest.mark.requirement("S-25", "C-18")
@pytest.mark.parametrize(
    "entry",
    [
        {"command": "${file:x}"},
        {"command": "npx", "args": ["--from=${file:x}"]},
        {"command": "npx", "env": {"NODE_OPTIONS": "${file:./x}"}},
        {"command": "npx", "cwd": "/srv/${file:x}"},
        {"url": "https://${HOST}/${file:x}"},
    ],
)
def test_what_a_file_fills_into_the_launch_line_is_approved_with_it(entry: dict[str, Any], tmp_path: Path) -> None:
    file, trust = tmp_path / "f.json", TrustStore()
    trust.approve(file, "x", entry)  # the file is not there: whatever comes was not seen
    for content in ("one", "two"):
        (tmp_path / "x").write_text(content, encoding="utf-8")
        assert not trust.is_approved(file, "x", entry)
        trust.approve(file, "x", entry)
        assert trust.is_approved(file, "x", entry)


@pytest.mark.requirement("F-264", "C-18", "S-25")
@pytest.mark.parametrize(
    ("entry", "program"),
    [
        ({"command": "./s.sh"}, "s.sh"),
        ({"command": "sh", "args": ["-c", "exec ./s.sh"]}, "s.sh"),
        ({"command": "python3", "args": ["-u", "server.py"]}, "server.py"),
        ({"command": "python3", "args": ["-m", "pkg"]}, "pkg/__main__.py"),
        ({"command": "python3", "args": ["."]}, "__main__.py"),
        ({"command": "node", "args": ["--require=./hook.js", "-e", ""]}, "hook.js"),
        ({"command": "node", "args": ["../x.js"], "cwd": "sub"}, "x.js"),
        ({"command": "perl", "args": ["-v"], "env": {"BASH_ENV": "./e.sh"}}, "e.sh"),
        ({"command": "tool", "env": {"PATH": "bin:/usr/bin"}}, "bin/tool"),
        ({"command": "npm", "args": ["start"]}, "package.json"),
        ({"command": "uv", "args": ["run", "server"]}, "pyproject.toml"),
        ({"command": "make", "args": ["serve"]}, "Makefile"),
        ({"command": "uv", "args": ["--directory", "sub", "run", "server.py"]}, "sub/server.py"),
        ({"command": "uv", "args": ["--directory=sub", "run", "server.py"]}, "sub/server.py"),
        ({"command": "uv", "args": ["--directory", "sub", "run", "python", "-m", "server"]}, "sub/server.py"),
        ({"command": "uv", "args": ["--project", "sub", "run", "serve"]}, "sub/pyproject.toml"),
        ({"command": "sh", "args": ["-c", "cd sub && python3 server.py"]}, "sub/server.py"),
        ({"command": "sh", "args": ["-c", "cd sub;cd inner;exec 'a b.sh'"]}, "sub/inner/a b.sh"),
        ({"command": "bash", "args": ["-lc", "./x"]}, "x"),
        ({"command": "env", "args": ["-C", "sub", "python3", "server.py"]}, "sub/server.py"),
        ({"command": "env", "args": ["-Csub", "python3", "server.py"]}, "sub/server.py"),
        ({"command": "env", "args": ["-S", "sh -c 'cd sub && ./x'"]}, "sub/x"),
        ({"command": "python3", "args": ["-msub.server"]}, "sub/server.py"),
        ({"command": "python3", "args": ["-Bm", "sub.server"]}, "sub/__init__.py"),
        ({"command": "python3", "args": ["-c", "import sub.server"]}, "sub/server.py"),
        ({"command": "python3", "args": ["sub"]}, "sub/__main__.py"),
        ({"command": "uvicorn", "args": ["sub.server:app"]}, "sub/server.py"),
        ({"command": "gunicorn", "args": ["--chdir", "sub", "server:app"]}, "sub/server.py"),
        ({"command": "npm", "args": ["-C", "sub", "start"]}, "sub/package.json"),
        ({"command": "npm", "args": ["--prefix=sub", "start"]}, "sub/package.json"),
        ({"command": "pnpm", "args": ["--dir", "sub", "start"]}, "sub/package.json"),
        ({"command": "yarn", "args": ["--cwd", "sub", "start"]}, "sub/package.json"),
        ({"command": "bun", "args": ["--cwd=sub", "run", "server.ts"]}, "sub/server.ts"),
        ({"command": "make", "args": ["-Csub", "serve"]}, "sub/Makefile"),
        ({"command": "make", "args": ["-f", "sub/own.mk"]}, "sub/own.mk"),
        ({"command": "just", "args": ["-d", "sub", "serve"]}, "sub/justfile"),
        ({"command": "cargo", "args": ["run", "--manifest-path", "sub/Cargo.toml"]}, "sub/Cargo.toml"),
        ({"command": "go", "args": ["-C", "sub", "run", "main.go"]}, "sub/main.go"),
        ({"command": "poetry", "args": ["-C", "sub", "run", "serve"]}, "sub/pyproject.toml"),
        ({"command": "pipx", "args": ["run", "--path", "sub/tool.py"]}, "sub/tool.py"),
        ({"command": "docker", "args": ["compose", "-f", "sub/own.yml", "up"]}, "sub/own.yml"),
        ({"command": "docker", "args": ["compose", "--project-directory", "sub", "up"]}, "sub/compose.yaml"),
        ({"command": "node", "args": ["-r./sub/x.js", "-e", "0"]}, "sub/x.js"),
        ({"command": "node", "args": ["--import", "./sub/x.mjs", "other.js"]}, "sub/x.mjs"),
        ({"command": "node", "args": ["sub/x"]}, "sub/x.js"),
        ({"command": "deno", "args": ["run", "-A", "sub/x.ts"]}, "sub/x.ts"),
        ({"command": "npx", "args": ["-y", "tool@1"]}, "node_modules/.bin/tool"),
        ({"command": "npx", "args": ["-y", "@a/tool"]}, "node_modules/@a/tool/package.json"),
        ({"command": "python3", "args": ["${WHERE:-sub}/server.py"]}, "sub/server.py"),
        ({"command": "python3", "args": ["${WHERE}/server.py"], "env": {"WHERE": "sub"}}, "sub/server.py"),
        ({"command": "python3", "args": ["server.py"], "cwd": "${WHERE:-sub}"}, "sub/server.py"),
    ],
)
def test_a_program_of_the_project_that_changed_is_asked_about_again(
    entry: dict[str, Any], program: str, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    path = tmp_path / program
    path.parent.mkdir(parents=True, exist_ok=True)
    file, trust = tmp_path / "f.json", TrustStore()
    for content in ("one", "two"):
        path.write_text(content, encoding="utf-8")
        path.chmod(0o755)
        assert not trust.is_approved(file, "x", entry)
        trust.approve(file, "x", entry)
        assert trust.is_approved(file, "x", entry)
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("three", encoding="utf-8")
    path.unlink()
    path.symlink_to(outside)
    assert not trust.is_approved(file, "x", entry)


@pytest.mark.requirement("F-264", "C-18", "S-25")
@pytest.mark.parametrize(
    "words",
    [
        ["python3", "-c", "from runpy import *; run_path(name)"],
        ["uv", "run", "python", "-X", "utf8", "-cimport this"],
        ["node", "--no-warnings", "-e", "require(name)"],
        ["deno", "eval", "code"],
        ["perl", "-ne", "code"],
        ["sh", "-c", 'exec "$PLACE/server"'],
        ["env", "bash", "-lc", "./s*.sh"],
        ["sh", "-c", "sh -c 'python3 -c code'"],
        ["sh", "-c", "ls | xargs python3"],
        ["env", "-S", "sh -c 'exec ./$PLACE'"],
        ["find", ".", "-exec", "{}", ";"],
        ["pwsh", "-File", "x"],
        ["npx", "-c", "node $PLACE"],
    ],
)
def test_of_a_line_that_runs_what_it_does_not_name_the_whole_folder_is_approved(
    words: list[str], tmp_path: Path
) -> None:
    entry = {"command": words[0], "args": words[1:]}
    file, trust = tmp_path / "f.json", TrustStore()
    path = tmp_path / "deep" / "er" / "any.thing"
    path.parent.mkdir(parents=True)
    for content in ("one", "two"):
        trust.approve(file, "x", entry)
        assert trust.is_approved(file, "x", entry)
        path.write_text(content, encoding="utf-8")
        assert not trust.is_approved(file, "x", entry)


def test_of_a_folder_with_too_many_files_the_first_are_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gaia_bridge.config.trust.WHOLE_FILES", 3)
    for name in "abcd":
        (tmp_path / name).write_text("one", encoding="utf-8")
    entry, trust = {"command": "sh", "args": ["-c", "./$X"]}, TrustStore()
    trust.approve(tmp_path / "f.json", "x", entry)
    (tmp_path / "d").write_text("two", encoding="utf-8")
    assert trust.is_approved(tmp_path / "f.json", "x", entry)
    (tmp_path / "a").write_text("two", encoding="utf-8")
    assert not trust.is_approved(tmp_path / "f.json", "x", entry)


@pytest.mark.requirement("F-264", "C-18", "S-25")
@pytest.mark.parametrize("args", [["-m", "installed"], ["server.py"], ["-m", "server"]])
@pytest.mark.parametrize("shadow", ["typing.py", "anyio/__init__.py"])
def test_a_new_module_that_python_would_find_first_is_asked_about(args: list[str], shadow: str, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("", encoding="utf-8")
    entry, file, trust = {"command": "python3", "args": args}, tmp_path / "f.json", TrustStore()
    trust.approve(file, "x", entry)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    assert trust.is_approved(file, "x", entry)
    (tmp_path / shadow).parent.mkdir(exist_ok=True)
    (tmp_path / shadow).write_text("", encoding="utf-8")
    assert not trust.is_approved(file, "x", entry)


@pytest.mark.requirement("F-264")
def test_a_program_outside_of_the_project_and_data_inside_may_change(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    file, trust = tmp_path / "project" / "f.json", TrustStore()
    entry = {"command": str(tmp_path / "server"), "args": ["--folder", "."]}
    for content in ("one", "two"):
        for name in ("server", "project/data.txt"):
            (tmp_path / name).write_text(content, encoding="utf-8")
        if content == "one":
            trust.approve(file, "x", entry)
        assert trust.is_approved(file, "x", entry)


def test_a_key_that_is_only_sent_may_be_exchanged(tmp_path: Path) -> None:
    entry = {
        "url": "https://example.com",
        "headers": {"Authorization": "${file:x}"},
        "oauth": {"clientId": "${file:x}"},
    }
    trust = TrustStore()
    trust.approve(tmp_path / "f.json", "x", entry)
    (tmp_path / "x").write_text("another", encoding="utf-8")
    assert trust.is_approved(tmp_path / "f.json", "x", entry)


@pytest.mark.requirement("C-19")
def test_no_file_is_read_for_a_launch_line_that_was_not_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gaia_bridge.config.trust.read_bytes", None)  # who calls it, fails
    assert not TrustStore().is_approved(tmp_path / "f.json", "x", {"command": "${file:x}"})


def test_how_a_server_is_used_may_change() -> None:
    trust = TrustStore()
    trust.approve(FILE, "x", ENTRY)
    assert trust.is_approved(FILE, "x", {**ENTRY, "timeout": 5, "disabled": False, "note": "", "url": None})
    assert not {"timeout", "disabled", "allowed_tools"} & set(LAUNCH_KEYS)


def test_every_key_of_a_way_to_a_server_is_part_of_its_approval() -> None:
    assert frozenset[str]().union(*KEYS_OF.values()) - set(LAUNCH_KEYS) == frozenset()


@pytest.mark.requirement("C-18")
def test_a_new_approval_replaces_the_old_one() -> None:
    trust, changed = TrustStore(), {**ENTRY, "command": "other"}
    trust.approve(FILE, "y", ENTRY)
    trust.approve(FILE, "x", ENTRY)
    trust.approve(FILE, "x", changed)
    assert trust.is_approved(FILE, "x", changed)
    assert not trust.is_approved(FILE, "x", ENTRY)
    assert trust.is_approved(FILE, "y", ENTRY)


def test_servers_of_one_name_in_two_projects_are_approved_one_by_one(tmp_path: Path) -> None:
    trust, one, two = TrustStore(), tmp_path / "one.json", tmp_path / "two.json"
    for file in (one, two):
        trust.approve(file, "x", ENTRY)
    assert trust.is_approved(one, "x", ENTRY)
    assert trust.revoke(two, "x")
    assert (trust.is_approved(one, "x", ENTRY), trust.is_approved(two, "x", ENTRY)) == (True, False)


def test_an_approval_no_longer_holds_once_the_same_line_was_approved_with_another_program(tmp_path: Path) -> None:
    entry, file, trust = {"command": "python3", "args": ["server.py"]}, tmp_path / "f.json", TrustStore()
    (tmp_path / "server.py").write_text("one", encoding="utf-8")
    trust.approve(file, "x", entry)
    first = trust.approval(file, "x", entry)
    assert first is not None
    (tmp_path / "server.py").write_text("two", encoding="utf-8")
    assert trust.holds(file, "x", first)
    trust.approve(file, "x", entry)
    assert not trust.holds(file, "x", first)


def test_an_approval_holds_for_its_own_file_and_server_alone(tmp_path: Path) -> None:
    trust = TrustStore()
    trust.approve(FILE, "x", ENTRY)
    approval = trust.approval(FILE, "x", ENTRY)
    assert approval is not None
    assert trust.holds(FILE, "x", approval)
    assert not trust.holds(FILE, "y", approval)
    assert not trust.holds(tmp_path / FILE.name, "x", approval)


def test_what_is_no_approval_in_the_store_approves_nothing() -> None:
    trust = TrustStore()
    trust.approve(FILE, "x", ENTRY)
    approval = trust.approval(FILE, "x", ENTRY)
    approved = json.loads(store().read_text("utf-8"))["approved"]
    store().write_text(json.dumps({"approved": dict.fromkeys(approved, True)}), "utf-8")
    assert approval is not None
    assert not TrustStore().is_approved(FILE, "x", ENTRY)
    assert not TrustStore().holds(FILE, "x", approval)


def test_a_program_that_is_too_large_to_be_read_is_held_by_its_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gaia_bridge.config.trust._LARGEST_PROGRAM", 10)
    entry, file, trust = {"command": "./server"}, tmp_path / "f.json", TrustStore()
    (tmp_path / "server").write_bytes(b"x" * 11)
    trust.approve(file, "x", entry)
    assert trust.is_approved(file, "x", entry)
    os.utime(tmp_path / "server", (1, 1))
    assert not trust.is_approved(file, "x", entry)


def test_a_pipe_in_the_place_of_a_program_holds_nobody_up(tmp_path: Path) -> None:
    entry, file, trust = {"command": "sh", "args": ["-c", "$X"]}, tmp_path / "f.json", TrustStore()
    os.mkfifo(tmp_path / "server")
    trust.approve(file, "x", entry)
    assert trust.is_approved(file, "x", entry)


def test_of_a_whole_folder_the_approvals_themselves_and_histories_may_change() -> None:
    home = Path(os.environ["HOME"])
    entry, file, trust = {"command": "sh", "args": ["-c", "$X"]}, home / "f.json", TrustStore()
    (home / ".git").mkdir()
    trust.approve(file, "x", entry)
    (home / ".git" / "index").write_text("new", encoding="utf-8")
    trust.approve(FILE, "y", ENTRY)
    assert trust.is_approved(file, "x", entry)


def test_an_approval_can_be_taken_back() -> None:
    trust = TrustStore()
    trust.approve(FILE, "x", ENTRY)
    trust.approve(FILE, "y", ENTRY)
    assert trust.revoke(FILE, "x")
    assert not trust.revoke(FILE, "x")
    assert not TrustStore().is_approved(FILE, "x", ENTRY)
    assert TrustStore().is_approved(FILE, "y", ENTRY)


@pytest.mark.requirement("S-36")
def test_what_was_approved_cannot_be_read_from_the_store() -> None:
    TrustStore().approve(FILE, "x", {**ENTRY, "env": {"TOKEN": "s3cr3t"}})
    assert "s3cr3t" not in store().read_text(encoding="utf-8")
    assert "npx" not in store().read_text(encoding="utf-8")


@pytest.mark.requirement("C-19", "F-099c")
def test_a_store_that_others_could_have_written_is_not_believed() -> None:
    TrustStore().approve(FILE, "x", ENTRY)
    before = TrustStore()
    store().chmod(0o666)
    with pytest.raises(ConfigError, match="mode 0666, expected 0600"):
        TrustStore().is_approved(FILE, "x", ENTRY)
    with pytest.raises(ConfigError, match="mode 0666"):
        before.approve(FILE, "y", ENTRY)


@pytest.mark.parametrize("content", ["", "[]", '{"approved": []}', "{"])
def test_a_store_that_is_none_is_refused_and_kept(content: str) -> None:
    store().parent.mkdir()
    trust = TrustStore()
    store().write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=str(store())):
        TrustStore().is_approved(FILE, "x", ENTRY)
    with pytest.raises(ConfigError, match=str(store())):
        trust.approve(FILE, "x", ENTRY)
    assert store().read_text(encoding="utf-8") == content


def test_what_else_is_in_the_store_stays() -> None:
    store().parent.mkdir()
    store().write_text('{"later": {"a": 1}, "approved": {"0": {"file": "f", "server": "s"}, "1": 2}}', encoding="utf-8")
    store().chmod(0o600)
    trust = TrustStore()
    trust.approve(FILE, "x", ENTRY)
    document = json.loads(store().read_text(encoding="utf-8"))
    assert document["later"] == {"a": 1}
    assert list(document["approved"])[:2] == ["0", "1"]
