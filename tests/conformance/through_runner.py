"""Runs the official MCP conformance suite through the bridge: `python -m tests.conformance.through_runner`.

`fixture_server.py` passes all 340 checks when it is asked directly. Here it stands behind the bridge, which publishes
it at `/servers/{name}/mcp`: over each transport, and speaking with clients of both eras, of the handshake era only, or
of 2026-07-28 only. A client has to get the same from all of them, save what the protocol itself forbids. That is listed
with its reason in `through_expected_failures.toml`; what is listed and passes all the same is an error too.

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
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
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
    shortfalls,
)

__all__ = ["EXPECTED_FAILURES", "TRANSPORTS", "Way", "bridge_of", "judged", "ways"]

ROOT: Final = HERE.parent.parent
EXPECTED_FAILURES: Final = HERE / "through_expected_failures.toml"
TRANSPORTS: Final = ("stdio", "sse", "http")
ERAS: Final = ("dual", "legacy", "modern")
"""What `fixture_server.py` can be; its table is not imported here, because the SDK would be imported with it."""
MODERN: Final = "2026-07-28"
JOBS: Final = 4
"""Upstreams at once; the runs of one follow each other. Half of the time is the suite waiting for a stream."""
_BRIDGE: Final = """
import runpy

from gaia_bridge import Bridge
from gaia_bridge.model import NamingPolicy
from gaia_bridge.settings import HttpLimits, Settings, UpstreamLimits

