"""MCP over the standard streams of a child process (MCP basic/transports, "stdio").

There is no task or thread for a child or a message: the event loop passes bytes to a protocol, which passes messages to
the receiver. Faults of a child affect itself alone, and at most its own requests.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, cast

import anyio

from gaia_bridge.calls.in_flight import SentRequests, Waiter
from gaia_bridge.client.transport import (
    ConnectionLostError,
    Link,
    MisconfiguredError,
    Receiver,
    StartTimeoutError,
    UnheardError,
    UpstreamError,
)
from gaia_bridge.client.transports.budgets import Budget, FloodError, Share
from gaia_bridge.client.transports.children.error_output import ErrorOutput
from gaia_bridge.client.transports.children.process import Child, exit_text, undisturbed
from gaia_bridge.client.transports.json_rpc import (
    Garbage,
    cancellation,
    encoded_message,
    is_response,
    messages_in_line,
    plain_response,
    request_id_of,
)
from gaia_bridge.config.launching.launchers import is_of_launcher
from gaia_bridge.constants import KIB
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.protocol.framing import LineFramer, OversizedLine
from gaia_bridge.runtime.forking import FORKS
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge.text.redaction import Redactor

logger = logging.getLogger(__name__)

_AFTERMATH: Final = 0.05
"""Seconds between the first sign of a child's end (its output is closed, it has exited) and the verdict: the other sign
and its last words are on their way, unless somebody else holds its pipes."""
_MISCONFIGURED: Final = 78
"""The exit code of programs that cannot use their configuration (`EX_CONFIG` of sysexits.h), also of bridges."""
_ENDLESS: Final = 4
"""The factor by which a line may exceed the limit before the child is given up: such a line will not end."""


_UNTIMED: Final = KIB
"""The most bytes that are read without measuring the time: measuring would take longer than reading. A child that
floods sends more at once."""


class StdioTransport:
    """The transport to a server that is a child process. Implements `transport.Transport`."""

    def __init__(
        self, spec: StdioServerSpec, limits: UpstreamLimits, on_error_line: Callable[[str], None] | None = None
    ) -> None:
        self._spec = spec
        self._limits = limits
        self._on_error_line = on_error_line

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Launch the child; after the block, it and its descendants end within `stop_grace` and `terminate_grace`.

        Raises:
            LaunchError: The child cannot be launched as it is configured.
            UpstreamError: The child cannot be launched right now.
        """
        link = StdioLink(Child(self._spec), receiver, self._spec, self._limits, self._on_error_line)
        try:
            await link.open()
            yield link
        finally:
            await link.close()


