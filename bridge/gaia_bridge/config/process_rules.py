"""Rules for all agents of this process, which read and change configuration files in any thread, and know no bridge.

`gaia-bridge` sets them. In a program of the user they do not hold.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final


class ProcessRule:
    """A rule that holds in all threads while a block with it is open."""

    def __init__(self) -> None:
        self._blocks = 0

    @property
    def holds(self) -> bool:
        """Whether such a block is open."""
        return self._blocks > 0

    @contextmanager
    def kept(self) -> Generator[None]:
        """Let the rule hold while this is open."""
        self._blocks += 1
        try:
            yield
        finally:
            self._blocks -= 1


APPROVALS_NEEDED: Final = ProcessRule()
"""Start a project's server only after the user approved it, whoever reads the file: `gaia-bridge` also runs agents in
folders whose files a stranger wrote. The bridge itself always checks the approvals."""

ONLY_SHOWN: Final = ProcessRule()
"""Change no configuration file, whoever tries to: an agent that connects to a server stores that, and the changes of
one that is created only to be shown stay in memory."""
