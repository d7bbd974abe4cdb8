"""Keeps the garbage collector away from imported modules, which stay until the program ends.

Most objects that a start makes are functions, classes and their code: fifty thousand objects that refer to each
other, none of them garbage. Without this, the collector goes through them while they are made, again whenever the
process has made many others, and once more before it ends.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Generator

YOUNG_OBJECTS = 3_000
"""New objects of a server after which the garbage collector looks at them: those of a dozen calls, most of them gone by
then. With 700, a call costs 2 % more."""

_USUAL = 700
"""The initial threshold of Python 3.11."""


@contextmanager
def imported_for_good() -> Generator[None]:
    """Disable the collector while our own modules are imported, and exempt all existing objects from it afterwards.

    Not for the modules of agents: objects that they leave open are finalized at the end as in any other program.
    """
    if not gc.isenabled():  # switched off by other code, or by an outer block of this function
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def collect_in_larger_pieces() -> None:
    """Raise the number of new objects after which the collector runs, unless it was changed before."""
    if gc.get_threshold()[0] == _USUAL:
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
