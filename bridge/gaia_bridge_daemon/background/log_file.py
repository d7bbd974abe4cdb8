"""The log of a bridge in the background, which is its standard error, whoever writes there: kept at a bounded size."""

from __future__ import annotations

import logging
import os
from typing import Final

import anyio

from gaia_bridge.settings import BackgroundLimits

logger = logging.getLogger(__name__)

_STDERR: Final = 2


async def keep_bounded(path: str, limits: BackgroundLimits) -> None:
    """Begin a new file whenever the log is too long, until cancelled.

    Args:
        path: Where it is.
        limits: How long it may be, and how often to look.
    """
    while True:
        await anyio.sleep(limits.log_look)
        begin_anew(path, limits.log_bytes)


def begin_anew(path: str, longest: int, descriptor: int = _STDERR) -> bool:
    """Put a log aside that is too long, beside it, and go on in a new file; whether that was done.

    Args:
        path: Where it is.
        longest: Bytes that it may have.
        descriptor: Where it is written.
    """
    try:
        about = os.fstat(descriptor)
        if about.st_size <= longest or not os.path.samestat(about, os.stat(path)):  # or it is written elsewhere
            return False
        os.replace(path, f"{path}.1")
        fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        logger.debug("the log cannot be put aside: %r", error)
        return False
    try:
        os.dup2(fresh, descriptor)  # inherited by agents' children, as it was before
    finally:
        os.close(fresh)
    return True
