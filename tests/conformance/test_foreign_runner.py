"""The suite against servers of other hands: what passes directly has to pass through the bridge, or to be listed."""

from __future__ import annotations

import pytest

from tests.conformance.client_runner import KnownFailure, read_known_failures
from tests.conformance.foreign_runner import EXPECTED_FAILURES, judged, passed_in
from tests.conformance.runner import RUNS, Check, Outcome

RUN = RUNS[4]
VERDICT = (RUN.name, "ping", "a")
KNOWN = KnownFailure(f"some-http {RUN.name}", "ping", "a", "cannot be")


@pytest.mark.requirement("F-303")
def test_what_passes_directly_has_to_pass_through_the_bridge_unless_it_is_listed() -> None:
    assert judged("some", "http", {VERDICT}, {VERDICT}, []) == []
    assert judged("some", "http", {VERDICT}, set(), []) == ["MISSED 2026-07-28 ping a"]
    assert judged("some", "http", {VERDICT}, set(), [KNOWN]) == []
    assert judged("some", "stdio", {VERDICT}, set(), [KNOWN]) == ["MISSED 2026-07-28 ping a"]
    assert judged("some", "http", {VERDICT}, {VERDICT}, [KNOWN]) == ["STALE  2026-07-28 ping a is listed, and passed"]
    assert judged("some", "http", set(), {VERDICT}, []) == []


def test_a_check_that_passes_and_fails_has_not_passed() -> None:
    checks = (Check("ping", "a", "SUCCESS", ""), Check("ping", "a", "FAILURE", ""), Check("ping", "b", "SUCCESS", ""))
    assert passed_in([Outcome(RUN, checks)]) == {(RUN.name, "ping", "b")}


def test_what_cannot_pass_is_listed_once_and_with_its_reason() -> None:
    known = read_known_failures(EXPECTED_FAILURES)
    assert all(failure.reason for failure in known)
    assert len({(failure.run, failure.scenario, failure.check) for failure in known}) == len(known)
    assert {failure.run.partition(" ")[2] for failure in known} <= {run.name for run in RUNS}
