"""What a call costs when servers take their time, and when many calls are in flight: CPU per call, beside a raw relay.

    python -m benchmarks.in_flight [--calls 2000] [--only WORD] [--apart]

Most tools take longer than the bridge does, and most clients call several at once. Each row has a client with so many
connections, on each of which it calls again as soon as it has the answer; the server answers each call after a
delay. CPU time is of the whole process tree under test, without the server behind it. `x relay` is the ratio to the raw
relay with the same delay and clients, measured just before.
"""

from __future__ import annotations

import argparse
import select
import statistics
import sys
from contextlib import ExitStack
from typing import Final

from benchmarks.load import HttpClient
from benchmarks.relay import Contender
from benchmarks.subjects import BRIDGE, RAW, Subject

CASES: Final = ((0, 1), (0, 16), (0, 64), (0, 256), (0, 1_000), (20, 50), (100, 50), (300, 50))
"""Milliseconds that the server takes, and clients at once."""
WAYS: Final = ("HTTP -> stdio", "HTTP -> HTTP")
_PATIENCE: Final = 15.0
"""Seconds without any answer after which something is wrong."""


class Crowd:
    """Several connections of one client, with one session."""

    def __init__(
        self, subject: Subject, port: int, delay: int, count: int, stack: ExitStack, *, apart: bool = False
    ) -> None:
        self._clients: dict[int, HttpClient] = {}
        self._poll = select.epoll()
        stack.callback(self._poll.close)
        first: HttpClient | None = None
        for _ in range(count):
            client = HttpClient(subject.era, subject.tool, port, subject.path, apart=apart, delay=delay)
            stack.callback(client.close)
            if first is None:
                first = client
                client.greet()
            else:
                client.join(first)
            self._clients[client.fileno()] = client
            self._poll.register(client.fileno(), select.EPOLLIN)

    def call(self, calls: int) -> list[float]:
        """Make so many calls; return the seconds of each."""
        times: list[float] = []
        begun = 0
        for client in self._clients.values():
            client.begin_call()
            begun += 1
        while len(times) < begun:
            answered = self._poll.poll(_PATIENCE)
            if not answered:
                raise TimeoutError("no answer came")
            for descriptor, _ in answered:
                times.append(self._clients[descriptor].end_call())
                if begun < calls:
                    self._clients[descriptor].begin_call()
                    begun += 1
        return times


def measure(contender: Contender, delay: int, count: int, calls: int, *, apart: bool) -> tuple[float, list[float]]:
    """Return the milliseconds of CPU per call of one contender, and the seconds of each call."""
    with ExitStack() as stack:
        crowd = Crowd(contender.subject, contender.port, delay, count, stack, apart=apart)
        crowd.call(2 * count)
        before = contender.usage.cpu()
        times = crowd.call(max(calls, 2 * count))
        return (contender.usage.cpu() - before) / len(times) * 1_000, times


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description="Measure slow calls, and many at once.")
    parser.add_argument("--calls", type=int, default=2_000, help="of one row")
    parser.add_argument("--only", metavar="WORD", default="", help="only those with this in their line")
    parser.add_argument("--apart", action="store_true", help="send head and body in a packet each, as most clients do")
    options = parser.parse_args()
    subjects = [subject for subject in BRIDGE if subject.way in WAYS and options.only in subject.line]
    sys.stdout.write("| server takes | clients | way | revision | CPU per call | x relay | p50 | p99 |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|---|\n")
    with ExitStack() as stack:
        relay, *others = [Contender(subject, stack) for subject in (*RAW, *subjects)]
        for delay, count in CASES:
            calls = options.calls if not delay else min(options.calls, 20 * count)
            raw, _ = measure(relay, delay, count, calls, apart=options.apart)
            for contender in others:
                cost, times = measure(contender, delay, count, calls, apart=options.apart)
                p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
                subject = contender.subject
                sys.stdout.write(
                    f"| {delay} ms | {count:,} | {subject.way} | {subject.era} | {cost:.2f} ms | {cost / raw:.1f} | "
                    f"{p50 * 1_000:.1f} ms | {p99 * 1_000:.1f} ms |\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
