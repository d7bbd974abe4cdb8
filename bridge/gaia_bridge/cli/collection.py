"""What the program imports stays until it ends: the garbage collector is spared looking at it again and again.

Most of what a start costs is the classes of the SDK: ninety thousand objects that refer to each other, none of them
garbage. Left to itself, the collector goes through them while they are made, again whenever the process has made many
others, and once more before it ends: a quarter of the second from start to end. The price is 0.5 MiB that stays.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["imported_for_good"]


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
