"""An application over HTTP, for programs whose signals are their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio
from anyio.abc import TaskStatus
from starlette.types import ASGIApp

from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import HttpLimits


async def serve_until_cancelled(
    make_app: Callable[[AccessPolicy], ASGIApp],
    host: str,
    port: int,
    hosts: Iterable[str],
    origins: Iterable[str],
    token: str | None,
    public_url: str | None,
    proxies: Iterable[str],
    limits: HttpLimits,
    on_shutdown: Callable[[], None],
    task_status: TaskStatus[list[str]],
) -> None:
    """Listen and serve; see `Bridge.serve_http`.

    Args:
        make_app: Makes the application, once it is known who may call.
        host: The address to listen on.
        port: The port; 0 for any free one.
        hosts: Further names that clients use for us.
        origins: Pages of other servers that may call us.
        token: What clients must send.
        public_url: The address that clients use, where a proxy stands before us.
        proxies: Those that are believed.
        limits: Deadlines and sizes.
        on_shutdown: Says goodbye to clients.
        task_status: Told the URLs that are served.
    """
    sockets = bind(host, port)
    try:
        bound: int = sockets[0].getsockname()[1]
        policy = AccessPolicy.for_address(host, bound, hosts, origins, token, limits, public_url, proxies)
        server = HttpServer(make_app(policy), sockets=sockets, limits=limits, on_shutdown=[on_shutdown])
        async with anyio.create_task_group() as tasks:
            await tasks.start(server.run)
            task_status.started([_url(*address) for address in server.addresses])
    finally:
        for sock in sockets:
            sock.close()


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
