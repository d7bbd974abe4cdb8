"""What a proxied `tools/call` costs, in both eras, beside a raw relay and other bridges.

    python -m benchmarks.relay [--calls 2000] [--repeat 3] [--only WORD] [--peers FOLDER [--install-peers]] [--json]

CPU time is what counts, since wall time on a shared machine is noise: user and system, of the whole process tree under
test, without the client (this process) and without the server behind it (`echo_server.py`). Sessions are set up, and
two hundred calls made, before anything is measured. Each figure is the best of `--repeat` runs.

Other bridges are looked for in `--peers`, each in a folder of its own; one that is not there is told in a line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.load import LEGACY, Client, HttpClient, PipeClient, Usage, free_port
from benchmarks.peers import PEERS, install
from benchmarks.subjects import BRIDGE, ECHO_SERVER, RAW, Subject

AIMS = {"HTTP -> stdio": 0.8}
"""CPU milliseconds for one call through the bridge."""
WARM_UP = 200

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


def measure(subject: Subject, calls: int) -> Row:
    """Start one subject, call it, and return milliseconds for one call and MiB."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, far = Path(name), free_port()
        command = subject.far_command(far)
        if not subject.far_http:
            return _measured(subject, calls, folder, command)
        with running(command, folder):
            HttpClient(LEGACY, "", far, "/").close()  # it listens
            return _measured(subject, calls, folder, [f"http://127.0.0.1:{far}/mcp"])


def _measured(subject: Subject, calls: int, folder: Path, far: list[str]) -> Row:
    port = free_port()
    with running(subject.command(folder, port, far), folder, piped=not subject.near_http) as process:
        client: Client
        if subject.near_http:
            client = HttpClient(subject.era, subject.tool, port, subject.path)
        else:
            client = PipeClient(subject.era, subject.tool, process)
        try:
            client.greet()
            for _ in range(WARM_UP):
                client.call()
            usage = Usage(process, ECHO_SERVER.name)
            before = usage.cpu()
            times = [client.call() for _ in range(calls)]
            cpu = usage.cpu() - before
        finally:
            client.close()
        return {
            "cpu_ms": cpu / calls * 1_000,
            "p50_ms": statistics.median(times) * 1_000,
            "p99_ms": statistics.quantiles(times, n=100)[98] * 1_000,
            "rss_mib": usage.memory(),
        }


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


def shown(subject: Subject, row: Row) -> str:
    """One line of the table."""
    aim = AIMS.get(subject.way) if subject in BRIDGE else None
    return (
        f"{subject.line:50}{row['cpu_ms']:9.2f} ms{row['p50_ms']:9.2f} ms{row['p99_ms']:9.2f} ms"
        f"{row['rss_mib']:10.1f} MiB" + ("" if aim is None else f"  (aim: {aim:g} ms)")
    )


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description="Measure what a proxied call costs.")
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", metavar="WORD", default="", help="only those with this in their line")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="where other bridges are installed")
    parser.add_argument("--install-peers", action="store_true", help="install those that are not there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peers, absent = found(options.peers, options.install_peers)
    results: list[tuple[Subject, Row]] = []
    for subject in (*BRIDGE, *RAW, *peers):
        if options.only not in subject.line:
            continue
        try:
            runs = [measure(subject, options.calls) for _ in range(options.repeat)]
        except (OSError, RuntimeError) as error:
            absent.append(f"{subject.line}: failed: {error!r:.300}")
        else:
            results.append((subject, {key: min(run[key] for run in runs) for key in runs[0]}))
    if options.json:
        rows = [{"name": subject.name, "way": subject.way, "era": subject.era, **row} for subject, row in results]
        sys.stdout.write(json.dumps({"results": rows, "absent": absent}, indent=2) + "\n")
        return
    head = f"{'':50}{'CPU/call':>12}{'p50':>12}{'p99':>12}{'RSS':>14}"
    sys.stdout.write("\n".join([head, *(shown(*result) for result in results), *absent]) + "\n")


if __name__ == "__main__":
    main()
