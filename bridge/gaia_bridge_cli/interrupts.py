"""Ctrl-C where there is nothing to put away: it ends the process at once, as it ends programs that know nothing of it.

Imported first of all, and imports nearly nothing itself: until then, Ctrl-C would show where Python just was.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def ended_by_interrupt() -> Generator[None]:
    """While we or agents are loaded, Ctrl-C ends the process at once; a shell sees exit code 130.

    A `KeyboardInterrupt` would be taken for one that the agent raised. Somebody else's handler is left alone.
    """
    if interrupts_end_the_process():
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        yield


def interrupts_end_the_process() -> bool:
    """From now on Ctrl-C ends the process at once.

    Returns:
        Whether it is so; not if somebody else handles it, or in a thread other than the main one.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # the main thread alone may
        return False
    return True