class StdioLink(asyncio.Protocol):
    """A link to a running child: the protocol of its standard output. Created by `StdioTransport`."""

    def __init__(
        self,
        child: Child,
        receiver: Receiver,
        spec: StdioServerSpec,
        limits: UpstreamLimits,
        on_error_line: Callable[[str], None] | None,
    ) -> None:
        self.child = child
        self._receiver = receiver
        self._name = spec.name
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._framer = LineFramer(limits.message_bytes)
        now, secrets = self._loop.time, Redactor((*spec.env.values(), *spec.options.secrets))
        self._errors = ErrorOutput(spec.name, secrets, on_error_line, now, self.heard)
        self._blank = Budget(limits.blank_lines, limits.garbage_window, now, "blank lines")
        self._share = Share(limits.loop_share, limits.loop_burst, now)
        self._output: asyncio.ReadTransport | None = None
        self._paused = False
        self._pending = SentRequests()
        self.garbage = Garbage(limits.garbage_lines, limits.garbage_window, now, secrets)
        """The lines of its output that were no messages."""
        self._input = _Input(limits.write_timeout, self._suspect)
        self._open: list[asyncio.BaseTransport] = []
        self._verdict: asyncio.TimerHandle | None = None
        self._overdue: asyncio.TimerHandle | None = None
        self._output_ended = False
        self._complained = False
        self._reason: str | None = None
        self._over = anyio.Event()

    @property
    def last_words(self) -> str:
        """The last line of the child's error output, redacted."""
        return self._errors.last_line

    @property
    def error_lines(self) -> Sequence[str]:
        """The latest lines of the child's error output, redacted."""
        return [*self._errors.lines]

    def agree(self, revision: str) -> None:
        """Note that the server has completed the handshake: nothing else on this wire depends on the revision."""
        self.child.serves()
        self._input.close_copy()
        if self._overdue is not None:
            self._overdue.cancel()

    def heard(self, line: str) -> None:
        """Note a line of the child's error output, which may show that a download is over."""
        if self.child.may_download and not is_of_launcher(line):
            self._begin_start()

    def _begin_start(self) -> None:
        """Start the usual deadline for the handshake, since the download is over."""
        if self.child.may_download:
            self.child.serves()
            if self._limits.downloads:
                self._overdue = self._loop.call_later(self._limits.connect_timeout, self._miss_start)

    def _miss_start(self) -> None:
        patience = self._limits.connect_timeout
        problem = f"did not complete the handshake within {patience:g} s of its first line (startup_timeout)"
        self._finish(problem, failure=StartTimeoutError(problem))

    async def open(self) -> None:
        """Connect the child's pipes to the event loop.

        Not to be cancelled half-way through, because the loops disagree about who closes a pipe then.
        """
        await undisturbed(self._connect())

    async def _connect(self) -> None:
        stdin, stdout, stderr = self.child.pipes
        self._open.append((await stdin.connect_writer(lambda: self._input))[0])
        self._open.append((await stdout.connect_reader(lambda: self))[0])
        self._open.append((await stderr.connect_reader(lambda: self._errors))[0])
        self.child.on_exit(lambda code: self._suspect())

    async def close(self) -> None:
        """Close the child's input and see it to its end, whatever happens meanwhile."""
        self._finish("is no longer connected", tell=False)
        for timer in filter(None, (self._verdict, self._overdue)):
            timer.cancel()
        try:
            self._input.close()
            for pipe in self.child.pipes[len(self._open) :]:  # cancelled before they were connected
                pipe.close()
            await self.child.stop(self._limits, self._input.abort)
        finally:
            self._input.abort()
            for transport in self._open:
                transport.close()

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        """Send a request and wait for its response. See `Link.request`; there are no headers on this wire."""
        if self._reason is not None:
            raise ConnectionLostError(self._reason)
        line, number = encoded_message(message), message["id"]
        if not self._input.is_ready:
            await self._until_ready()
        future = self._pending.add(number)
        self._input.post(line)
        try:
            return await future
        except asyncio.CancelledError:
            # The handshake cannot be taken back (MCP basic/utilities/cancellation).
            if message["method"] != "initialize":
                self.abandon(number)
            raise

    def begin(self, message: JSON, waiter: Waiter, headers: Mapping[str, str] | None) -> bool:
        """Send a request at once, unless the child is slow to read. See `DirectLink.begin`."""
        if self._reason is not None or not self._input.is_ready:
            return False
        try:
            line = encoded_message(message)
        except UpstreamError:
            return False
        self._pending.expect(message["id"], waiter)
        self._input.post(line)
        return True

    def abandon(self, number: int) -> None:
        """Stop waiting for a response. See `DirectLink.abandon`."""
        self._pending.forget(number)
        self._input.post(encoded_message(cancellation(number)))

    async def notify(self, message: JSON) -> None:
        """Send a message that has no response. See `Link.notify`."""
        if self._reason is not None:
            raise ConnectionLostError(self._reason)
        line = encoded_message(message)
        if not self._input.is_ready:
            await self._until_ready()
        self._input.post(line)

    async def _until_ready(self) -> None:
        """Wait until the child reads. If it no longer does, raise an error with the reason, once that is known."""
        try:
            await self._input.wait()
        except ConnectionLostError as error:
            with anyio.move_on_after(2 * _AFTERMATH):
                await self._over.wait()
            raise ConnectionLostError(self._reason or str(error)) from None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._output = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Read output of the child, and slow reading down if that cost the loop too much time."""
        if self.child.may_download:
            self._begin_start()
        if self._reason is not None:
            return  # read on, so that the child does not block while it ends, and forget it
        began = time.thread_time() if len(data) > _UNTIMED else None
        lines = self._framer.feed(data)
        for line in lines:
            self._take(line)
        if not lines or self._framer.blank:
            self._refuse_flood(lines)
        if began is not None:
            self._pace(time.thread_time() - began)

    def _refuse_flood(self, lines: Sequence[bytes | OversizedLine]) -> None:
        """End the link if a line does not end, or if too many lines are blank."""
        if not lines and self._framer.size > _ENDLESS * self._limits.message_bytes:
            self._finish(f"wrote a line of more than {self._framer.size:,} bytes to its standard output")
        if self._framer.blank:
            blank, self._framer.blank = self._framer.blank, 0
            try:
                self._blank.add(blank)
            except FloodError as error:
                self._finish(str(error))

    def _pace(self, seconds: float) -> None:
        """Pause reading for a while, if the last data has cost the loop too much time."""
        pause = self._share.spend(seconds)
        if pause and not self._paused and self._output is not None and self._reason is None:
            self._output.pause_reading()
            self._paused = True
            self._loop.call_later(pause, self._read_on)

    def _read_on(self) -> None:
        if self._paused and self._output is not None and not self._output.is_closing():
            self._paused = False
            self._output.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Read the last line, and note that the child closed its standard output."""
        self._output_ended = True
        if self._reason is None:
            for line in self._framer.end():
                self._take(line)
            self._suspect()

    def _take(self, line: bytes | OversizedLine) -> None:
        if type(line) is bytes and (response := plain_response(line)) is not None:
            if self._pending.resolve(response["id"], response):
                return
        if isinstance(line, OversizedLine):
            limit = self._limits.message_bytes
            self._refuse(line, f"sent a message of {line.size:,} bytes; at most {limit:,} are read")
            return
        parts = messages_in_line(line)
        for message in parts:
            if is_response(message):
                if not self._pending.resolve(message.get("id"), message):
                    self._note_error(message)
            else:
                self._receiver.message(message, None)
        if not parts:
            self._refuse(line, "sent a response that is no valid JSON")

    def _note_error(self, response: JSON) -> None:
        """Log an error that belongs to no request: the server could not read one of ours, and does not name it."""
        error = response.get("error")
        if response.get("id") is None and is_object(error):
            level = logging.DEBUG if self._complained else logging.WARNING
            self._complained = True
            text = self.garbage.for_log(str(error.get("message")))
            logger.log(level, "upstream %r reports an error without saying of which request: %s", self._name, text)

    def _refuse(self, line: bytes | OversizedLine, problem: str) -> None:
        """Fail the request whose response cannot be read, or count the line as garbage."""
        number = request_id_of(line)
        if number is not None and self._pending.reject(number, UpstreamError(problem)):
            return
        shown = line.head if isinstance(line, OversizedLine) else line
        within_budget = self.garbage.add(shown)
        if self.garbage.count == 1:
            logger.warning(
                "upstream %r writes to its standard output what is no MCP message; skipped: %s",
                self._name,
                self.garbage.first[0],
            )
        if not within_budget:
            limits = self._limits
            self._finish(
                f"wrote more than {limits.garbage_lines:,} lines within {limits.garbage_window:g} s to its standard "
                "output that are no MCP messages"
            )

    def _suspect(self) -> None:
        """Note a sign that the child has ended; judge when all signs are there, or soon."""
        if self._reason is not None:
            return
        self._read_on()  # the rest of its output is bounded by the pipe, and so no flood
        if self._output_ended and self.child.exit_code is not None and self._errors.ended:
            self._judge()
        elif self._verdict is None:
            self._verdict = self._loop.call_later(_AFTERMATH, self._judge)

    def _judge(self) -> None:
        code = self.child.exit_code
        stream = "output" if self._output_ended else "input"
        self._finish(f"closed its standard {stream}" if code is None else exit_text(code))

    def _finish(self, reason: str, *, tell: bool = True, failure: UpstreamError | None = None) -> None:
        """End the link and fail the open requests, with an error that depends on the exit code if none is given."""
        if self._reason is not None:
            return
        self._reason = reason
        self._over.set()
        self._read_on()
        if tell:
            self._receiver.ended(reason)
        kind = ConnectionLostError
        if self.child.exit_code is not None and self._input.is_unread:
            kind = UnheardError
        if self.child.exit_code == _MISCONFIGURED:
            kind = MisconfiguredError
        self._pending.fail(failure or kind(f"{reason} before it answered; whether it did the work is unknown"))
        self._input.abandon(ConnectionLostError(reason))


