"""Runs the official MCP conformance suite against the bridge: `python tests/conformance/runner.py`.

Two pinned releases of `@modelcontextprotocol/conformance` look at one server, which publishes `fixture_agent.py`. A
check counts when its verdict is SUCCESS. Ratios mislead, because a server that lacks a feature is asked fewer
questions, so every run has to reach its absolute number: 340 over all revisions, and 45 of skills.

Exit status: 0 every expected check passed and none failed; 1 not so; 2 the suite could not run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import click
from filelock import FileLock

__all__ = [
    "CACHE",
    "FIXTURE",
    "HERE",
    "HOST",
    "RUNS",
    "SKILLS",
    "CannotRunError",
    "Check",
    "Outcome",
    "Run",
    "bridge_command",
    "free_port",
    "install_packages",
    "node_binary",
    "packages_of",
    "read_checks",
    "run_all",
    "running",
    "script_of",
    "serving",
    "shortfalls",
]

HERE = Path(__file__).resolve().parent
FIXTURE = HERE / "fixture_agent.py"
HOST = "127.0.0.1"
PUBLISHED_PATH = "/mcp"

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "gaia-mcp-bridge-tests"
"""Found out when this module is imported: tests have homes of their own."""
INSTALL_SECONDS = 600.0
START_SECONDS = 30.0
STOP_SECONDS = 10.0
SUITE_SECONDS = 300.0
"""One run takes two to four seconds; the older release has no time limit of its own."""
POLL_SECONDS = 0.05
NODE_MAJOR = 22
"""The suite imports `fs.globSync`, which node has since 22."""
LOG_TAIL = 12
_OF_THE_MOMENT = frozenset({"server-sse-streams-functional"})
"""Checks that count an answer on an event stream and say nothing of one in JSON, which is what a quick one is."""


class CannotRunError(Exception):
    """The suite gives no verdict: something around it is missing or broken."""


@dataclass(frozen=True, slots=True)
class Run:
    """One pass of one release of the suite.

    Args:
        name: What `--only` calls it.
        package: The npm alias that `package.json` gives the release.
        version: The protocol revision whose scenarios are run; the older release knows no choice.
        expected: How many checks a conforming server passes.
        scenarios: The only scenarios of it; all if empty.
    """

    name: str
    package: str
    version: str | None
    expected: int
    scenarios: tuple[str, ...] = ()


RUNS = (
    Run("0.1.16", "conformance-stable", None, 46),
    Run("2025-03-26", "conformance-alpha", "2025-03-26", 3),
    Run("2025-06-18", "conformance-alpha", "2025-06-18", 56),
    Run("2025-11-25", "conformance-alpha", "2025-11-25", 83),
    Run("2026-07-28", "conformance-alpha", "2026-07-28", 152),
)
SKILLS = Run(
    "skills",
    "conformance-alpha",
    None,
    45,
    tuple(f"sep-2640-skills-{part}" for part in ("directory", "enumeration", "manifest")),
)
"""An extension that few servers have (SEP-2640): the suite runs its scenarios only when they are named."""


@dataclass(frozen=True, slots=True)
class Check:
    """One verdict of the suite; `status` is SUCCESS, FAILURE, WARNING, SKIPPED or INFO."""

    scenario: str
    id: str
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything one run reported."""

    run: Run
    checks: tuple[Check, ...]

    def having(self, status: str) -> list[Check]:
        """The checks with that status."""
        return [check for check in self.checks if check.status == status]

    @property
    def passed(self) -> int:
        """How many checks passed."""
        return len(self.having("SUCCESS"))

    @property
    def silent(self) -> list[str]:
        """Scenarios that said neither yes nor no; the suite itself prints a tick for them."""
        spoke = {check.scenario for check in self.checks if check.status in ("SUCCESS", "FAILURE")}
        return sorted({check.scenario for check in self.checks} - spoke)


def packages_of(folder: Path) -> Path:
    """Where exactly what `package-lock.json` in a folder pins is installed, or goes: `.installed` in it says which."""
    pinned = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    return CACHE / f"node-{pinned[:16]}"


def install_packages(folder: Path) -> Path:
    """Install what `package-lock.json` in a folder pins, once for all checkouts, and link `node_modules` to it.

    Args:
        folder: Holds `package.json`, `package-lock.json` and `.npmrc`.

    Returns:
        The `node_modules`.

    Raises:
        CannotRunError: There is no npm, or it failed.
    """
    place = packages_of(folder)
    place.mkdir(parents=True, exist_ok=True)
    with FileLock(place.with_name(f"{place.name}.lock"), timeout=INSTALL_SECONDS * 2):
        if not (place / ".installed").exists():
            _install_pinned(folder, place)
        _link(folder / "node_modules", place / "node_modules")
    return place / "node_modules"


