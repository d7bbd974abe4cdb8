"""The request that a tool works for where no client made one: the agent's own model asked for it, in a program.

So a tool that reports progress to its clients works in the agent's own conversations, too.
"""

from __future__ import annotations

import logging
import threading
from contextvars import Context
from typing import Final

from gaia_bridge.calls.own_request import OwnRequest, nobody_to_ask
from gaia_bridge.calls.request_context import RequestContext, get_request_context, request_scope
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.text.json_types import JSON

__all__ = ["client_request", "with_some_request"]

logger = logging.getLogger(__name__)


class _NoRequest(OwnRequest):
    """The request that a tool sees where no client made one."""

    modern = True

    async def log(self, message: LogMessage) -> None:
        _log(message)


class _NoChannel:
    """Implements `CallChannel`."""

    cancelled = False
    is_asking = False
    editor = None

    def wait_cancelled(self, timeout: float) -> bool:
        return threading.Event().wait(timeout)

    def raise_if_cancelled(self) -> None:
        pass

    def post_progress(self, report: Progress) -> None:
        pass

    def post_log(self, message: LogMessage) -> None:
        _log(message)

    def ask(self, method: str, params: JSON) -> JSON:
        raise nobody_to_ask(method)

    async def aask(self, method: str, params: JSON) -> JSON:
        raise nobody_to_ask(method)

    def close_stream(self) -> None:
        pass


_NO_CLIENT: Final = RequestContext(_NoChannel(), _NoRequest("nobody"), None)


def client_request() -> RequestContext | None:
    """Return the request of a client that the calling code works for, if there is one."""
    try:
        request = get_request_context()
    except LookupError:
        return None
    return None if request is _NO_CLIENT else request


def with_some_request(context: Context) -> Context:
    """Return the same context variables, with a request among them: the client's, or one without a client."""
    return context if context.run(client_request) is not None else context.run(request_scope, _NO_CLIENT)


def _log(message: LogMessage) -> None:
    number = logging.getLevelNamesMapping().get(message.level.upper(), logging.INFO)
    logger.log(number, "%s%s", f"{message.logger}: " if message.logger else "", message.data)