class _Input(asyncio.BaseProtocol):
    """A child's standard input. A child that reads nothing delays its own requests, within a bound, and uses no memory.

    `on_lost` is called when the child closed its input, or has ended.
    """

    def __init__(self, timeout: float, on_lost: Callable[[], None]) -> None:
        self._timeout = timeout
        self._on_lost = on_lost
        self._transport: asyncio.WriteTransport | None = None
        self.is_ready = True
        """Whether a message can be sent now: the pipe is not full, and the child reads."""
        self._readable = anyio.Event()
        """Set when the pipe is no longer full, or the child has ended."""
        self._lost: ConnectionLostError | None = None
        self._posted = 0
        self._copy: int | None = None
        """A duplicate descriptor of the pipe, until the handshake: uvloop closes its own before it reports an end."""
        self._left_unread = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the pipe, which is connected, and a duplicate of its descriptor."""
        self._transport = cast("asyncio.WriteTransport", transport)
        with suppress(OSError):  # no descriptor is left
            self._copy = os.dup(transport.get_extra_info("pipe").fileno())
            FORKS.conceal(self._copy)

    @property
    def is_unread(self) -> bool:
        """Whether the child has read nothing that was sent; `False` where that is not known."""
        return self._left_unread if self._copy is None else 0 < self._posted <= _unread(self._copy)

    def close_copy(self) -> None:
        """Close the duplicate descriptor: the child has read something by now (the handshake), or it has ended."""
        if self._copy is not None:
            self._left_unread = self.is_unread
            os.close(self._copy)
            self._copy = None

    def pause_writing(self) -> None:
        if self.is_ready:
            self.is_ready, self._readable = False, anyio.Event()

    def resume_writing(self) -> None:
        self.is_ready = self._lost is None
        self._readable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the child closed its input, or has ended."""
        self.close_copy()
        self._transport = None
        self.abandon(ConnectionLostError("closed its standard input"))
        self._on_lost()

    async def wait(self) -> None:
        """Wait until earlier messages were read; raise an error if the child has ended, or reads nothing."""
        with anyio.move_on_after(self._timeout):
            while not self.is_ready and self._lost is None:  # another that waited may have been quicker
                await self._readable.wait()
        if self._lost is not None:
            raise self._lost
        if not self.is_ready:
            raise UpstreamError(f"has not read its standard input for {self._timeout:g} s")

    def post(self, message: bytes) -> None:
        """Send one message without waiting; drop it if the child has ended."""
        if self._transport is not None and self._lost is None:
            self._transport.write(message + b"\n")
            self._posted += len(message) + 1

    def abandon(self, error: ConnectionLostError) -> None:
        """Fail all messages from now on with an error."""
        if self._lost is None:
            self._lost = error
        self.resume_writing()

    def close(self) -> None:
        """Close the pipe, once everything was written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _unread(descriptor: int) -> int:
    """Return the unread bytes in a pipe, from its writing end; 0 where the system does not report them."""
    import fcntl
    import termios

    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0
