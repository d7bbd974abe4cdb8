"""One request of one client on its way through an upstream: the notifications to its client, and the questions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import anyio
from anyio.abc import TaskGroup

from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import AnswerError, ClientCapabilityError, ProtocolError
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.protocol.codes import INVALID_REQUEST
from gaia_bridge.protocol.vocabulary import missing_capability
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.notification_queue import NotificationQueue
from gaia_bridge.sources.upstream.parked_call import ParkedCall
from gaia_bridge.text.json_types import JSON

ASKABLE: Final[Mapping[str, JSON]] = {
    "elicitation": {"form": {}, "url": {}},
    "roots": {},
    "sampling": {"context": {}, "tools": {}},
}
"""The client capabilities that are declared to servers."""


class Relay:
    """One request of one client, on its way through an upstream and back.

    Args:
        params: Its parameters, without `_meta`.
    """

    def __init__(
        self, method: str, params: JSON, request: ClientRequest, tasks: TaskGroup, limits: UpstreamLimits
    ) -> None:
        self.method = method
        self.params = params
        self.request = request
        self.owner: Hashable = object() if request.is_relayed else request.client
        """The owner of the request; a unique one where its session may carry requests of several clients."""
        self.target: Hashable = params.get("name") if method == "tools/call" else method
        """The part of the server that works on it: the name of a tool, else the method."""
        self.direct: DirectCall | None = None
        """The direct call that it takes over, if its request was sent as that."""
        self.standing: ParkedCall | None = None
        """The parked call, if the call may outlive the request."""
        self.may_log = True
        """Whether the server may send log messages because of the request."""
        self.has_failed = False
        """Whether it ended without a result, or with one that reports a failure."""
        self.may_have_asked = False
        """Whether it was in flight when the server asked without naming a call."""
        self.takes_turn = False
        """Whether it waited until no other call makes the client of a question unclear."""
        self.asked = 0
        """The number of questions that its client has not answered yet."""
        self.resting: Callable[[], AbstractContextManager[None]] = nullcontext
        """A context manager that is entered while the server waits for the client."""
        self._tasks = tasks
        self._limits = limits
        self.queue: NotificationQueue | None = None
        """The queue of `notes`, if there were any notifications to the client, or could have been; to be ended."""

    @property
    def notes(self) -> NotificationQueue:
        """The notifications to the client before the answer. Most requests have none, and no queue."""
        if self.queue is None:
            self.queue = NotificationQueue(self._tasks, self._limits)
            self.queue.attach(self.request)
        return self.queue

    async def progress(self, report: Progress) -> None:
        """Pass on progress from the server."""
        self.notes.progress(lambda request: request.report_progress(report))

    def log(self, message: LogMessage) -> None:
        """Pass on a log message from the server."""
        self.notes.add(lambda request: request.log(message))

    @property
    def can_be_asked_something(self) -> bool:
        """Whether the client can answer any question."""
        return may_be_asked(self.request)

    @property
    def may_ask(self) -> bool:
        """Whether the next unnamed question may be of this call: servers do one thing at a time for each call."""
        return self.can_be_asked_something and not self.asked

    def can_be_asked(self, method: str, params: JSON) -> bool:
        """Return whether the client can answer such a question now."""
        return self.is_reachable and missing_capability(method, params, self.request.client_capabilities) is None

    @property
    def is_reachable(self) -> bool:
        """Whether the client can be asked anything at all now."""
        return self.standing is not None or not self.request.modern

    async def ask(self, method: str, params: JSON) -> JSON:
        """Put a question of the server to the client.

        Raises:
            ProtocolError: The client refused, or did not answer in time.
        """
        if self.standing is not None:
            return await self.standing.ask(method, params)
        if self.queue is not None:
            await self.queue.flush()  # earlier notifications must arrive first
        seconds = self._limits.question_timeout
        with anyio.move_on_after(seconds):
            try:
                return await self.request.push(method, params)
            except AnswerError as error:
                raise error.for_server() from None
            except ClientCapabilityError as error:
                raise ProtocolError(INVALID_REQUEST, error.message) from None
        raise ProtocolError(INVALID_REQUEST, f"The client did not answer {method} within {seconds:g} s")


def may_be_asked(request: ClientRequest) -> bool:
    """Return whether the client declared that it answers any kind of question."""
    return any(request.client_capabilities.get(name) is not None for name in ASKABLE)
