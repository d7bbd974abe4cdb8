"""When a request is sent again, and after which pause."""

from __future__ import annotations

import anyio

from gaia.llm.failures import Refusal
from gaia.llm.limits import ModelLimits

__all__ = ["Tries"]


class Tries:
    """How often, and for how long, one request is sent again.

    Args:
        limits: See there.
    """

    def __init__(self, limits: ModelLimits) -> None:
        self._limits = limits
        self._done = 0
        self._loading = 0.0

    async def pause(self, refusal: Refusal) -> bool:
        """Wait as long as the server wants; returns whether to ask again."""
        limits = self._limits
        if refusal.is_final:
            return False
        if refusal.is_loading and self._loading < limits.load_wait:
            self._loading += limits.load_pause
            await anyio.sleep(limits.load_pause)
            return True
        if not refusal.is_busy or refusal.is_loading:
            return False
        return await self._pause(refusal.retry_after)

    async def pause_after_break(self) -> bool:
        """Wait a moment; returns whether to ask again."""
        return await self._pause(None)

    async def _pause(self, seconds: float | None) -> bool:
        limits = self._limits
        pause = limits.retry_pause * 2**self._done if seconds is None else seconds
        if self._done >= limits.retries or pause > limits.retry_wait:
            return False
        self._done += 1
        await anyio.sleep(pause)
        return True
