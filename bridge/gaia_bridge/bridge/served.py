"""The ways to an open bridge: over stdio, over HTTP, as an application, and inside of this process.

As an application it may be part of another one, or of a server that is not ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.abc import TaskStatus

from gaia_bridge.bridge.report import Report
from gaia_bridge.constants import DEFAULT_PORT
from gaia_bridge.errors import INTERNAL_ERROR, PublishError
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.endpoint import Endpoint
from gaia_bridge.server.http.error_bodies import body_for
from gaia_bridge.server.http.proxies import at_root
from gaia_bridge.server.transports.stdio import ClaimedStdio, claim_stdio, serve_stdio
from gaia_bridge.settings import Settings
from gaia_bridge.sources.composition.composed import innermost
from gaia_bridge.sources.upstream.source import Upstream

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gaia_bridge.server.http.access_policy import AccessPolicy
    from gaia_bridge_doors.conversation.models import Models

_NOT_OPEN = (
    "The bridge is not open. Enter it in the lifespan of the application: FastAPI(lifespan=bridge.lifespan), or "
    "`async with bridge:` in a lifespan of your own. Servers do not run the lifespan of what is mounted."
)


class MountedBridge:
    """ASGI application: serves a bridge below any path, and opens it where the server runs our lifespan."""

    def __init__(self, bridge: ServedBridge, app: ASGIApp) -> None:
        self._bridge = bridge
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        scope = at_root(scope)
        if self._bridge.is_open or scope["type"] != "http":
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
                if not self._bridge.is_open:
                    await stack.enter_async_context(self._bridge)
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def expect_open(is_open: bool) -> None:
    """Refuse to work with a bridge that is not open.

    Raises:
        RuntimeError: It is not.
    """
    if not is_open:
        raise RuntimeError("the bridge is not open; use it inside `async with Bridge(...) as bridge:`")


class ServedBridge(ABC):
    """The side of a bridge that clients see. The other side, the published sources, is `Bridge`."""

    settings: Settings
    _everything: Catalog
    _endpoints: dict[tuple[str, str], Endpoint]
    _models: Models
    _report: Report
    _is_open: bool

    @property
    def is_open(self) -> bool:
        """Whether the bridge is entered, so that it publishes."""
        return self._is_open

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None: ...

    async def serve_stdio(self, claimed: ClaimedStdio | None = None) -> None:
        """Serve everything on standard input and output, until the client closes our input.

        Args:
            claimed: The result of `claim_stdio()`, where it was called before agents were loaded.
        """
        expect_open(self._is_open)
        all_of_it, limits = self._endpoints["", ""].dispatcher, self.settings
        waits = {"grace": limits.stdio_grace, "starting": limits.stdio_starting}
        size, batch = limits.line_bytes, limits.http.batch
        try:
            await serve_stdio(all_of_it, claimed or claim_stdio(), line_bytes=size, batch=batch, **waits)
        finally:
            sources = map(innermost, self._everything.sources)
            starting = [source.unseen for source in sources if isinstance(source, Upstream)]
            if unseen := [each for each in starting if each is not None]:
                # mostly there is nothing to list
                from gaia_bridge.sources.upstream.late_listing import list_later

                list_later(unseen)

    async def serve_http(
        self,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        *,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        token: str | None = None,
        public_url: str | None = None,
        proxies: Iterable[str] = (),
        task_status: TaskStatus[list[str]] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve everything over HTTP until cancelled. Signals stay the program's.

        Args:
            host: The address to listen on. One that other machines can reach needs `token` and `hosts`.
            port: The port; 0 for any free one.
            hosts: Further names that clients use for us, as `host` or `host:port`.
            origins: Pages of other servers that may call us, in full.
            token: The token that clients must send as `Authorization: Bearer`.
            public_url: The address that clients use, where a proxy stands before us: `https://bridge.example`. It needs
                `token`.
            proxies: Addresses and networks of such proxies, which are believed; any on this machine if there are none.
            task_status: Started with the URLs, once they are served.

        Raises:
            ListenError: The address cannot be listened on, or must not.
            ConfigError: A host, an origin, the public URL or a proxy is not one.
        """
        from gaia_bridge.server.http.access_policy import AccessPolicy
        from gaia_bridge.server.http.listener import serve_until_cancelled

        expect_open(self._is_open)
        policy_for = partial(
            AccessPolicy.for_address,
            allow_hosts=hosts,
            allow_origins=origins,
            token=token,
            limits=self.settings.http,
            public_url=public_url,
            proxies=proxies,
        )
        leave = self.close_streams
        await serve_until_cancelled(self.asgi, policy_for, host, port, on_shutdown=leave, task_status=task_status)

    def app(
        self,
        *,
        hosts: Iterable[str] = ("localhost:*", "127.0.0.1:*", "[::1]:*"),
        origins: Iterable[str] = (),
        token: str | None = None,
        public_url: str | None = None,
        proxies: Iterable[str] = (),
    ) -> ASGIApp:
        """Return an ASGI application, for a server of your own, or to be mounted below any path of another application.

        A server that runs its lifespan opens the bridge. A mounted application has none: enter the bridge in the
        lifespan of the application around it, as `FastAPI(lifespan=bridge.lifespan)`.

        Args:
            hosts: Our names for clients: `host:port`, `host` for a standard port, `host:*` for every port. All else is
                refused, because that is what DNS rebinding needs.
            origins: Pages of other servers that may call us, in full: `https://tool.example`.
            token: The token that clients must send as `Authorization: Bearer`.
            public_url: The address that clients use, where a proxy stands before the server: `https://bridge.example`.
                It needs `token`.
            proxies: Addresses and networks of such proxies, which are believed, and `unix` for those that connect by a
                socket without an address; any on this machine if there are none.

        Raises:
            ConfigError: A host, an origin, the public URL or a proxy is not one.
        """
        from gaia_bridge.server.http.access_policy import AccessPolicy

        policy = AccessPolicy.for_hosts(
            hosts,
            origins=origins,
            token=token,
            limits=self.settings.http,
            public_url=public_url,
            proxies=proxies,
        )
        return MountedBridge(self, self.asgi(policy))

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None]:
        """Keep the bridge open, as the lifespan of an application that mounts `app()`."""
        async with self:
            yield

    def asgi(self, policy: AccessPolicy) -> ASGIApp:
        """Return the HTTP application, to be served while the bridge is open."""
        from gaia_bridge.server.http.app import make_app

        return make_app(self._endpoints, self._report.routes, policy, self._chat_routes)

    def _chat_routes(self) -> Iterable[BaseRoute]:
        from gaia_bridge_doors.openai_api.app import chat_routes

        return chat_routes(self._models, self.dispatcher(), self.settings.chats)

    def dispatcher(self, source: str | None = None) -> Dispatcher:
        """Return the dispatcher of an endpoint, for clients and transports inside of this process.

        Args:
            source: The name of an agent or server whose own endpoint it is; everything is published if `None`.

        Raises:
            PublishError: Nothing is published under that name.
        """
        for (_, name), endpoint in self._endpoints.items():
            if name == (source or ""):
                return endpoint.dispatcher
        raise PublishError(source or "", "nothing is published under that name")

    def sdk_server(self, source: str | None = None) -> Server[Any]:
        """Return an endpoint as a server of the official SDK, for middleware and transports that are written for one.

        Its requests are answered while the bridge is open, on the bridge's event loop. Whatever the SDK does not know
        (methods of extensions, unknown fields of results) does not pass it.

        Args:
            source: The name of an agent or server whose own endpoint it is; everything is published if `None`.

        Raises:
            PublishError: Nothing is published under that name.
        """
        from gaia_bridge.server.sdk_server import sdk_server

        return sdk_server(self.dispatcher(source))

    def close_streams(self) -> None:
        """Close the event streams of clients properly, so that a shutdown does not wait for them.

        Agents that are answering a chat get some more seconds (`ChatEndpointLimits.farewell`).
        """
        self._models.say_goodbye()
        for endpoint in self._endpoints.values():
            endpoint.dispatcher.subscriptions.close_streams()
