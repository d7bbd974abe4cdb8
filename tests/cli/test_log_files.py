"""The log as JSON lines: each is an object, calls have their parts, secrets are in none, and the files are bounded."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from pathlib import Path

import pytest

from gaia_bridge.calls.call_log import CallRecord, tell_of
from gaia_bridge.errors import ConfigError
from gaia_bridge_cli import log_files
from gaia_bridge_cli.log_files import PrivateFile, log_to_json
from tests.support.waiting import PATIENCE

logger = logging.getLogger("gaia_bridge.example")

CALL = CallRecord("client/1", 1, "tools/call", "work", "code", "ok", 0.0015, 10, 20, ("a", "b", "a"))


def test_a_record_of_an_agent_may_have_a_call_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    stop = log_to_json(file)
    logger.info("it %s", "rings", extra={"call": "by telephone"})
    stop()
    [said] = map(json.loads, file.read_text("utf-8").splitlines())
    assert said["message"] == "it rings"
    assert "call" not in said


@pytest.mark.requirement("F-206", "F-207")
def test_each_record_is_an_object(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    stop = log_to_json(file)
    logger.info("done\n%s", "token=abcdefgh")
    tell_of(lambda: CALL)
    try:
        raise RuntimeError("password=hunter2")
    except RuntimeError:
        logger.exception("it broke")
    stop()
    logger.error("too late")
    first, call, second = map(json.loads, file.read_text("utf-8").splitlines())
    assert (first["level"], first["message"]) == ("info", "done\ntoken=***")
    assert (call["message"], call["call"]) == (str(CALL), CALL.to_json())
    assert "RuntimeError: password=***" in second["traceback"]


class Held(PrivateFile):
    """A file on a disk that takes its time."""

    free = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        assert self.free.wait(PATIENCE)
        super().emit(record)


@pytest.mark.requirement("F-313")
def test_what_is_left_out_is_counted_and_said_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "JSON_LOG_QUEUE", 10)
    monkeypatch.setattr(log_files, "PrivateFile", Held)
    file = tmp_path / "log.jsonl"
    for round_number in range(2):
        Held.free.clear()
        stop = log_to_json(file)
        for number in range(100):
            logger.info("record %d", number)
            tell_of(lambda: CALL)
        Held.free.set()
        stop()
        lines = [json.loads(line)["message"] for line in file.read_text("utf-8").splitlines()]
        lost = [line for line in lines if "left out" in line]
        assert len(lost) == round_number + 1
        kept = sum("left out" not in line for line in lines)
        assert sum(int(line.partition(" ")[0]) for line in lost) + kept == 200 * (round_number + 1)
        assert 10 <= kept / (round_number + 1) <= 12


@pytest.mark.requirement("F-206")
def test_the_files_are_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "JSON_LOG_BYTES", 1_000)
    stop = log_to_json(tmp_path / "log.jsonl")
    for _ in range(100):
        logger.info("x" * 100)
    stop()
    files = sorted(tmp_path.iterdir())
    assert len(files) == log_files.JSON_LOG_FILES + 1
    assert all(file.stat().st_size <= 1_000 for file in files)


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        log_to_json(tmp_path / "none" / "log.jsonl")


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    log_to_json(tmp_path / "log.jsonl")()
    assert stat.S_IMODE((tmp_path / "log.jsonl").stat().st_mode) == 0o600


def test_a_pipe_that_nobody_reads_is_said_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is a pipe that nobody reads"):
        log_to_json(tmp_path / "pipe")


def test_a_pipe_that_somebody_reads_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        stop = log_to_json(tmp_path / "pipe")
        logger.info("rings")
        stop()
        assert json.loads(os.read(reader, 1_000))["message"] == "rings"
    finally:
        os.close(reader)


def test_a_full_disk_stops_nothing_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    stop = log_to_json(Path("/dev/full"))
    for _ in range(3):
        logger.info("x")
    stop()
    assert caplog.text.count("/dev/full cannot be written any more") == 1
