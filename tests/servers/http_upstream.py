"""The server of `stdio_upstream.py` over HTTP, in a thread: Streamable HTTP at `/mcp/`, HTTP+SSE at `/sse`."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from tests.support.on_demand import mcp_lowlevel, mcp_server_sse, mcp_streamable_manager, stdio_upstream
from tests.support.waiting import PATIENCE

__all__ = ["served"]


@contextmanager
def served(
    port: int = 0, seen: list[str] | None = None, server: mcp_lowlevel.Server[Any] | None = None
) -> Generator[str]:
    """The address of the server, which runs until the end.

    Args:
        port: Where it listens; 0 for a free one.
        seen: Is given the `Authorization` of every request at `/mcp/`.
        server: Another server to serve.
    """
    server = server or stdio_upstream.SERVER
    manager = mcp_streamable_manager.StreamableHTTPSessionManager(server)
    sse = mcp_server_sse.SseServerTransport("/messages/")

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if seen is not None:
            seen.append(Request(scope).headers.get("authorization", ""))
        await manager.handle_request(scope, receive, send)

    async def handle_sse(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as (read, write):  # pyright: ignore[reportPrivateUsage]  # as the SDK's documentation has it
            await server.run(read, write, server.create_initialization_options())
        return Response()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    messages = Mount("/messages/", app=sse.handle_post_message)
    app = Starlette(routes=[Mount("/mcp", app=handle), Route("/sse", endpoint=handle_sse), messages], lifespan=lifespan)
    with socket.create_server(("127.0.0.1", port)) as listening:
        program = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=program.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            program.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()
