"""Files of editors against what is installed; everything that is written was written by `gaia-bridge install`."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.settings import DoctorLimits
from gaia_bridge.version import __version__
from gaia_bridge_cli import install as install_module
from gaia_bridge_cli import main
from gaia_bridge_desk.doctor import editors as editors_module
from gaia_bridge_desk.doctor.checks import NothingDoneError
from gaia_bridge_desk.doctor.editors import EDITOR_FILES
from gaia_bridge_desk.doctor.examining import examine
from tests.cli.running import write_agent
from tests.desk.doctor.looking import bad, by_id, has_servers, look, program, repaired

CURSOR = Path(".cursor/mcp.json")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Our program."""
    path = program(tmp_path / "own", "gaia-bridge", f"echo gaia-bridge {__version__}")
    monkeypatch.setattr(editors_module, "own_program", lambda: [path])
    monkeypatch.setattr(install_module, "own_program", lambda: [path])
    return path


def installed(*words: str, by: str | None = None) -> None:
    """Have `gaia-bridge install` write an entry, of this installation or of another."""
    with pytest.MonkeyPatch.context() as patch:
        if by is not None:
            patch.setattr(install_module, "own_program", lambda: [by])
        assert main(["install", *words, "--yes"]) == 0


def entry(path: Path = CURSOR, root: str = "mcpServers") -> Any:
    return json.loads(path.read_text(encoding="utf-8"))[root]["gaia-bridge"]


def test_no_editor_and_editors_without_the_bridge_are_told(own: str) -> None:
    assert set(by_id(look(EDITOR_FILES))) == {"editor.none"}
    Path(".cursor").mkdir()
    assert by_id(look(EDITOR_FILES))["editor.absent"].remedy == "gaia-bridge install cursor"
    Path(".config/zed").mkdir(parents=True)
    assert by_id(look(EDITOR_FILES))["editor.absent"].message == "without the bridge: Cursor, Zed"


@pytest.mark.parametrize("words", [["cursor"], ["vscode", "--http"], ["codex"], ["opencode"], ["zed"]])
def test_what_install_wrote_is_fine(own: str, words: list[str]) -> None:
    installed(*words)
    assert set(by_id(look(EDITOR_FILES))) == {"editor.fine"}


@pytest.mark.parametrize("words", [["cursor"], ["vscode", "--stdio"], ["codex"], ["opencode"], ["zed", "--name", "b"]])
def test_a_program_that_is_gone_is_found_and_replaced_with_the_rest_as_it_was(own: str, words: list[str]) -> None:
    agent, config = write_agent(Path.cwd()), has_servers({})
    installed(*words, "--agent", str(agent), "--config", str(config), by="/opt/gone/bin/gaia-bridge")
    finding = by_id(look(EDITOR_FILES))["editor.program-gone"]
    assert "/opt/gone/bin/gaia-bridge" in finding.message and finding.remedy.endswith(f" {agent}")
    before = Path(finding.about).read_text(encoding="utf-8")
    repaired(finding)
    after = Path(finding.about).read_text(encoding="utf-8")
    assert after == before.replace("/opt/gone/bin/gaia-bridge", own)
    assert set(by_id(look(EDITOR_FILES))) == {"editor.fine"}
    assert main(["install", *words, "--remove", "--yes"]) == 0
    assert not Path(finding.about).exists()


def test_keys_that_the_user_has_added_stay(own: str) -> None:
    installed("cursor", by="/opt/gone/bin/gaia-bridge")
    document = json.loads(CURSOR.read_text(encoding="utf-8"))
    document["mcpServers"]["gaia-bridge"]["env"] = {"TOKEN": "x"}
    CURSOR.write_text(json.dumps(document), encoding="utf-8")
    repaired(by_id(look(EDITOR_FILES))["editor.program-gone"])
    assert (entry()["command"], entry()["env"]) == (own, {"TOKEN": "x"})


def test_what_somebody_else_wrote_is_told_of_and_not_touched(own: str) -> None:
    CURSOR.parent.mkdir()
    written = json.dumps({"mcpServers": {"gaia-bridge": {"command": "/opt/gone/gaia-bridge", "args": ["connect"]}}})
    CURSOR.write_text(written, encoding="utf-8")
    assert by_id(look(EDITOR_FILES))["editor.program-gone"].repair is None
    assert CURSOR.read_text(encoding="utf-8") == written


def test_a_file_that_became_another_is_not_written(own: str) -> None:
    installed("cursor", by="/opt/gone/bin/gaia-bridge")
    finding = by_id(look(EDITOR_FILES))["editor.program-gone"]
    CURSOR.write_text("{", encoding="utf-8")
    with pytest.raises(NothingDoneError, match="not valid JSON"):
        repaired(finding)


def test_an_older_version_and_another_installation_are_told_apart(own: str, tmp_path: Path) -> None:
    other = program(tmp_path / "other", "gaia-bridge", "echo gaia-bridge 0.0.1")
    installed("cursor", by=other)
    finding = by_id(look(EDITOR_FILES))["editor.older"]
    assert "version 0.0.1" in finding.message
    program(tmp_path / "other", "gaia-bridge", "echo gaia-bridge 999.0")
    assert set(by_id(look(EDITOR_FILES))) == {"editor.other"}
    repaired(finding)
    assert entry()["command"] == own


