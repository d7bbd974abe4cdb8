"""The rule that this process only shows something: then no configuration file is changed, whoever tries to.

An agent that connects to a server stores that in the configuration. If the agent is created only to be shown, its
changes stay in memory.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class _Rule:
    """The state of the rule for all threads: an agent may connect in any of them."""

    def __init__(self) -> None:
        self.times = 0


_RULE = _Rule()


@contextmanager
def only_shown() -> Generator[None]:
    """Keep changes of the configuration in memory alone, while this is open."""
    _RULE.times += 1
    try:
        yield
    finally:
        _RULE.times -= 1


def is_only_shown() -> bool:
    """Return whether `only_shown` is open."""
    return _RULE.times > 0