def _install_pinned(folder: Path, place: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotRunError(
            "npm is not on PATH; install Node.js (its version does not matter, npm must be 9 or newer)"
        )
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copyfile(folder / name, place / name)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode != 0:
        raise CannotRunError(f"npm ci for {folder} failed:\n{_tail(done.stderr or done.stdout)}")
    (place / ".installed").touch()


def _link(link: Path, modules: Path) -> None:
    """Programs in the folder of `link` find packages there; a checkout that installed them itself has them anew."""
    if link.is_symlink() and link.readlink() == modules:
        return
    if link.is_symlink():
        link.unlink()
    elif link.exists():
        shutil.rmtree(link)
    link.symlink_to(modules, target_is_directory=True)


def node_binary(folder: Path) -> str:
    """The node that came with a folder's packages, or the one on PATH where that is new enough.

    Raises:
        CannotRunError: Neither can be used.
    """
    node = shutil.which("node", path=os.pathsep.join((str(folder / "node_modules/.bin"), os.environ.get("PATH", ""))))
    if node is None:
        raise CannotRunError(f"no node in {folder / 'node_modules'} or on PATH")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    major = re.match(r"v(\d+)\.", said)
    if major is None or int(major[1]) < NODE_MAJOR:
        raise CannotRunError(f"{node} is {said or 'broken'}; node {NODE_MAJOR} or newer is needed")
    return node


def bridge_command() -> str:
    """The `gaia-bridge` that is installed for this Python.

    Raises:
        CannotRunError: None is.
    """
    command = shutil.which("gaia-bridge", path=sysconfig.get_path("scripts"))
    if command is None:
        raise CannotRunError(
            f"gaia-bridge is not installed for {sys.executable}; run: {sys.executable} -m pip install ."
        )
    return command


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
    return port


def read_checks(folder: Path) -> tuple[Check, ...]:
    """Everything the suite wrote below a folder: `server-<scenario>-<time>/checks.json` each.

    Without what depends on the machine: see `_OF_THE_MOMENT`.
    """
    found: list[Check] = []
    for file in sorted(folder.rglob("checks.json")):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name)
        found += [
            Check(scenario, entry["id"], entry["status"], entry.get("errorMessage") or "")
            for entry in json.loads(file.read_text("utf-8"))
            if entry["id"] not in _OF_THE_MOMENT
        ]
    return tuple(found)


def shortfalls(outcomes: Sequence[Outcome]) -> list[str]:
    """Which complete runs passed another number of checks than a conforming server does."""
    return [
        f"{outcome.run.name}: {outcome.passed} checks passed, expected {outcome.run.expected}"
        for outcome in outcomes
        if outcome.passed != outcome.run.expected
    ]


@contextmanager
def serving(reference: str, log: Path, *options: str) -> Generator[str, None, None]:
    """Run `gaia-bridge serve` on a free port while the block runs.

    Args:
        reference: The agent, as the command takes it.
        log: Where everything the server prints goes. Its folder becomes the server's working folder and home, so
            that the configuration of whoever runs this has no say.
        options: Further options of the command.

    Yields:
        The URL of its Streamable HTTP endpoint.

    Raises:
        CannotRunError: The command is missing, ended, or did not answer in time.
    """
    port = free_port()
    command = [bridge_command(), "serve", reference, "--port", str(port), *options]
    with running(command, port, log, log.parent):
        yield f"http://{HOST}:{port}{PUBLISHED_PATH}"


@contextmanager
def running(
    command: Sequence[str], port: int, log: Path, folder: Path, *, env: Mapping[str, str] | None = None
) -> Generator[None, None, None]:
    """Run an HTTP server while the block runs; it begins when the server answers.

    Args:
        command: What is run.
        port: Where it then listens.
        log: Where everything goes that it prints.
        folder: Its working folder; its home is the log's.
        env: Further variables.

    Raises:
        CannotRunError: It ended, or did not answer in time.
    """
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(env or {}), "HOME": str(log.parent)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _await_server(server, port, log)
            yield
            if server.poll() is not None:
                raise CannotRunError(f"the server ended during the run:\n{_tail_of(log)}")
        finally:
            _stop(server)