def test_a_program_that_does_not_work_any_more_is_found(own: str, tmp_path: Path) -> None:
    installed("cursor", by=program(tmp_path / "other", "gaia-bridge", "echo 'no module named gaia_bridge' >&2; exit 1"))
    finding = by_id(look(EDITOR_FILES))["editor.program-broken"]
    assert "no module named gaia_bridge" in finding.message and finding.repair is not None


def test_a_program_without_its_path_is_found_where_an_editor_does_not_find_it(own: str) -> None:
    installed("cursor", by="gaia-bridge")
    found = by_id(look(EDITOR_FILES, environ={"PATH": str(Path(own).parent)}))
    repaired(found["editor.program-bare"])
    assert entry()["command"] == own


def test_what_a_project_names_is_not_run(own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = program(tmp_path / "other", "gaia-bridge", f"touch {tmp_path}/ran; echo gaia-bridge 0.0.1")
    installed("cursor", "--workspace", by=other)
    assert set(by_id(look(EDITOR_FILES))) == {"editor.fine"}
    assert not (tmp_path / "ran").exists()


def test_agents_and_files_of_servers_that_are_gone_are_found(own: str) -> None:
    agent, config = write_agent(Path.cwd()), has_servers({})
    installed("vscode", "--agent", str(agent), "--config", str(config))
    installed("zed", "--stdio", "--agent", f"{agent}:DemoAgent")
    agent.unlink()
    config.unlink()
    found = look(EDITOR_FILES)
    assert sorted(finding.kind.id for finding in found) == [
        "editor.agent-gone",
        "editor.agent-gone",
        "editor.config-gone",
    ]
    assert by_id(found)["editor.config-gone"].remedy == "gaia-bridge install vscode --config PATH"
    assert by_id(found)["editor.agent-gone"].remedy.endswith(" PATH")


def test_a_name_that_is_an_agent_in_one_folder_alone_is_found(own: str) -> None:
    write_agent(Path.cwd())
    installed("cursor", "--agent", "code")
    assert set(by_id(look(EDITOR_FILES))) == {"editor.fine"}
    for name, problem in (("demo", "there is no module 'demo'"), ("https://x.example/mcp", "it is an address")):
        document = json.loads(CURSOR.read_text(encoding="utf-8"))
        document["mcpServers"]["gaia-bridge"]["args"] = ["connect", "--agent", name]
        CURSOR.write_text(json.dumps(document), encoding="utf-8")
        finding = by_id(look(EDITOR_FILES))["editor.agent-gone"]
        assert problem in finding.message and finding.remedy == "gaia-bridge install cursor PATH"


def test_a_socket_that_nobody_listens_at_is_found(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="gb") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        installed("vscode", "--unix")
        assert bad(look(EDITOR_FILES)) == {"editor.socket-silent"}
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{place}/gaia-bridge/default.sock")
            listener.listen()
            assert set(by_id(look(EDITOR_FILES))) == {"editor.fine"}


def test_a_broken_file_of_an_editor_is_found_with_its_place(own: str) -> None:
    CURSOR.parent.mkdir()
    CURSOR.write_text('{"mcpServers": {\n', encoding="utf-8")
    finding = by_id(look(EDITOR_FILES))["editor.broken-file"]
    assert "line 2" in finding.message and finding.repair is None
    CURSOR.write_text('{"mcpServers": []}', encoding="utf-8")
    assert "no object of servers" in by_id(look(EDITOR_FILES))["editor.broken-file"].message


def test_a_list_of_what_was_installed_that_cannot_be_read_is_found(own: str) -> None:
    installed("cursor")
    Path(".gaia/backups/installed.json").write_text("{", encoding="utf-8")
    assert bad(look(EDITOR_FILES)) == {"editor.index-broken"}


def test_what_lies_in_the_current_folder_is_not_run_for_a_version(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("cursor", by=sys.executable)
    document = json.loads(CURSOR.read_text(encoding="utf-8"))
    document["mcpServers"]["gaia-bridge"]["args"] = ["-m", "gaia_bridge", "connect"]
    CURSOR.write_text(json.dumps(document), encoding="utf-8")
    stranger = tmp_path / "project" / "gaia_bridge"
    stranger.mkdir(parents=True)
    (stranger / "__init__.py").write_text("", encoding="utf-8")
    (stranger / "__main__.py").write_text("open('ran', 'w')", encoding="utf-8")
    monkeypatch.chdir(stranger.parent)
    assert look(EDITOR_FILES)
    assert not (stranger.parent / "ran").exists()


def test_a_file_that_hangs_keeps_the_doctor_no_longer_than_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    release, ended = threading.Event(), threading.Event()

    def hanging(_: object) -> tuple[()]:
        release.wait(5)
        ended.set()
        return ()

    monkeypatch.setattr(editors_module, "editor_entries", hanging)
    look_at = partial(examine, subjects=(EDITOR_FILES,), limits=DoctorLimits(check_timeout=0.1))
    found = anyio.run(look_at)
    assert not ended.is_set() and bad(found.findings) == {"doctor.late"}
    release.set()


def test_an_entry_that_no_program_can_be_given_is_told_and_hides_no_other(own: str) -> None:
    installed("cursor")
    installed("vscode", "--workspace")
    path = Path(".vscode/mcp.json")
    path.write_text(path.read_text(encoding="utf-8").replace(own, "/evil\\u0000"), encoding="utf-8")
    found = by_id(look(EDITOR_FILES))
    assert {"editor.fine", "editor.broken-file"} <= set(found)
    assert "zero byte" in found["editor.broken-file"].message
