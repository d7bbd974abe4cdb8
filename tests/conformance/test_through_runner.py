"""The conformance suite through the bridge: what the runner expects, and that its verdict can be no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.conformance.client_runner import KnownFailure, read_known_failures
from tests.conformance.runner import RUNS, Check, Outcome
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