agents = [runpy.run_path(file)[name]() for file, name in {agents!r}]
limits = Settings(http=HttpLimits(quick_answer=0.05), upstream=UpstreamLimits(answered_grace=0))
bridge = Bridge(*agents, servers={servers!r}, names=NamingPolicy({names!r}), settings=limits)
"""
"""What is served. The sessions of the suite follow each other at once: a log message of a server that does not say
for which call it is could otherwise be a late one for the session before, and reach nobody. And the suite expects event
streams of calls that take a fifth of a second, which are answered in JSON otherwise."""
READY_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Way:
    """How one upstream is reached, and with which clients it speaks."""

    transport: str
    era: str

    @property
    def name(self) -> str:
        """What the bridge publishes it as."""
        return f"{self.transport}-{self.era}"


def ways(transports: Sequence[str] = TRANSPORTS, eras: Sequence[str] = ERAS) -> list[Way]:
    """All ways, those first that reach a server of both eras."""
    return [Way(transport, era) for era in eras for transport in transports]


@contextmanager
def publishing(chosen: Sequence[Way], folder: Path) -> Generator[Mapping[Way, str], None, None]:
    """Run the upstreams, and a bridge that publishes them.

    Args:
        chosen: Which.
        folder: Where everything goes that they print.

    Yields:
        The endpoint of each.

    Raises:
        CannotRunError: Something did not start, or the bridge speaks another era with an upstream than it should.
    """
    module = [sys.executable, "-m", "tests.conformance.fixture_server", "--era"]
    with ExitStack() as stack:
        ports: dict[str, int] = {}
        for era in dict.fromkeys(way.era for way in chosen if way.transport != "stdio"):
            port = ports[era] = free_port()
            log = folder / f"upstream-{era}.log"
            stack.enter_context(running([*module, era, "--port", str(port)], port, log, ROOT))
        servers = {way.name: _entry(way, module, ports) for way in chosen}
        url = stack.enter_context(bridge_of(servers, folder))
        base = url.rpartition("/")[0]
        _await_ready(base, chosen)
        yield {way: f"{base}/servers/{way.name}/mcp" for way in chosen}


def bridge_of(
    servers: Mapping[str, Any], folder: Path, agents: Sequence[tuple[str, str]] = (), names: str = "default"
) -> AbstractContextManager[str]:
    """Run a bridge with some servers while the block runs.

    Args:
        servers: Their entries.
        folder: Where its program and its log are written.
        agents: Files with agents, and the names of their classes.
        names: How tools are named.

    Returns:
        A context manager that yields the URL of its Streamable HTTP endpoint, and raises as `serving` does.
    """
    program = folder / "bridge.py"
    program.write_text(_BRIDGE.format(servers=servers, agents=agents, names=names), "utf-8")
    return serving(str(program), folder / "bridge.log")


def _entry(way: Way, module: Sequence[str], ports: Mapping[str, int]) -> dict[str, Any]:
    if way.transport == "stdio":
        command, *args = *module, way.era
        return {"command": command, "args": args, "cwd": str(ROOT)}
    path = {"sse": "/sse", "http": "/mcp"}[way.transport]
    return {"url": f"http://{HOST}:{ports[way.era]}{path}", "type": way.transport}


def _await_ready(base: str, chosen: Sequence[Way]) -> None:
    names = {way.name: way for way in chosen}
    deadline = time.monotonic() + READY_SECONDS
    while True:
        with urlopen(f"{base}/status", timeout=READY_SECONDS) as response:
            sources = {item["name"]: item for item in json.load(response)["sources"] if item["name"] in names}
        waiting = {name: item for name, item in sources.items() if item["state"] != "ready"}
        if sources.keys() == names.keys() and not waiting:
            break
        if time.monotonic() > deadline:
            raise CannotRunError(f"upstreams are not ready: {waiting or names.keys() - sources.keys()}")
        time.sleep(POLL_SECONDS)
    for name, item in sources.items():
        revision = item["connection"]["protocolVersion"]
        if (revision == MODERN) == (names[name].era == "legacy"):
            raise CannotRunError(f"the bridge speaks {revision} with {name}")


def judged(way: Way, outcome: Outcome, known: Sequence[KnownFailure], *, complete: bool) -> list[str]:
    """What is not as expected in one run.

    A check that cannot pass need not fail: the suite leaves out some where an earlier one has failed, and says of
    others that they do not apply. So it counts which pass, and how many.

    Args:
        way: How the upstream is reached.
        outcome: What the run reported.
        known: What cannot pass, of all ways; `run` begins with the era, or with the name of the way.
        complete: Whether all scenarios were run.
    """
    run, labels = outcome.run, {f"{name} {outcome.run.name}" for name in (way.era, way.name)}
    hopeless = {(failure.scenario, failure.check) for failure in known if failure.run in labels}
    passed = {(check.scenario, check.id) for check in outcome.having("SUCCESS")}
    found = [
        f"FAILED {run.name}: {check.scenario}: {check.id}: {check.message}"
        for check in outcome.having("FAILURE")
        if (check.scenario, check.id) not in hopeless
    ]
    found += [
        f"STALE  {run.name}: {scenario}: {check} is listed, and passed" for scenario, check in sorted(hopeless & passed)
    ]
    wanted = replace(outcome, run=replace(run, expected=run.expected - len(hopeless)))
    return found + [f"MISSED {line}" for line in (shortfalls([wanted]) if complete else [])]


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.option("--transport", "transports", multiple=True, type=click.Choice(TRANSPORTS), help="Only this; repeatable.")
@click.option("--era", "eras", multiple=True, type=click.Choice(ERAS), help="Only upstreams of this era; repeatable.")
@click.option("--only", multiple=True, type=click.Choice([run.name for run in RUNS]), help="Only this run; repeatable.")
@click.option("--scenario", "scenarios", multiple=True, help="Only this scenario, for debugging; repeatable.")
@click.option("--jobs", type=click.IntRange(1), default=JOBS, show_default=True, help="Upstreams at once.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the raw results in this new folder.")
def main(
    transports: tuple[str, ...],
    eras: tuple[str, ...],
    only: tuple[str, ...],
    scenarios: tuple[str, ...],
    jobs: int,
    out: Path | None,
) -> None:
    """Run the suite, print what is not as expected and exit with the verdict."""
    runs = [run for run in RUNS if not only or run.name in only]
    chosen = ways(transports or TRANSPORTS, eras or ERAS)
    known = read_known_failures(EXPECTED_FAILURES)
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        try:
            folder = (out or Path(temporary) / "results").absolute()
            folder.mkdir(parents=True)
            install_packages(HERE)
            with publishing(chosen, folder) as urls, ThreadPoolExecutor(jobs) as pool:
                futures = {
                    way: pool.submit(run_all, url, runs, scenarios, folder / way.name) for way, url in urls.items()
                }
            found = {way: future.result() for way, future in futures.items()}
        except (CannotRunError, OSError, subprocess.SubprocessError) as error:
            click.echo(f"cannot run: {error}", err=True)
            sys.exit(2)
    problems: list[str] = []
    for way, outcomes in found.items():
        passed, wanted = sum(item.passed for item in outcomes), sum(item.run.expected for item in outcomes)
        single = ", ".join(f"{item.run.name}: {item.passed}" for item in outcomes)
        click.echo(f"{way.name:<13} {passed:>3} of {wanted} checks passed ({single})")
        for outcome in outcomes:
            new = judged(way, outcome, known, complete=not scenarios)
            for problem in new:
                click.echo(f"  {problem}")
            problems += new
    click.echo(f"{len(problems)} surprises")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
