"""Agents, sources and bridges of this process as servers: reached like any other, without a socket.

A source is published by a dispatcher; an agent, for as long as it is connected to. JSON text crosses, as on a
wire, because an agent hands out the definitions and results that it holds, and a caller may go on with its arguments
while a call still runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

import anyio

from gaia_bridge.calls.cancellation import cancel_reason
from gaia_bridge.client.transport import ConnectionLostError, Link, Receiver, UpstreamError
from gaia_bridge.client.transports.json_rpc import encoded_message
from gaia_bridge.contract import AgentLike, Publishable, Source
from gaia_bridge.errors import BridgeError
from gaia_bridge.model import NamingPolicy
from gaia_bridge.protocol.headers import envelope_problem
from gaia_bridge.protocol.messages import error_message, says_revision
from gaia_bridge.protocol.revisions import PUBLISHED
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.connection import ClientConnection
from gaia_bridge.server.dispatcher import Answer, Dispatcher
from gaia_bridge.settings import AgentLimits, Settings
from gaia_bridge.sources.agent.registry import LOCAL_AGENTS
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.text.json_types import JSON


class AgentTransport:
    """Reaches a source of this process, on its own event loop. Implements `client.transport.Transport`.

    Whoever publishes the source runs it; this neither starts nor stops it. It speaks both eras.

    Args:
        source: The source.
        limits: How long a question may stay open, and how often one call may ask.
    """

    def __init__(self, source: Source, limits: AgentLimits | None = None) -> None:
        self._source = source
        self._settings = Settings(agent=limits or AgentLimits())

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link to the source."""
        catalog = Catalog(self._source.features.info, NamingPolicy.BARE, merges=False)
        catalog.add(self._source)
        dispatcher = Dispatcher(catalog, self._settings, self._source.name)
        try:
            run = dispatcher.subscriptions.interest.run
            async with _running(run), DispatcherTransport(dispatcher).connect(receiver) as link:
                yield link
        finally:
            catalog.remove(self._source.name)


class DispatcherTransport:
    """Reaches an endpoint of this process, on its own event loop. Implements `client.transport.Transport`.

    Whoever has the dispatcher runs it. It speaks both eras.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link to the endpoint."""
        link = _AgentLink(self._dispatcher, receiver, self._dispatcher.settings.subscriptions.confirm_timeout)
        try:
            yield link
        finally:
            with anyio.CancelScope(shield=True):
                await link.close()


class _AgentLink:
    """Implements `client.transport.Link`."""

    last_words = ""

    def __init__(self, dispatcher: Dispatcher, receiver: Receiver, patience: float) -> None:
        self.dispatcher = dispatcher
        self._receiver = receiver
        self._patience = patience
        """Seconds for the source to end what nobody wants any more."""
        self._handshake = ClientConnection(_Channel(self, None, can_ask=True), is_shared=True)
        self._modern = ClientConnection(_Channel(self, None, can_ask=False), PUBLISHED.latest, is_shared=True)
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        """Send one request and return its response. The request is cancelled with its caller."""
        if self._closed:
            raise ConnectionLostError
        message = json.loads(encoded_message(message))
        modern = says_revision(message)
        revisions = self.dispatcher.settings.revisions
        if modern and (problem := envelope_problem(message, revisions=revisions)):
            return error_message(problem)
        connection = self._modern if modern else self._handshake
        channel = _Channel(self, message["id"], can_ask=not modern)
        call = Call(connection, channel, message, translating=revisions.translating_of(message) if modern else None)
        answered = Answer(b"")

        async def take(answer: Answer) -> None:
            nonlocal answered
            answered = answer

        task = self.dispatcher.begin(call, take)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait([task])
        finally:
            call.cancel(cancel_reason("nobody waits for the answer any more"))
            call.sent()
        if not answered.body:
            raise ConnectionLostError
        response: JSON = json.loads(answered.body)
        return response

    async def notify(self, message: JSON) -> None:
        """Take a notification, or the answer to a question."""
        self.dispatcher.notified(self._handshake, json.loads(encoded_message(message)))

    def agree(self, revision: str) -> None:
        """Do nothing: each request names its revision."""

    async def close(self) -> None:
        """End the running requests, and wait until the source knows."""
        self._closed = True
        for connection in (self._handshake, self._modern):
            connection.close()
        with anyio.move_on_after(self._patience):
            if self._running:
                await asyncio.wait(self._running)
            await self.dispatcher.subscriptions.interest.given_up()

    def deliver(self, message: bytes, during: int | None) -> None:
        """Pass on a message of the source."""
        if not self._closed:
            self._receiver.message(json.loads(message), during)


class _Channel:
    """Carries the messages of one request, or of none: implements `server.connection.Channel`."""

    def __init__(self, link: _AgentLink, during: int | None, *, can_ask: bool) -> None:
        self.can_ask = can_ask
        self._link = link
        self._during = during

    async def send(self, message: bytes) -> None:
        """Send one message."""
        self._link.deliver(message, self._during)

    def end(self) -> None:
        """Do nothing: no stream carries the answer."""


class Opens(AbstractAsyncContextManager[object], Protocol):
    """The methods that `BridgeTransport` needs of a `gaia_bridge.Bridge`."""

    @property
    def is_open(self) -> bool:
        """Whether the bridge publishes."""
        ...

    def dispatcher(self, source: str | None = None) -> Dispatcher:
        """Return the dispatcher of an endpoint."""
        ...


class BridgeTransport:
    """Reaches a bridge, and opens it first if it is not open. Implements `client.transport.Transport`.

    Args:
        bridge: The bridge.
        endpoint: The agent or server whose own endpoint is meant; all that it publishes if `None`.
    """

    def __init__(self, bridge: Opens, endpoint: str | None = None) -> None:
        self._bridge = bridge
        self._endpoint = endpoint

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link to the endpoint."""
        async with AsyncExitStack() as stack:
            try:
                if not self._bridge.is_open:
                    await stack.enter_async_context(self._bridge)
                dispatcher = self._bridge.dispatcher(self._endpoint)
            except BridgeError as error:
                raise UpstreamError(f"cannot be reached: {error}") from error
            yield await stack.enter_async_context(DispatcherTransport(dispatcher).connect(receiver))


def agent_named(name: str) -> AgentLike:
    """Return the agent of this process that is published under a name.

    Raises:
        UpstreamError: There is none.
    """
    agent = LOCAL_AGENTS.get(name)
    if agent is None:
        raise UpstreamError(f"cannot be reached: {LOCAL_AGENTS.missing(name)}")
    return agent


class PublishedAgent:
    """Implements `gaia_bridge.client.transport.Transport`.

    Args:
        name: The agent's name here.
        find: Returns the agent, when a connection opens; may raise `UpstreamError`.
        limits: The limits of its use of the process.
    """

    def __init__(self, name: str, find: Callable[[], Publishable], limits: AgentLimits | None = None) -> None:
        self._name = name
        self._find = find
        self._limits = limits or AgentLimits()

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Publish the agent, and open a link to it."""
        source = AgentSource(self._find(), self._name, self._limits)
        async with _running(source.run), AgentTransport(source, self._limits).connect(receiver) as link:
            yield link


@asynccontextmanager
async def _running(run: Callable[..., Coroutine[Any, Any, object]]) -> AsyncGenerator[None]:
    """Run a task during a block, whose exceptions are raised unchanged."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(run)
        try:
            yield
        except Exception as error:  # raised again, not in the task group, which would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
