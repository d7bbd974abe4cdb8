"""`gaia-bridge doctor`, as it is typed: what it shows, asks, mends, and ends with."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from gaia_bridge_cli import main
from gaia_bridge_desk.doctor import ports
from gaia_bridge_desk.doctor.checks import Level
from tests.cli.running import Run
from tests.cli.running import run as run_program
from tests.cli.terminals import terminal
from tests.desk.doctor.looking import has_servers

RAW = str(Path(__file__).parents[1] / "servers" / "raw_server.py")
SECRET = "ghp_0123456789abcdefghij"


@pytest.fixture(autouse=True)
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is wrong."""
    monkeypatch.setattr(ports, "DEFAULT_PORT", 9)
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:/usr/bin:/bin")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def doctor(run: Run) -> Run:
    """Run it; returns its exit code, what it printed and what it said."""
    return partial(run, "doctor")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """The folder of the user's runtime files, with a short path."""
    with tempfile.TemporaryDirectory(prefix="gb") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield place


def test_nothing_wrong_is_said_so_and_ends_with_zero(doctor: Run) -> None:
    code, out, err = doctor()
    assert (code, err) == (0, "")
    assert out.startswith("gaia-bridge doctor ") and out.endswith("\nnothing is wrong\n")
    assert "\x1b" not in out
    assert list(Path.cwd().iterdir()) == []


def test_warnings_and_errors_are_told_with_reason_and_remedy_and_have_codes_of_their_own(doctor: Run) -> None:
    has_servers({"a": {"command": "x", "env": {"A": "${env:NOWHERE}"}}})
    code, out, _ = doctor("--offline")
    assert code == 1 and out.endswith("\n1 warning\n")
    lines = [line.strip() for line in out.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.endswith("[config.missing]"))
    assert lines[at].startswith("warning a in ")
    assert lines[at + 1].startswith("why: ") and lines[at + 2].startswith("do:  set the variable")
    has_servers({"a": {"command": "x", "url": "http://x"}})
    code, out, _ = doctor("--offline")
    assert code == 78 and out.endswith("\n1 error\n")


def test_what_is_to_be_done_is_told_once_more_at_the_end_errors_first(doctor: Run) -> None:
    has_servers({"a": {"command": "x", "env": {"A": "${env:NOWHERE}"}}, "b": {"command": "x", "url": "http://x"}})
    end = doctor("--offline")[1].partition("\nTo do\n")[2].splitlines()
    assert end[0].startswith("  error   config.unusable (b): ") and end[1].startswith("  warning config.missing (a): ")
    assert end[2:] == ["", "1 error and 1 warning"]


def test_servers_are_told_with_a_table_of_what_reaches_whom(doctor: Run) -> None:
    Path(".config/zed").mkdir(parents=True)
    has_servers({"raw": {"command": sys.executable, "args": ["-S", RAW]}})
    code, out, _ = doctor("--server", "raw")
    assert code == 0 and "raw: raw 9.1, MCP 2025-11-25 over stdio" in out
    table = out.partition("What crosses to which editor\n")[2].splitlines()
    assert [line.split() for line in table].count(["Zed"]) == 1 and table[0].split() == ["Zed"]
    assert ["resources", "-"] in [line.split() for line in table]


def test_json_is_one_document_of_the_documented_shape_without_secrets(doctor: Run) -> None:
    servers = {
        "raw": {"command": sys.executable, "args": ["-S", RAW], "env": {"API_TOKEN": SECRET}},
        "bad": {"command": "x", "url": f"https://me:{SECRET}@x.org/"},
    }
    has_servers(servers, mode=0o644)
    code, out, err = doctor("--json")
    assert (code, err) == (78, "") and SECRET not in out
    document = json.loads(out)
    assert list(document) == ["format", "version", "summary", "findings", "servers", "clients", "crossing"]
    assert document["format"] == 1 and set(document["summary"]) == {level.value for level in Level}
    keys = {"subject", "id", "level", "about", "message", "why", "remedy", "fixable"}
    assert all(set(finding) == keys for finding in document["findings"])
    [server] = document["servers"]
    assert (server["name"], server["state"], server["era"]) == ("raw", "works", "legacy")
    assert [finding["id"] for finding in document["findings"] if finding["fixable"]] == ["config.open-secret"]


