"""Where no server is configured, editors are shown the agents that ship, each window those of its own folder."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from gaia_bridge.text.json_types import JSON
from tests.process.windows import User, Window, user
from tests.support.workspaces import git, repository, write_files

both_eras = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])


@pytest.fixture(scope="module")
def me() -> Generator[User]:
    """A user without servers, who has two projects."""
    with user() as made:
        for name in ("red", "blue"):
            folder = made.folder / name
            folder.mkdir()
            repository(folder)
            write_files(folder, {"name.txt": f"this is {name}\n", f"{name}.py": "x = 1\n"})
            git(folder, "add", ".")
            git(folder, "commit", "--quiet", "--message", f"Begin {name}")
        yield made


def with_roots(window: Window, *folders: Path, method: str, **params: object) -> JSON:
    """The result of a request during which the window is asked for its folders."""
    roots: JSON = {"roots": [{"uri": folder.as_uri()} for folder in folders]}
    request = window.ask(method, **params)
    if not window.modern:
        window.reply(window.until("roots/list"), roots)
        answer: JSON = window.answer(request)["result"]
        return answer
    asked = window.answer(request)["result"]
    [(key, question)] = asked["inputRequests"].items()
    assert question["method"] == "roots/list"
    return window.result_of(method, **params, inputResponses={key: roots}, requestState=asked["requestState"])


def read(window: Window, *folders: Path) -> str:
    params = {"name": "read-file", "arguments": {"path": "name.txt"}}
    return json.dumps(with_roots(window, *folders, method="tools/call", **params))


@both_eras
def test_each_window_works_in_the_folders_that_are_open_in_it(me: User, modern: bool) -> None:
    """As VS Code starts a server of the user's own: in the home folder."""
    red, blue = me.folder / "red", me.folder / "blue"
    first, second, nothing = (me.window(modern=modern) for _ in range(3))
    names = {tool["name"] for tool in first.result_of("tools/list")["tools"]}
    assert {"read-file", "create-file", "get-status"} <= names
    assert "this is red" in read(first, red, blue)
    assert "this is blue" in read(second, blue)
    assert "this is blue" in read(first, blue), "it opened another one"
    assert "no folder to work in" in read(nothing) and "open the folder of a project" in read(nothing)
    assert "no folder to work in" in read(nothing, me.folder), "the home folder is none"
    params: JSON = {"name": "get-status", "arguments": {}}
    assert "Begin red" in json.dumps(with_roots(first, red, method="tools/call", **params))
    assert "blue.py" in json.dumps(with_roots(second, blue, method="resources/read", uri="code://tree"))
    changed = {"name": "create-file", "arguments": {"path": "new.txt", "content": "new"}}
    with_roots(second, blue, method="tools/call", **changed)
    assert (blue / "new.txt").read_text(encoding="utf-8") == "new" and not (red / "new.txt").exists()
    (blue / "new.txt").unlink()
    assert len(me.bridges()) == 1


def test_a_window_without_roots_works_where_its_program_was_started(me: User) -> None:
    windows = [me.window(begin=False, folder=me.folder / name) for name in ("red", "blue")]
    for window in windows:
        window.begin(capabilities={})
    told = [json.dumps(window.told("read-file", path="name.txt")) for window in windows]
    assert ["this is red" in told[0], "this is blue" in told[1]] == [True, True]
    assert len(me.bridges()) == 1


def test_an_agent_that_ships_can_be_named_wherever_the_front_is_started(me: User) -> None:
    (me.folder / "red" / "code").mkdir(exist_ok=True)
    windows = [me.window("--agent", "code", folder=folder) for folder in (me.folder, me.folder / "red")]
    for window in windows:
        assert "this is blue" in json.dumps(
            with_roots(
                window, me.folder / "blue", method="tools/call", name="read-file", arguments={"path": "name.txt"}
            )
        )
