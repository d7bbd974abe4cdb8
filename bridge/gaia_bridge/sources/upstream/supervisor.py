"""Keeps one upstream server connected: connects, checks that it answers, and connects again after a failure.

    starting ──> ready <──> degraded
       ^  │        │            │
       │  └────────┴─────┬──────┘
       │                 v
       ├──────────── backoff     it failed; the next attempt follows after a pause
       ├──────────── stopped     nobody needs it; the next request starts it
       └──── asked ─ failed      it failed too often, or trying again cannot help

The offer of a server stays published in every state but `failed`. Otherwise, each short outage would make all clients
list again, and models would lose the tools they were about to use. A request that arrives during an outage waits for
the next connection, or fails with the time of the next attempt. A server that failed for good, or was removed from the
configuration, offers nothing: a tool that cannot work is worse than none.
"""

from __future__ import annotations

import logging
import math
import random
import time
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import anyio

from gaia_bridge.client import Connection
from gaia_bridge.client.transport import LaunchError, NotApprovedError, SessionExpiredError, UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import SourceState, SourceStatus
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.restart_policy import RestartPolicy
from gaia_bridge.sources.upstream.turns import Turns

logger = logging.getLogger(__name__)

_LEAST_IDLE: Final = 1.0
"""Seconds that an idle server is kept at least, even if its entry says less: a next request often follows soon."""
_STARTING: Final = "it is still starting"


class Life(Protocol):
    """The owner of a supervisor, which connects to the server."""

    def connect(self) -> AbstractAsyncContextManager[Connection]:
        """Open a connection; raises `UpstreamError`."""
        ...

    async def prepare(self, connection: Connection) -> None:
        """Prepare the connection for requests; raises `UpstreamError`."""
        ...

    async def attend(self, connection: Connection) -> None:
        """Run for as long as the connection lasts; cancelled when it ends."""
        ...

    @property
    def needed(self) -> bool:
        """Whether the server must keep running without requests, such as for subscriptions."""
        ...

    def explained(self, error: UpstreamError) -> str:
        """Return the cause of a failure by the error output, for the log, where secrets may be; empty if unknown."""
        ...

    def for_log(self, text: str) -> str:
        """Return text from the server, made safe for a log and a status."""
        ...

    def changed(self, status: SourceStatus) -> None:
        """React to a new state. Called before any request learns of it."""
        ...


