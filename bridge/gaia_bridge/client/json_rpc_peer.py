"""JSON-RPC over one link: requests with deadlines and progress, and messages that the server sends on its own.

This layer handles responses, `ping`, progress and cancellation; all other messages are passed on to the layers above.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY, with_hop
from gaia_bridge.calls.deadlines import Clock, Clocks, Deadline, Interruptible
from gaia_bridge.calls.direct_call import DirectCall
from gaia_bridge.calls.progress import Receive, pass_on
from gaia_bridge.client.questions import Questions
from gaia_bridge.client.transport import ConnectionLostError, DirectLink, Link, Transport, UpstreamError
from gaia_bridge.client.transports.json_rpc import error_words
from gaia_bridge.client.types import ClientDelegate, OnProgress, RequestTimeoutError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Progress
from gaia_bridge.protocol.headers import name_header
from gaia_bridge.protocol.meta import PROGRESS_TOKEN_KEY, RELATED_TASK_KEY
from gaia_bridge.protocol.revisions import Revision
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_object, value_at

logger = logging.getLogger(__name__)

OnNotification = Callable[[str, JSON, int | None], None]
"""Called with a notification: its method, its parameters, and the id of the request on whose stream it came, if
known."""
TOOL_CALL: Final = "tools/call"
_Ask = Callable[[], Awaitable[JSON]]
"""Makes a request; returns the response."""
_PROGRESS: Final = "notifications/progress"
_CANCELLED: Final = "notifications/cancelled"


@asynccontextmanager
async def open_peer(
    transport: Transport, delegate: ClientDelegate, limits: UpstreamLimits, numbers: Iterator[int] | None = None
) -> AsyncGenerator[JsonRpcPeer]:
    """Open a link, and run a `JsonRpcPeer` on it until the end of the block; raises as `Transport.connect` does."""
    failure: BaseException | None = None
    peer = JsonRpcPeer(delegate, limits, numbers)
    async with transport.connect(peer) as link, anyio.create_task_group() as tasks:
        peer.open(link, tasks)
        try:
            yield peer
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            failure = error  # raised again below, not in the task group, which would wrap it
        finally:
            peer.close()
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


class JsonRpcPeer:
    """The client's side of JSON-RPC on one link; ids of requests are from 1 on if no `numbers` are given.

    Implements `transport.Receiver`.
    """

    def __init__(self, delegate: ClientDelegate, limits: UpstreamLimits, numbers: Iterator[int] | None = None) -> None:
        self.declared: JSON = delegate.capabilities
        self.over = anyio.Event()
        """Set when the link has ended, from either side."""
        self.on_notification: OnNotification = self.tell
        """Called with every notification except progress."""
        self.established = False
        """Whether the handshake succeeded. Before that, the end of the link is a failure to connect, not reported to
        the delegate."""
        self.origins: dict[int | str, int] = {}
        """For each follow-up request and each task, the id of the original request: questions belong to that one."""
        self.progress: dict[int, Receive] = {}
        """The receivers of progress for requests that were answered with a task."""
        self._delegate = delegate
        self._limits = limits
        self._may_translate = limits.revisions.differ
        self._translating: Revision | None = None
        self._link: Link | None = None
        self._tasks: TaskGroup | None = None
        self._reason: str | None = None
        """The reason of its end; `None` before that."""
        self.new_id = (itertools.count(1) if numbers is None else numbers).__next__
        """A unique id for a request; never 0, which some servers treat as absent."""
        self._direct_link: DirectLink | None = None
        self.direct: dict[int, DirectCall] = {}
        """The direct calls that are neither answered nor adopted by `request`."""
        self._deferred: list[tuple[JSON, int | None]] = []
        """The messages of the server that wait until all direct calls are adopted."""
        self._all_adopted = anyio.Event()
        self._clocks = Clocks()
        self._questions = Questions(delegate, self.declared, limits, self._send, self._answering)

    @property
    def link(self) -> Link:
        """The link, once it is open."""
        assert self._link is not None
        return self._link

    @property
    def tasks(self) -> TaskGroup:
        """Tasks that end with the link."""
        assert self._tasks is not None
        return self._tasks

    def open(self, link: Link, tasks: TaskGroup) -> None:
        self._link, self._tasks = link, tasks
        self._direct_link = link if isinstance(link, DirectLink) else None

    def close(self) -> None:
        self._tasks = None
        self._clocks.close()
        self._end("is no longer connected")

    def agree(self, revision: str) -> None:
        """Use the agreed revision from now on."""
        self._translating = self._limits.revisions.translating(revision)
        self._questions.revision = revision
        self.link.agree(revision)

    async def request(
        self,
        method: str,
        params: JSON | None,
        deadline: Deadline,
        *,
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        number: int | None = None,
    ) -> JSON:
        """Make one request; return its result, unchanged.

        Args:
            params: Its parameters; a progress token in them is replaced by our own, or removed.
            on_progress: Receives progress. Without a receiver, progress is requested if it restarts the deadline.
            number: Its id, from `new_id`; a new one if `None`.

        Raises:
            ProtocolError: The server answered with a JSON-RPC error.
            UpstreamError: The response is missing, late or invalid.
        """
        is_relayed, direct = number is not None, None if number is None else self.direct.pop(number, None)
        if direct is None and self._reason is not None:
            raise ConnectionLostError(self._reason)
        if number is None:
            number = self.new_id()
        has_progress = on_progress is not None or deadline.idle < deadline.cap
        message = self._message(number, method, params, has_progress=has_progress)
        translating = self._limits.revisions.translating_of(message) if self._may_translate else None
        if translating is not None:
            headers = {**name_header(message), **(headers or {})}
            message = translating.written(message, method)
        clock = Clock(self._clocks, number, deadline, 0.0 if direct is None else time.monotonic() - direct.began)
        try:
            with clock:
                if on_progress is None:
                    response = await self._response(message, headers, direct, in_order=is_relayed)
                else:
                    ask = partial(self._response, message, headers, direct, in_order=is_relayed)
                    response = await _Watch(on_progress, clock, self._limits.notes).request(ask)
        except TimeoutError:
            if not clock.is_up:
                raise
            raise RequestTimeoutError(method, clock.seconds) from None
        if translating is not None:
            response = translating.read(response, method)
        result = response.get("result")
        if not is_object(result) or response.get("error") is not None:
            raise _failure(method, response)
        return result

    def _message(self, number: int, method: str, params: JSON | None, *, has_progress: bool) -> JSON:
        """Return a request with our own progress token, or none: tokens are valid on one connection only."""
        meta, own = None if params is None else params.get("_meta"), self._delegate.id
        if not is_object(meta):
            meta = {}
        if has_progress:
            meta = {**meta, PROGRESS_TOKEN_KEY: number}
        elif PROGRESS_TOKEN_KEY in meta:
            meta = {key: value for key, value in meta.items() if key != PROGRESS_TOKEN_KEY}
        if own:
            meta = with_hop(meta, own) if HOPS_META_KEY in meta else {**meta, HOPS_META_KEY: [own]}
        message: JSON = {"jsonrpc": "2.0", "id": number, "method": method}
        if meta or (params is not None and "_meta" in params):
            message["params"] = {**(params or {}), "_meta": meta}
        elif params is not None:
            message["params"] = params
        return message

    def begin(
        self,
        call: DirectCall,
        params: JSON,
        meta: Mapping[str, Any],
        deadline: Deadline,
        headers: Mapping[str, str] | None,
    ) -> bool:
        """Send the request of a direct call, if nothing stands in the way; return whether it was sent.

        Args:
            params: Its parameters, without `_meta`.
            meta: Its `_meta`, without the keys that are added here, as `request` adds them.
        """
        link, own = self._direct_link, self._delegate.id
        if link is None or self._reason is not None or self._translating is not None or self._deferred:
            return False
        number = self.new_id()
        if deadline.idle < deadline.cap:
            meta = {**meta, PROGRESS_TOKEN_KEY: number}
        if own:
            meta = {**meta, HOPS_META_KEY: [own]}
        if meta:
            params = {**params, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": number, "method": TOOL_CALL, "params": params}
        if not link.begin(message, call, headers):
            return False
        call.number = number
        self.direct[number] = call
        return True

    def abandon(self, call: DirectCall) -> None:
        """Give up a direct call that no request has adopted."""
        if self.direct.pop(call.number, None) is not None and self._direct_link is not None:
            self._direct_link.abandon(call.number)
        self._tell_deferred()

    async def _adopted(self, call: DirectCall) -> JSON:
        """Wait for the response to a direct call."""
        call.adopt()
        self._tell_deferred()
        try:
            return await call.wait()
        finally:
            if not call.done() and self._direct_link is not None:
                self._direct_link.abandon(call.number)

    async def _response(
        self, message: JSON, headers: Mapping[str, str] | None, direct: DirectCall | None, *, in_order: bool
    ) -> JSON:
        """Send a request, unless it was sent as a direct call, and wait for its response.

        Args:
            in_order: Whether messages that came before the response may be for the client of the request.
        """
        assert self._link is not None
        response = await (self._link.request(message, headers) if direct is None else self._adopted(direct))
        while in_order and self._deferred:  # until all direct calls are adopted
            await self._all_adopted.wait()
        return response

    def _tell_deferred(self) -> None:
        if not self.direct and self._deferred:
            deferred, self._deferred = self._deferred, []
            self._all_adopted.set()
            self._all_adopted = anyio.Event()
            for message, during in deferred:
                self.message(message, during)

    async def notify(self, method: str, params: JSON | None = None) -> None:
        """Send a notification; raise `UpstreamError` if it cannot be sent."""
        message: JSON = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self._send(message)

    def message(self, message: JSON, during: int | None) -> None:
        """Handle a request or notification from the server.

        It may belong to a direct call, whose client is not known here: it waits until ordinary calls adopt these.
        """
        if self.direct:
            self._deferred.append((message, during))
            for call in [*self.direct.values()]:
                call.make_ordinary()
            return
        if self._translating is not None and isinstance(method := message.get("method"), str):
            message = self._translating.read(message, method)
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str):
            return
        params, origin = self._origin(params if is_object(params) else {}, during)
        if "id" in message:
            if self._tasks is not None:
                self._questions.ask(self._tasks, message["id"], method, params, origin)
        elif method == _PROGRESS:
            pass_on(params, self._receiver)
        else:
            if method == _CANCELLED:
                self._questions.withdraw(params.get("requestId"))
            # A task in `_meta` alone gives no id: an id says that this wire names the request of every message.
            self.on_notification(method, params, None if during is None else origin)

    def _receiver(self, number: int) -> Receive | None:
        """Return the receiver of progress for a request; a request that has none only gets more time."""
        clock = self._clocks.running.get(number)
        return self.progress.get(number) if clock is None else clock.on_progress or clock.restart

    def ended(self, reason: str) -> None:
        """Handle the end of the link where we did not close it."""
        if self._reason is None:
            self._end(reason)
            if self.established:
                with self._guarded("the end"):
                    self._delegate.ended(reason)

    def tell(self, method: str, params: JSON, during: int | None = None) -> None:
        """Pass a notification to the delegate."""
        with self._guarded(method):
            self._delegate.notified(method, params, during)

    def doubt(self, why: str) -> None:
        """Report to the delegate that the server may be gone."""
        with self._guarded("a doubt"):
            self._delegate.doubted(why)

    def check(self) -> Link:
        """Return the link; raise `ConnectionLostError` if it has ended."""
        if self._reason is not None:
            raise ConnectionLostError(self._reason)
        assert self._link is not None
        return self._link

    @contextmanager
    def _guarded(self, news: str) -> Generator[None]:
        """Log an error of the delegate, which must not stop the reading of the link."""
        try:
            yield
        except Exception:
            logger.exception("%s: telling of %s failed", self._delegate.server, printable(news, 200))

    @contextmanager
    def _answering(self, during: int | None) -> Generator[None]:
        """Stop the idle timeout of a request while the server waits for the answer to a question about it.

        The total limit stays. If it is unknown which request the question belongs to, all idle timeouts stop.
        """
        is_attributed = during in self._clocks.running or during in self.origins.values()
        held = [clock for number, clock in self._clocks.running.items() if number == during or not is_attributed]
        for clock in held:
            clock.hold()
        try:
            yield
        finally:
            for clock in held:
                clock.release()

    def _origin(self, params: JSON, during: int | None) -> tuple[JSON, int | None]:
        """Return a message's parameters without a task that only we know of, and the request that it belongs to."""
        task = value_at(params, "_meta", RELATED_TASK_KEY, "taskId")
        if isinstance(task, str) and task in self.origins:
            others = {key: value for key, value in params["_meta"].items() if key != RELATED_TASK_KEY}
            return {**params, "_meta": others}, self.origins[task]
        return params, during if during is None else self.origins.get(during, during)

    def _end(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
            self.over.set()

    async def _send(self, message: JSON) -> None:
        link, method = self.check(), message.get("method")
        if self._translating is not None and method is not None:
            message = self._translating.written(message, method)
        await link.notify(message)


class _Watch:
    """Reports the progress of one request, in an asyncio task that is started with the first report.

    Every report restarts the clock. Of those that wait for a slow receiver, the oldest beyond `waiting` is dropped.
    """

    def __init__(self, on_progress: OnProgress, clock: Clock, waiting: int) -> None:
        self._on_progress = on_progress
        self._clock = clock
        clock.on_progress = self._add
        self._waiting: deque[Progress] = deque(maxlen=waiting)
        self._context = contextvars.copy_context()
        self._passing: asyncio.Task[None] | None = None
        self._unwanted = Interruptible()
        self._answered = False

    def _add(self, report: Progress) -> None:
        """Queue a report of the server, and start to pass reports on."""
        if self._answered:
            return
        self._clock.restart()
        self._waiting.append(report)
        if self._passing is None or self._passing.done():
            self._passing = asyncio.get_running_loop().create_task(self._pass_on(), context=self._context)

    async def request(self, ask: _Ask) -> JSON:
        """Make the request; all progress is passed on before this returns."""
        outcome: JSON | Exception | None = None
        try:
            with self._unwanted:
                try:
                    outcome = await ask()
                except Exception as error:
                    outcome = error
            self._answered = True
            if self._passing is not None:
                self._clock.hold()  # the server has answered; a slow receiver is bound by the total limit only
                await self._passing
        finally:
            self._answered = True
            if self._passing is not None and not self._passing.done():
                self._passing.cancel()
                await asyncio.wait([self._passing])
            if self._passing is not None and not self._passing.cancelled():
                self._passing.exception()  # retrieved, or asyncio would log it where this request was cancelled
        if isinstance(outcome, Exception):
            raise outcome
        assert outcome is not None
        return outcome

    async def _pass_on(self) -> None:
        try:
            while self._waiting:
                await self._on_progress(self._waiting.popleft())
        except Exception:
            self._answered = True  # no answer is wanted any more
            self._unwanted.interrupt()
            raise


def _failure(method: str, response: JSON) -> ProtocolError | UpstreamError:
    """Return the error for a response without a result."""
    error = response.get("error")
    if error is None:
        return UpstreamError(f"answered {method} with neither a result nor an error")
    code, message = (error.get("code"), error.get("message")) if is_object(error) else (None, None)
    if type(code) is not int or not isinstance(message, str):
        return UpstreamError(f"answered {method} with an error that has no code or no message{error_words(error)}")
    return ProtocolError(code, message, error.get("data"))