def test_without_a_terminal_nothing_is_mended_unasked(doctor: Run) -> None:
    file = has_servers({"a": {"command": "x", "env": {"API_TOKEN": SECRET}}}, mode=0o644)
    for words in (["--fix"], ["--fix", "--json"]):
        code, _, err = doctor("--offline", *words)
        assert code == 64 and "--yes mends without asking" in err
    assert file.stat().st_mode & 0o777 == 0o644
    assert doctor("--yes")[0] == 64


def test_what_is_mended_is_shown_before_and_what_is_left_is_told(doctor: Run) -> None:
    file = has_servers({"a": {"command": "x", "env": {"API_TOKEN": SECRET}}, "b": {}}, mode=0o644)
    code, out, err = doctor("--offline", "--fix", "--yes")
    assert f"mends it: chmod go-rwx {file}" in err and SECRET not in out + err
    assert file.stat().st_mode & 0o777 == 0o600
    assert code == 78 and "config.open-secret" not in out and "[config.unusable]" in out
    assert f"mended  chmod go-rwx {file}" in out
    assert "nothing that can be mended without you" in doctor("--offline", "--fix", "--yes")[2]


def test_what_was_mended_is_in_the_document(doctor: Run) -> None:
    has_servers({"a": {"command": sys.executable, "env": {"API_TOKEN": SECRET}}}, mode=0o644)
    code, out, err = doctor("--offline", "--fix", "--yes", "--json")
    document: Any = json.loads(out)
    assert (code, err, document["failed"]) == (0, "", [])
    assert [each["id"] for each in document["fixed"]] == ["config.open-secret"]


def test_on_a_terminal_each_repair_is_asked_for(doctor: Run) -> None:
    file = has_servers({"a": {"command": "x", "env": {"API_TOKEN": SECRET}}}, mode=0o644)
    for answer, mode in (("n", 0o644), ("y", 0o600)):
        with terminal("doctor", "--offline", "--fix") as shown:
            shown.until("Do it?")
            shown.type(f"{answer}\n")
            shown.ended()
        assert file.stat().st_mode & 0o777 == mode
    assert "\x1b[" in shown.shown and "chmod go-rwx" in shown.shown


def background() -> dict[str, Any]:
    """Start a bridge in the background; what it says of itself."""
    assert main(["up"]) == 0
    [told] = json.loads(run_program("ps", "--json").stdout)
    return dict(told)


def found_by(doctor: Run) -> dict[str, Any]:
    return {finding["id"]: finding for finding in json.loads(doctor("--json")[1])["findings"]}


def test_a_bridge_in_the_background_that_hangs_is_found(
    doctor: Run, runtime: str, capfd: pytest.CaptureFixture[str]
) -> None:
    bridge = psutil.Process(background()["pid"])
    capfd.readouterr()
    try:
        assert "daemon.fine" in found_by(doctor)
        bridge.suspend()
        assert found_by(doctor)["daemon.mute"]["remedy"] == "gaia-bridge down"
    finally:
        bridge.resume()
        assert main(["down"]) == 0
        bridge.wait(10)


def test_a_killed_bridge_leaves_sockets_that_are_mended(
    doctor: Run, runtime: str, capfd: pytest.CaptureFixture[str]
) -> None:
    told = background()
    capfd.readouterr()
    bridge = psutil.Process(told["pid"])
    family = [*bridge.children(recursive=True), bridge]
    for process in family:  # with the guardian, which would remove the sockets
        process.suspend()
    for process in family:
        process.kill()
    psutil.wait_procs(family, 10)
    assert found_by(doctor)["socket.stale"]["about"].startswith(runtime)
    code, out, _ = doctor("--fix", "--yes")
    assert code == 0 and out.count("mended  remove ") == 2
    assert not any(path.suffix == ".sock" for path in Path(told["http"]).parent.iterdir())
