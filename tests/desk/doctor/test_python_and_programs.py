"""Installations beside this one, and programs of servers that are missing, broken, old, or hidden from editors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import psutil
import pytest

from gaia_bridge.config.launching import search_path as search_path_module
from gaia_bridge.settings import DoctorLimits
from gaia_bridge_cli.remembered_path import remember_search_path
from gaia_bridge_desk.doctor import checks
from gaia_bridge_desk.doctor import programs as programs_module
from gaia_bridge_desk.doctor.programs import PROGRAMS, PYTHON
from tests.desk.doctor.looking import bad, by_id, has_servers, look, program
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def nothing_where_installers_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_path_module, "_USUAL", ())


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Our program."""
    path = program(tmp_path / "own", "gaia-bridge", "echo gaia-bridge 1")
    monkeypatch.setattr(programs_module, "own_program", lambda: [path])
    return path


def test_the_only_installation_is_fine(own: str) -> None:
    found = look(PYTHON, environ={"PATH": os.path.dirname(own)})
    assert set(by_id(found)) == {"python.this"} and own in found[0].message


def test_another_installation_that_comes_first_is_found_with_its_version(own: str, tmp_path: Path) -> None:
    other = program(tmp_path / "other", "gaia-bridge", "echo gaia-bridge 0.0.3")
    folders = [os.path.dirname(path) for path in (other, own)]
    finding = by_id(look(PYTHON, environ={"PATH": ":".join(folders)}))["python.other-first"]
    assert f"{other} (0.0.3)" in finding.message and os.path.dirname(own) in finding.remedy
    found = look(PYTHON, environ={"PATH": ":".join(reversed(folders))})
    assert set(by_id(found)) == {"python.this", "python.others"}


def test_a_link_to_this_one_is_no_other(own: str, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "gaia-bridge").symlink_to(own)
    assert set(by_id(look(PYTHON, environ={"PATH": str(tmp_path / "links")}))) == {"python.this"}


def test_one_that_is_not_on_the_path_in_a_cache_or_without_a_program_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs_module, "own_program", lambda: ["/c/archive-v0/x/bin/gaia-bridge"])
    assert set(by_id(look(PYTHON, environ={"PATH": ""}))) == {"python.this", "python.passing", "python.not-on-path"}
    monkeypatch.setattr(programs_module, "own_program", lambda: ["/usr/bin/python3", "-m", "gaia_bridge"])
    assert "python.no-script" in by_id(look(PYTHON, environ={"PATH": ""}))


def test_programs_that_work_are_told_with_their_versions(tmp_path: Path) -> None:
    for name in ("npx", "node", "uvx"):
        program(tmp_path, name, "echo v22.1.0")
    program(tmp_path, "docker", "echo 28.1, its daemon 28.1")
    found = look(PROGRAMS, environ={"PATH": str(tmp_path)})
    assert set(by_id(found)) == {"program.works", "path.editor"}
    assert "docker 28.1" in " ".join(finding.message for finding in found)


def test_what_no_server_needs_may_be_absent_or_broken(tmp_path: Path) -> None:
    program(tmp_path, "docker", "echo cannot connect; exit 1")
    found = look(PROGRAMS, environ={"PATH": str(tmp_path)})
    assert set(by_id(found)) == {"program.absent", "program.broken-unused", "path.editor"}
    unused = by_id(found)["program.broken-unused"]
    assert unused.message.endswith("Docker's daemon does not answer; no server needs it")
    assert unused.remedy == "when you need it: start Docker Desktop, or: sudo systemctl start docker"


def test_a_missing_program_is_found_with_the_servers_that_need_it(tmp_path: Path) -> None:
    has_servers({"a": {"command": "npx", "args": ["x"]}, "b": {"command": "/nowhere/x"}, "c": {"url": "http://x"}})
    found = [
        finding for finding in look(PROGRAMS, environ={"PATH": str(tmp_path)}) if finding.kind.id == "program.missing"
    ]
    assert [finding.about for finding in found] == ["npx", "/nowhere/x"]
    assert "needed by a" in found[0].message and "nodejs.org" in found[0].remedy


