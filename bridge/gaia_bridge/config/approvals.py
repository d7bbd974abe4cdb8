"""Whether this process starts what a project's file lists only if the user has approved it, whoever reads that file.

The bridge asks the approvals of its own accord. An agent that reads the configuration itself does not know who runs it:
in the user's own program it loads what is there; `gaia-bridge` also runs it in folders whose files a stranger wrote.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class _Rule:
    """Holds for all threads: an agent may read its configuration in any of them."""

    def __init__(self) -> None:
        self.times = 0


_RULE = _Rule()


@contextmanager
def approvals_needed() -> Generator[None]:
    """While this is open, nothing is started that a project's file lists and the user did not approve."""
    _RULE.times += 1
    try:
        yield
    finally:
        _RULE.times -= 1


def approvals_are_needed() -> bool:
    """Whether `approvals_needed` is open."""
    return _RULE.times > 0
