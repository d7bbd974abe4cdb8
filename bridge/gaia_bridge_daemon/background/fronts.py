"""Serves the fronts of editors: each is a client of its own, as if it had a bridge of its own on stdio."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from socket import socket
from typing import Any, Final

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from gaia_bridge.calls.process_ancestry import LINEAGE
from gaia_bridge.errors import PublishError
from gaia_bridge.protocol.framing import LineFramer
from gaia_bridge.runtime.peer_credentials import is_of_this_user
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.transports.lines import LineClient, at_once
from gaia_bridge.settings import Settings
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON
from gaia_bridge_daemon.background.usage import UserCounter
from gaia_bridge_daemon.front.greeting import (
    DRAIN,
    GREETING,
    KEEP,
    LINE_BYTES,
    MOVE,
    REST,
    SERVE,
    STATUS,
    STATUS_BYTES,
    STOP,
    GreetingError,
    format_greeting,
    read_greeting,
)
from gaia_bridge_daemon.front.launching import FOR_EVER
from gaia_bridge_daemon.front.place import Scope

logger = logging.getLogger(__name__)

_CHUNK: Final = 256 * 1024

_LOOP: Final = "take that entry out of its configuration"


class _Front(Struct, eq=False):
    """One front that is being served."""

    pid: int
    source: str
    folder: str
    since: float
    client: LineClient
    writer: asyncio.StreamWriter


class Fronts:
    """The fronts of a bridge.

    Args:
        scope: The scope of the bridge: a front that wants another one is refused.
        dispatcher: Returns the dispatcher of an endpoint by the name of its source; raises `PublishError`.
        names: Returns the names of the sources.
        settings: Limits.
        usage: Counts every front as a user.
        on_stop: Called when the bridge is asked to end.
        on_drain: Called when the bridge is asked to end once no client waits for it.
        report: Returns the bridge's status.
    """

    def __init__(
        self,
        scope: Scope,
        dispatcher: Callable[[str | None], Dispatcher],
        names: Callable[[], list[str]],
        settings: Settings,
        usage: UserCounter,
        on_stop: Callable[[], None],
        on_drain: Callable[[], None],
        report: Callable[[], JSON],
    ) -> None:
        self._scope = scope
        self._dispatcher = dispatcher
        self._names = names
        self._settings = settings
        self._limits = settings.background
        self._usage = usage
        self._on_stop = on_stop
        self._on_drain = on_drain
        self._report = report
        self._is_leaving = False
        """Whether the bridge takes no more fronts."""
        self._fronts: set[_Front] = set()
        self._one_left = asyncio.Event()
        self._began = time.time()

    async def run(self, listener: socket, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve fronts until cancelled.

        Args:
            listener: The socket to which fronts connect.
            task_status: Started when fronts can connect.
        """
        server = await asyncio.start_unix_server(self._serve, sock=listener, limit=_CHUNK)
        try:
            task_status.started()
            await anyio.sleep_forever()
        finally:
            server.close()
            for front in self._fronts:
                front.writer.close()

    def rest(self) -> None:
        """Disconnect all fronts before the bridge ends on request: they start no other bridge by themselves.

        They are disconnected at once, because their clients need nothing from the bridge's shutdown.
        """
        self._is_leaving = True
        self._send_all(do=REST)
        for front in self._fronts:
            front.writer.close()

    def move(self) -> None:
        """Send all fronts to the bridge that replaces this one; each goes as soon as nothing is open."""
        self._is_leaving = True
        self._send_all(do=MOVE)

    async def wait_until_none_left(self) -> None:
        """Wait until no front is served."""
        while self._fronts:
            self._one_left.clear()
            await self._one_left.wait()

    def _send_all(self, **fields: object) -> None:
        for front in self._fronts:
            with suppress(OSError, RuntimeError):
                front.writer.write(format_greeting(**fields))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a program that has connected."""
        connection = writer.get_extra_info("socket")
        try:
            if not is_of_this_user(connection):
                logger.warning("a program of another user connected, and was sent away")
                return
            async with asyncio.timeout(self._limits.greeting_timeout):
                line = await reader.readline()
            if not line:  # a check whether the bridge listens
                return
            greeting = read_greeting(line[:LINE_BYTES])
            await self._handle_greeting(greeting, reader, writer)
        except GreetingError as error:
            logger.info("no front: %s", one_line(str(error)))
            writer.write(format_greeting(error=f"expected the greeting of a front: {error}"))
        except (
            OSError,
            ValueError,
        ) as error:  # ValueError: a line beyond the limit
            logger.debug("a front sent nothing that could be read: %r", error)
        finally:
            with suppress(OSError):
                await writer.drain()
            writer.close()

    async def _handle_greeting(
        self, greeting: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        request = greeting.get("do")
        if request == STATUS:
            writer.write(self._status())
        elif request == KEEP:
            seconds = greeting.get("keep")
            if isinstance(seconds, int | float):
                self._usage.set_keep(None if seconds < 0 else seconds)
                self._send_all(do=KEEP, keep=seconds)
            writer.write(self._introduction())
        elif request in (STOP, DRAIN):
            # Answer first: the call below may end this very task.
            writer.write(self._introduction())
            if greeting.get("pid") in (None, os.getpid()):  # else the request was for the bridge before this one
                (self._on_stop if request == STOP else self._on_drain)()
        elif request == SERVE and self._is_leaving:
            pass  # the front connects again, to the next bridge
        elif request == SERVE:
            await self._serve_client(greeting, reader, writer)
        else:
            wanted = one_line(repr(request), 40)
            expected = ", ".join((SERVE, STATUS, KEEP, STOP, DRAIN))
            writer.write(format_greeting(error=f"it is asked for {wanted}; expected one of: {expected}"))

    async def _serve_client(
        self, greeting: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        refusal = self._refusal(greeting)
        if refusal is not None:
            writer.write(format_greeting(error=refusal))
            return
        source = str(greeting.get("source") or "")
        asked = greeting.get("asked")

        turns = anyio.Lock()

        async def write(line: bytes) -> None:
            async with turns:  # a line that waits here is counted; in the writer it would be a second copy
                if not writer.is_closing():
                    writer.write(line)
                    writer.write(b"\n")
                    with suppress(ConnectionError):
                        await writer.drain()

        pid = greeting.get("pid")
        folder = str(greeting.get("folder") or "")
        dispatcher, batch = self._dispatcher(source or None), self._settings.http.batch
        number = asked if isinstance(asked, int) else 0
        cut = writer.transport.abort
        client = LineClient(dispatcher, write, batch, number, folder or None, cut, at_once(writer))
        front = _Front(pid if isinstance(pid, int) else 0, source, folder, time.time(), client, writer)
        writer.write(self._introduction())
        self._fronts.add(front)
        try:
            with self._usage.count_one():
                await self._read(reader, client)
        except ConnectionError:
            pass
        finally:
            self._fronts.discard(front)
            self._one_left.set()
            client.close()

    async def _read(self, reader: asyncio.StreamReader, client: LineClient) -> None:
        framer = LineFramer(self._settings.line_bytes)
        while chunk := await reader.read(_CHUNK):
            for line in framer.feed(chunk):
                if isinstance(line, bytes) and line.startswith(GREETING):
                    await client.none_left()
                    return
                await client.take(line)

    def _refusal(self, greeting: Mapping[str, Any]) -> str | None:
        if greeting.get("scope") != self._scope.as_json():
            return "the bridge that runs there publishes something else; end it: gaia-bridge down --all"
        if LINEAGE.is_above(str(greeting.get("lineage") or "")):
            return f"it is the bridge that started this program, as a server of its own: {_LOOP}"
        source = str(greeting.get("source") or "")
        try:
            self._dispatcher(source or None)
        except PublishError:
            published = ", ".join(self._names()) or "nothing at all"
            return f"{one_line(repr(source), 80)} is not published; expected one of: {published}"
        return None

    def _introduction(self) -> bytes:
        keep = self._usage.keep
        return format_greeting(pid=os.getpid(), keep=FOR_EVER if keep is None else keep)

    def _status(self) -> bytes:
        report: Any = self._report()
        line = self._status_line(report)
        if len(line) > STATUS_BYTES:  # one server may have thousands of tools that are left out: the log names each
            sources = [{key: item[key] for key in item if key != "leftOut"} for item in report["sources"]]
            line = self._status_line({**report, "sources": sources, "leftOut": [], "tools": {}})
        return line

    def _status_line(self, report: object) -> bytes:
        fronts = [
            {
                "pid": front.pid,
                "source": front.source,
                "folder": front.folder,
                "since": front.since,
                "client": front.client.name,
            }
            for front in sorted(self._fronts, key=lambda front: front.since)
        ]
        return format_greeting(
            pid=os.getpid(),
            since=self._began,
            keep=self._usage.keep,
            scope=self._scope.as_json(),
            users=self._usage.users,
            fronts=fronts,
            report=report,
        )
