"""What servers write to their error output is kept: bounded, private, and never in the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gaia_bridge.cli import server_logs
from gaia_bridge.cli.server_logs import ServerLogs
from gaia_bridge.errors import ConfigError


def test_the_last_lines_of_a_server_are_found_again_in_their_order(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path / "logs")
    for number in range(5):
        logs.write("time", f"line {number}")
        logs.write("other", "noise")
    logs.close()
    assert [line.split("] ")[1] for line in logs.tail("time", 3)] == ["line 2", "line 3", "line 4"]


def test_a_server_that_never_wrote_has_no_lines(tmp_path: Path) -> None:
    assert ServerLogs(tmp_path).tail("time", 3) == []


@pytest.mark.requirement("F-114")
def test_a_talkative_server_fills_no_disk_and_its_last_lines_survive_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_logs, "MAX_BYTES", 1_000)
    logs = ServerLogs(tmp_path)
    for number in range(200):
        logs.write("time", f"line {number}")
    logs.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2_000
    assert [line.split("] ")[1] for line in logs.tail("time", 15)] == [f"line {number}" for number in range(185, 200)]


@pytest.mark.requirement("S-36")
def test_the_files_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        logs = ServerLogs(tmp_path / "logs")
        logs.write("time", "line")
        logs.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "logs/time.log").stat().st_mode) == 0o600


@pytest.mark.requirement("F-114")
def test_a_folder_that_cannot_be_made_is_reported_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("a file", encoding="utf-8")
    logs = ServerLogs(tmp_path / "logs")
    logs.write("time", "line")
    logs.write("time", "line")
    logs.close()
    assert len(caplog.records) == 1
    with pytest.raises(ConfigError):
        logs.tail("time", 1)


@pytest.mark.requirement("F-114")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_a_full_disk_is_reported_once_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = ServerLogs(tmp_path)
    (tmp_path / "time.log").symlink_to("/dev/full")
    for _ in range(3):
        logs.write("time", "line")
    logs.close()
    assert [record.message for record in caplog.records] == [f"{tmp_path / 'time.log'} cannot be written any more"]
