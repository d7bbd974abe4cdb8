"""What the program imports stays until it ends: the garbage collector is spared looking at it again and again.

Most of what a start makes is functions, classes and their code: fifty thousand objects that refer to each other, none
of them garbage. Left to itself, the collector goes through them while they are made, again whenever the process has
made many others, and once more before it ends.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Generator

_USUAL = 700
"""What Python 3.11 begins with."""


@contextmanager
def imported_for_good() -> Generator[None]:
    """While our own modules are imported, nothing is collected; what is there afterwards never is.

    Not for the modules of agents: what they leave open is finalized at the end as in any other program.
    """
    if not gc.isenabled():  # somebody else decided that, or is about to do the same
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def collect_in_larger_pieces(objects: int) -> None:
    """Let more new objects come together before the collector looks at them, unless somebody has said how many.

    Args:
        objects: How many.
    """
    if gc.get_threshold()[0] == _USUAL:
        gc.set_threshold(objects, *gc.get_threshold()[1:])
