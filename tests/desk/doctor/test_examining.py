"""All checks together: in a healthy home, with one that hangs, and with one that fails."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from gaia_bridge.settings import DoctorLimits
from gaia_bridge_cli import main
from gaia_bridge_desk.doctor import ports
from gaia_bridge_desk.doctor.checks import NOTHING, Finding, Kind, Level, NothingDoneError, Repair, Subject
from gaia_bridge_desk.doctor.configuration import CONFIGURATION
from gaia_bridge_desk.doctor.examining import OF_THE_DOCTOR, SUBJECTS, Examined, examine
from gaia_bridge_desk.doctor.files import FILES
from gaia_bridge_desk.doctor.repairing import repair_all
from gaia_bridge_desk.doctor.servers import SERVERS
from gaia_bridge_desk.doctor.surroundings import Surroundings
from gaia_bridge_desk.editors.finding import own_program
from tests.desk.doctor.looking import bad, by_id, has_servers

RAW = str(Path(__file__).parents[2] / "servers" / "raw_server.py")
KINDS = [kind for subject in SUBJECTS for kind in subject.kinds] + list(OF_THE_DOCTOR)
FINE = Kind("x.fine", Level.OK, "fine", "fine")
QUICK = DoctorLimits(check_timeout=0.2)


def examined(*subjects: Subject, **options: Any) -> Examined:
    async def look() -> Examined:
        return await examine(subjects=subjects or SUBJECTS, **options)

    return anyio.run(look)


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home in which everything is as it should be."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        monkeypatch.setattr(ports, "DEFAULT_PORT", one.getsockname()[1])
    monkeypatch.setenv("PATH", f"{os.path.dirname(own_program()[0])}:/usr/bin:/bin")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    has_servers({"raw": {"command": sys.executable, "args": ["-S", RAW]}})
    assert main(["install", "vscode", "--yes"]) == 0


def test_a_healthy_home_gives_no_warning_and_nothing_is_written_there(healthy: None) -> None:
    before = sorted(Path.home().rglob("*"))
    found = examined()
    assert bad(found.findings) == set(), found.findings
    assert {"editor.fine", "server.works", "config.fine", "port.free", "daemon.none"} <= set(by_id(found.findings))
    assert all(found.subjects[subject.title] for subject in SUBJECTS)
    assert found.clients == {"vscode": "VS Code"}
    assert {row["feature"]: row["clients"]["vscode"] for row in found.crossing}["elicitation"] == "yes"
    servers = Path.home() / ".gaia" / "servers"  # where they are started
    assert [path for path in sorted(Path.home().rglob("*")) if not path.is_relative_to(servers)] == before
    assert not any(path.is_file() for path in servers.rglob("*"))


def test_a_check_that_hangs_is_told_of_and_the_others_are_there() -> None:
    release = threading.Event()

    def hang(at: Surroundings) -> list[Finding]:
        release.wait()
        return []

    async def hang_too(at: Surroundings) -> list[Finding]:
        await anyio.sleep_forever()
        return []

    def works(at: Surroundings) -> list[Finding]:
        return [FINE.finding("fine")]

    subjects = [Subject("A", (), hang), Subject("B", (FINE,), works), Subject("C", (), hang_too)]
    threading.Timer(1, release.set).start()
    found = examined(*subjects, limits=QUICK)
    assert [finding.kind.id for finding in found.findings] == ["doctor.late", "x.fine", "doctor.late"]


def test_a_check_that_fails_is_told_of_and_the_others_are_there() -> None:
    def fail(at: Surroundings) -> list[Finding]:
        raise ZeroDivisionError("by zero")

    found = examined(Subject("A", (), fail), Subject("B", (FINE,), lambda at: [FINE.finding("fine")]))
    assert [finding.kind.id for finding in found.findings] == ["doctor.failed", "x.fine"]
    assert "ZeroDivisionError: by zero" in found.findings[0].message


def test_a_keyring_that_waits_for_its_user_keeps_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    keyring = ModuleType("keyring")
    keyring.get_password = lambda *_: release.wait()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    has_servers({"a": {"command": "x", "env": {"A": "${keyring:s/n}"}}})
    threading.Timer(1, release.set).start()
    found = examined(CONFIGURATION, FILES, SERVERS, limits=QUICK)
    assert [finding.kind.id for finding in found.findings] == ["doctor.late", "file.fine"]


def test_a_folder_that_was_removed_keeps_nothing_but_its_own_servers(
    healthy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    found = examined(offline=True)
    assert bad(found.findings) == {"config.broken"}
    assert "change to a folder that exists" in by_id(found.findings)["config.broken"].message


def test_what_is_being_looked_at_is_said() -> None:
    told: list[str] = []
    examined(Subject("A", (), lambda at: []), Subject("B", (), lambda at: []), doing=told.append)
    assert len(told) == 2 and told[-1] == ""


def test_repairs_are_made_only_where_they_are_wanted_and_failures_stop_no_other() -> None:
    done: list[str] = []

    def gone() -> None:
        raise NothingDoneError("it is gone already")

    def refused() -> None:
        raise PermissionError(1, "Operation not permitted")

    repairs = {"a": lambda: done.append("a"), "b": gone, "c": refused, "d": lambda: done.append("d")}
    findings = [FINE.finding(name, name, repair=Repair(name, apply)) for name, apply in repairs.items()]
    mended, failed = repair_all([*findings, FINE.finding("none")], lambda finding: finding.about != "a")
    assert done == ["d"] and [outcome.finding.about for outcome in mended] == ["d"]
    assert [outcome.problem for outcome in failed] == ["it is gone already", "Operation not permitted"]


def test_every_kind_has_an_id_of_its_own_a_reason_and_a_remedy() -> None:
    ids = [kind.id for kind in KINDS]
    assert len(ids) == len(set(ids)) and all(re.fullmatch(r"[a-z]+\.[a-z-]+", id_) for id_ in ids)
    wrong = [kind for kind in KINDS if kind.level in (Level.WARNING, Level.ERROR)]
    assert [kind.id for kind in wrong if kind.remedy == NOTHING] == []
    assert [kind.id for kind in KINDS if not kind.why or not kind.matter] == []


def test_every_kind_is_found_by_a_test_in_which_it_is_really_there() -> None:
    texts = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [kind.id for kind in KINDS if f'"{kind.id}"' not in texts] == []
