"""A bridge in the background is nobody's child: editors end a server with all its children, and it serves others."""

from __future__ import annotations

import os


def leave_parent() -> int:
    """Go on as a process whose parent ends as soon as the bridge can be connected to, or has ended.

    To be called before there are threads.

    Returns:
        A descriptor to close when it can be connected to. Until then, who has started it sees its own child run.
    """
    until, held = os.pipe()
    if os.fork():
        os.close(held)
        os.read(until, 1)
        os._exit(0)
    os.close(until)
    return held
