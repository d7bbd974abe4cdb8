"""The entry point of the process: handles Ctrl-C before any slow import."""

from __future__ import annotations

import atexit
import os
import sys

from gaia_bridge.runtime.descriptors import reserve_descriptors
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.interrupts import ended_by_interrupt, interrupts_end_the_process

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Sequence

_EXIT_GRACE = 1.0
"""Seconds for threads and exit handlers of agents, once nobody waits for them any more."""


def main(args: Sequence[str] | None = None, prog_name: str = "gaia-bridge") -> int:
    """Run the command line.

    Args:
        args: The arguments; those of the process if not given.
        prog_name: The program's name in its messages.

    Returns:
        The exit code (see `gaia_bridge_cli`).
    """
    reserve_descriptors()
    _reserve_streams()
    if os.environ.get("HOME") == "":
        del os.environ["HOME"]  # else all programs, children too, would take the root folder for it
    if args is None and (code := _front()) is not None:
        return code
    from gaia_bridge_cli.deadline import ExitDeadline

    deadline = ExitDeadline(_EXIT_GRACE if args is None else None)
    if args is None:
        atexit.register(deadline.leave)  # the first to be registered is the last to be called
    with ended_by_interrupt(), imported_for_good():
        from gaia_bridge_cli.program import run
    try:
        deadline.code = run(args, prog_name, deadline if args is None else None)
    except BaseException:
        deadline.code = 1  # the code that Python itself would use
        raise
    if args is None:
        interrupts_end_the_process()  # while the interpreter puts itself away
    return deadline.code


def _front() -> int | None:
    """Run a front and return its exit code, without the imports of other commands; `None` for any other command."""
    if sys.argv[1:2] != ["connect"]:
        return None
    from gaia_bridge_daemon.front import program

    options = program.options_of(sys.argv[2:])
    if options is None:
        return None
    interrupts_end_the_process()
    return program.run(options)


def _reserve_streams() -> None:
    """Create the standard streams that Python left out, as their descriptors were closed: all code expects them."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))
