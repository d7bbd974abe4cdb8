"""Which transport reaches a server, by its entry in the configuration."""

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
from gaia_bridge.client.transports.stdio import StdioLink, StdioTransport
from gaia_bridge.config.launching.launchers import launcher_in
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import AgentServerSpec, HttpServerSpec, OpenApiServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits

if TYPE_CHECKING:
    from gaia_bridge.client.oauth.interaction import UserInteraction
    from gaia_bridge.client.oauth.on_demand import AuthorizationOnDemand

logger = logging.getLogger(__name__)

_SECRET: Final = 8
"""Characters from which on a value may be a secret; shorter ones are in every text."""

_SECRET_ARGUMENT: Final = 16
"""The same for an argument: shorter ones are names and options."""

_HOST_ALONE: Final = re.compile(r"https?://[^/@?#\s]+/?")
"""The address of a service, without a user, a path and a query. Who reads that it does not answer has to know which."""


def transport_for(
    spec: ServerSpec,
    limits: UpstreamLimits,
    on_error_line: Callable[[str], None] | None = None,
    interaction: UserInteraction | None = None,
) -> Transport:
    """How to reach a server.

    Args:
        on_error_line: Told every line of a child's error output, redacted.
        interaction: How the user is asked to log in, where a server on the network wants that; without, a request
            that needs a login fails and says what to run.

    Raises:
        LaunchError: It is an agent, which only whoever publishes it can reach.
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
    # Most servers are programs; whoever has no other does without the import of HTTP.
    from gaia_bridge.client.transports.sse import SseTransport
    from gaia_bridge.client.transports.streamable_http import StreamableHttpTransport

    kind = SseTransport if spec.sse else StreamableHttpTransport
    return kind(spec, limits, auth=_authorisation(spec, limits, interaction))


def _authorisation(
    spec: HttpServerSpec, limits: UpstreamLimits, interaction: UserInteraction | None
) -> AuthorizationOnDemand | None:
    """What logs in where the server asks for it. An entry that says itself who we are is taken at its word."""
    if spec.oauth is None or any(name.lower() == "authorization" for name in spec.headers):
        return None
    from gaia_bridge.client.oauth.on_demand import AuthorizationOnDemand

    try:
        return AuthorizationOnDemand(spec, limits, interaction)
    except (ConfigError, UpstreamError) as error:  # the transport says for itself what is wrong with a URL
        logger.debug("server %r cannot be logged in to: %s", spec.name, error)
        return None


def kind_of(spec: ServerSpec) -> str:
    """What the configuration calls this way to reach a server."""
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
    """The limits of one server: those of all, unless its entry says otherwise."""
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
    """The values of an entry that may be secrets, and must not be repeated to anybody.

    Everything in its environment but addresses that are a host alone, everything in its headers; of a URL, what
    identifies a user; the secret of an OAuth client; long arguments that are no paths; and what references in its
    `tools` lead to.
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
    """The URLs of an entry."""
    if isinstance(spec, HttpServerSpec):
        return [spec.url]
    return [text for text in (spec.url, spec.document) if isinstance(text, str) and "://" in text]


class Pace:
    """Spreads out what many want to do at once.

    A launch stops the event loop for some milliseconds; fifty in a row would keep everybody waiting.

    Args:
        interval: Seconds from one turn to the next.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next = -math.inf

    async def turn(self) -> None:
        """Wait for a turn; whoever comes alone has it at once."""
        turn = max(self._next, anyio.current_time())
        self._next = turn + self._interval
        if turn > anyio.current_time():
            await anyio.sleep_until(turn)


class Watched:
    """A transport that knows which link is open, for what only its wire can tell.

    Args:
        pace: When a connection may be opened.
        on_connect: Called before each connection; one attempt may need several, and each is a start of a child.
        refusal: Tells before each connection why there may be none, if so. It is called in a thread, and reads files.
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
        """Have another transport do the work, from the next connection on."""
        self._transport = transport

    @property
    def pid(self) -> int | None:
        """The process at the other end of the link, if it is a child that runs."""
        link = self.link
        return link.child.pid if isinstance(link, StdioLink) else None

    @property
    def garbage(self) -> tuple[int, list[str]]:
        """How many lines the child wrote that are no messages, and the first of them as they came."""
        return (self.link.garbage.count, self.link.garbage.first) if isinstance(self.link, StdioLink) else (0, [])
