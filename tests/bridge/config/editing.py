"""Processes that edit one configuration file: many at once, one that is killed at every step, one without rights.

Run as a program, it has no threads and can fork: `python editing.py TASK FILE` prints the outcome as JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from gaia_bridge.config import LayerKind, ServersConfig
from gaia_bridge.errors import ConfigError

__all__ = ["STEPS", "add_many", "at_step", "edited_at_once", "killed_at_every_step", "leftovers"]

STEPS = ("open", "write", "fsync", "replace", "fchmod", "fchown", "close", "unlink", "mkdir", "scandir", "fstat")
"""The functions of `os` that a save consists of."""


def add_many(file: Path, barrier: Barrier, writer: int, count: int) -> None:
    """Add servers to a file, as fast as possible, at the same time as others do."""
    config = ServersConfig(file)
    barrier.wait()
    for number in range(count):
        config.add(f"s{writer}-{number}", {"command": "true"})


def edited_at_once(file: Path, writers: int, count: int) -> list[int | None]:
    """Let several processes add servers to a file; returns their exit codes."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(writers)
    processes = [context.Process(target=add_many, args=(file, barrier, writer, count)) for writer in range(writers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


@contextmanager
def at_step(number: int, act: Callable[[], None], steps: tuple[str, ...] = STEPS) -> Generator[list[str]]:
    """Do something just before a certain call of `steps`, counted from 0.

    Yields:
        The names of the calls that were made, growing.
    """
    made: list[str] = []

    def counted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            made.append(name)
            if len(made) == number + 1:
                act()
            return original(*args, **kwargs)

        return call

    originals = {name: getattr(os, name) for name in steps}
    try:
        for name, original in originals.items():
            setattr(os, name, counted(name, original))
        yield made
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


def leftovers(file: Path) -> list[str]:
    """What lies beside a file that is neither it nor its lock."""
    return sorted(path.name for path in file.parent.iterdir() if path.name not in (file.name, f".{file.name}.lock"))


def killed_at_every_step(file: Path) -> Iterator[tuple[bool, str, list[str]]]:
    """Kill a process that saves, once before each of its steps; the last one is left alive.

    Must run in a process without threads.

    Yields:
        For each process, whether it was killed, what the file holds, and what lies beside it.
    """
    old, step, killed = file.read_text(encoding="utf-8"), 0, True
    while killed:
        file.write_text(old, encoding="utf-8")
        if not (child := os.fork()):
            with at_step(step, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                ServersConfig(file).add("new", {"command": "true"})
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        yield killed, file.read_text(encoding="utf-8"), leftovers(file)
        step += 1


def refused(file: Path) -> list[str]:
    """Add a server where that cannot work; returns why the file could not be read, and why not saved."""
    config = ServersConfig(file)
    try:
        config.add("new", {"command": "true"}, to=LayerKind.EXPLICIT)
    except ConfigError as error:
        return [str(config.layers[0].error or ""), str(error)]
    return []


def refused_by_a_full_disk(file: Path) -> list[str]:
    """Add a server where no file may grow beyond 40 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
    return refused(file)


def main(task: str, name: str) -> None:
    """Do one task and print the outcome."""
    tasks: dict[str, Callable[[Path], object]] = {
        "full disk": refused_by_a_full_disk,
        "kill": lambda file: list(killed_at_every_step(file)),
        "no rights": refused,
        "race": lambda file: edited_at_once(file, writers=4, count=25),
    }
    print(json.dumps(tasks[task](Path(name))))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
