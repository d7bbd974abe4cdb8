"""Runs the official MCP conformance suite against our outbound core: `python -m tests.conformance.client_runner`.

The suite plays a server for each scenario and observes `client_program.py`. It would start all clients at once, and
give up on those that a small machine is slow to start, so each scenario is a run of its own here. A scenario that
prints a tick although its client failed, or did nothing, fails here: it gets a check `client-exit`.

With `--through`, the client goes through a bridge, and the suite observes the bridge's client half.

What fails and is known to is listed with its reason in `client_expected_failures.toml`. Anything else that fails, and
anything listed that does not fail, is an error; so is a run in which fewer different checks pass than before.

Exit status: 0 all as expected; 1 not so; 2 the suite could not run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from tests.conformance.runner import (
    HERE,
    CannotRunError,
    Check,
    Outcome,
    Run,
    install_packages,
    node_binary,
    read_checks,
    script_of,
)

__all__ = ["EXPECTED_FAILURES", "RUNS", "KnownFailure", "client_exit", "read_known_failures", "surprises"]

PROGRAM = HERE / "client_program.py"
EXPECTED_FAILURES = HERE / "client_expected_failures.toml"

JOBS = 2
"""Scenarios at once. Each is a node and a Python process, which do little but start."""
CLIENT_SECONDS = 60
"""What the suite gives a client; it takes one to two seconds."""
SCENARIO_SECONDS = CLIENT_SECONDS + 30
ATTEMPTS = 3
TIMING = {"sse-retry"}
"""Scenarios that measure time: they run alone, when all others are done, and the best of a few attempts counts."""

EXTENSIONS = "extensions"
RUNS = (
    Run("0.1.16", "conformance-stable", None, 214),
    Run("2025-03-26", "conformance-alpha", "2025-03-26", 13),
    Run("2025-06-18", "conformance-alpha", "2025-06-18", 51),
    Run("2025-11-25", "conformance-alpha", "2025-11-25", 203),
    Run("2026-07-28", "conformance-alpha", "2026-07-28", 329),
    Run(EXTENSIONS, "conformance-alpha", None, 46),
)
"""`expected` is how many different checks pass at least. Many are made anew for each request, and a client that makes
more requests is no better for it."""


THROUGH = {"0.1.16": 10, "2025-06-18": 3, "2025-11-25": 20, "2026-07-28": 36}
"""How many different checks pass at least, by run, where the bridge is between the client and the suite. There, the
client half of the bridge is observed; logins are not, because they are the same code."""

_THROUGH_VARIABLE = "MCP_CONFORMANCE_THROUGH"


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A check that is expected to fail.

    Args:
        run: The name of the run.
        scenario: The scenario.
        check: The id of the check.
        reason: Why it fails, and why that is not for us to change.
    """

    run: str
    scenario: str
    check: str
    reason: str


def read_known_failures(file: Path) -> tuple[KnownFailure, ...]:
    """Read the list of expected failures.

    Args:
        file: A TOML file of `[[failure]]` tables: `run` or `runs`, `scenario`, `checks`, `reason`.
    """
    tables = tomllib.loads(file.read_text("utf-8"))["failure"]
    return tuple(
        KnownFailure(run, table["scenario"], check, table["reason"])
        for table in tables
        for run in table.get("runs") or [table["run"]]
        for check in table["checks"]
    )


def surprises(outcome: Outcome, known: Iterable[KnownFailure], *, complete: bool = True) -> list[str]:
    """What is not as expected in one run.

    Args:
        outcome: What it reported.
        known: The expected failures, of all runs.
        complete: Whether all scenarios of the run were run.
    """
    failed = {(check.scenario, check.id): check.message for check in outcome.having("FAILURE")}
    ran = {check.scenario for check in outcome.checks}
    expected = {
        (failure.scenario, failure.check)
        for failure in known
        if failure.run == outcome.run.name and (complete or failure.scenario in ran)
    }
    found = [f"FAILED {scenario}: {check}: {failed[scenario, check]}" for scenario, check in failed.keys() - expected]
    found += [
        f"STALE  {scenario}: {check} is expected to fail, and did not" for scenario, check in expected - failed.keys()
    ]
    if complete and different(outcome) < outcome.run.expected:
        found.append(f"MISSED {different(outcome)} different checks passed, expected {outcome.run.expected} or more")
    return sorted(found)


def different(outcome: Outcome) -> int:
    """How many different checks passed in one run."""
    return len({(check.scenario, check.id) for check in outcome.having("SUCCESS")})


def client_exit(scenario: str, checks: Sequence[Check], log: str) -> Check | None:
    """The check that the suite leaves out: whether the client did its work at all.

    Args:
        scenario: The scenario.
        checks: What the suite wrote.
        log: What it printed.

    Returns:
        A failed check, or `None`.
    """
    complaint = re.search(r"CLIENT TIMED OUT|CLIENT EXITED WITH ERROR \(code \S+\)", log)
    if complaint is not None:
        return Check(scenario, "client-exit", "FAILURE", complaint[0].lower())
    if not {check.status for check in checks} - {"INFO"}:
        return Check(scenario, "client-exit", "FAILURE", "no check ran: the client did nothing that was looked for")
    return None


def through_a_bridge(runs: Iterable[Run]) -> list[Run]:
    """The same runs, or those of them that need no login, with what passes of them through a bridge."""
    return [replace(run, expected=THROUGH[run.name]) for run in runs if run.name in THROUGH]


