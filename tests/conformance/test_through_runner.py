"""The conformance suite through the bridge: what the runner expects, and that its verdict can be no."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conformance import through_runner
from tests.conformance.client_runner import KnownFailure, read_known_failures
from tests.conformance.runner import RUNS, CannotRunError, Check, Outcome, Run
from tests.conformance.through_runner import EXPECTED_FAILURES, Way, judged, ways

WAY = Way("stdio", "legacy")
RUN = replace(RUNS[4], expected=2)
PASSED = (Check("ping", "a", "SUCCESS", ""), Check("tools-list", "a", "SUCCESS", ""))
FAILED = Check("tools-list", "a", "FAILURE", "no tools")
KNOWN = KnownFailure("legacy 2026-07-28", "tools-list", "a", "not in that era")


def verdict(*checks: Check, known: Sequence[KnownFailure] = (), way: Way = WAY, complete: bool = True) -> list[str]:
    return judged(way, Outcome(RUN, checks), known, complete=complete)


def test_every_transport_meets_every_era() -> None:
    assert len(ways()) == len({way.name for way in ways()}) == 9


def test_what_cannot_pass_has_a_reason_a_run_and_no_server_that_speaks_the_modern_revision() -> None:
    known = read_known_failures(EXPECTED_FAILURES)
    labels = {
        f"{name} {run.name}" for way in ways() if way.era == "legacy" for name in (way.era, way.name) for run in RUNS
    }
    in_the_handshake_era = {
        f"{way.name} {run}" for way in ways() if way.era == "dual" for run in ("0.1.16", "2025-11-25")
    }

    assert {failure.run for failure in known} <= labels | in_the_handshake_era
    assert all(failure.reason for failure in known)
    assert len({(failure.run, failure.scenario, failure.check) for failure in known}) == len(known) == 13


def test_a_check_that_fails_is_an_error_unless_it_is_listed_for_that_upstream() -> None:
    missed = "MISSED 2026-07-28: 1 checks passed, expected 2"

    assert verdict(*PASSED) == []
    assert verdict(PASSED[0], FAILED) == ["FAILED 2026-07-28: tools-list: a: no tools", missed]
    assert verdict(PASSED[0], FAILED, known=[KNOWN]) == []
    assert verdict(PASSED[0], FAILED, known=[replace(KNOWN, run="stdio-legacy 2026-07-28")]) == []
    assert verdict(PASSED[0], FAILED, known=[KNOWN], way=Way("stdio", "dual")) == [
        "FAILED 2026-07-28: tools-list: a: no tools",
        missed,
    ]
    assert verdict(PASSED[0], FAILED, known=[replace(KNOWN, run="http-legacy 2026-07-28")])


def test_a_check_that_is_left_out_is_missed_although_nothing_failed() -> None:
    assert verdict(PASSED[0]) == ["MISSED 2026-07-28: 1 checks passed, expected 2"]
    assert verdict(PASSED[0], known=[KNOWN]) == []
    assert verdict(PASSED[0], complete=False) == []


def test_a_listed_check_that_passes_is_an_error() -> None:
    assert verdict(*PASSED, known=[KNOWN]) == [
        "STALE  2026-07-28: tools-list: a is listed, and passed",
        "MISSED 2026-07-28: 2 checks passed, expected 1",
    ]


def nobody(chosen: Sequence[Way], folder: Path) -> Generator[dict[Way, str], None, None]:
    yield dict.fromkeys(chosen, "http://127.0.0.1:1/mcp")


def complete(run: Run) -> Outcome:
    return Outcome(run, tuple(Check("ping", str(number), "SUCCESS", "") for number in range(run.expected)))


def lacking_one(run: Run) -> Outcome:
    return Outcome(run, complete(run).checks[1:])


def failing(run: Run) -> Outcome:
    return Outcome(run, (*complete(run).checks, FAILED))


def broken(run: Run) -> Outcome:
    raise CannotRunError("it hangs")


@pytest.mark.parametrize(
    ("reported", "status", "said"),
    [
        (complete, 0, "stdio-dual    340 of 340 checks passed ("),
        (lacking_one, 1, "MISSED 2026-07-28: 151 checks passed, expected 152"),
        (failing, 1, "FAILED 2026-07-28: tools-list: a: no tools"),
        (broken, 2, "cannot run: it hangs"),
    ],
)
def test_the_program_says_yes_no_or_that_it_cannot_know(
    monkeypatch: pytest.MonkeyPatch, reported: Callable[[Run], Outcome], status: int, said: str
) -> None:
    def run_all(url: str, runs: Sequence[Run], scenarios: Sequence[str], folder: Path) -> list[Outcome]:
        return [reported(run) for run in runs]

    monkeypatch.setattr(through_runner, "install_packages", bool)
    monkeypatch.setattr(through_runner, "publishing", contextmanager(nobody))
    monkeypatch.setattr(through_runner, "run_all", run_all)
    done = CliRunner().invoke(through_runner.main, ["--transport", "stdio", "--era", "dual"])

    assert done.exit_code == status
    assert said in done.output
