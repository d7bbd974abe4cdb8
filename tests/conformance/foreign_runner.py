"""Runs the official suite against servers of other hands, as they are and through the bridge.

    python -m tests.conformance.foreign_runner

A fixture that the product's own authors wrote has their habits. Here are `foreign_fixture.py`, which others wrote from
the requirements of the suite; the everything-servers with which both generations of the Python SDK are tested, and the
fixture of FastMCP; and server-everything from npm, which knows few of the suite's tools. What passes when a server is
asked directly has to pass through the bridge too: where it is published alone, over each wire that reaches
it, and among three sources (an agent, and a server of each era) under the names that it has itself. What cannot pass is
listed with its reason in `foreign_expected_failures.toml`; what is listed and passes all the same is an error too.

Exit status: 0 all as expected; 1 not so; 2 the suite could not run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import click

from tests.conformance.client_runner import KnownFailure, read_known_failures
from tests.conformance.foreign_servers import NAMES, ForeignServer, start_all
from tests.conformance.runner import (
    HERE,
    RUNS,
    CannotRunError,
    Outcome,
    install_packages,
    run_all,
)
from tests.conformance.through_runner import bridge_of

__all__ = ["EXPECTED_FAILURES", "judged", "passed_in"]

EXPECTED_FAILURES: Final = HERE / "foreign_expected_failures.toml"
JOBS: Final = 3
READY_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1

_Verdict = tuple[str, str, str]
"""A run, a scenario and a check."""


@contextmanager
def publishing(folder: Path) -> Generator[Mapping[str, Mapping[str, str]]]:
    """Run the servers, a bridge with each of them alone, and for each one with three sources.

    Args:
        folder: Where everything goes that they print.

    Yields:
        For each server its endpoints: `direct`, and the others.

    Raises:
        CannotRunError: Something did not start.
    """
    with ExitStack() as stack:
        servers = start_all(stack, folder)
        reached = {f"{server.name}-http": {"url": server.url} for server in servers}
        launched = {f"{server.name}-stdio": server.launch for server in servers if server.launch is not None}
        alone = _serving(stack, folder / "alone", {**reached, **launched})
        found: dict[str, dict[str, str]] = {}
        for server in servers:
            ways = ["http", "stdio"] if server.launch is not None else ["http"]
            endpoints = {way: f"{alone}/servers/{server.name}-{way}/mcp" for way in ways}
            if server.has_fixtures:
                endpoints["merged"] = f"{_merged(stack, folder, server)}/mcp"
            found[server.name] = {"direct": server.url, **endpoints}
        yield found


def _merged(stack: ExitStack, folder: Path, server: ForeignServer) -> str:
    """The address of a bridge that publishes a server between an agent and a server of the handshake era."""
    neighbour = {"command": sys.executable, "args": ["-S", str(HERE / "neighbours.py")]}
    servers = {server.name: {"url": server.url}, "beside": neighbour}
    return _serving(stack, folder / f"merged-{server.name}", servers, "bare")


def _serving(stack: ExitStack, folder: Path, servers: Mapping[str, Any], names: str = "default") -> str:
    """The address of a bridge that publishes an agent and some servers, once all of them are ready."""
    folder.mkdir()
    agent = (str(HERE / "neighbours.py"), "NeighbourAgent")
    url = stack.enter_context(bridge_of(servers, folder, [agent], names))
    base = url.rpartition("/")[0]
    deadline = time.monotonic() + READY_SECONDS
    while True:
        with urlopen(f"{base}/status", timeout=READY_SECONDS) as response:
            states = {item["name"]: item["state"] for item in json.load(response)["sources"]}
        if all(states.get(name) == "ready" for name in servers):
            return base
        if time.monotonic() > deadline:
            raise CannotRunError(f"not ready: {states}")
        time.sleep(POLL_SECONDS)


def passed_in(outcomes: Sequence[Outcome]) -> set[_Verdict]:
    """What passed, and did not fail beside."""
    return {
        (outcome.run.name, check.scenario, check.id) for outcome in outcomes for check in outcome.having("SUCCESS")
    } - {(outcome.run.name, check.scenario, check.id) for outcome in outcomes for check in outcome.having("FAILURE")}


def judged(
    fixture: str, way: str, direct: set[_Verdict], found: set[_Verdict], known: Sequence[KnownFailure]
) -> list[str]:
    """What is not as expected.

    Args:
        fixture: Which server it is.
        way: How it was asked.
        direct: What passes where it is asked directly.
        found: What passed.
        known: What cannot pass; `run` is the fixture, perhaps with a way, and the run.
    """
    labels = {f"{name} {run.name}": run.name for name in (fixture, f"{fixture}-{way}") for run in RUNS}
    hopeless = {(labels[item.run], item.scenario, item.check) for item in known if item.run in labels}
    missed = [f"MISSED {' '.join(verdict)}" for verdict in sorted(direct - found - hopeless)]
    return missed + [f"STALE  {' '.join(verdict)} is listed, and passed" for verdict in sorted(hopeless & found)]


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.option("--jobs", type=click.IntRange(1), default=JOBS, show_default=True, help="Endpoints at once.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Only this server; repeatable.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the raw results in this new folder.")
def main(jobs: int, only: tuple[str, ...], out: Path | None) -> None:
    """Run the suite, print what is not as expected and exit with the verdict."""
    known = read_known_failures(EXPECTED_FAILURES)
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        try:
            folder = (out or Path(temporary) / "results").absolute()
            folder.mkdir(parents=True)
            install_packages(HERE)
            with publishing(folder) as fixtures, ThreadPoolExecutor(jobs) as pool:
                futures = {
                    (fixture, way): pool.submit(run_all, url, RUNS, (), folder / f"{fixture}-{way}")
                    for fixture, urls in fixtures.items()
                    if not only or fixture in only
                    for way, url in urls.items()
                }
            outcomes = {key: future.result() for key, future in futures.items()}
        except (CannotRunError, OSError, subprocess.SubprocessError) as error:
            click.echo(f"cannot run: {error}", err=True)
            sys.exit(2)
    surprises = 0
    for (fixture, way), found in outcomes.items():
        total = sum(outcome.passed for outcome in found)
        single = ", ".join(f"{outcome.run.name}: {outcome.passed}" for outcome in found)
        click.echo(f"{fixture + ' ' + way:<18} {total:>3} checks passed ({single})")
        if way == "direct":
            continue
        problems = judged(fixture, way, passed_in(outcomes[fixture, "direct"]), passed_in(found), known)
        surprises += len(problems)
        for problem in problems:
            click.echo(f"  {problem}")
    click.echo(f"{surprises} surprises")
    sys.exit(1 if surprises else 0)


if __name__ == "__main__":
    main()
