"""Creates the transport to a server from its entry in the configuration."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import anyio
from msgspec.structs import replace

from gaia_bridge.client.transport import LaunchError, Link, NotApprovedError, Receiver, Transport, UpstreamError
from gaia_bridge.client.transports.children.stdio import StdioLink, StdioTransport
from gaia_bridge.config.launching.launchers import launcher_in
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import AgentServerSpec, HttpServerSpec, OpenApiServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits

if TYPE_CHECKING:
    from gaia_bridge.client.oauth.interaction import UserInteraction
    from gaia_bridge.client.oauth.on_demand import AuthorizationOnDemand

logger = logging.getLogger(__name__)

_SECRET: Final = 8
"""The fewest characters of a value that may be a secret; shorter ones occur in every text."""
_SECRET_ARGUMENT: Final = 16
"""The same for an argument: shorter ones are names and options."""
_HOST_ALONE: Final = re.compile(r"https?://[^/@?#\s]+/?")
"""The address of a service without user, path and query: not secret, so that errors about it can name it."""


def transport_for(
    spec: ServerSpec,
    limits: UpstreamLimits,
    on_error_line: Callable[[str], None] | None = None,
    interaction: UserInteraction | None = None,
) -> Transport:
    """Create the transport to a server.

    Args:
        on_error_line: Called with every line of a child's error output, redacted.
        interaction: Asks the user to log in, where a server on the network requires that; without it, a request
            that needs a login fails with the command to run.

    Raises:
        LaunchError: The server is an agent, which only the process that publishes it can reach.
    """
    match spec:
        case StdioServerSpec():
            return StdioTransport(spec, limits, on_error_line)
        case HttpServerSpec():
            return _http_transport(spec, limits, interaction)
        case OpenApiServerSpec():
            from gaia_bridge_doors.openapi.transport import OpenApiTransport

            return OpenApiTransport(spec, limits)
        case AgentServerSpec():
            raise LaunchError("is an agent of the process that publishes it, and cannot be reached from another")


def _http_transport(spec: HttpServerSpec, limits: UpstreamLimits, interaction: UserInteraction | None) -> Transport:
    # Imported late: most servers are programs, and with no others HTTP is not needed.
    from gaia_bridge.client.transports.http.sse import SseTransport
    from gaia_bridge.client.transports.http.streamable_http import StreamableHttpTransport

    auth: AuthorizationOnDemand | None = None
    if spec.oauth is not None and not any(name.lower() == "authorization" for name in spec.headers):
        from gaia_bridge.client.oauth.on_demand import AuthorizationOnDemand

        try:
            auth = AuthorizationOnDemand(spec, limits, interaction)
        except (ConfigError, UpstreamError) as error:  # the transport itself reports an invalid URL
            logger.debug("server %r cannot be logged in to: %s", spec.name, error)
    return (SseTransport if spec.sse else StreamableHttpTransport)(spec, limits, auth=auth)


def kind_of(spec: ServerSpec) -> str:
    """Return the name of the kind of transport in the configuration."""
    match spec:
        case StdioServerSpec():
            return "stdio"
        case HttpServerSpec(sse=True):
            return "sse"
        case HttpServerSpec():
            return "http"
        case OpenApiServerSpec():
            return "openapi"
        case AgentServerSpec():
            return "agent"


def limits_for(limits: UpstreamLimits, spec: ServerSpec) -> UpstreamLimits:
    """Return the limits of one server: the general ones, unless its entry sets others."""
    options = spec.options

    def chosen(own: float | None, general: float) -> float:
        return general if own is None else own

    timeout = chosen(options.timeout, limits.call_timeout)
    return replace(
        limits,
        call_timeout=timeout,
        call_cap=max(timeout, limits.call_cap),
        connect_timeout=chosen(options.startup_timeout, limits.connect_timeout),
        downloads=options.startup_timeout is None
        and isinstance(spec, StdioServerSpec)
        and launcher_in((spec.command, *spec.args)) != "",
        idle_timeout=chosen(options.idle_timeout, limits.idle_timeout),
        max_concurrency=limits.max_concurrency if options.max_concurrency is None else options.max_concurrency,
    )


def secrets_of(spec: ServerSpec) -> tuple[str, ...]:
    """Return the values of an entry that may be secrets, and must not be shown to anybody.

    All values of its environment but addresses that are a host alone, and of its headers; the query and user of a
    URL; the user and password of a proxy; the secret of an OAuth client; long arguments that are no paths; and the
    values of references in its `tools`.
    """
    if isinstance(spec, AgentServerSpec):
        return ()
    if isinstance(spec, StdioServerSpec):
        values = [value for value in spec.env.values() if not _HOST_ALONE.fullmatch(value)]
        values += [arg for arg in spec.args if len(arg) >= _SECRET_ARGUMENT and "/" not in arg]
    else:
        values = [*spec.headers.values()]
        for address in _addresses(spec):
            url = urlsplit(address)
            values += [url.query, url.netloc.rpartition("@")[0]]
        if spec.proxy:
            user = spec.proxy.rpartition("@")[0].rpartition("://")[2]
            values += [user, user.partition(":")[2], unquote(user.partition(":")[2])]
        if isinstance(spec, HttpServerSpec) and spec.oauth is not None:
            values.append(spec.oauth.client_secret or "")
    return tuple(value for value in (*values, *spec.options.secrets) if len(value) >= _SECRET)


def _addresses(spec: HttpServerSpec | OpenApiServerSpec) -> list[str]:
    """Return the URLs of an entry."""
    if isinstance(spec, HttpServerSpec):
        return [spec.url]
    return [text for text in (spec.url, spec.document) if isinstance(text, str) and "://" in text]


class Pace:
    """Spreads out launches that come at once.

    A launch blocks the event loop for some milliseconds; fifty in a row would delay all clients.

    Args:
        interval: Seconds from one turn to the next.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next = -math.inf

    async def turn(self) -> None:
        """Wait for a turn, which comes at once if there was no other within the interval."""
        turn = max(self._next, anyio.current_time())
        self._next = turn + self._interval
        if turn > anyio.current_time():
            await anyio.sleep_until(turn)


