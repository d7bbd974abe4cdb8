"""One endpoint: its dispatcher, and its HTTP side where it has one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus

from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.settings import HttpLimits

if TYPE_CHECKING:
    from gaia_bridge.server.http.app import HttpBinding


class Endpoint:
    """The dispatcher at one address.

    Args:
        prefix: The path it lives under over HTTP, without a slash at its end: `` or `/agents/code`.
    """

    def __init__(self, dispatcher: Dispatcher, prefix: str, limits: HttpLimits) -> None:
        self.dispatcher = dispatcher
        self._prefix = prefix
        self._limits = limits

    @cached_property
    def http(self) -> HttpBinding:
        """The endpoint's HTTP side, made when it is first needed, which is never on stdio."""
        from gaia_bridge.server.http.app import HttpBinding

        return HttpBinding(self.dispatcher, self._prefix, self._limits)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then every session ends."""
        try:
            await self.dispatcher.subscriptions.interest.run(task_status=task_status)
        finally:
            if "http" in self.__dict__:  # else it was never used, and is not made for this
                self.http.close()
