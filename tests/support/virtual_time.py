"""An event loop whose clock jumps: what waits for hours takes no time, and a test says how long it waited.

    @pytest.fixture
    def anyio_backend() -> tuple[str, dict[str, Any]]:
        return VIRTUAL_TIME

Only for what waits for nothing but timers and other tasks: as soon as all of them wait, the clock jumps to the next
timer. Threads and sockets would be overtaken.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

__all__ = ["VIRTUAL_TIME", "VirtualTimeLoop"]


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            raise AssertionError("every task waits, and no timer will ever wake one")
        self._loop.now += timeout
        return found


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time passes when there is nothing else to do."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """The time that would be, had anybody really waited."""
        return self.now


VIRTUAL_TIME: tuple[str, dict[str, Any]] = ("asyncio", {"loop_factory": VirtualTimeLoop})
