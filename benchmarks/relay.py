"""What a `tools/call` costs, in both eras, beside a raw relay and other bridges.

    python -m benchmarks.relay [--calls 150] [--rounds 9] [--only WORD] [--peers FOLDER [--install-peers]] [--json]

CPU time is what counts, since wall time on a shared machine is noise: user and system, of the whole process tree under
test, without the client (this process) and without the server behind it (`echo_server.py`). All subjects run at once,
sessions are set up and two hundred calls made before anything is measured, and then each is called in turn, round by
round: what is busy beside them hits all alike. Each figure is the median of the rounds; `x relay` is the median of the
ratios to the raw relay in the same round.

Other bridges are looked for in `--peers`, each in a folder of its own; one that is not there is told in a line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.load import LEGACY, Client, HttpClient, PipeClient, Usage, free_port
from benchmarks.peers import PEERS, install
from benchmarks.subjects import BRIDGE, ECHO_SERVER, RAW, Subject

AIMS = {
    "HTTP -> stdio": 0.25,
    "stdio -> stdio": 0.15,
    "stdio -> agent": 0.12,
    "HTTP -> agent": 0.22,
    "HTTP -> HTTP": 0.40,
}
"""CPU milliseconds for one call through the bridge."""
WARM_UP = 200
SETTLING = 5
"""Calls at the beginning of each round that are not measured."""

Row = dict[str, float]


@contextmanager
def running(command: list[str], folder: Path, *, piped: bool = False) -> Generator[subprocess.Popen[bytes]]:
    """A process, with a home of its own. What it says is in a file there, unless its output is to be read."""
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin:/usr/local/bin"}
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if piped else output,
            stderr=output,
            env=environment,
            cwd=folder,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=15)
            except (subprocess.TimeoutExpired, ValueError):
                process.kill()
                process.wait()


class Contender:
    """One subject that runs, with its client.

    Args:
        subject: What it is.
        stack: Ends it.
        core: The core that it and a server behind it over HTTP have to stay on; any if `None`.
    """

    def __init__(self, subject: Subject, stack: ExitStack, core: int | None = None) -> None:
        self.subject = subject
        self.rounds: list[Row] = []
        name = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        folder, far, self.port = Path(name), free_port(), free_port()
        command = subject.far_command(far)
        if subject.far_http:
            stack.enter_context(running(command, folder))
            HttpClient(LEGACY, "", far, "/").close()  # it listens
            command = [f"http://127.0.0.1:{far}/mcp"]
        pinned = [] if core is None else ["taskset", "--cpu-list", str(core)]
        launched = time.perf_counter()
        start = [*pinned, *subject.command(folder, self.port, command)]
        process = stack.enter_context(running(start, folder, piped=not subject.near_http))
        self.client = stack.enter_context(self._client(process))
        self.client.greet()
        self.first_answer = self.client.first_answer - launched
        for _ in range(WARM_UP):
            self.client.call()
        self.usage = Usage(process, ECHO_SERVER.name)

    @contextmanager
    def _client(self, process: subprocess.Popen[bytes]) -> Generator[Client]:
        subject = self.subject
        client: Client
        if subject.near_http:
            client = HttpClient(subject.era, subject.tool, self.port, subject.path)
        else:
            client = PipeClient(subject.era, subject.tool, process)
        yield client
        client.close()

    def play(self, calls: int) -> None:
        """Make some calls, and note milliseconds for one."""
        if isinstance(self.client, HttpClient):
            self.client.reconnect()  # some hang up while the others have their turn
        for _ in range(SETTLING):
            self.client.call()
        before = self.usage.cpu()
        times = [self.client.call() for _ in range(calls)]
        self.rounds.append(
            {
                "cpu_ms": (self.usage.cpu() - before) / calls * 1_000,
                "p50_ms": statistics.median(times) * 1_000,
                "p99_ms": statistics.quantiles(times, n=100)[98] * 1_000,
            }
        )

    def row(self, relay: Contender | None) -> Row:
        """What came of all rounds."""
        row = {key: statistics.median(played[key] for played in self.rounds) for key in self.rounds[0]}
        row |= {"rss_mib": self.usage.memory(), "first_answer_s": self.first_answer}
        if relay is not None:
            pairs = zip(self.rounds, relay.rounds, strict=True)
            row["x_relay"] = statistics.median(own["cpu_ms"] / raw["cpu_ms"] for own, raw in pairs)
        return row


def found(peers: Path | None, installing: bool) -> tuple[list[Subject], list[str]]:
    """The other bridges that are there, and a line about each that is not."""
    if peers is None:
        return [], ["other bridges: --peers FOLDER says where they are installed"]
    subjects: list[Subject] = []
    absent: list[str] = []
    for peer in PEERS:
        folder = peers.resolve() / peer.name
        if installing and not (folder / peer.program).exists():
            install(peer, folder)
        if (folder / peer.program).exists():
            subjects += peer.subjects(folder)
        else:
            absent.append(f"{peer.name} is not installed in {folder}")
    return subjects, absent


def measured(subjects: Sequence[Subject], calls: int, rounds: int, absent: list[str]) -> list[tuple[Subject, Row]]:
    """Run all of them, and call each in turn. One that fails is told in a line of `absent`."""
    with ExitStack() as stack:
        contenders: list[Contender] = []
        for subject in subjects:
            try:
                contenders.append(Contender(subject, stack))
            except (OSError, RuntimeError) as error:
                absent.append(f"{subject.line}: failed: {error!r:.300}")
        for _ in range(rounds):
            for contender in contenders:
                contender.play(calls)
        relay = next((contender for contender in contenders if contender.subject in RAW), None)
        return [(contender.subject, contender.row(relay)) for contender in contenders]


def shown(subject: Subject, row: Row) -> str:
    """One line of the table, as the documentation has it."""
    aim = f" (aim: {AIMS[subject.way]:g})" if subject in BRIDGE else ""
    cells = [
        *(subject.name, subject.way, subject.era),
        f"{row['cpu_ms']:.2f} ms{aim}",
        f"{row['x_relay']:.1f}" if "x_relay" in row else "",
        *(f"{row[key]:.2f} ms" for key in ("p50_ms", "p99_ms")),
        f"{row['rss_mib']:.1f} MiB",
        f"{row['first_answer_s']:.2f} s",
    ]
    return f"| {' | '.join(cells)} |"


_HEAD = """\
| | way | revision | CPU per call | x relay | p50 | p99 | memory | first answer |
|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description="Measure what a call costs.")
    parser.add_argument("--calls", type=int, default=150, help="of one subject in one round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", metavar="WORD", default="", help="only those with this in their line, and the relay")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="where other bridges are installed")
    parser.add_argument("--install-peers", action="store_true", help="install those that are not there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peers, absent = found(options.peers, options.install_peers)
    subjects = [subject for subject in (*BRIDGE, *peers) if options.only in subject.line]
    results = measured([*RAW, *subjects], options.calls, options.rounds, absent)
    if options.json:
        rows = [{"name": subject.name, "way": subject.way, "era": subject.era, **row} for subject, row in results]
        sys.stdout.write(json.dumps({"results": rows, "absent": absent}, indent=2) + "\n")
        return
    sys.stdout.write("\n".join([_HEAD, *(shown(*result) for result in results), *absent]) + "\n")


if __name__ == "__main__":
    main()