def _await_server(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(HOST, port):
        try:
            status = server.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise CannotRunError(
                    f"the server did not answer within {START_SECONDS:.0f} s:\n{_tail_of(log)}"
                ) from None
        else:
            raise CannotRunError(f"the server ended with status {status}:\n{_tail_of(log)}")


def _answers(host: str, port: int) -> bool:
    """Whether an HTTP server answers; one that only listens may still fail to start."""
    connection = HTTPConnection(host, port, timeout=1.0)
    try:
        connection.request("HEAD", "/")
        connection.getresponse()
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
    return True


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        click.echo(f"the server did not stop within {STOP_SECONDS:.0f} s of SIGTERM and was killed", err=True)
        server.kill()
        server.wait()


def run_suite(node: str, run: Run, url: str, folder: Path, scenarios: Sequence[str]) -> Outcome:
    """Run one release of the suite against a server.

    Args:
        node: The node binary.
        run: Which release and revision.
        url: The server's endpoint.
        folder: Where the suite writes its results; its own output goes to `suite.log` in it.
        scenarios: Run only these; all if empty.

    Raises:
        CannotRunError: The suite hung or reported nothing.
    """
    folder.mkdir(parents=True)
    version = ["--spec-version", run.version] if run.version else []
    choices = [["--scenario", scenario] for scenario in scenarios] or [["--suite", "all"]]
    log = folder / "suite.log"
    with log.open("wb") as output:
        for choice in choices:
            command = [node, script_of(run), "server", "--url", url, "--output-dir", str(folder), *version, *choice]
            try:
                subprocess.run(command, stdout=output, stderr=output, timeout=SUITE_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                raise CannotRunError(f"{run.name} took over {SUITE_SECONDS:.0f} s:\n{_tail_of(log)}") from None
    checks = read_checks(folder)
    if not checks:
        raise CannotRunError(f"{run.name} reported nothing:\n{_tail_of(log)}")
    return Outcome(run, checks)


def scenarios_of(node: str, run: Run) -> set[str]:
    """The names of the scenarios of one run."""
    version = ["--spec-version", run.version] if run.version else []
    command = [node, script_of(run), "list", "--server", *version]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"^  - (\S+)", listed, re.MULTILINE))


def script_of(run: Run) -> str:
    """The program of a release of the suite."""
    return str(HERE / "node_modules" / run.package / "dist" / "index.js")


def _tail(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines()[-LOG_TAIL:])


def _tail_of(log: Path) -> str:
    return _tail(log.read_text("utf-8", errors="replace"))


def _report(outcome: Outcome) -> None:
    failing = outcome.having("FAILURE")
    click.echo(f"{outcome.run.name:<11} passed {outcome.passed:>3} / total {outcome.passed + len(failing):>3}")
    for check in failing:
        click.echo(f"  FAILED  {check.scenario}: {check.id}: {check.message}")
    for check in outcome.having("WARNING"):
        click.echo(f"  warning {check.scenario}: {check.id}: {check.message}")
    for scenario in outcome.silent:
        click.echo(f"  silent  {scenario}: no check of it gave a verdict")


_NAMES = [run.name for run in (*RUNS, SKILLS)]


def _conclude(outcomes: Sequence[Outcome], *, complete: bool) -> bool:
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(len(outcome.having("FAILURE")) for outcome in outcomes)
    missed = shortfalls(outcomes) if complete else []
    wanted = f" of {sum(outcome.run.expected for outcome in outcomes)}" if complete else ""
    for line in missed:
        click.echo(f"MISSED {line}")
    click.echo(f"{passed}{wanted} checks passed, {failed} failed")
    return passed > 0 and failed == 0 and not missed


def run_all(url: str, runs: Sequence[Run], scenarios: Sequence[str], folder: Path) -> list[Outcome]:
    """Run several runs of the suite against a server, one after the other.

    Args:
        url: The server's endpoint.
        runs: Which.
        scenarios: Only these; all if empty.
        folder: Where the raw results go.

    Raises:
        CannotRunError: The suite gave no verdict.
    """
    node = node_binary(HERE)
    outcomes: list[Outcome] = []
    for run in runs:
        known = scenarios_of(node, run).intersection(run.scenarios or scenarios)
        wanted = sorted(known.intersection(scenarios) if scenarios else known)
        if (scenarios or run.scenarios) and not wanted:
            continue
        outcomes.append(run_suite(node, run, url, folder / run.name, wanted))
    if not outcomes:
        raise CannotRunError(f"no chosen run has a scenario {' or '.join(scenarios)}")
    return outcomes


def _check_reachable(url: str) -> None:
    address = urlsplit(url)
    if not _answers(address.hostname or HOST, address.port or 80):
        raise CannotRunError(f"nothing answers at {url}")


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.option("--url", help="Test a server that is already running, instead of starting ours.")
@click.option("--only", multiple=True, type=click.Choice(_NAMES), help="Only this run; repeatable.")
@click.option("--scenario", "scenarios", multiple=True, help="Only this scenario, for debugging; repeatable.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the raw results in this new folder.")
def main(url: str | None, only: tuple[str, ...], scenarios: tuple[str, ...], out: Path | None) -> None:
    """Run the suite, print what failed and exit with the verdict."""
    runs = [run for run in (*RUNS, SKILLS) if not only or run.name in only]
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        folder = (out or Path(temporary) / "results").absolute()
        try:
            folder.mkdir(parents=True)
            if url is not None:
                _check_reachable(url)
            install_packages(HERE)
            with serving(str(FIXTURE), folder / "server.log") if url is None else nullcontext(url) as served:
                outcomes = run_all(served, runs, scenarios, folder)
        except (CannotRunError, OSError, subprocess.SubprocessError) as error:
            click.echo(f"cannot run: {error}", err=True)
            sys.exit(2)
    for outcome in outcomes:
        _report(outcome)
    sys.exit(0 if _conclude(outcomes, complete=not scenarios) else 1)


if __name__ == "__main__":
    main()
