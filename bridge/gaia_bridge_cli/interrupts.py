"""Handling of Ctrl-C where no cleanup is needed: the process ends at once, as programs without a handler do.

Imported first of all, and imports hardly any module itself: until then, Ctrl-C would print a traceback.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def ended_by_interrupt() -> Generator[None]:
    """End the process at once on Ctrl-C while we or agents are loaded; a shell sees exit code 130.

    A `KeyboardInterrupt` would be taken for one that the agent raised. Another program's handler is left alone.
    """
    if interrupts_end_the_process():
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        yield


def interrupts_end_the_process() -> bool:
    """Make Ctrl-C end the process at once from now on.

    Returns:
        Whether that was done; not if there is another handler, or in a thread other than the main one.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # the main thread alone may
        return False
    return True
