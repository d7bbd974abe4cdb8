"""Checks the ports that the bridge listens on, or that editors look for it at, and names their users."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import anyio

from gaia_bridge.bridge.report import INFO
from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge.text.json_types import is_object
from gaia_bridge_desk.doctor.checks import Finding, Kind, Level, Subject, in_thread
from gaia_bridge_desk.doctor.editors import editor_entries
from gaia_bridge_desk.doctor.surroundings import Surroundings

_FREE = Kind("port.free", Level.OK, "the port is free", "`gaia-bridge serve` can listen there")
_OURS = Kind("port.ours", Level.OK, "a bridge listens on the port", "editors that are given the address reach it")
_STRANGER = Kind(
    "port.stranger",
    Level.WARNING,
    "another program listens on the port",
    "`gaia-bridge serve` cannot listen there, and an editor that is given the address talks to that program",
    "end the other program, or choose another port: gaia-bridge serve --port 8766",
)
_NOBODY = Kind(
    "port.nobody",
    Level.WARNING,
    "an editor looks for the bridge at an address where nobody listens",
    "the editor shows the server as failed until a bridge is started there",
    "gaia-bridge serve; or, for an editor that starts the bridge by itself: gaia-bridge install EDITOR",
)

_REQUEST: Final = "GET /health?challenge=doctor HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
_LONGEST: Final = 65_536
"""The most bytes of an answer; that of a bridge has a hundred."""

_LISTENING: Final = "0A"
"""The state of a listening socket, in the table of the kernel."""


async def _check(at: Surroundings) -> list[Finding]:
    wanted: dict[int, list[str]] = {DEFAULT_PORT: []}
    for entry in (await in_thread(partial(editor_entries, at)))[0]:
        if entry.port is not None:
            wanted.setdefault(entry.port, []).append(entry.editor.title)
    findings: dict[int, Finding] = {}

    async def look(port: int, editors: list[str]) -> None:
        findings[port] = await _examine(port, editors, at.limits.connect_timeout)

    async with anyio.create_task_group() as tasks:
        for port, editors in wanted.items():
            tasks.start_soon(look, port, editors)
    return [findings[port] for port in sorted(findings)]


async def _examine(port: int, editors: list[str], seconds: float) -> Finding:
    about = f"{DEFAULT_HOST}:{port}"
    try:
        with anyio.fail_after(seconds):
            stream = await anyio.connect_tcp(DEFAULT_HOST, port)
    except (OSError, TimeoutError):
        if editors:
            return _NOBODY.finding(f"{', '.join(editors)}: nobody listens at {about}", about)
        return _FREE.finding(f"port {port} is free", about)
    answer = b""
    with anyio.move_on_after(seconds):
        async with stream:
            answer = await _ask(stream, port)
    if _is_bridge(answer):
        return _OURS.finding(f"a bridge listens at {about}", about)
    process = await in_thread(partial(_listener, port))
    who = process or "which one is told by: " + f"lsof -nP -iTCP:{port} -sTCP:LISTEN"
    remedy = f"end it ({process}), or: gaia-bridge serve --port {port + 1}" if process else None
    return _STRANGER.finding(f"port {port} is taken by another program ({who})", about, remedy)


async def _ask(stream: anyio.abc.SocketStream, port: int) -> bytes:
    """Send a harmless request and return the answer."""
    answer = b""
    try:
        await stream.send(_REQUEST.format(host=DEFAULT_HOST, port=port).encode())
        while len(answer) < _LONGEST:
            answer += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        pass
    return answer


def _is_bridge(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        info = json.loads(body)
    except (ValueError, RecursionError):
        return False
    # A bridge with a token only reports here that it runs, and proves that it knows the token.
    return (
        head.startswith(b"HTTP/1.1 200") and is_object(info) and (info.get("service") == INFO.title or "proof" in info)
    )


def _listener(port: int) -> str:
    """Return the process that listens on a port; empty if the system does not say."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    if not sockets:
        return ""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        if sockets.isdisjoint(_held(pid)):
            continue
        with suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as name:
            return f"process {pid}, {name.read().strip()}"
    return ""


def _held(pid: str) -> Iterator[str]:
    """Yield the files and sockets that a process has open, as far as we may see them."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):  # of another user, or gone
        for number in os.listdir(folder):
            with suppress(OSError):  # closed meanwhile
                yield os.readlink(f"{folder}/{number}")


def _inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        for row in rows:
            if row[1].endswith(f":{port:04X}") and row[3] == _LISTENING:
                yield row[9]


PORTS = Subject("Ports", (_FREE, _OURS, _STRANGER, _NOBODY), _check)
