"""What servers write to their error output is kept: bounded, private, and never in the way."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge_cli import server_logs
from gaia_bridge_cli.server_logs import ServerLogs


def texts(lines: list[str]) -> list[str]:
    """What was written, without when and by whom."""
    return [line.split("] ", 1)[1] for line in lines]


def kept(logs: ServerLogs, server: str = "time") -> list[str]:
    """All that is kept of a server."""
    with logs.reader(server) as reader:
        return texts(reader.read())


def test_the_lines_of_a_server_are_found_again_in_their_order(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path / "logs")
    for number in range(3):
        logs.write("time", f"line {number}")
        logs.write("other", "noise")
    logs.close()
    assert kept(logs) == ["line 0", "line 1", "line 2"]


def test_every_server_has_a_file_of_its_own_in_the_folder_whatever_it_is_called(tmp_path: Path) -> None:
    names = ["a b", "a/b", "../../a b", "..a", "日本" * 60, "a b.log"]
    logs = ServerLogs(tmp_path / "logs")
    for name in names:
        logs.write(name, f"of {name}")
    logs.close()
    assert [kept(logs, name) for name in names] == [[f"of {name}"] for name in names]
    assert len(os.listdir(tmp_path / "logs")) == len(names)
    assert os.listdir(tmp_path) == ["logs"]


def test_a_server_that_never_wrote_has_no_lines(tmp_path: Path) -> None:
    assert kept(ServerLogs(tmp_path)) == []
    assert kept(ServerLogs(None)) == []


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
    assert kept(logs)[-15:] == [f"line {number}" for number in range(185, 200)]


@pytest.mark.requirement("F-114")
def test_several_bridges_fill_one_file_after_the_other_and_neither_loses_what_the_other_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_logs, "MAX_BYTES", 1_000)
    busy, calm = ServerLogs(tmp_path), ServerLogs(tmp_path)
    calm.write("time", "calm begins")
    for number in range(30):
        busy.write("time", f"busy {number}")
    calm.write("time", "calm goes on")
    busy.write("time", "busy ends")
    busy.close()
    calm.close()
    assert kept(busy)[-4:] == ["busy 28", "busy 29", "calm goes on", "busy ends"]
    assert len(kept(busy)) > 1_000 // len("2026-01-01 00:00:00,000 [12345] busy 29\n")


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
    caplog.set_level(logging.INFO)
    logs.write("time", "first")
    logs.write("time", "second")
    logs.close()
    assert [record.getMessage() for record in caplog.records][1:] == ["time: first", "time: second"]
    with pytest.raises(ConfigError, match=r"time\.log\S*: cannot be read: Not a directory"):
        kept(logs)


@pytest.mark.requirement("F-114")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_a_full_disk_is_reported_once_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = ServerLogs(tmp_path)
    (tmp_path / "time.log").symlink_to("/dev/full")
    for _ in range(3):
        logs.write("time", "line")
    logs.close()
    assert [record.message for record in caplog.records] == [f"{tmp_path / 'time.log'} cannot be written any more"]


def test_lines_that_are_equal_are_all_read(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path)
    file = tmp_path / "time.log"
    with logs.reader("time") as reader:
        file.write_bytes(b"tick\ntick\n")
        assert reader.read() == ["tick", "tick"]
        with file.open("ab") as more:
            more.write(b"tick\ntick\ntock\n")
        assert reader.read() == ["tick", "tick", "tock"]
        assert reader.read() == []


def test_a_file_that_is_not_there_yet_is_read_as_soon_as_it_is(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path / "logs")
    with logs.reader("time") as reader:
        assert reader.read() == []
        logs.write("time", "here I am")
        assert texts(reader.read()) == ["here I am"]
    logs.close()


@pytest.mark.parametrize("looks_after", [1, 7, 19])
def test_a_reader_misses_and_repeats_nothing_when_new_files_are_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_after: int
) -> None:
    monkeypatch.setattr(server_logs, "MAX_BYTES", 1_000)
    logs = ServerLogs(tmp_path)
    found: list[str] = []
    with logs.reader("time") as reader:
        for number in range(200):
            logs.write("time", f"line {number}")
            if number % looks_after == 0:
                found += texts(reader.read())
        found += texts(reader.read())
    logs.close()
    assert found == [f"line {number}" for number in range(200)]


def test_what_comes_to_a_file_after_it_was_renamed_is_read_before_what_comes_to_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "time.log"
    with ServerLogs(tmp_path).reader("time") as reader, file.open("ab", buffering=0) as slow:
        slow.write(b"one\ntw")
        assert reader.read() == ["one"]
        file.rename(tmp_path / "time.log.1")
        file.write_bytes(b"three\n")
        slow.write(b"o\n")
        assert reader.read() == ["two", "three"]


def test_a_line_that_comes_in_parts_is_read_once_and_whole(tmp_path: Path) -> None:
    with ServerLogs(tmp_path).reader("time") as reader, (tmp_path / "time.log").open("ab", buffering=0) as file:
        file.write("one\ntwo, gr\u00fc".encode()[:-1])
        assert reader.read() == ["one"]
        assert reader.unfinished() == ["two, gr\ufffd"]
        assert reader.read() == []
        file.write("\u00fc".encode()[-1:] + "\u00dfe\n".encode())
        assert reader.read() == ["two, gr\u00fc\u00dfe"]
        assert reader.unfinished() == []


def test_a_line_that_nobody_will_complete_is_read_when_its_file_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "time.log"
    found: list[str] = []
    with ServerLogs(tmp_path).reader("time") as reader:
        for number in range(4):
            file.write_bytes(b"%d\nhalf a line" % number)
            found = reader.read()
            file.rename(tmp_path / "time.log.1")
    assert found == ["half a line", "3"]


def test_a_file_that_was_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "time.log"
    with ServerLogs(tmp_path).reader("time") as reader:
        file.write_bytes(b"a long line\nhalf")
        assert reader.read() == ["a long line"]
        os.truncate(file, 0)
        assert reader.read() == []
        assert reader.unfinished() == []
        with file.open("ab") as more:
            more.write(b"new\n")
        assert reader.read() == ["new"]


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "time.log").write_bytes(b"caf\xe9 \xff\n")
    with ServerLogs(tmp_path).reader("time") as reader:
        assert reader.read() == ["caf\ufffd \ufffd"]


def test_a_reader_leaves_no_file_open(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path)
    before = set(os.listdir("/dev/fd"))
    with logs.reader("time") as reader:
        for number in range(5):
            (tmp_path / "time.log").write_bytes(b"%d\n" % number)
            assert reader.read() == [str(number)]
            (tmp_path / "time.log").rename(tmp_path / "time.log.1")
    assert set(os.listdir("/dev/fd")) == before
