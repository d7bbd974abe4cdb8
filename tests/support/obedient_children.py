"""Children that misbehave on demand, and proof that they are gone: a connection that ends with its process."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

from gaia_bridge.client.transport import Link
from gaia_bridge.client.transports.children.stdio import StdioLink, StdioTransport
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.support.waiting import PATIENCE, Changing

__all__ = ["Liveness", "Received", "child", "do", "launched", "liveness"]

PROGRAM = Path(__file__).parents[1] / "servers" / "obedient_child.py"
_numbers = itertools.count(1)


def child(code: str = "", name: str = "child", **env: str) -> StdioServerSpec:
    """How to launch `tests/servers/obedient_child.py`."""
    return StdioServerSpec(name, sys.executable, ("-S", str(PROGRAM), code), env)


class Received(Changing):
    """A receiver that remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[JSON] = []
        self.reasons: list[str] = []

    def message(self, message: JSON, during: int | None) -> None:
        assert during is None
        self.messages.append(message)
        self._changed()

    def ended(self, reason: str) -> None:
        self.reasons.append(reason)
        self._changed()


@asynccontextmanager
async def launched(spec: StdioServerSpec, receiver: Received | None = None, **limits: Any) -> AsyncGenerator[StdioLink]:
    """A link to a child."""
    async with StdioTransport(spec, UpstreamLimits(**limits)).connect(receiver or Received()) as link:
        assert isinstance(link, StdioLink)
        yield link


async def do(link: Link, code: str, **params: Any) -> JSON:
    """Let the child run code that answers; returns its result."""
    message = {"jsonrpc": "2.0", "id": next(_numbers), "method": "do", "params": {"do": code, **params}}
    with anyio.fail_after(PATIENCE):
        response = await link.request(message)
    result: JSON = response["result"]
    return result


class Liveness(Changing):
    """Knows which processes live: those that called `alive(role)` and whose connection is open."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.pids: dict[str, int] = {}
        self._gone: set[str] = set()

    async def born(self, *roles: str) -> None:
        """Wait until these processes live."""
        await self.until(lambda: all(role in self.pids for role in roles))

    async def dead(self, *roles: str) -> None:
        """Wait until these processes are gone."""
        await self.until(lambda: all(role in self._gone for role in roles))

    async def serve(self, stream: SocketStream) -> None:
        """Follow one process."""
        async with stream:
            role, pid = (await stream.receive()).decode().split()
            self.pids[role] = int(pid)
            self._changed()
            try:
                await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self._gone.add(role)
                self._changed()


@asynccontextmanager
async def liveness() -> AsyncGenerator[Liveness]:
    """A place for processes to say that they live; give them its port as `LIVENESS`."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        known = Liveness(listener.extra(SocketAttribute.local_port))
        tasks.start_soon(listener.serve, known.serve)
        yield known
        tasks.cancel_scope.cancel()
