"""Settings: the process first, then the file `.env` of the current folder, which no child process sees."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gaia import environment
from gaia.environment import setting

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes `.env` in the current folder."""
    monkeypatch.chdir(tmp_path)

    def written(text: str) -> Path:
        file = tmp_path / ".env"
        file.write_text(text, "utf-8")
        return file

    return written


def test_without_a_file_only_the_process_has_settings(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    assert setting("GAIA_X") is None
    assert setting("GAIA_X", "default") == "default"
    monkeypatch.setenv("GAIA_X", "set")
    assert setting("GAIA_X", "default") == "set"


def test_the_process_wins_over_the_file_even_with_nothing(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("GAIA_X=file\n")
    assert setting("GAIA_X") == "file"
    monkeypatch.setenv("GAIA_X", "")
    assert setting("GAIA_X") == ""


def test_lines_are_read_as_they_are_usually_written(write: Write) -> None:
    write("\ufeff# a comment\n\nA=1\nexport B = two words # not this\nC='# this'\nD=\"x\\ny\"\nE=\nF=a=b\n")
    assert [setting(name) for name in "ABCDEF"] == ["1", "two words", "# this", "x\ny", "", "a=b"]


def test_nothing_in_a_value_is_expanded_or_run(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAIA_SECRET", "s")
    write("A=${GAIA_SECRET}\nB=$(id)\nC=`id`\n")
    assert [setting(name) for name in "ABC"] == ["${GAIA_SECRET}", "$(id)", "`id`"]


def test_a_file_that_changed_is_read_again(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("GAIA_X=1")
    assert setting("GAIA_X") == "1"
    write("GAIA_X=22")
    assert setting("GAIA_X") == "22"
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert setting("GAIA_X") is None
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").unlink()
    assert setting("GAIA_X") is None


def test_a_line_that_is_none_is_a_warning_once_with_its_place_and_without_its_text(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    file = write("A=1\n\nsk-secret value\nB=2\nsk-other\n")
    for _ in range(3):
        assert (setting("A"), setting("B")) == ("1", "2")
    assert [record.message.split(":")[0] for record in caplog.records] == [f"{file}, line 3", f"{file}, line 5"]
    assert "sk-" not in caplog.text
    write("A=1\n")
    assert setting("A") == "1"
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"A=1\nB=\xff\n", "line 2: this is not UTF-8"), (b"A=1\n" + b"#" * environment.MAX_BYTES, "more than 262,144")],
)
def test_a_file_that_cannot_be_understood_is_a_warning_once(
    write: Write, caplog: pytest.LogCaptureFixture, content: bytes, problem: str
) -> None:
    file = write("")
    file.write_bytes(content)
    assert setting("A") is None
    assert setting("A", "x") == "x"
    [record] = caplog.records
    assert str(file) in record.message and problem in record.message


@pytest.mark.requirement("S-30")
@pytest.mark.parametrize("blank", [" ", "\t", "\u2003"])
def test_a_line_that_takes_minutes_to_read_is_not_read(
    write: Write, caplog: pytest.LogCaptureFixture, blank: str
) -> None:
    write(f"A=1\nB=x{blank * 60_000}y\n")
    assert setting("A") is None
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "line 2 has hundreds of blanks in a row"
    ]


def test_what_is_no_file_is_a_warning(write: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / ".env")
    assert setting("A") is None
    assert "it is no regular file" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_becomes_readable_is_read(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    file = write("A=1")
    file.chmod(0)
    assert setting("A") is None
    assert "Permission denied" in caplog.text
    file.chmod(0o600)
    assert setting("A") == "1"


def test_a_folder_that_is_gone_has_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert setting("GAIA_X", "default") == "default"


def test_children_see_nothing_of_the_file(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    write("GAIA_KEY=secret\n")
    assert setting("GAIA_KEY") == "secret"
    assert "GAIA_KEY" not in os.environ
    shown = subprocess.run(
        [sys.executable, "-c", "import os; print(os.environ.get('GAIA_KEY'))"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert shown.stdout == "None\n"
    assert "secret" not in caplog.text
