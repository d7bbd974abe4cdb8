"""One upstream server as a source: a child process that speaks MCP on its standard streams.

One task, `StdioUpstream.run`, owns the connection from open to close. Everything else only borrows it. When the
connection ends, the calls in flight fail at once and are never repeated, and the offer becomes empty.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskStatus
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.session import IncomingMessage
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Implementation,
    InitializeResult,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)

from gaia_bridge.contract import ChangeListener, ClientRequest
from gaia_bridge.errors import ProtocolError, ResourceNotFoundError
from gaia_bridge.jsontypes import JSON
from gaia_bridge.model import Change, ChangeKind, Offer, SourceKind, SourceState, SourceStatus, StdioServerSpec
from gaia_bridge.outbound.connection import Connection, WatchedStream
from gaia_bridge.outbound.listing import LISTS, changes, empty_offer, with_list
from gaia_bridge.outbound.relay import Relays
from gaia_bridge.outbound.stderr import ErrorOutput, error_output
from gaia_bridge.outbound.transport import ConnectionLostError, UpstreamError
from gaia_bridge.results import error_result
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text import printable
from gaia_bridge.version import __version__

__all__ = ["StdioUpstream"]

logger = logging.getLogger(__name__)

CLIENT_NAME: Final = "gaia-mcp-bridge"
"""Who we say we are."""

_RESOURCE_NOT_FOUND: Final = -32002
"""MCP up to 2025-11-25, server/resources; later revisions must not use it (S-8)."""

_ANNOUNCED: Final[Mapping[type, ChangeKind]] = {
    ToolListChangedNotification: ChangeKind.TOOLS,
    PromptListChangedNotification: ChangeKind.PROMPTS,
    ResourceListChangedNotification: ChangeKind.RESOURCES,
}


class StdioUpstream:
    """A `Source` whose capabilities come from a child process.

    Args:
        spec: How to launch it.
        limits: Deadlines.
    """

    def __init__(self, spec: StdioServerSpec, limits: UpstreamLimits) -> None:
        self._spec = spec
        self._limits = limits
        self._offer = empty_offer(spec.name)
        self._status = SourceStatus(SourceState.STARTING, "it is still starting")
        self._settled = anyio.Event()
        self._connection: Connection | None = None
        self._subscribable = False
        self._noisy = False
        self._listeners: dict[object, ChangeListener] = {}
        self._relays = Relays(spec.name)
        self._stale: set[ChangeKind] = set()
        self._became_stale = anyio.Event()

    @property
    def name(self) -> str:
        """The name of its entry in the configuration; not the one that it gives itself (S-27)."""
        return self._spec.name

    @property
    def kind(self) -> SourceKind:
        """An upstream server."""
        return SourceKind.SERVER

    @property
    def offer(self) -> Offer:
        """What it offers right now; nothing while it is not ready."""
        return self._offer

    @property
    def status(self) -> SourceStatus:
        """How it is."""
        return self._status

    async def wait_settled(self) -> SourceStatus:
        """Wait until it is no longer starting. Bounded by the limits once `run` was started."""
        await self._settled.wait()
        return self._status

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` after every change; returns an idempotent function that stops it."""
        token = object()
        self._listeners[token] = listener

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    async def refresh(self) -> None:
        """Do nothing: asking the server each time would let a slow one delay every list that it is merged into.

        A server announces its changes (MCP `listChanged`); one that does not is taken to have none.
        """

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Launch the server and own its connection until it ends; cancel it to stop the server.

        Starts at once, whatever the server does. Failures end up in `status` and, in one line, in the log.
        Returns, or ends its cancellation, when the child is gone: within seven seconds, the SDK's own bounds.
        """
        task_status.started()
        try:
            async with error_output(self.name) as stderr:
                await self._live(stderr)
        except Exception:
            # Nothing here is expected: the last line of defence for the tasks beside this one.
            logger.debug("upstream %r", self.name, exc_info=True)
            self._fail("an unexpected error, of which the debug log has the details")
        finally:
            if self._status.state is not SourceState.FAILED:
                # Listeners are not told: whoever stops it knows, and may be on the way out.
                self._offer = empty_offer(self.name)
                self._settle(SourceStatus(SourceState.STOPPED, "it was stopped"))

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        """Run a tool of the server; whatever goes wrong on the way there or back is an `isError` result.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
        """
        try:
            return await self._relay("tools/call", {"name": name, "arguments": arguments}, request)
        except UpstreamError as error:
            return error_result(f"{self._described(error)} (tool {name!r})")

    async def get_prompt(self, name: str, arguments: dict[str, str], request: ClientRequest) -> JSON:
        """Fill in a prompt of the server.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error, or not at all.
        """
        return await self._ask("prompts/get", {"name": name, "arguments": arguments}, request)

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        """Read a resource of the server.

        Raises:
            ResourceNotFoundError: The server has nothing there.
            ProtocolError: The server answered with another JSON-RPC error, or not at all.
        """
        try:
            return await self._ask("resources/read", {"uri": uri}, request)
        except ProtocolError as error:
            if error.code == _RESOURCE_NOT_FOUND:
                raise ResourceNotFoundError(uri) from None
            raise

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        """Ask the server for suggestions. Raises as `get_prompt` does."""
        params: JSON = {"ref": ref, "argument": argument}
        if context:
            params["context"] = {"arguments": context}
        return await self._ask("completion/complete", params, request)

    async def subscribe(self, uri: str) -> None:
        """Ask the server to tell about updates of `uri`; nothing happens where it does not do that.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error, or not at all.
        """
        if self._connection is not None and self._subscribable:
            try:
                await self._connection.tell("resources/subscribe", {"uri": uri})
            except UpstreamError as error:
                raise ProtocolError(INTERNAL_ERROR, self._described(error)) from None

    async def unsubscribe(self, uri: str) -> None:
        """Tell the server that nobody listens any more. Never raises: nobody is left to care."""
        if self._connection is not None and self._subscribable:
            try:
                await self._connection.tell("resources/unsubscribe", {"uri": uri})
            except (ProtocolError, UpstreamError) as error:
                logger.debug("upstream %r: unsubscribing: %s", self.name, error)

    async def _live(self, stderr: ErrorOutput) -> None:
        spec = self._spec
        # One wrong byte must not end the connection, as it would with the SDK's default (F-011).
        parameters = StdioServerParameters(
            command=spec.command,
            args=list(spec.args),
            env=dict(spec.env),
            cwd=spec.cwd,
            encoding_error_handler="replace",
        )
        try:
            # A launch that is cancelled half-way leaves the child behind (F-124); it is over in no time.
            with anyio.CancelScope(shield=True) as launching:
                async with stdio_client(parameters, errlog=stderr.writer) as (read, write):
                    launching.shield = False
                    stderr.writer.close()
                    watched = WatchedStream(read, partial(self._lose, stderr))
                    await self._talk(watched, JSONRPCDispatcher(watched, write), stderr)
        except (OSError, ValueError) as error:
            # Only a failed launch arrives bare; all else comes in the exception group of the SDK's tasks.
            self._fail(_launch_problem(spec, error))

    async def _talk(
        self, watched: WatchedStream, dispatcher: JSONRPCDispatcher[TransportContext], stderr: ErrorOutput
    ) -> None:
        """Use the connection until it ends; the state is right before the child is waited for."""
        # No capabilities are declared: what the server asks of the client is refused (S-32).
        async with ClientSession(
            dispatcher=dispatcher,
            client_info=Implementation(name=CLIENT_NAME, version=__version__),
            logging_callback=self._relays.log,
            message_handler=self._on_message,
        ) as session:
            connection = Connection(session, dispatcher, self._limits)
            try:
                await self._become_ready(connection, await connection.initialize())
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._follow_changes, connection)
                    await watched.ended.wait()
                    tasks.cancel_scope.cancel()
                self._lose(stderr)
            except ConnectionLostError:
                self._fail("it closed the connection while its lists were read", stderr.last_words())
            except UpstreamError as error:
                self._fail(f"it {error}", stderr.last_words())

    async def _become_ready(self, connection: Connection, greeting: InitializeResult) -> None:
        resources = greeting.capabilities.resources
        self._subscribable = resources is not None and bool(resources.subscribe)
        offer = await self._read_lists(connection, empty_offer(self.name, greeting), frozenset(ChangeKind))
        self._settle(SourceStatus(SourceState.READY), connection)
        logger.info("upstream %r is ready: %s %s", self.name, printable(offer.info.name), printable(offer.info.version))
        self._publish(offer)

    async def _follow_changes(self, connection: Connection) -> None:
        """Read lists again after they changed; however many announcements came meanwhile, once (F-035)."""
        while True:
            await self._became_stale.wait()
            self._became_stale = anyio.Event()
            stale, self._stale = self._stale, set()
            try:
                offer = await self._read_lists(connection, self._offer, stale)
            except ConnectionLostError:
                return
            if self._connection is connection:  # else it failed while the last answer was on its way here
                self._publish(offer)

    async def _read_lists(self, connection: Connection, offer: Offer, stale: Collection[ChangeKind]) -> Offer:
        """The offer with the stale lists read again; a list that cannot be read stays as it was.

        Raises:
            ConnectionLostError: The connection ended.
        """
        for listed in LISTS:
            if listed.change not in stale or listed.capability not in offer.capabilities:
                continue
            try:
                offer = with_list(offer, listed, await connection.list_all(listed.kind))
            except ConnectionLostError:
                raise
            except (ProtocolError, UpstreamError) as error:
                # Many servers have resources but no list of templates.
                expected = isinstance(error, ProtocolError) and error.code == METHOD_NOT_FOUND
                level = logging.DEBUG if expected else logging.WARNING
                logger.log(level, "upstream %r: its %ss: %s", self.name, listed.kind, printable(str(error)))
        return offer

    def _publish(self, offer: Offer) -> None:
        old, self._offer = self._offer, offer
        for left_out in offer.left_out:
            if left_out not in old.left_out:
                text = printable(f"{left_out.kind} {left_out.name!r} is left out: {left_out.reason}")
                logger.warning("upstream %r: %s", self.name, text)
        for change in changes(old, offer):
            self._announce(change)

    def _announce(self, change: Change) -> None:
        for listener in tuple(self._listeners.values()):
            listener(change)

    def _lose(self, stderr: ErrorOutput) -> None:
        """Fail if ready, before the calls in flight wake up and can ask."""
        if self._connection is not None:
            self._fail("it closed the connection", stderr.last_words())

    def _fail(self, reason: str, last_words: str = "") -> None:
        """Tell the log, and be without offer. What the child said last stays local: it may hold secrets."""
        said = f"; its last line of error output: {last_words}" if last_words else ""
        logger.warning("upstream %r failed: %s%s", self.name, reason, said)
        self._settle(SourceStatus(SourceState.FAILED, reason))
        self._publish(empty_offer(self.name))

    def _settle(self, status: SourceStatus, connection: Connection | None = None) -> None:
        self._status = status
        self._connection = connection
        self._settled.set()

    def _described(self, error: UpstreamError) -> str:
        return f"upstream {self.name!r} {error}"

    async def _ask(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        try:
            return await self._relay(method, params, request)
        except UpstreamError as error:
            raise ProtocolError(INTERNAL_ERROR, self._described(error)) from None

    async def _relay(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        if self._connection is None:
            raise UpstreamError(f"is not running: {self._status.reason}")
        return await self._relays.call(self._connection, method, params, request)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            self._announce(Change(ChangeKind.RESOURCE_UPDATED, message.params.uri))
        elif isinstance(message, Exception):
            level = logging.DEBUG if self._noisy else logging.WARNING
            self._noisy = True
            logger.log(level, "upstream %r: a line of its standard output is no MCP message; skipped", self.name)
        elif (kind := _ANNOUNCED.get(type(message))) is not None:
            self._stale.add(kind)
            self._became_stale.set()


def _launch_problem(spec: StdioServerSpec, error: OSError | ValueError) -> str:
    """Why a child could not be launched, without its arguments and environment, which may hold secrets (F-043)."""
    if spec.cwd is not None and not Path(spec.cwd).is_dir():
        return f"its working directory {spec.cwd!r} is not a directory"
    if isinstance(error, OSError):
        return f"cannot start {spec.command!r}: {error.strerror or type(error).__name__}"
    return "cannot start it: its launch line has characters that cannot be passed to a program"
