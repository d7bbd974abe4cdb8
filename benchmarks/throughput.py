"""How many calls one core answers: sixteen clients at once, each on a connection that is kept.

    python -m benchmarks.throughput [--seconds 5] [--clients 16] [--only WORD]

The subject stays on the first core (`taskset`), and the clients, all in this process, on the second, with the server
behind a relay. Each client calls again as soon as it has its answer.
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import sys
import time
from contextlib import ExitStack
from typing import Final

from benchmarks.load import HttpClient
from benchmarks.relay import Contender
from benchmarks.subjects import BRIDGE, ECHO_SERVER, RAW, Subject

CORES: Final = sorted(os.sched_getaffinity(0))
MOST_MS: Final = 15.0
"""Milliseconds: aim of the 99th percentile."""
LEAST: Final = 3_500
"""Calls in a second: aim."""


def measure(subject: Subject, count: int, seconds: float) -> list[float]:
    """Have several clients call one subject; returns the seconds of each call."""
    with ExitStack() as stack:
        contender = Contender(subject, stack, CORES[0])
        _move(ECHO_SERVER.name, CORES[-1])
        clients: dict[int, HttpClient] = {}
        for _ in range(count):
            client = HttpClient(subject.era, subject.tool, contender.port, subject.path)
            stack.callback(client.close)
            client.greet()
            clients[client.fileno()] = client
        return _called(clients, seconds)


def _called(clients: dict[int, HttpClient], seconds: float) -> list[float]:
    times: list[float] = []
    poll = select.epoll()
    for descriptor, client in clients.items():
        poll.register(descriptor, select.EPOLLIN)
        client.begin_call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for descriptor, _ in poll.poll(1.0):
            times.append(clients[descriptor].end_call())
            clients[descriptor].begin_call()
    return times


def _move(program: str, core: int) -> None:
    """Have the server behind a relay stay on another core than the relay, which is all that is measured."""
    import psutil

    for process in psutil.Process().children(recursive=True):
        if program in " ".join(process.cmdline()):
            os.sched_setaffinity(process.pid, {core})


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description="Measure how many calls one core answers.")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--only", metavar="WORD", default="", help="only those with this in their line")
    options = parser.parse_args()
    os.sched_setaffinity(0, {CORES[-1]})
    sys.stdout.write(f"| | way | revision | calls/s (aim: {LEAST:,}) | p50 | p99 (aim: {MOST_MS:g} ms) |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for subject in (*RAW, *BRIDGE):
        if not subject.near_http or options.only not in subject.line:
            continue
        times = measure(subject, options.clients, options.seconds)
        rate, p99 = len(times) / options.seconds, statistics.quantiles(times, n=100)[98] * 1_000
        sys.stdout.write(
            f"| {subject.name} | {subject.way} | {subject.era} | {rate:,.0f} | "
            f"{statistics.median(times) * 1_000:.1f} ms | {p99:.1f} ms |\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
