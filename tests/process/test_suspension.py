"""A bridge that stood still, as when its machine was put to sleep, sees what became of its servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil
import pytest

PROGRAM = Path(__file__).with_name("suspended_bridge.py")
ASLEEP = 0.6
"""Seconds: more than two looks of the program. Standing still takes real time."""


class Bridge:
    """The program, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[str], stdout: IO[str]) -> None:
        self.process = process
        self.said: list[str] = []
        self._stdout = stdout

    def until(self, holds: Callable[[], bool]) -> None:
        """Listen until something holds."""
        while not holds():
            line = self._stdout.readline()
            assert line, self.said
            self.said.append(line.strip())

    def pids(self, name: str) -> list[int]:
        """The processes that a server has been, one after the other."""
        return [int(line.split()[2]) for line in self.said if line.startswith(f"{name} ready")]

    def pings(self, name: str) -> int:
        return self.said.count(f"{name} pinged")


@contextmanager
def bridge(*names: str) -> Generator[Bridge]:
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Bridge(process, process.stdout)
        finally:
            process.send_signal(signal.SIGCONT)
            process.communicate(timeout=30)


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Generator[None]:
    """Stop a process, as Ctrl-Z and a machine that falls asleep do; in the end, let it go on."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    try:
        yield
        threading.Event().wait(ASLEEP)
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.mark.requirement("F-123")
def test_after_a_suspension_servers_are_asked_and_one_that_is_not_there_any_more_is_replaced() -> None:
    with bridge("well", "fine", "frozen", "dead") as running:
        running.until(lambda: all(running.pids(name) for name in ("well", "fine", "frozen", "dead")))
        [frozen], [dead] = running.pids("frozen"), running.pids("dead")
        with stopped(running.process):
            psutil.Process(frozen).suspend()
            psutil.Process(dead).kill()
        running.until(lambda: len(running.pids("frozen")) == 2 and all(map(running.pings, ("well", "fine"))))
        assert [len(running.pids(name)) for name in ("well", "fine")] == [1, 1]
        # Nobody used it, so that it is started when somebody does.
        assert len(running.pids("dead")) == 1
        assert not psutil.pid_exists(frozen)
    assert running.process.returncode == 0
