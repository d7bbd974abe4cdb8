"""The conformance runner itself: what it counts and when it says no."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.conformance.runner import RUNS, Check, Outcome, free_port, read_checks, shortfalls

RUNNER = Path(__file__).with_name("runner.py")


def an_outcome(passed: int) -> Outcome:
    return Outcome(RUNS[1], tuple(Check("ping", f"check-{number}", "SUCCESS", "") for number in range(passed)))


def test_the_expected_numbers_add_up_to_the_whole_suite() -> None:
    assert sum(run.expected for run in RUNS) == 340
    assert [run.version for run in RUNS] == [None, "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


def test_what_the_suite_wrote_is_read_with_scenario_status_and_message(tmp_path: Path) -> None:
    folder = tmp_path / "server-tools-list-2025-11-25-2026-11-20T10-11-12-345Z"
    folder.mkdir()
    written = [{"id": "a", "status": "SUCCESS"}, {"id": "b", "status": "FAILURE", "errorMessage": "no tools"}]
    (folder / "checks.json").write_text(json.dumps(written), "utf-8")

    assert read_checks(tmp_path) == (
        Check("tools-list-2025-11-25", "a", "SUCCESS", ""),
        Check("tools-list-2025-11-25", "b", "FAILURE", "no tools"),
    )


def test_a_run_that_asked_fewer_questions_falls_short_although_nothing_failed() -> None:
    assert shortfalls([an_outcome(RUNS[1].expected)]) == []
    assert shortfalls([an_outcome(RUNS[1].expected - 1)]) == ["2025-03-26: 2 checks passed, expected 3"]


def test_a_scenario_without_a_verdict_is_named() -> None:
    outcome = Outcome(
        RUNS[0],
        (Check("ping", "a", "SUCCESS", ""), Check("polling", "b", "WARNING", ""), Check("polling", "c", "INFO", "")),
    )

    assert outcome.silent == ["polling"]


def test_a_server_that_is_not_there_is_no_verdict(tmp_path: Path) -> None:
    command = [sys.executable, str(RUNNER), "--url", f"http://127.0.0.1:{free_port()}/mcp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith("cannot run: nothing answers at http://127.0.0.1:")
