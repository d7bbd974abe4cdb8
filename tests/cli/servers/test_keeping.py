"""An entry that was typed in one folder leads to the same server from every other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gaia_bridge.text.json_types import JSON, is_array
from gaia_bridge_cli.servers.keeping import portable
from tests.cli.running import Run, entries
from tests.support.workspaces import write_files


@pytest.mark.requirement("F-369")
@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        ({"command": "uv", "args": ["run", "s.py"]}, {"command": "uv", "args": ["run", "/F/s.py"]}),
        ({"command": "./run.sh", "args": ["."]}, {"command": "/F/run.sh", "args": ["/F"]}),
        ({"command": "sub/run", "args": ["../x", "/abs/s.py"]}, {"command": "/F/sub/run", "args": ["/x", "/abs/s.py"]}),
        (
            {"command": "npx", "args": ["sub", "pkg@1.0", 5]},
            {"command": "npx", "args": ["sub", "pkg@1.0", 5]},
        ),
        ({"command": "uv", "args": ["s.py"], "cwd": "sub"}, {"command": "uv", "args": ["s.py"], "cwd": "/F/sub"}),
        ({"command": "s.py", "args": []}, {"command": "s.py", "args": []}),
        ({"url": "https://x.org"}, {"url": "https://x.org"}),
        ({"openapi": "https://x.org"}, {"openapi": "https://x.org"}),
        ({"openapi": "sub/api.yaml"}, {"openapi": "/F/sub/api.yaml"}),
    ],
)
def test_paths_are_written_whole_and_nothing_else_is_touched(tmp_path: Path, entry: JSON, kept: JSON) -> None:
    write_files(tmp_path, {"s.py": "", "run.sh": "", "sub/run": ""})

    def placed(value: object) -> object:
        if is_array(value):
            return [placed(item) for item in value]
        if value == "/x":
            return str(tmp_path.parent / "x")
        return value.replace("/F", str(tmp_path)) if isinstance(value, str) else value

    made, changed = portable(entry, tmp_path)
    assert made == {key: placed(value) for key, value in kept.items()}
    assert bool(changed) is (made != entry)


@pytest.mark.parametrize(
    ("words", "stays"),
    [
        ("uv run s.py", True),
        ("uv run --project /other s.py", False),
        ("uvx tool", False),
        ("npm start", True),
        ("npx -y tool", False),
        ("docker run image", False),
        ("python3.99 -m app", True),
        ("python3.99 -m pack.inner", True),
        ("python3.99 -m elsewhere", False),
        ("python3.99 s.py", False),
    ],
)
def test_what_looks_around_in_its_folder_is_started_there(tmp_path: Path, words: str, stays: bool) -> None:
    names = ("s.py", "app.py", "pack/inner/__init__.py", "pyproject.toml", "package.json")
    write_files(tmp_path, dict.fromkeys(names, ""))
    command, *args = words.split()
    made, _ = portable({"command": command, "args": args}, tmp_path)
    assert made.get("cwd") == (str(tmp_path) if stays else None)
    assert portable({"command": command, "args": args, "cwd": "/x"}, tmp_path)[0]["cwd"] == "/x"


@pytest.mark.parametrize(("word", "note"), [("sub", "write ./sub"), ("sub/", ""), ("./sub", ""), ("none", "")])
def test_a_word_that_is_the_name_of_a_folder_is_noted(run: Run, word: str, note: str) -> None:
    Path("sub").mkdir()
    code, _, err = run("add", "--no-connect", "x", "npx", "-y", "some-server", word)
    kept = entries()["x"]["args"][-1]
    assert (code, kept) == (0, os.path.abspath("sub") if word in {"sub/", "./sub"} else word)
    assert ("is passed on as it is" in err, note in err) == (bool(note), True), err


def test_the_paths_in_options_are_written_whole(tmp_path: Path) -> None:
    write_files(tmp_path, {"s.json": "", "sub/run": ""})
    args = ["--config=s.json", "--directory", "sub", "--name", "sub", "--data=./d", "--x=~/y", "-v", "./d:/data"]
    made, changed = portable({"command": "tool", "args": args}, tmp_path)
    whole = [f"--config={tmp_path}/s.json", "--directory", f"{tmp_path}/sub", "--name", "sub", f"--data={tmp_path}/d"]
    assert made["args"] == [*whole, "--x=~/y", "-v", f"{tmp_path}/d:/data"]
    assert len(changed) == 4


@pytest.mark.requirement("F-369")
def test_a_bare_python_is_the_one_of_the_environment_that_is_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python3").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    made, [change] = portable({"command": "python3", "args": []}, tmp_path)
    assert made["command"] == str(tmp_path / "python3")
    assert change == f"python3 is kept as {made['command']}"


def test_a_program_that_only_the_active_environment_has_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("env", "other"):
        (tmp_path / folder / "bin").mkdir(parents=True)
        (tmp_path / folder / "bin" / f"server-{folder}").symlink_to("/bin/sh")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    monkeypatch.setenv("PATH", f"{tmp_path}/env/bin:{tmp_path}/other/bin")
    made, changed = portable({"command": "server-env", "args": []}, tmp_path)
    assert made["command"] == f"{tmp_path}/env/bin/server-env"
    assert changed == [f"server-env is kept as {made['command']}"]
    assert portable({"command": "server-other", "args": []}, tmp_path)[0]["command"] == "server-other"


def test_a_word_that_is_too_long_for_a_path_stays_as_it_is(tmp_path: Path) -> None:
    for words in (["x" * 5_000], ["--dir", "x/" * 5_000], ["-m", "x" * 5_000]):
        entry = {"command": "/bin/python3", "args": words}
        assert portable(entry, tmp_path) == (entry, [])
