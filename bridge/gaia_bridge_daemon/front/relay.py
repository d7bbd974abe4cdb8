"""Relays lines between a client on standard input and output, and a bridge on a socket, even if the bridge changes.

One thread waits for a few descriptors. Whole lines are passed on: a line that a bridge did not finish is never seen by
the client.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import sys
import time
from contextlib import contextmanager

from gaia_bridge_daemon.front.conversation import Conversation
from gaia_bridge_daemon.front.greeting import GREETING, MOVE, REST, GreetingError, read_greeting, written
from gaia_bridge_daemon.front.launching import BridgeDownError

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from typing import Any

    Ready = Callable[[Mapping[int, int], float | None], dict[int, int]]
    """Waits for events: takes masks of `poll` by descriptors, and seconds, and returns the masks that are ready."""


def way_for(*descriptors: int) -> Ready:
    """Return a way to wait for these descriptors, and for sockets: on macOS, `poll` knows no terminals or devices."""
    if sys.platform == "darwin" and any(stat.S_ISCHR(os.fstat(descriptor).st_mode) for descriptor in descriptors):
        return by_select
    return by_poll


def by_poll(wanted: Mapping[int, int], seconds: float | None) -> dict[int, int]:
    """Wait with `poll`: it reports errors of every descriptor, also where no event is asked for."""
    poll = select.poll()
    for descriptor, mask in wanted.items():
        poll.register(descriptor, mask)
    return dict(poll.poll(None if seconds is None else seconds * 1000))


def by_select(wanted: Mapping[int, int], seconds: float | None) -> dict[int, int]:
    """Wait with `select`: an end of input counts as readable, and errors show at the next read or write."""
    reads = [descriptor for descriptor, mask in wanted.items() if mask & select.POLLIN]
    writes = [descriptor for descriptor, mask in wanted.items() if mask & select.POLLOUT]
    readable, writable, _ = select.select(reads, writes, (), seconds)
    found = dict.fromkeys(readable, select.POLLIN)
    for descriptor in writable:
        found[descriptor] = found.get(descriptor, 0) | select.POLLOUT
    return found


_CHUNK = 262_144
_UNSENT = 1_048_576
"""Bytes that wait for one side; while there are as many, the other side is not read."""

_LONGEST = 4 * 1_048_576
"""Bytes of a client's line that is parsed. A longer one is passed on as it comes, and refused by the bridge: see
`Settings.line_bytes`."""

_FAREWELL = 10.0
"""Seconds for answers that are still open when the client has closed our input, and still reads."""

_LAST_WORDS = 1.0
"""Seconds to wait for a request that can be answered with the reason why there is no bridge."""

_RESTARTS = 5
"""Bridges that may be lost within `_RESTART_WINDOW`; with more, the relay gives up, as it would restart for ever."""

_RESTART_WINDOW = 60.0
"""Seconds."""

_RETRY_PAUSE = 2.0
"""Seconds between two attempts to start a bridge where none can be started; requests in between are answered with the
reason."""

_WHY = "the bridge ended while it worked on this; whether it was done is not known"


class FrontRelay:
    """The relay of one client.

    Args:
        reach: Connects to the bridge, starting it if need be. Given the largest id of a request that a bridge has sent.
        heard: Called with each greeting of the bridge.
        reading: The descriptor of the client's messages.
        writing: The descriptor of the answers.
    """

    def __init__(
        self,
        reach: Callable[[int], socket.socket],
        heard: Callable[[dict[str, Any]], object],
        reading: int = 0,
        writing: int = 1,
    ) -> None:
        self._reach = reach
        self._heard = heard
        self._reading = reading
        self._writing = writing
        self._ready = way_for(reading, writing)
        self._conversation = Conversation()
        self._bridge: socket.socket | None = None
        self._from_client = _Lines(_LONGEST)
        self._from_bridge = _Lines()
        self._to_client = bytearray()
        self._to_bridge = bytearray()
        self._input_ended = False
        self._until: float | None = None
        self._losses: list[float] = []
        self._is_hasty = False
        """Whether writing to the client never waits."""
        self._is_to_move = False
        """Whether another bridge replaces it, to which we go as soon as nothing is open."""
        self._is_moving = False
        """Whether we have sent `MOVE`: the bridge reads nothing more of us."""
        self._is_resting = False
        """Whether the bridge was ended on purpose, and is not to be started before it is needed."""
        self._refusal = ""
        """Why no bridge could be started, if none could."""
        self._retry_at = 0.0

    def run(self) -> None:
        """Relay until the client is gone.

        Raises:
            BridgeDownError: There is no bridge, and none can be started: it ends again and again, or has never answered
                the client. The client gets this as an error.
        """
        with _without_blocking(self._writing) as self._is_hasty:
            try:
                self._connect()
                while not self._is_over():
                    self._step()
            except ConnectionError:  # the client is gone, as it no longer reads
                pass
            except BridgeDownError as error:
                self._give_up(str(error))
                raise
            finally:
                if self._bridge is not None:
                    self._bridge.close()

    def _is_over(self) -> bool:
        if not self._input_ended:
            return False
        if time.monotonic() > (self._until or 0):
            return True
        if self._to_client or self._to_bridge:
            return False
        return self._bridge is None or not self._conversation.is_open

    def _step(self) -> None:
        """Wait until something can be read or written, and do it."""
        self._move_if_quiet()
        bridge = self._bridge
        wanted: dict[int, int] = {}
        # Where nothing is to be written, an error is reported all the same: the client is gone.
        wanted[self._writing] = select.POLLOUT if self._to_client else 0
        reads_client = not self._input_ended and not self._is_moving and len(self._to_bridge) < _UNSENT
        if reads_client:  # maybe on the same descriptor
            wanted[self._reading] = wanted.get(self._reading, 0) | select.POLLIN
        if bridge is not None:
            of_bridge = select.POLLIN if len(self._to_client) < _UNSENT else 0
            wanted[bridge.fileno()] = of_bridge | (select.POLLOUT if self._to_bridge else 0)
        ready = self._ready(wanted, None if self._until is None else max(0.0, self._until - time.monotonic()))
        if (what := ready.get(self._writing, 0)) & select.POLLOUT:
            self._write_to_client()
        elif what & ~select.POLLIN:
            raise BrokenPipeError
        # The bridge first: if it is gone, the next one gets the client's new lines.
        if bridge is not None and (what := ready.get(bridge.fileno(), 0)):
            self._serve_bridge(bridge, what)
        if reads_client and ready.get(self._reading):
            self._read_client()
        if self._to_client and self._is_hasty:
            self._write_to_client()

    # The client.

    def _read_client(self) -> None:
        chunk = self._read()
        if chunk is None:
            return
        if not chunk:
            self._input_ended = True
            self._until = time.monotonic() + _FAREWELL
        elif self._bridge is None:
            self._resume()
        self._take_from_client(chunk)
        if self._bridge is not None:
            self._serve_bridge(self._bridge, select.POLLOUT)  # the bridge nearly always has room for it
        elif self._refusal:
            self._refuse()

    def _read(self) -> bytes | None:
        """Read from the client; return nothing if it is gone, `None` if no bytes are there."""
        try:
            return os.read(self._reading, _CHUNK)
        except BlockingIOError:
            return None
        except ConnectionError:  # the client closed its end of a socket pair before reading everything
            return b""

    def _take_from_client(self, chunk: bytes) -> None:
        if not chunk and not self._from_client.is_inside and (rest := self._from_client.end()):
            chunk = rest + b"\n"  # its last line has no end
        for line in self._from_client.feed(chunk):
            self._conversation.from_client(line)
            if line.startswith(GREETING):  # so that it is no greeting; the bridge reports the error in it
                self._to_bridge += b" "
            self._to_bridge += line
        self._to_bridge += self._from_client.overlong()

    def _write_to_client(self) -> None:
        try:
            del self._to_client[: os.write(self._writing, self._to_client)]
        except BlockingIOError:
            pass

    def _tell_client(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._to_client += line + b"\n"

    # The bridge.

    def _connect(self) -> None:
        self._bridge = self._reach(self._conversation.last_asked)
        self._bridge.setblocking(False)
        self._from_bridge = _Lines()
        self._from_client.skip()
        self._is_to_move = self._is_moving = False

    def _serve_bridge(self, bridge: socket.socket, what: int) -> None:
        """Write to the bridge and read from it, as far as it is ready for that."""
        try:
            if what & select.POLLOUT:
                del self._to_bridge[: bridge.send(self._to_bridge)]
            if what & ~select.POLLOUT:
                self._take(bridge.recv(_CHUNK))
        except BlockingIOError:
            pass
        except OSError:
            self._take(b"")

    def _take(self, chunk: bytes) -> None:
        for line in self._from_bridge.feed(chunk):
            if line.startswith(GREETING):
                self._told(line)
            elif self._conversation.from_bridge(line):
                self._to_client += line
        if not chunk:
            self._lost()

    def _told(self, line: bytes) -> None:
        """Handle a message of the bridge to this relay."""
        try:
            news = read_greeting(line)
        except GreetingError:  # of another version than we know
            return
        self._heard(news)
        self._is_to_move |= news.get("do") == MOVE
        self._is_resting |= news.get("do") == REST

    def _move_if_quiet(self) -> None:
        """Leave a bridge that is replaced, once it is idle. Open requests were begun there, and are finished there."""
        if self._is_to_move and self._conversation.is_quiet and not (self._to_bridge or self._from_client.is_inside):
            self._is_to_move, self._is_moving = False, True
            self._to_bridge += written(do=MOVE)  # the next bridge gets all lines after this

    def _lost(self) -> None:
        """Send the client the consequences of a lost bridge, and connect to another one."""
        assert self._bridge is not None
        self._bridge.close()
        self._bridge = None
        self._conversation.unsent(bytes(self._to_bridge))
        self._to_bridge.clear()  # open requests in it are sent again with the rest
        self._tell_client(self._conversation.lost(_WHY))
        self._write_to_client()
        now = time.monotonic()
        if not (self._is_resting or self._is_moving or self._is_to_move):
            self._losses = [*(loss for loss in self._losses if loss > now - _RESTART_WINDOW), now]
        if len(self._losses) > _RESTARTS:
            raise BridgeDownError(f"the bridge ended {len(self._losses)} times within {_RESTART_WINDOW:g} s")
        if self._conversation.is_open or not (self._is_resting or self._input_ended):
            self._resume()

    def _resume(self) -> None:
        """Connect to another bridge and replay the state of the one before.

        Where none can be started, the client gets the reason, and the next message of the client tries again.
        """
        self._is_resting = False
        if self._refusal and time.monotonic() < self._retry_at:
            return
        try:
            self._connect()
        except BridgeDownError as error:
            if self._input_ended or not self._conversation.has_begun:
                raise
            self._refusal, self._retry_at = str(error), time.monotonic() + _RETRY_PAUSE
            self._is_to_move = self._is_moving = False
            self._refuse()
            return
        self._refusal = ""
        for line in self._conversation.replay():
            self._to_bridge += line.removesuffix(b"\n") + b"\n"
        self._tell_client(self._conversation.resumed())

    def _refuse(self) -> None:
        """Answer open requests with the reason why there is no bridge just now."""
        self._to_bridge.clear()
        self._tell_client(self._conversation.refused(self._refusal))

    def _give_up(self, why: str) -> None:
        """Send the client the reason why there are no answers, also to a request that is just coming."""
        try:
            if not self._input_ended and self._ready({self._reading: select.POLLIN}, _LAST_WORDS):
                self._take_from_client(self._read() or b"")
            self._tell_client(self._conversation.ended(why))
            os.set_blocking(self._writing, True)
            while self._to_client:
                self._write_to_client()
        except OSError:  # the client no longer reads
            pass


class _Lines:
    """Cuts bytes into lines, each with its end.

    Args:
        longest: Bytes of a line beyond which it is handed over in pieces by `overlong`.
    """

    def __init__(self, longest: int | None = None) -> None:
        self._rest: list[bytes] = []
        self._size = 0
        self._longest = longest
        self._is_skipping = False
        self.is_inside = False
        """Whether pieces of a line were handed over, and not its end."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete now; of an overlong one, its last piece."""
        *lines, rest = chunk.split(b"\n")
        whole: list[bytes] = []
        for line in lines:
            if not self._is_skipping:
                whole.append(b"".join((*self._rest, line, b"\n")))
            self._is_skipping = self.is_inside = False
            self.end()
        if rest and not self._is_skipping:
            self._rest.append(rest)
            self._size += len(rest)
        return whole

    def overlong(self) -> bytes:
        """Return the piece that has come of a line that is too long to be kept."""
        if self._longest is None or self._size <= self._longest:
            return b""
        self.is_inside = True
        return self.end()

    def skip(self) -> None:
        """Skip the rest of a line that was handed over in pieces, because the receiver of its beginning is gone."""
        if self.is_inside:
            self._is_skipping, self.is_inside = True, False
            self.end()

    def end(self) -> bytes:
        """Return the bytes that have come of an unfinished line."""
        rest = b"".join(self._rest)
        self._rest.clear()
        self._size = 0
        return rest


@contextmanager
def _without_blocking(descriptor: int) -> Generator[bool]:
    """Write to a descriptor without waiting, where no other program shares it; yield whether that is so."""
    mode = os.fstat(descriptor).st_mode
    if not os.get_blocking(descriptor):
        yield True
    elif not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        yield False
    else:
        os.set_blocking(descriptor, False)
        try:
            yield True
        finally:
            os.set_blocking(descriptor, True)