class _Attempt:
    """One attempt to connect. Requests may wait for it even before it begins."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.problem: UpstreamError | None = None


class Supervisor:
    """Keeps one server connected, in a task of its own. Any task may ask it for the connection."""

    def __init__(self, name: str, life: Life, limits: UpstreamLimits, restarts: RestartPolicy, *, lazy: bool) -> None:
        self._name = name
        self._life = life
        self._limits = limits
        self._restarts = restarts
        self._lazy = lazy
        self._again = "restarted" if restarts.gives_up else "connected again"  # children alone are given up
        self.status = SourceStatus(SourceState.STARTING, _STARTING)
        self.first_attempt_ended = anyio.Event()
        """Set when the first attempt to connect has ended, or when none is needed yet."""
        self.starts = 0
        self.using = Turns(limits.max_concurrency, limits.call_timeout)
        """Counts a request that needs the server, from before it has a connection until it ends."""
        self.ready: Connection | None = None
        """The connection, if there is one now."""
        self._attempt = _Attempt()
        self._over = anyio.Event()
        self._over.set()
        self._wake = anyio.Event()
        self._suspected = anyio.Event()
        self._suspicion = ""
        self._failure = ""
        self._resume_at = 0.0
        self._ready_at = -math.inf
        self.doubted = False
        """Whether a doubt about the server is not settled by an answer yet; see `answered`."""
        self._unanswered = 0
        self._closed = False

    async def run(self, *, at_once: bool) -> None:
        """Keep the server connected until cancelled. Failures show in `status`, and as one line each in the log."""
        try:
            if not at_once:
                self._enter(SourceState.STOPPED, "it starts when it is first used")
            while True:
                await self._until_due()
                await self._live()
        finally:
            self.close("it was stopped")

    def close(self, reason: str) -> None:
        """Stop for good: from now on there is no connection."""
        self._closed = True
        self.ready = None
        self.status = SourceStatus(SourceState.STOPPED, reason)
        # Listeners are not notified: the caller knows that it stops, and the process may be ending.
        self.first_attempt_ended.set()
        self._settle(self._absence())

    # Requests

    @property
    def requests(self) -> int:
        """The number of requests that wait or are in progress."""
        return self.using.count

    async def connection(self, patience: float) -> Connection:
        """Return the connection. Connects first if necessary, and waits for that.

        It waits for one attempt, not for more, so that the caller learns why the attempt failed.

        Args:
            patience: Seconds to wait at most.

        Raises:
            UpstreamError: There is no connection; the message says why, and what to do.
        """
        if self.ready is not None:
            return self.ready
        if self._closed or self.status.state is SourceState.FAILED or self.pause > self._limits.restart_patience:
            raise self._absence()
        if self.status.state is SourceState.STOPPED:
            self._wake.set()
        attempt = self._attempt
        with anyio.move_on_after(patience) as waiting:
            await attempt.ended.wait()
        if (problem := attempt.problem) is not None:
            raise UpstreamError(str(problem), problem.retry_after)  # one for each: exceptions keep who raised them
        if self.ready is None:
            absence = self._absence()
            absence.too_late = waiting.cancelled_caught
            raise absence
        return self.ready

    @property
    def awaited(self) -> bool:
        """Whether requests wait for a connection."""
        return self.requests > 0 and self.status.state in (SourceState.STARTING, SourceState.BACKOFF)

    async def attempted(self) -> None:
        """Wait until the attempt to connect is over, if requests wait for that."""
        if self.awaited:
            await self._attempt.ended.wait()

    def answered(self) -> None:
        """Count the server as answering. Has nothing to do unless it is `doubted`."""
        self._unanswered, self.doubted = 0, False
        if self.status.state is SourceState.DEGRADED:
            self._enter(SourceState.READY)

    def unanswered(self, connection: Connection, *, unreachable: bool = False) -> None:
        """Count a request that the server did not answer. After several of them, the server has to answer a ping.

        Args:
            unreachable: Whether the request did not even reach the server; then one failure is enough.
        """
        if self.ready is not connection:
            return
        if unreachable:
            self.doubt("it could not be reached")
            return
        self._unanswered += 1
        self.doubted = True
        if self._unanswered >= self._limits.timeouts_before_restart and self.status.state is SourceState.READY:
            self._enter(SourceState.DEGRADED, f"it left {self._unanswered} requests in a row unanswered")
            self._suspect(f"it had left {self._unanswered} requests unanswered")

    def doubt(self, why: str) -> None:
        """Check with a ping whether the server is still there."""
        if self.ready is not None and self.status.state is SourceState.READY:
            self.doubted = True
            self._enter(SourceState.DEGRADED, why)
            self._suspect(why)

    # Ends

    def lost(self, reason: str, *, blameless: bool = False) -> None:
        """Handle the end of a connection that the server closed.

        If no request was in progress, that is no failure: servers may have an idle timeout of their own. The next
        request starts the server again.

        Args:
            reason: The reason; it continues a sentence that begins with the server's name.
            blameless: Whether this is no failure in any case.
        """
        if self._over.is_set():
            return
        stays = self._life.needed or not self._lazy
        blameless = blameless or not (stays or self.requests)
        # Without a request that waits, a server that ends at once would be connected again without any pause.
        calm = anyio.current_time() >= self._ready_at + self._limits.backoff_cap
        if self.ready is not None and blameless and (calm or self.requests or not stays):
            logger.info("upstream %r %s", self._name, reason)
            self._rest(f"it {reason}")
            if stays:
                self._wake.set()
        else:
            self._fail(UpstreamError(reason))

    def expired(self, connection: Connection) -> None:
        """Connect again because the server forgot the session. That is no failure."""
        if self.ready is connection:
            self.lost(str(SessionExpiredError()), blameless=True)

    def retry(self) -> None:
        """Forget all failures and connect now, unless a connection is there or on its way."""
        if not self._closed and self.ready is None and self.status.state is not SourceState.STARTING:
            self._restarts.forget()
            wake = self._wake
            self._enter_starting()
            wake.set()

    @property
    def pause(self) -> float:
        """Seconds until the next attempt to connect; 0 if none is planned."""
        if self.status.state is not SourceState.BACKOFF:
            return 0
        return max(0.0, self._resume_at - anyio.current_time())

    async def _until_due(self) -> None:
        match self.status.state:
            case SourceState.STARTING:
                pass
            case SourceState.BACKOFF:
                with anyio.move_on_after(self.pause):
                    await self._wake.wait()
            case _:
                await self._wake.wait()

    async def _live(self) -> None:
        """Run one connection from the attempt to its end. The state that it leaves decides what is next."""
        self._over = anyio.Event()
        self.starts += 1
        self._unanswered = 0
        self._enter_starting()
        try:
            async with self._life.connect() as connection:
                await self._life.prepare(connection)
                if self._over.is_set():
                    return
                self._become_ready(connection)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._life.attend, connection)
                    tasks.start_soon(self._examine, connection)
                    tasks.start_soon(self._suspect_after_suspensions)
                    if self._lazy:
                        tasks.start_soon(self._stop_when_idle)
                    await self._over.wait()
                    tasks.cancel_scope.cancel()
        except UpstreamError as error:
            if not self._over.is_set():
                self._fail(error)
        except Exception:
            # Nothing here is expected: the last line of defence for the tasks beside this one.
            logger.debug("upstream %r", self._name, exc_info=True)
            if self.status.state in (SourceState.BACKOFF, SourceState.FAILED, SourceState.STOPPED):
                return  # it was over, and went wrong while it was put away
            self._over.set()
            reason = "an unexpected error, of which the debug log has the details"
            logger.warning("upstream %r failed: %s", self._name, reason)
            self._give_up(reason)

    def _become_ready(self, connection: Connection) -> None:
        self.ready = connection
        self._ready_at = self.using.last = anyio.current_time()
        self._suspected = anyio.Event()
        self._restarts.ready(self._ready_at)
        self._failure = ""
        self._enter(SourceState.READY)
        self._settle(None)

    def _suspect(self, why: str) -> None:
        self._suspicion = why
        self._suspected.set()

    async def _suspect_after_suspensions(self) -> None:
        """Check the connection after this process was suspended, at a random moment: other servers are asked too."""
        while True:
            await resumed(self._limits.watch_interval)
            await anyio.sleep(random.uniform(0, self._limits.resume_spread))
            self._suspect("this process was suspended")

    async def _examine(self, connection: Connection) -> None:
        """Ping the server whenever it may be gone, and end the connection if it does not answer."""
        while True:
            await self._suspected.wait()
            self._suspected = anyio.Event()
            try:
                await connection.ping()
            except UpstreamError as error:
                self._fail(UpstreamError(f"{error}, after {self._suspicion}"))
                return
            except ProtocolError:
                pass  # an answer, too
            self.answered()

    async def _stop_when_idle(self) -> None:
        patience = max(self._limits.idle_timeout, _LEAST_IDLE)
        while True:
            await anyio.sleep_until(self.using.last + patience)
            if self.requests or self._life.needed:
                self.using.last = anyio.current_time()
            elif anyio.current_time() >= self.using.last + patience:
                logger.info("upstream %r is stopped: nobody used it", self._name)
                self._rest("nobody used it")
                return

    def _rest(self, reason: str) -> None:
        """End the connection until a request needs the server again."""
        self._over.set()
        self._enter(SourceState.STOPPED, f"{reason}; it starts when it is used")

    def _fail(self, error: UpstreamError) -> None:
        if self._over.is_set():
            return
        self._over.set()
        now = anyio.current_time()
        explanation = self._life.explained(error)
        reason = self._failure = self._life.for_log(f"it {error}")
        if isinstance(error, NotApprovedError):
            logger.warning("upstream %r: %s", self._name, reason)
            self._settle(_absence(SourceState.STOPPED, reason))
            self._enter(SourceState.STOPPED, reason)
            return
        pause = None if isinstance(error, LaunchError) else self._restarts.failed(now, error.retry_after or 0)
        # The last lines of a child stay local: they may hold secrets.
        note = f"{reason}; {explanation}" if explanation else reason
        if pause is not None:
            # Rounded up, as clients are told: the pause is a random part of half a second at first.
            seconds = math.ceil(pause) or 1
            logger.warning("upstream %r failed: %s; it is tried again within %d s", self._name, note, seconds)
            self._resume_at = now + pause
            self._settle(_absence(SourceState.BACKOFF, reason, pause, self._again))
            self._enter(SourceState.BACKOFF, reason)
            return
        logger.warning("upstream %r failed: %s", self._name, note)
        if not isinstance(error, LaunchError):
            limits = self._limits
            reason += f"; that was failure {limits.crashes} within {limits.crash_window:g} s"
        self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        self._settle(_absence(SourceState.FAILED, reason))
        self._enter(SourceState.FAILED, reason)

    def _settle(self, problem: UpstreamError | None) -> None:
        """End the attempt: wake the requests that wait for it; later ones wait for the next attempt."""
        attempt, self._attempt = self._attempt, _Attempt()
        attempt.problem = problem
        attempt.ended.set()

    def _absence(self) -> UpstreamError:
        return _absence(self.status.state, self.status.reason, self.pause, self._again)

    def _enter_starting(self) -> None:
        """Keep the reason of the last failure during the next attempt."""
        last_time = f"; last time {self._failure}" if self._failure else ""
        self._enter(SourceState.STARTING, _STARTING + last_time)

    def _enter(self, state: SourceState, reason: str = "") -> None:
        if state not in (SourceState.READY, SourceState.DEGRADED):
            self.ready = None
            self._wake = anyio.Event()
        self.status = SourceStatus(state, reason)
        self._life.changed(self.status)
        if state is not SourceState.STARTING:
            self.first_attempt_ended.set()


def _absence(state: SourceState, reason: str, pause: float = 0, again: str = "") -> UpstreamError:
    """Return the error that says why there is no connection, and what to do.

    Args:
        state: The state of the server.
        reason: The reason of that state.
        pause: Seconds until the next attempt.
        again: The word for the next attempt.
    """
    text = f"is not running: {reason}"
    match state:
        case SourceState.BACKOFF:
            seconds = math.ceil(pause) or 1
            return UpstreamError(f"{text}; it is being {again}, try again in {seconds} s", seconds)
        case SourceState.STARTING:
            return UpstreamError(f"{text}; try again in a moment")
        case SourceState.FAILED:
            return UpstreamError(f"{text}; it is not tried again until somebody asks for it")
        case _:
            return UpstreamError(text)


def clock() -> float:
    """Return seconds on a clock that also goes on while the machine sleeps; the event loop's does not everywhere."""
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):  # Linux, and systems where this one goes on
        if (number := getattr(time, name, None)) is not None:
            return time.clock_gettime(number)
    return time.monotonic()


async def resumed(interval: float) -> None:
    """Return once this process has been suspended for some time, and goes on.

    Args:
        interval: Seconds between two looks; a suspension of at least that length counts.
    """
    while True:
        due = clock() + interval
        await anyio.sleep(interval)
        if clock() >= due + interval:
            return
