"""The server of `tests/servers/stdio_upstream.py` over HTTP, at `/mcp` and at `/sse`, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from tests.client_helpers import PATIENCE
from tests.servers.stdio_upstream import SERVER

__all__ = ["seen_authorizations", "served_upstream"]

seen_authorizations: list[str] = []
"""The `Authorization` headers of all requests to `/mcp`."""


@contextmanager
def served_upstream() -> Generator[str]:
    """The base URL of the server, which is there until the end of the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(_application(), log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
    assert not thread.is_alive()


def _application() -> Starlette:
    manager = StreamableHTTPSessionManager(SERVER)
    sse = SseServerTransport("/messages/")

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        seen_authorizations.append(Request(scope).headers.get("authorization", ""))
        await manager.handle_request(scope, receive, send)

    async def handle_sse(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as (read, write):  # pyright: ignore[reportPrivateUsage]  # as the SDK's documentation has it
            await SERVER.run(read, write, SERVER.create_initialization_options())
        return Response()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    routes = [
        Mount("/mcp", app=handle),
        Route("/sse", endpoint=handle_sse),
        Mount("/messages/", app=sse.handle_post_message),
    ]
    return Starlette(routes=routes, lifespan=lifespan)