def scenarios_of(node: str, run: Run) -> list[str]:
    """The names of the client scenarios of one run."""
    command = [node, script_of(run), "list", "--client", *_version(run)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found: list[tuple[str, str]] = re.findall(r"^  - (\S+) \[(\S+)\]", listed, re.MULTILINE)
    return [name for name, versions in found if run.name != EXTENSIONS or versions == "extension"]


def run_scenario(node: str, run: Run, folder: Path, scenario: str) -> tuple[Check, ...]:
    """Let the suite play one scenario with our client.

    Args:
        node: The node binary.
        run: Which release and revision.
        folder: Where the suite writes its results; its own output goes to `suite.log` in it.
        scenario: The scenario.

    Raises:
        CannotRunError: The suite hung or reported nothing.
    """
    folder.mkdir(parents=True)
    client = shlex.join([sys.executable, str(PROGRAM)])
    command = [node, script_of(run), "client", "--command", client, "--scenario", scenario, *_version(run)]
    command += ["--timeout", str(CLIENT_SECONDS * 1000), "--output-dir", str(folder)]
    log = folder / "suite.log"
    with log.open("wb") as output:
        try:
            subprocess.run(command, stdout=output, stderr=output, timeout=SCENARIO_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise CannotRunError(f"{run.name}: {scenario} took over {SCENARIO_SECONDS} s") from None
    said = log.read_text("utf-8", errors="replace")
    checks = tuple(replace(check, scenario=scenario) for check in read_checks(folder))
    if not checks and "Results saved" not in said:
        raise CannotRunError(f"{run.name}: {scenario} reported nothing:\n{said[-1000:]}")
    failure = client_exit(scenario, checks, said)
    return checks if failure is None else (*checks, failure)


def run_timed(node: str, run: Run, folder: Path, scenario: str) -> tuple[Check, ...]:
    """The best of a few attempts at a scenario; the first without a failure ends them."""
    best: tuple[Check, ...] | None = None
    for attempt in range(ATTEMPTS):
        checks = run_scenario(node, run, folder / f"attempt-{attempt + 1}", scenario)
        if best is None or _failures(checks) < _failures(best):
            best = checks
        if not _failures(best):
            break
    assert best is not None
    return best


def _failures(checks: Iterable[Check]) -> int:
    return sum(check.status == "FAILURE" for check in checks)


def run_all(node: str, runs: Sequence[Run], wanted: Sequence[str], folder: Path, jobs: int) -> list[Outcome]:
    """Run the scenarios of several runs: those that measure time one by one, when all others are done.

    Args:
        node: The node binary.
        runs: Which.
        wanted: Only these scenarios; all if empty.
        folder: Where the raw results go.
        jobs: Scenarios at once.

    Raises:
        CannotRunError: The suite gave no verdict.
    """
    todo = [(run, name) for run in runs for name in scenarios_of(node, run) if not wanted or name in wanted]
    if _THROUGH_VARIABLE in os.environ:
        todo = [(run, name) for run, name in todo if not name.startswith("auth/")]
    if not todo:
        raise CannotRunError(f"no chosen run has a scenario {' or '.join(wanted)}")
    place = partial(_place, folder)
    with ThreadPoolExecutor(jobs) as pool:
        futures = {
            (run, name): pool.submit(run_scenario, node, run, place(run, name), name)
            for run, name in todo
            if name not in TIMING
        }
    found = {key: future.result() for key, future in futures.items()}
    found |= {(run, name): run_timed(node, run, place(run, name), name) for run, name in todo if name in TIMING}
    return [
        Outcome(run, tuple(check for (of, _), checks in found.items() if of == run for check in checks))
        for run in runs
        if any(of == run for of, _ in found)
    ]


def _place(folder: Path, run: Run, scenario: str) -> Path:
    return folder / run.name / scenario.replace("/", "-")


def _version(run: Run) -> list[str]:
    return ["--spec-version", run.version] if run.version else []


def _report(outcome: Outcome, problems: Sequence[str]) -> None:
    total = outcome.passed + len(outcome.having("FAILURE"))
    click.echo(f"{outcome.run.name:<11} passed {outcome.passed:>3} / total {total:>3} ({different(outcome)} different)")
    for problem in problems:
        click.echo(f"  {problem}")
    for check in outcome.having("WARNING"):
        click.echo(f"  warning {check.scenario}: {check.id}: {check.message}")
    for scenario in outcome.silent:
        click.echo(f"  silent  {scenario}: no check of it gave a verdict")


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.option("--only", multiple=True, type=click.Choice([run.name for run in RUNS]), help="Only this run; repeatable.")
@click.option("--scenario", "scenarios", multiple=True, help="Only this scenario, for debugging; repeatable.")
@click.option("--jobs", type=click.IntRange(1), default=JOBS, show_default=True, help="Scenarios at once.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the raw results in this new folder.")
@click.option("--through", is_flag=True, help="Through a bridge, without the scenarios that need a login.")
def main(only: tuple[str, ...], scenarios: tuple[str, ...], jobs: int, out: Path | None, through: bool) -> None:
    """Run the suite, print what is not as expected and exit with the verdict."""
    runs = [run for run in RUNS if not only or run.name in only]
    known = read_known_failures(EXPECTED_FAILURES)
    if through:
        os.environ[_THROUGH_VARIABLE] = "bridge"  # the suite hands it on to `client_program.py`
        runs, known = through_a_bridge(runs), ()
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        try:
            install_packages(HERE)
            folder = (out or Path(temporary)).absolute()
            outcomes = run_all(node_binary(HERE), runs, scenarios, folder, jobs)
        except (CannotRunError, OSError, subprocess.SubprocessError) as error:
            click.echo(f"cannot run: {error}", err=True)
            sys.exit(2)
    for outcome in outcomes:
        found = surprises(outcome, known, complete=not scenarios)
        _report(outcome, found)
        problems += found
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(len(outcome.having("FAILURE")) for outcome in outcomes)
    click.echo(f"{passed} of {passed + failed} checks passed, {failed} failed, {len(problems)} surprises")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
