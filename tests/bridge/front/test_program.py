"""The command line of a front: what editors write is read here, and all else by the whole program."""

from __future__ import annotations

import pytest

from gaia_bridge.front.program import options_of


def read(text: str) -> tuple[str, str | None, tuple[str, ...], float | None] | None:
    found = options_of(text.split())
    return None if found is None else (found.source, found.config, found.agents, found.keep)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ("", None, (), None)),
        ("time", ("time", None, (), None)),
        ("--all", ("", None, (), None)),
        ("--config a.json time", ("time", "a.json", (), None)),
        ("--agent a.py --agent b:B", ("", None, ("a.py", "b:B"), None)),
        ("--keep 5", ("", None, (), 5.0)),
        ("--keep 0.5 time --config c", ("time", "c", (), 0.5)),
    ],
)
def test_what_editors_write_is_understood(text: str, found: object) -> None:
    assert read(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "--help",
        "-h",
        "a b",
        "--config",
        "--config --all",
        "--config=a.json",
        "--keep",
        "--keep -1",
        "--keep nan",
        "--keep 1e3",
        "--keep 1.2.3",
        "--keep \N{SUPERSCRIPT TWO}",
        "--nonsense",
    ],
)
def test_whatever_else_is_written_is_left_to_the_whole_program(text: str) -> None:
    assert read(text) is None


def test_all_and_one_is_left_to_the_whole_program_which_refuses_it() -> None:
    assert read("--all time") is None
    assert read("time --all") is None
