"""`gaia-bridge init` and `gaia-bridge new`."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gaia_bridge_cli import main, projects
from gaia_bridge_cli.exit_codes import ExitCode


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_project_is_written_and_its_next_steps_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "my weather"]) == ExitCode.OK
    assert written(tmp_path / "my weather") == [
        ".gitignore",
        ".vscode/mcp.json",
        "README.md",
        "my_weather_agent.py",
        "pyproject.toml",
        "tests/test_my_weather_agent.py",
    ]
    told = capsys.readouterr()
    assert told.out == ""
    assert "cd -- 'my weather' && python -m pytest && gaia-bridge dev my_weather_agent.py" in told.err
    clone = Path(__file__).parents[2]
    line = f"pip install {shlex.quote(str(clone))} --editable . --group test\n"
    assert line in (tmp_path / "my weather/README.md").read_text(encoding="utf-8")
    assert told.err.count("next:") == 1 and "README.md begins with the command that makes it" in told.err


def test_a_project_of_an_installed_package_is_set_up_as_its_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "installed_from", lambda: None)
    assert main(["init", "weather"]) == ExitCode.OK
    text = (tmp_path / "weather/README.md").read_text(encoding="utf-8")
    assert "pip install --editable . --group test\n" in text and "the path of a clone before `--editable`." in text


def test_where_there_is_no_pytest_the_next_steps_begin_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nowhere(name: str) -> None:
        assert name == "pytest"

    monkeypatch.setattr(projects, "find_spec", nowhere)
    assert main(["init", "weather"]) == ExitCode.OK
    assert "&& pip install pytest && python -m pytest && gaia-bridge dev" in capsys.readouterr().err


def test_a_project_may_lie_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert main(["init", "work/weather"]) == ExitCode.OK
    assert (tmp_path / "work" / "weather" / "weather_agent.py").is_file()


@pytest.mark.parametrize("name", [".", "..", "there", "there/", "missing/weather", "", " ", "code"])
def test_a_project_that_cannot_be_is_refused_in_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "there").mkdir()
    assert main(["init", name]) == ExitCode.CONFIG
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "expected" in told
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert written(tmp_path) == []


def test_a_new_agent_and_its_test_lie_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "agent", "weather"]) == ExitCode.OK
    assert written(tmp_path) == ["test_weather_agent.py", "weather_agent.py"]
    assert "entry-points" not in capsys.readouterr().err


def test_in_a_project_the_test_lies_with_the_others_and_the_entry_point_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["init", "weather"])
    monkeypatch.chdir(tmp_path / "weather")
    before = set(written(tmp_path))
    assert main(["new", "agent", "sea-level"]) == ExitCode.OK
    new = set(written(tmp_path)) - before
    assert new == {"weather/sea_level_agent.py", "weather/tests/test_sea_level_agent.py"}
    assert 'sea-level = "sea_level_agent:SeaLevelAgent"' in capsys.readouterr().err


def test_the_file_of_a_new_agent_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    assert main(["new", "agent", "weather", "--file", "below/forecasts.py"]) == ExitCode.OK
    assert written(tmp_path) == ["below/forecasts.py", "below/test_forecasts.py"]
    assert "from forecasts import WeatherAgent" in (tmp_path / "below" / "test_forecasts.py").read_text("utf-8")


@pytest.mark.parametrize("file", ["weather", "weather.txt", "class.py", "email.py", "missing/weather.py", ".py"])
def test_a_file_that_cannot_be_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    assert main(["new", "agent", "weather", "--file", file]) == ExitCode.CONFIG
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_is_there_is_not_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_weather_agent.py").write_text("mine", "utf-8")
    assert main(["new", "agent", "weather"]) == ExitCode.CONFIG
    assert written(tmp_path) == ["test_weather_agent.py"]
    assert "--file FILE" in capsys.readouterr().err


def test_what_else_might_be_new_is_no_kind(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["server", "weather"], ["weather"]):
        assert main(["new", *words]) == ExitCode.USAGE
        assert f"'{words[0]}' is not 'agent'; expected: gaia-bridge new agent NAME" in capsys.readouterr().err
