"""What is imported for good, and what is not."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from gaia_bridge_cli.collection import collect_in_larger_pieces, imported_for_good
from tests.cli.running import DEADLINE, write_agent


@pytest.fixture(autouse=True)
def _as_before() -> Generator[None]:
    yield
    gc.enable()


def test_nothing_is_collected_meanwhile_and_what_is_there_afterwards_is_never_looked_at() -> None:
    collections: list[str] = []

    def counted(phase: str, info: dict[str, int]) -> None:
        collections.append(phase)

    frozen = gc.get_freeze_count()
    gc.callbacks.append(counted)
    try:
        with imported_for_good():
            made = [[number] for number in range(100_000)]
    finally:
        gc.callbacks.remove(counted)
    assert collections == []
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen + len(made)


def test_an_import_that_fails_leaves_collection_as_it_was() -> None:
    frozen = gc.get_freeze_count()
    with pytest.raises(ImportError), imported_for_good():
        raise ImportError("on purpose")
    assert gc.isenabled()
    assert gc.get_freeze_count() <= frozen  # fewer, where one of them ended meanwhile


def test_who_collects_nothing_anyway_is_not_made_to() -> None:
    gc.disable()
    frozen = gc.get_freeze_count()
    with imported_for_good():
        pass
    assert not gc.isenabled()
    assert gc.get_freeze_count() <= frozen  # fewer, where one of them ended meanwhile


@pytest.mark.parametrize("command", [["agents"], ["serve", "--stdio"]], ids=" ".join)
def test_a_command_keeps_what_it_imports_and_finalizes_what_an_agents_module_leaves(
    tmp_path: Path, command: list[str]
) -> None:
    left = """
        import os

        class Notes:
            def __init__(self):
                self.itself = self

            def __del__(self, write=os.write):
                write(2, b"put away")

        NOTES = Notes()
    """
    code = (
        "import gc, sys; from gaia_bridge_cli import main; main(sys.argv[1:]);"
        "print(gc.isenabled(), gc.get_freeze_count(), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command, str(write_agent(tmp_path, before=left))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE,
    )
    [enabled, frozen], at_the_end = (line.split() for line in done.stderr.splitlines()[-2:])
    assert enabled == "True"
    assert int(frozen) > 30_000  # what it imports is among them
    assert at_the_end == ["put", "away"]


@pytest.mark.parametrize(("before", "after"), [((700, 10, 10), (3_000, 10, 10)), ((900, 5, 5), (900, 5, 5))])
def test_new_objects_are_looked_at_less_often_unless_somebody_has_decided_that(
    before: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    usual = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        collect_in_larger_pieces()
        assert gc.get_threshold() == after
    finally:
        gc.set_threshold(*usual)
