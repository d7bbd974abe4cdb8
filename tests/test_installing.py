"""Packages of other hands are installed before the first test, by the process that shows it, outside of every limit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)  # pytest is started in three processes

ROOT = Path(__file__).parents[1]
TESTS = """
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance.runner import CannotRunError
from tests.support.installed_programs import Installation, needs, required

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Fake(Installation[str]):
    name: str
    works: bool = True

    def __str__(self):
        return self.name

    @property
    def stamp(self):
        return HERE / f"{self.name}.stamp"

    def _install(self):
        if not self.stamp.exists():
            limited = signal.getitimer(signal.ITIMER_REAL)[0] > 0
            with (HERE / "log").open("a") as log:
                print(self.name, os.environ.get("PYTEST_XDIST_WORKER", "controller"), "limited" * limited, file=log)
            if not self.works:
                raise CannotRunError(f"{self.name} is nowhere")
            self.stamp.touch()
        return self.name


SHARED, LEFT, LOST, UNSAID = Fake("shared"), Fake("left"), Fake("lost", works=False), Fake("unsaid")


@pytest.fixture
@needs(SHARED)
def shared():
    return SHARED.install()


@pytest.mark.parametrize("number", range(4))
def test_several(shared, number):
    pass


@needs(LEFT)
def test_not_chosen():
    pass


@needs(LOST)
def test_lost():
    with required("a lost one"):
        LOST.install()


def test_unsaid():
    UNSAID.install()
"""


def ran(folder: Path, *options: str) -> str:
    """What pytest prints over `TESTS`, without the one that is not chosen."""
    (folder / "test_fakes.py").write_text(TESTS, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 50\n", "utf-8")
    variables = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_XDIST_WORKER")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rsf",
            "-p",
            "timeout",
            "-p",
            "tests.support.installing",
            "-k",
            "not chosen",
            *options,
        ],
        cwd=folder,
        env=variables | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout


def test_what_the_chosen_tests_of_workers_need_is_installed_once_and_shown(tmp_path: Path) -> None:
    said = ran(tmp_path, "-p", "xdist", "-n2")
    assert "4 passed, 1 skipped" in said.replace("1 failed, ", ""), said
    assert "installing shared for the tests, once: 0 s\n" in said
    assert "installing lost for the tests, once: lost is nowhere\n" in said
    assert "a lost one cannot be installed here: lost is nowhere" in said
    assert "no needs(...) of this test names unsaid" in said
    log = (tmp_path / "log").read_text("utf-8").splitlines()
    assert log.count("shared controller ") == 1
    assert {line.split()[0] for line in log} == {"shared", "lost"}
    assert not any(line.endswith("limited") for line in log)


def test_one_process_installs_as_much_and_tries_twice(tmp_path: Path) -> None:
    assert "1 failed, 4 passed, 1 skipped" in ran(tmp_path)
    assert (tmp_path / "log").read_text("utf-8").splitlines() == ["shared controller ", *["lost controller "] * 2]