@pytest.mark.parametrize(
    ("script", "problem"),
    [("echo no such module >&2; exit 3", "code 3: no such module"), ("exec sleep 60", "did not answer within 0.5 s")],
)
def test_a_program_that_does_not_work_is_found_within_its_time(tmp_path: Path, script: str, problem: str) -> None:
    has_servers({"a": {"command": "uvx", "args": ["x"]}})
    program(tmp_path, "uvx", script)
    limits = DoctorLimits(program_timeout=0.5)
    path = f"{tmp_path}:/usr/bin:/bin"
    finding = by_id(look(PROGRAMS, environ={"PATH": path}, limits=limits))["program.broken"]
    assert problem in finding.message


def test_a_program_that_never_stops_talking_is_cut_off(tmp_path: Path) -> None:
    program(tmp_path, "uvx", "exec yes 1.2.3")
    finding = by_id(look(PROGRAMS, environ={"PATH": f"{tmp_path}:/usr/bin:/bin"}))["program.works"]
    assert len(finding.message) < 500


def test_an_old_node_is_found(tmp_path: Path) -> None:
    program(tmp_path, "node", "echo v16.20.2")
    assert bad(look(PROGRAMS, environ={"PATH": str(tmp_path)})) == {"program.node-old"}


def test_a_program_that_an_editor_does_not_find_is_told_with_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_DESKTOP", {"linux": str(tmp_path / "desktop")})
    path = program(tmp_path / "shell", "my-server", "true")
    has_servers({"a": {"command": "my-server"}, "b": {"command": "my-server", "env": {"PATH": "/bin"}}})
    finding = by_id(look(PROGRAMS, environ={"PATH": str(tmp_path / "shell")}, platform="linux"))["path.hidden"]
    assert finding.remedy == f'write it into the entry of a: "command": "{path}"'


def test_another_program_of_that_name_is_told_where_a_server_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (
        program(tmp_path / "desktop", "node", "echo v18.1.0"),
        program(tmp_path / "shell", "node", "echo v22.1.0"),
    )
    monkeypatch.setattr(checks, "_DESKTOP", {"linux": str(tmp_path / "desktop")})
    environ = {"PATH": str(tmp_path / "shell")}
    assert bad(look(PROGRAMS, environ=environ, platform="linux")) == set()
    has_servers({"a": {"command": "node", "args": ["x.js"]}})
    finding = by_id(look(PROGRAMS, environ=environ, platform="linux"))["path.differs"]
    assert finding.message == f"node is {new} for the shell, and {old} for an editor"


def test_an_entry_of_an_editor_may_say_itself_where_programs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_DESKTOP", {"linux": str(tmp_path / "desktop")})
    program(tmp_path / "shell", "my-server", "true")
    has_servers({"a": {"command": "my-server"}})
    entry = {"command": "/x/gaia-bridge", "args": ["connect"], "env": {"PATH": str(tmp_path / "shell")}}
    Path(".cursor").mkdir()
    Path(".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"gaia-bridge": entry}}), encoding="utf-8")
    assert bad(look(PROGRAMS, environ={"PATH": str(tmp_path / "shell")}, platform="linux")) == set()


def test_programs_of_the_current_folder_are_not_run(tmp_path: Path) -> None:
    program(Path("bin"), "npx", f"touch {tmp_path}/ran")
    look(PROGRAMS, environ={"PATH": "bin:.:"})
    assert not (tmp_path / "ran").exists()


def test_what_a_terminal_had_is_not_hidden_from_an_editor(tmp_path: Path) -> None:
    program(tmp_path / "shell", "our-npx", "echo 11")
    has_servers({"a": {"command": "our-npx", "args": ["x"]}})
    environ = {"PATH": str(tmp_path / "shell")}
    assert "path.hidden" in by_id(look(PROGRAMS, environ=environ, platform="linux"))
    remember_search_path(environ)
    found = by_id(look(PROGRAMS, environ=environ, platform="linux"))
    assert "path.hidden" not in found and "our-npx" in found["path.editor"].message


def test_nothing_is_left_of_a_program_that_does_not_say_its_version(tmp_path: Path) -> None:
    path = program(tmp_path, "npx", f"sleep 60 & echo $! > {tmp_path}/pid; wait")
    said = anyio.run(checks.ask_version, [path, "--version"], 0.5, {"PATH": "/usr/bin:/bin"})
    assert "did not answer" in said.problem
    child = int((tmp_path / "pid").read_text(encoding="utf-8"))
    eventually(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
