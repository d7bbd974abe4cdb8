"""The helper process ends, whatever it works on, and never takes this process with it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gaia_agents.base import current_request
from gaia_agents.isolation import start_helper
from gaia_bridge.errors import RequestCancelledError, ToolError
from tests.support.workspaces import RecordingChannel, in_request, write_files

SEARCH: dict[str, Any] = {"literal": False, "ignore_case": False, "context_lines": 0, "max_results": 10}
ENDLESS = SEARCH | {"pattern": "(a|aa)+$"}
"""Doubles its time with every other character."""


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Every helper and every watchdog is gone after each test."""
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) <= before
    assert [thread.name for thread in threading.enumerate() if thread.name == "gaia-agents-watchdog"] == []


def run(folder: Path, job: dict[str, Any], *paths: str, task: str = "search", seconds: float = 30) -> list[Any]:
    with start_helper(task, job, paths, folder=folder, seconds=seconds, request=current_request()) as helper:
        return [*helper.events(), helper.timed_out]


@pytest.mark.requirement("F-107")
def test_a_pattern_that_takes_for_ever_is_ended_at_the_deadline_and_keeps_what_was_found(tmp_path: Path) -> None:
    write_files(tmp_path, {"good": "aaa\n", "bad": "a" * 200 + "!\n", "never": "aaa\n"})
    *events, timed_out = run(tmp_path, ENDLESS, "good", "bad", "never", seconds=2)
    assert timed_out
    assert [event["match"]["path"] for event in events if "match" in event] == ["good"]


@pytest.mark.requirement("F-107")
def test_other_threads_go_on_while_a_pattern_takes_for_ever(tmp_path: Path) -> None:
    write_files(tmp_path, {"bad": "a" * 200 + "!\n"})
    channel, ready = RecordingChannel(), threading.Event()

    def cancel() -> None:
        ready.wait(5)
        channel.cancel.set()

    other = threading.Thread(target=cancel)
    other.start()

    def search() -> None:
        with start_helper("search", ENDLESS, ["bad"], folder=tmp_path, seconds=30, request=current_request()) as helper:
            ready.set()
            list(helper.events())

    with pytest.raises(RequestCancelledError):
        in_request(channel, search)
    other.join(5)
    assert not other.is_alive()


@pytest.mark.requirement("F-102")
def test_a_crash_of_the_helper_is_a_failure_of_the_call_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaia_agents.isolation._BOOT", "import os; os.abort()")
    with pytest.raises(ToolError, match="ended with status -6"):
        run(tmp_path, SEARCH | {"pattern": "a"})


@pytest.mark.requirement("F-102")
def test_source_nested_beyond_what_the_parser_takes_is_reported(tmp_path: Path) -> None:
    write_files(tmp_path, {"deep.py": "x = " + "-" * 100_000 + "1\n", "wide.py": "(" * 300, "fine.py": "x = 1\n"})
    *events, _ = run(tmp_path, {"syntax": True}, "deep.py", "wide.py", "fine.py", task="analyse")
    errors = {event["report"]["path"]: event["report"]["python"]["syntax_error"] for event in events}
    assert errors["deep.py"] is not None
    assert errors["wide.py"] is not None
    assert errors["fine.py"] is None


def test_leaving_early_ends_the_helper(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{number}.txt": "a\n" for number in range(60)} | {"z": "a" * 200 + "!"})
    paths = [f"{number}.txt" for number in range(60)] + ["z"]
    with start_helper("search", ENDLESS, paths, folder=tmp_path, seconds=30, request=None) as helper:
        assert next(helper.events())["match"]["path"] == "0.txt"


def test_nothing_in_the_workspace_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = "open('trapped', 'w').close()\n"
    write_files(tmp_path, dict.fromkeys(("json.py", "re.py", "sitecustomize.py", "gaia_agents/__init__.py"), trap))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "json.py"))
    monkeypatch.chdir(tmp_path)
    *events, _ = run(tmp_path, SEARCH | {"pattern": "open"}, "json.py")
    assert events[0]["match"]["line"] == 1
    assert not (tmp_path / "trapped").exists()


@pytest.mark.requirement("S-35")
@pytest.mark.parametrize(("task", "job"), [("search", SEARCH | {"pattern": "outside"}), ("analyse", {"syntax": False})])
def test_a_folder_that_becomes_a_link_after_the_listing_is_not_followed(
    tmp_path: Path, task: str, job: dict[str, Any]
) -> None:
    write_files(tmp_path, {"root/a.txt": "inside", "elsewhere/secret.txt": "outside"})
    (tmp_path / "root/swapped").symlink_to(tmp_path / "elsewhere")
    *events, _ = run(tmp_path / "root", job, "swapped/secret.txt", task=task)
    assert [event for event in events if event.keys() & {"match", "report"}] == []
    assert any(event["skipped"] for event in events)


def test_a_missing_interpreter_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(ToolError, match="no helper process could be started: No such file"):
        run(tmp_path, SEARCH | {"pattern": "a"})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the limits of another process")
def test_the_helper_has_limits_that_hold_even_if_nobody_watches_it(tmp_path: Path) -> None:
    """The bridge may be killed; then the kernel ends what spins or swells."""
    write_files(tmp_path, {"good": "aaa\n", "bad": "a" * 200 + "!\n"})
    before = set(psutil.Process().children())
    with start_helper("search", ENDLESS, ["good", "bad"], folder=tmp_path, seconds=30, request=None) as helper:
        next(helper.events())
        (child,) = set(psutil.Process().children()) - before
        assert child.rlimit(psutil.RLIMIT_CPU)[0] == 31
        assert child.rlimit(psutil.RLIMIT_AS)[0] == 1024**3
