"""A request of a client, as sources see it: implements `gaia_bridge.contract.ClientRequest`."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Self
from uuid import uuid4

from msgspec.structs import replace

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.calls.cancellation import Cancellation
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.calls.progress import Reports, progress_params, reports
from gaia_bridge.errors import AnswerError, ClientCapabilityError
from gaia_bridge.model import LOG_LEVELS, LogMessage, Progress
from gaia_bridge.protocol import meta
from gaia_bridge.protocol.earlier_revisions import declares_context, question_for
from gaia_bridge.protocol.messages import encoded, encoded_notification
from gaia_bridge.protocol.meta import with_own_task, with_public_task
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, Revision
from gaia_bridge.protocol.vocabulary import (
    LOG_MESSAGE,
    answer_problem,
    as_declared,
    for_legacy_question,
    is_loud_enough,
    missing_capability,
    question_problem,
)
from gaia_bridge.server.backlog import CallTurn
from gaia_bridge.server.connection import Channel, ClientConnection, PlainChannel
from gaia_bridge.text.json_types import JSON, is_object

_NOTHING: Mapping[str, Any] = {}


class Call:
    """One request, from the moment that it was read to its answer.

    Args:
        channel: Carries the messages before the answer.
        size: Bytes of the request.
        host: The client's address, where each of its requests stands alone, on a connection that ends with it.
        direct: The direct call that it takes over, if its request was sent as that.
        translating: The revision of the request, if its messages differ from those of 2026-07-28.
    """

    __slots__ = (
        "address",
        "cancellation",
        "channel",
        "connection",
        "direct",
        "has_begun",
        "has_free_id",
        "has_left",
        "id",
        "input_responses",
        "is_cancelled",
        "meta",
        "method",
        "modern",
        "params",
        "principal",
        "request_state",
        "served_by",
        "size",
        "task",
        "task_prefix",
        "translating",
        "turn",
    )

    def __init__(
        self,
        connection: ClientConnection,
        channel: Channel,
        message: Mapping[str, Any],
        size: int = 0,
        host: str | None = None,
        translating: Revision | None = None,
        direct: DirectCall | None = None,
    ) -> None:
        self.direct = direct
        """The direct call that it takes over."""
        self.translating = translating
        if translating is not None:
            message = translating.read(dict(message), message["method"])
            channel = _translating_channel(channel, translating)
        self.size = size
        self.served_by = ""
        """The name of the source that works on it, once that is known."""
        self.task_prefix = ""
        """The first characters of the ids of its tasks, as the client sees them."""
        self.turn: CallTurn | None = None
        """Its turn in the backlog until its answer has left, where the answer may be large."""
        self.has_begun = False
        """Whether its task works on it, and can be cancelled."""
        self.has_left = False
        """Whether its answer has left, or nobody is there for it."""
        self.connection = connection
        self.channel = channel
        self.id: int | str = message.get("id", 0)
        self.method: str = message["method"]
        self.params: Mapping[str, Any] = message.get("params") or _NOTHING
        self.meta: Mapping[str, Any] = _NOTHING
        if "_meta" in self.params and is_object(self.params["_meta"]):
            self.meta = self.params["_meta"]
        self.modern = connection.revision not in HANDSHAKE_REVISIONS
        self.input_responses: Mapping[str, JSON] = _NOTHING
        self.request_state: str | None = None
        self.address = host
        """The address of the client, if the request stands alone."""
        self.principal: Hashable = connection if host is None else host
        """The party that limits and caches count the request for: the session, or the address if it stands alone."""
        begun = None if direct is None else direct.cancellation
        self.cancellation = begun or Cancellation()
        self.is_cancelled = False
        self.task: asyncio.Task[Any] | None = None
        """The task that works on it, which `cancel` ends; `None` once there is an answer, which only has to be sent."""
        self.has_free_id = True
        """Whether no other request with this id was in flight when this one came."""

    @property
    def client(self) -> Hashable:
        """The session that the request is part of; a request that stands alone is a client of its own.

        The name that a program gives itself decides nothing: two windows of one editor have the same.
        """
        return self.connection

    @property
    def is_relayed(self) -> bool:
        """Whether another bridge or an agent sent it, so that its connection may carry requests of several clients."""
        return self.connection.is_shared or HOPS_META_KEY in self.meta

    def next_round(self, input_responses: Mapping[str, JSON], request_state: str | None, /) -> Self:
        """Return the same request with the answers to an `input_required` result."""
        again = copy.copy(self)
        again.input_responses, again.request_state = input_responses, request_state
        again.direct = None  # which was one round
        return again

    def with_params(self, params: Mapping[str, Any], method: str | None = None) -> Call:
        """Return the same request with other parameters, or of another method that is called for its sake."""
        other = copy.copy(self)
        other.params = params
        other.method = method or self.method
        return other

    def cancel(self, reason: str | None) -> None:
        """Cancel the request: the client does not want the answer any more."""
        if self.task is None or self.task.done() or self.is_cancelled:
            return
        self.is_cancelled = True
        self.cancellation.reason = reason
        if self.has_begun:  # a task that is cancelled before its first step does nothing at all, and tells nobody
            self.task.cancel()

    def sent(self) -> None:
        """Note that its answer has left, or that there will be none."""
        self.has_left = True
        if self.turn is not None:
            self.turn.over()

    def written(self, answer: bytes) -> bytes:
        """Return a response in the form of the request's revision."""
        return answer if self.translating is None else written(self.translating, answer, self.method)

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """Call `callback` once when the connection that the request came on ends, if that outlives the request."""
        if self.address is not None:
            return False
        self.connection.when_closed(callback)
        return True

    @property
    def session_key(self) -> str | None:
        """A secret of the connection that the request came on, if it outlives the request."""
        return self.connection.key if self.address is None else None

    @property
    def client_info(self) -> Mapping[str, Any]:
        """The client's name and version, as it sends them."""
        if not self.modern:
            return self.connection.client_info
        info = self.meta.get(meta.CLIENT_INFO_KEY)
        return info if is_object(info) else _NOTHING

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the client declared, in wire shape."""
        if not self.modern:
            return self.connection.client_capabilities
        capabilities = self.meta.get(meta.CLIENT_CAPABILITIES_KEY)
        return capabilities if is_object(capabilities) else _NOTHING

    @property
    def client_folder(self) -> str | None:
        """The folder that the client's program was started in, where it is known to be a program of this user."""
        return self.connection.client_folder

    @property
    def log_level(self) -> str | None:
        """The least severe level of the log messages that the client wants; `None` if it wants none."""
        if not self.modern:
            return self.connection.log_level
        wanted = self.meta.get(meta.LOG_LEVEL_KEY)
        return wanted if wanted in LOG_LEVELS else None

    async def report_progress(self, report: Progress) -> None:
        """Send `notifications/progress`, if the client gave a token."""
        token = self.meta.get(meta.PROGRESS_TOKEN_KEY)
        if token is None:
            return
        params = with_public_task(progress_params(token, report), self.task_prefix)
        await self.channel.send(encoded_notification("notifications/progress", params))

    async def log(self, message: LogMessage) -> None:
        """Send `notifications/message` if the client wants that level.

        A modern client says so with each request, a legacy client once with `logging/setLevel`.
        """
        if not is_loud_enough(message.level, self.log_level):
            return
        params: JSON = {"level": message.level, "data": message.data}
        if message.logger is not None:
            params["logger"] = message.logger
        if message.meta is not None:
            params = with_public_task({**params, "_meta": message.meta}, self.task_prefix)
        await self.channel.send(encoded_notification(LOG_MESSAGE, params))

    async def push(self, method: str, params: JSON) -> JSON:
        """Send a request to the client, on the stream of this request, and return its result."""
        if (missing := missing_capability(method, params, self.client_capabilities)) is not None:
            raise ClientCapabilityError(missing)
        revision = self.connection.revision
        if declares_context(revision):
            params = as_declared(method, params, self.client_capabilities)
        asked = question_for(revision, method, dict(for_legacy_question(method, params, uuid4().hex)))
        if problem := question_problem(method, asked):
            raise AnswerError(f"{method} cannot be asked: {problem}")
        asked = with_public_task(asked, self.task_prefix)
        receiver = reports()
        if receiver is not None and self.task_prefix:
            receiver = self._by_own_task(receiver)
        answer = with_own_task(await self.connection.ask(self.channel, method, asked, receiver), self.task_prefix)
        if problem := answer_problem(method, answer):
            raise AnswerError(f"the client's answer to {method} is malformed: {problem}")
        return answer

    def _by_own_task(self, receiver: Reports) -> Reports:
        """Return a receiver of the client's progress that gives the server its own ids of tasks."""

        async def tell(report: Progress) -> None:
            own = with_own_task({"_meta": report.meta}, self.task_prefix)
            await receiver(replace(report, meta=own["_meta"]))

        return tell

    async def close_stream(self) -> None:
        """End the event stream that carries the answer, where the client can resume the stream."""
        self.channel.end()


def written(revision: Revision, body: bytes, method: str | None = None) -> bytes:
    """Return a message, which is in the terms of 2026-07-28, in the form of a revision."""
    message = json.loads(body)
    return encoded(revision.written(message, method or message["method"]))


def _translating_channel(channel: Channel, revision: Revision) -> Channel:
    """Return a channel for notifications in the form of a revision, whose streams no client can resume."""

    async def send(message: bytes) -> None:
        await channel.send(written(revision, message))

    return PlainChannel(send, can_ask=channel.can_ask)
