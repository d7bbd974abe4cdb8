"""The rule that this process starts a project's server only after the user approved it, whoever reads the file.

The bridge checks the approvals by itself. An agent that reads the configuration does not know who runs it:
in the user's own program it loads every server; `gaia-bridge` also runs it in folders whose files a stranger wrote.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class _Rule:
    """The state of the rule for all threads: an agent may read its configuration in any of them."""

    def __init__(self) -> None:
        self.times = 0


_RULE = _Rule()


@contextmanager
def approvals_needed() -> Generator[None]:
    """Start no server that a project's file lists and the user did not approve, while this is open."""
    _RULE.times += 1
    try:
        yield
    finally:
        _RULE.times -= 1


def approvals_are_needed() -> bool:
    """Return whether `approvals_needed` is open."""
    return _RULE.times > 0
