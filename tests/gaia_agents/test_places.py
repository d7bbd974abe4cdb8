"""Which folder an agent works in that works for several windows."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from gaia_agents import places
from gaia_agents.places import WindowPlaces
from gaia_bridge.errors import ToolError


def folder_of_window(
    monkeypatch: pytest.MonkeyPatch, *uris: str, started: Path | None, hops: tuple[str, ...] = ()
) -> Path:
    """Where an agent works for a window that declares these roots."""

    def declares(name: str) -> bool:
        return name == "roots" and bool(uris)

    request = SimpleNamespace(
        client_folder=None if started is None else str(started),
        hops=hops,
        has_capability=declares,
        list_roots=lambda: [{"uri": uri} for uri in uris],
    )
    monkeypatch.setattr(places, "current_request", lambda: request)
    return WindowPlaces(lambda: ()).workspace().root


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """The folder that is open in a window."""
    folder = tmp_path / "opened"
    folder.mkdir()
    return folder


def test_roots_that_are_no_folders_of_this_machine_are_passed_over(
    opened: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = ("file://[/nowhere", "untitled:Untitled-1", f"file://elsewhere{tmp_path}")
    assert folder_of_window(monkeypatch, *others, opened.as_uri(), started=tmp_path) == opened


def test_the_name_of_a_root_need_not_be_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    assert folder_of_window(monkeypatch, folder.as_uri(), started=tmp_path) == folder


def test_roots_of_whoever_is_behind_another_bridge_are_not_believed(
    opened: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder_of_window(monkeypatch, opened.as_uri(), started=tmp_path, hops=("another",)) == tmp_path


def test_a_client_whose_program_is_not_known_to_be_of_this_user_has_no_folder(
    opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ToolError, match="which folder to work in is not known"):
        folder_of_window(monkeypatch, opened.as_uri(), started=None)


def test_a_window_whose_folder_cannot_be_worked_in_is_given_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ToolError, match=r"this window has no folder to work in \(it has '/'\)"):
        folder_of_window(monkeypatch, "file:///", started=tmp_path)
