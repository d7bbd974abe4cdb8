"""HTTP APIs for tests: any ASGI application on a real socket, in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import uvicorn

from gaia_bridge.client.transport import Link
from gaia_bridge.model import OpenApiServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.openapi.transport import OpenApiTransport
from tests.support.waiting import PATIENCE

__all__ = ["Api", "api", "served", "served_app"]


@contextmanager
def served_app(app: Any) -> Generator[str]:
    """The address of an application, which runs until the end of the block."""
    with served(lambda address: app, lifespan="off", timeout_graceful_shutdown=1) as address:
        yield address


@contextmanager
def served(make: Callable[[str], Any], **options: Any) -> Generator[str]:
    """The address of an application, which runs until the end of the block.

    Args:
        make: Makes it, for that address.
        options: Of uvicorn.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = uvicorn.Config(make(address), log_level="error", **options)
        program = uvicorn.Server(config)
        thread = threading.Thread(target=program.run, args=([listening],))
        thread.start()
        try:
            yield address
        finally:
            program.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


class Api:
    """An API behind the transport, asked without a bridge."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._number = 0

    async def ask(self, method: str, **params: Any) -> JSON:
        """The whole response to a request."""
        self._number += 1
        return await self._link.request({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})

    async def tools(self) -> dict[str, JSON]:
        """What it lists, by name."""
        listed = await self.ask("tools/list")
        return {tool["name"]: tool for tool in listed["result"]["tools"]}

    async def call(self, tool: str, **arguments: Any) -> JSON:
        """The result of a call."""
        response = await self.ask("tools/call", name=tool, arguments=arguments)
        result: JSON = response["result"]
        return result


class _Deaf:
    def message(self, message: JSON, during: int | None) -> None:
        raise AssertionError(f"an API says nothing of its own accord: {message}")

    def ended(self, reason: str) -> None:
        raise AssertionError(f"an API has no end of its own: {reason}")


@asynccontextmanager
async def api(
    document: str | JSON,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    limits: UpstreamLimits | None = None,
) -> AsyncGenerator[Api]:
    """An API by its document."""
    spec = OpenApiServerSpec("api", document, url, headers or {})
    with anyio.fail_after(PATIENCE * 2):
        async with OpenApiTransport(spec, limits or UpstreamLimits()).connect(_Deaf()) as link:
            yield Api(link)
