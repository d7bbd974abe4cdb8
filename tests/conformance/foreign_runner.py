"""Runs the official suite against servers of other hands, as they are and through the bridge.

    python -m tests.conformance.foreign_runner

A fixture that the product's own authors wrote has their habits. Here are `foreign_fixture.py`, which others wrote from
the requirements of the suite, and server-everything from npm, which knows few of the suite's tools. What passes when a
server is asked directly has to pass through the bridge too: where it is published alone, over each wire that reaches
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
from tests.conformance.runner import (
    HERE,
    HOST,
    RUNS,
    CannotRunError,
    Outcome,
    free_port,
    install_packages,
    run_all,
    running,
    serving,
)
from tests.upstreams.servers import entry_of, everything_servers

__all__ = ["EXPECTED_FAILURES", "judged", "passed_in"]

ROOT: Final = HERE.parent.parent
EXPECTED_FAILURES: Final = HERE / "foreign_expected_failures.toml"
JOBS: Final = 3
READY_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1

_Verdict = tuple[str, str, str]
"""A run, a scenario and a check."""


@contextmanager
def publishing(folder: Path) -> Generator[Mapping[str, Mapping[str, str]]]:
    """Run the fixtures, a bridge with each of them alone, and one with three sources.

    Args:
        folder: Where everything goes that they print.

    Yields:
        For each fixture its endpoints: `direct`, and the others.

    Raises:
        CannotRunError: Something did not start.
    """
    fixture = [sys.executable, str(HERE / "foreign_fixture.py"), "--transport"]
    neighbour = [sys.executable, "-S", str(HERE / "neighbours.py")]
    port = free_port()
    direct = f"http://{HOST}:{port}/mcp"
    with ExitStack() as stack:
        stack.enter_context(running([*fixture, "http", "--port", str(port)], port, folder / "fixture.log", ROOT))
        everything = stack.enter_context(everything_servers())["everything-http"]
        alone = _serving(
            stack,
            folder / "alone",
            {
                "foreign-http": {"url": direct},
                "foreign-stdio": {"command": fixture[0], "args": [*fixture[1:], "stdio"]},
                "everything-http": entry_of(everything),
            },
        )
        merged = _serving(
            stack,
            folder / "merged",
            {"foreign": {"url": direct}, "neighbour": {"command": neighbour[0], "args": neighbour[1:]}},
            "--names",
            "bare",
        )
        yield {
            "foreign": {
                "direct": direct,
                **{way: f"{alone}/servers/foreign-{way}/mcp" for way in ("http", "stdio")},
                "merged": f"{merged}/mcp",
            },
            "everything": {
                "direct": entry_of(everything)["url"],
                "http": f"{alone}/servers/everything-http/mcp",
            },
        }


def _serving(stack: ExitStack, folder: Path, servers: Mapping[str, Any], *options: str) -> str:
    """The address of a bridge that publishes an agent and some servers, once all of them are ready."""
    folder.mkdir()
    config = folder / "mcp_servers.json"
    config.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    reference = f"{HERE / 'neighbours.py'}:NeighbourAgent"
    url = stack.enter_context(serving(reference, folder / "bridge.log", "--config", str(config), *options))
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
@click.option("--out", type=click.Path(path_type=Path), help="Keep the raw results in this new folder.")
def main(jobs: int, out: Path | None) -> None:
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
