"""The log as JSON lines: each is an object, calls have their parts, secrets are in none, and the files are bounded."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from gaia_bridge.cli import json_log
from gaia_bridge.cli.json_log import log_to_json
from gaia_bridge.errors import ConfigError
from gaia_bridge.settings import JSON_LOG_FILES

logger = logging.getLogger("gaia_bridge.example")


@pytest.mark.requirement("F-206", "F-207")
def test_each_record_is_an_object(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    stop = log_to_json(file)
    logger.info("done\n%s", "token=abcdefgh", extra={"call": {"source": "code", "ms": 1.5}})
    try:
        raise RuntimeError("password=hunter2")
    except RuntimeError:
        logger.exception("it broke")
    stop()
    logger.error("too late")
    first, second = map(json.loads, file.read_text("utf-8").splitlines())
    assert (first["level"], first["message"], first["call"]) == (
        "info",
        "done\ntoken=***",
        {"source": "code", "ms": 1.5},
    )
    assert "RuntimeError: password=***" in second["traceback"]


@pytest.mark.requirement("F-206")
def test_the_files_are_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_log, "JSON_LOG_BYTES", 1_000)
    stop = log_to_json(tmp_path / "log.jsonl")
    for _ in range(100):
        logger.info("x" * 100)
    stop()
    files = sorted(tmp_path.iterdir())
    assert len(files) == JSON_LOG_FILES + 1
    assert all(file.stat().st_size <= 1_000 for file in files)


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        log_to_json(tmp_path / "none" / "log.jsonl")
