"""Whether this process only shows something: then no configuration is changed, whoever wants to change it.

An agent that connects to a server remembers that in the configuration. Where it is only made to be looked at, what it
remembers is forgotten with it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class _Rule:
    """Holds for all threads: an agent may connect in any of them."""

    def __init__(self) -> None:
        self.times = 0


_RULE = _Rule()


@contextmanager
def only_shown() -> Generator[None]:
    """While this is open, changes of the configuration are made in memory alone."""
    _RULE.times += 1
    try:
        yield
    finally:
        _RULE.times -= 1


def is_only_shown() -> bool:
    """Whether `only_shown` is open."""
    return _RULE.times > 0
