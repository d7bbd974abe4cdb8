"""The client side of the conformance runner: what it expects, what surprises it, and what its client fills in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.client_program import filled_in
from tests.conformance.client_runner import (
    EXPECTED_FAILURES,
    RUNS,
    THROUGH,
    KnownFailure,
    client_exit,
    read_known_failures,
    surprises,
    through_a_bridge,
)
from tests.conformance.runner import Check, Outcome

RUN = replace(RUNS[0], expected=1)
PASSED = Check("initialize", "a", "SUCCESS", "")
FAILED = Check("auth/dpop", "proof", "FAILURE", "no proof")
KNOWN = KnownFailure(RUN.name, "auth/dpop", "proof", "not there yet")


def test_every_expected_failure_has_a_reason_and_belongs_to_a_run() -> None:
    known = read_known_failures(EXPECTED_FAILURES)

    assert {failure.run for failure in known} <= {run.name for run in RUNS}
    assert all(failure.reason for failure in known)
    assert len(known) == 14


def test_a_list_of_expected_failures_is_read_check_by_check(tmp_path: Path) -> None:
    file = tmp_path / "failures.toml"
    file.write_text('[[failure]]\nrun = "r"\nscenario = "s"\nchecks = ["a", "b"]\nreason = "why"\n', "utf-8")

    assert read_known_failures(file) == (KnownFailure("r", "s", "a", "why"), KnownFailure("r", "s", "b", "why"))


def test_an_expected_failure_may_be_one_of_several_runs(tmp_path: Path) -> None:
    file = tmp_path / "failures.toml"
    file.write_text('[[failure]]\nruns = ["q", "r"]\nscenario = "s"\nchecks = ["a"]\nreason = "why"\n', "utf-8")

    assert read_known_failures(file) == (KnownFailure("q", "s", "a", "why"), KnownFailure("r", "s", "a", "why"))


def test_through_a_bridge_the_runs_are_those_without_a_login_and_expect_what_passes_there() -> None:
    runs = through_a_bridge(RUNS)
    assert {run.name: run.expected for run in runs} == THROUGH
    assert all(run.expected < whole.expected for run in runs for whole in RUNS if run.name == whole.name)


def test_an_expected_failure_is_no_surprise_and_any_other_is() -> None:
    outcome = Outcome(RUN, (PASSED, FAILED))

    assert surprises(outcome, [KNOWN]) == []
    assert surprises(outcome, []) == ["FAILED auth/dpop: proof: no proof"]
    assert surprises(outcome, [replace(KNOWN, run="another")]) == ["FAILED auth/dpop: proof: no proof"]


def test_an_expected_failure_that_does_not_happen_is_a_surprise_unless_its_scenario_was_left_out() -> None:
    outcome = Outcome(RUN, (PASSED,))

    assert surprises(outcome, [KNOWN]) == ["STALE  auth/dpop: proof is expected to fail, and did not"]
    assert surprises(outcome, [KNOWN], complete=False) == []


def test_a_complete_run_with_fewer_different_checks_than_before_is_a_surprise_however_often_they_passed() -> None:
    outcome = Outcome(replace(RUN, expected=2), (PASSED, PASSED))

    assert surprises(outcome, []) == ["MISSED 1 different checks passed, expected 2 or more"]
    assert surprises(outcome, [], complete=False) == []


@pytest.mark.parametrize(
    ("checks", "log", "message"),
    [
        ([PASSED], "CLIENT TIMED OUT - Test incomplete", "client timed out"),
        ([PASSED], "CLIENT EXITED WITH ERROR (code 1) - Test may be", "client exited with error (code 1)"),
        ([], "OVERALL: PASSED", "no check ran: the client did nothing that was looked for"),
        ([replace(PASSED, status="INFO")], "", "no check ran: the client did nothing that was looked for"),
    ],
)
def test_a_client_that_failed_or_did_nothing_fails_whatever_the_suite_says(
    checks: list[Check], log: str, message: str
) -> None:
    assert client_exit("initialize", checks, log) == Check("initialize", "client-exit", "FAILURE", message)


@pytest.mark.parametrize("status", ["SUCCESS", "FAILURE", "SKIPPED"])
def test_a_client_that_was_observed_and_ended_well_needs_no_further_check(status: str) -> None:
    assert client_exit("initialize", [replace(PASSED, status=status)], "OVERALL: PASSED") is None


def test_the_client_fills_in_all_defaults_and_what_else_is_required() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John"},
            "sure": {"type": "boolean"},
            "note": {"type": "string"},
        },
        "required": ["sure"],
    }

    assert filled_in(schema) == {"name": "John", "sure": True}