class Watched:
    """A transport that knows its open link, for data that only a link of its kind has.

    Args:
        pace: Delays connections.
        on_connect: Called before each connection; one attempt may need several, and each is a start of a child.
        refusal: Returns, before each connection, the reason to refuse it, if any. Called in a thread; reads files.
    """

    def __init__(
        self,
        transport: Transport,
        pace: Pace,
        on_connect: Callable[[], object],
        refusal: Callable[[], str | None] | None = None,
    ) -> None:
        self._transport = transport
        self._pace = pace
        self._on_connect = on_connect
        self._refusal = refusal
        self.link: Link | None = None
        """The link that is open, if any."""

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link; see `Transport.connect`."""
        await self._pace.turn()
        if self._refusal is not None and (reason := await anyio.to_thread.run_sync(self._refusal)) is not None:
            raise NotApprovedError(f"is not started: {reason}")
        self._on_connect()
        async with self._transport.connect(receiver) as link:
            self.link = link
            try:
                yield link
            finally:
                self.link = None

    def exchange(self, transport: Transport) -> None:
        """Use another transport from the next connection on."""
        self._transport = transport

    @property
    def pid(self) -> int | None:
        """The process at the other end of the link, if it is a child that runs."""
        link = self.link
        return link.child.pid if isinstance(link, StdioLink) else None

    @property
    def garbage(self) -> tuple[int, list[str]]:
        """The number of lines of the child that are no messages, and the first of them."""
        return (self.link.garbage.count, self.link.garbage.first) if isinstance(self.link, StdioLink) else (0, [])

    def has_garbage_since(self, when: float) -> bool:
        """Return whether the child has written a line that is no message since that time of `time.monotonic`."""
        return isinstance(self.link, StdioLink) and self.link.garbage.last >= when
