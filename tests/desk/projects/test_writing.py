"""New files: all of them or none, and nothing that is there is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge_desk.projects.writing import write_files, write_folder

FILES = {"one.py": "1\n", "two.py": "2\n"}


class _Interrupted(BaseException):
    """As Ctrl-C is, no error."""


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Writing anything for the second time fails."""
    write, written = Path.write_text, list[Path]()

    def write_text(file: Path, text: str, **options: str) -> int:
        if written:
            raise request.param
        written.append(file)
        return write(file, text, **options)

    monkeypatch.setattr(Path, "write_text", write_text)


def test_a_folder_has_all_its_files(tmp_path: Path) -> None:
    write_folder(tmp_path / "new", {"a.txt": "ä\n", "below/b.txt": "b\n"})
    assert (tmp_path / "new" / "a.txt").read_text("utf-8") == "ä\n"
    assert (tmp_path / "new" / "below" / "b.txt").read_text("utf-8") == "b\n"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("kind", ["folder", "file", "link to nothing"])
def test_what_has_the_name_already_is_left_as_it_is(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "new"
    if kind == "folder":
        place.mkdir()
    elif kind == "file":
        place.write_text("mine", "utf-8")
    else:
        place.symlink_to(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=r"there already; expected the name of a new folder \(choose another name\)"):
        write_folder(place, FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert kind != "folder" or list(place.iterdir()) == []
    assert kind != "file" or place.read_text("utf-8") == "mine"


def test_a_folder_in_one_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no folder .*missing; expected .* \(make that folder first"):
        write_folder(tmp_path / "missing" / "new", FILES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", [OSError(28, "No space left on device")], indirect=True)
def test_a_folder_that_cannot_be_written_whole_is_not_written(tmp_path: Path, failing: None) -> None:
    with pytest.raises(ConfigError, match=r"No space left on device \(nothing was written"):
        write_folder(tmp_path / "new", FILES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", [_Interrupted()], indirect=True)
def test_nothing_is_left_of_a_folder_when_somebody_interrupts(tmp_path: Path, failing: None) -> None:
    with pytest.raises(_Interrupted):
        write_folder(tmp_path / "new", FILES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("existing", FILES)
def test_of_files_of_which_one_is_there_none_is_written(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match=f"{existing}: it is there already, and is left as it is; expected a new"):
        write_files(tmp_path, FILES)
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == {existing: "mine"}


def test_of_files_that_cannot_all_be_written_none_is_left(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        write_files(tmp_path, {"one.py": "1\n", "missing/two.py": "2\n"})
    assert list(tmp_path.iterdir()) == []
