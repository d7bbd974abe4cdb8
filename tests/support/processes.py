"""Processes and threads that tests look for."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

import psutil

from tests.support.waiting import PATIENCE

__all__ = ["background_threads", "command_of", "threads_named"]


def command_of(process: psutil.Process) -> str:
    """The command that a process runs, as one line; nothing once it has ended, whether or not its end was noticed.

    Whoever started it may go on before the system knows the new command: then it is waited for.
    """
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    try:
        while process.status() != psutil.STATUS_ZOMBIE:
            if words := process.cmdline():
                return " ".join(words)
            assert time.monotonic() < deadline, f"process {process.pid} never got a command"
            pause.wait(0.001)
    except psutil.NoSuchProcess:  # or it became a zombie in between
        pass
    return ""


def threads_named(start: str, besides: Collection[threading.Thread] = ()) -> list[threading.Thread]:
    """Threads whose names begin like this, besides those that earlier tests may have left to end by themselves."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(start) and thread not in besides]


def background_threads() -> list[threading.Thread]:
    """The threads of the background loop; there is one, or none."""
    return [thread for thread in threading.enumerate() if thread.name == "gaia-bridge background loop"]
