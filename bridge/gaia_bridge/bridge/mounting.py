"""A bridge as an ASGI application inside of another one, or of a server that is not ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from starlette.types import ASGIApp, Receive, Scope, Send

from gaia_bridge.errors import INTERNAL_ERROR
from gaia_bridge.server.http.error_bodies import body_for
from gaia_bridge.server.http.proxies import at_root

__all__ = ["MountedBridge"]

_NOT_OPEN = (
    "The bridge is not open. Enter it in the lifespan of the application: FastAPI(lifespan=bridge.lifespan), or "
    "`async with bridge:` in a lifespan of your own. Servers do not run the lifespan of what is mounted."
)


class MountedBridge:
    """ASGI application: serves a bridge below any path, and opens it where the server runs our lifespan.

    Args:
        app: What the bridge serves.
        is_open: Whether the bridge is open.
        opened: Opens it.
    """

    def __init__(
        self, app: ASGIApp, is_open: Callable[[], bool], opened: Callable[[], AbstractAsyncContextManager[object]]
    ) -> None:
        self._app = app
        self._is_open = is_open
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        scope = at_root(scope)
        if self._is_open() or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = body_for(scope["path"], 503, _NOT_OPEN, INTERNAL_ERROR)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Keep the bridge open from the server's start to its end, unless somebody else does."""
        await receive()
        async with AsyncExitStack() as stack:
            try:
                if not self._is_open():
                    await stack.enter_async_context(self._opened())
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
