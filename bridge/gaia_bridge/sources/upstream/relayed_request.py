"""One request of one client on its way through an upstream: the notifications to its client, and the questions.

Also a span for each request to a server, where OpenTelemetry is set up; nothing, and at no cost, where it is not.

The trace context of a client (`traceparent`, `tracestate` in `_meta`, SEP-414) goes on to the server as it came. With
OpenTelemetry, the server gets our span as the parent instead, whose own parent is that of the client.

Also links that a user has to open before a server does its work, as questions to clients of 2026-07-28.

A server of 2025-11-25 answers with an error that lists them (URL elicitation required). Later clients get them as
questions in a result, and the request that brings their answers is made anew: the server knows the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import AnswerError, ClientCapabilityError, ProtocolError, ToolError
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.protocol.codes import INVALID_REQUEST, URL_ELICITATION_REQUIRED
from gaia_bridge.protocol.vocabulary import missing_capability, question_problem
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.notification_queue import NotificationQueue
from gaia_bridge.sources.upstream.parked_call import ParkedCall
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.version import __version__

_KEY: Final = "gaia-link-"
"""The prefix of our keys of such questions."""
_ASK: Final = "elicitation/create"


def links_of(error: ProtocolError) -> list[JSON]:
    """Return the links in an error; none if it is another error, or does not list them as it should."""
    named = error.data.get("elicitations") if is_object(error.data) else None
    if error.code != URL_ELICITATION_REQUIRED or not is_array(named):
        return []
    links: list[JSON] = [{**link, "mode": "url"} for link in named if is_object(link)]
    return [] if any(question_problem(_ASK, link) for link in links) else links


def asking_for(links: Sequence[JSON], declared: Mapping[str, Any]) -> JSON:
    """Return the result that asks to open links.

    Raises:
        ClientCapabilityError: The client did not declare that it can open links.
    """
    if (missing := missing_capability(_ASK, links[0], declared)) is not None:
        raise ClientCapabilityError(missing)
    asked = {
        f"{_KEY}{number}": {"method": _ASK, "params": {key: link[key] for key in link if key != "elicitationId"}}
        for number, link in enumerate(links, 1)
    }
    return {"resultType": "input_required", "inputRequests": asked}


def check_links(answers: Mapping[str, JSON]) -> None:
    """Check the answers that a request brings.

    Raises:
        ToolError: The user refused to open a link: the server need not be asked again.
    """
    for key, answer in answers.items():
        if key.startswith(_KEY) and answer.get("action") != "accept":
            raise ToolError(f"The server needs a link to be opened, and the user's answer was: {answer.get('action')}")


@contextmanager
def request_span(upstream: str, method: str, params: JSON) -> Generator[JSON]:
    """Trace one request until the end of the block.

    Args:
        upstream: The name of the server.
        method: The request's method.
        params: Its parameters.

    Returns:
        A context manager that yields the parameters to send.
    """
    from opentelemetry.propagate import inject
    from opentelemetry.trace import SpanKind, get_tracer

    name = params.get("name")
    target = f" {name}" if isinstance(name, str) else ""
    attributes = {"mcp.method.name": method, "gaia_bridge.upstream": upstream}
    tracer = get_tracer("gaia-mcp-bridge", __version__)
    with tracer.start_as_current_span(
        f"{method}{target}", kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
    ):
        meta = params.get("_meta")
        traced: JSON = dict(meta) if is_object(meta) else {}
        inject(traced)
        yield {**params, "_meta": traced}


ASKABLE: Final[Mapping[str, JSON]] = {
    "elicitation": {"form": {}, "url": {}},
    "roots": {},
    "sampling": {"context": {}, "tools": {}},
}
"""The client capabilities that are declared to servers."""


class Relay:
    """One request of one client, on its way through an upstream and back.

    Args:
        method: The JSON-RPC method.
        params: Its parameters, without `_meta`.
        request: The client's request.
        tasks: The task group that sends messages to the client, if there are any.
        limits: How often a client gets progress, how many messages may wait for it, and how long it may think.
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
        self.standing: ParkedCall | None = None
        """The parked call, if the call may outlive the request."""
        self.may_log = True
        """Whether the server may send log messages because of the request."""
        self.has_failed = False
        """Whether it ended without a result, or with one that reports a failure."""
        self.may_have_asked = False
        """Whether it was in flight when the server asked without naming a call."""
        self.asked = 0
        """The number of questions that its client has not answered yet."""
        self.resting: Callable[[], AbstractContextManager[None]] = nullcontext
        """A context manager that is entered while the server waits for the client."""
        self._tasks = tasks
        self._limits = limits
        self.queue: NotificationQueue | None = None
        """The queue of `notes`, if there were any notifications to the client, or could have been."""
        self._is_over = False

    @property
    def notes(self) -> NotificationQueue:
        """The notifications to the client before the answer. Most requests have none, and no queue."""
        if self.queue is None:
            self.queue = NotificationQueue(self._tasks, self._limits)
            self.queue.attach(self.request)
            if self._is_over:
                self.queue.end()
        return self.queue

    def end(self) -> None:
        """Send the client nothing more."""
        self._is_over = True
        if self.queue is not None:
            self.queue.end()

    async def progress(self, report: Progress) -> None:
        """Pass on progress from the server."""

        async def tell(request: ClientRequest) -> None:
            await request.report_progress(report)

        self.notes.progress(tell)

    def log(self, message: LogMessage) -> None:
        """Pass on a log message from the server."""

        async def log(request: ClientRequest) -> None:
            await request.log(message)

        self.notes.add(log)

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
