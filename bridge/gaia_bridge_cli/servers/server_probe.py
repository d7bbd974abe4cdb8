"""Asks one upstream server for the facts that commands show: its name, features and speed, and the results of calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from gaia_bridge.client import ClientDelegate, Connection, Era, ServerHandshake, connect
from gaia_bridge.client.transport import Transport, UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Progress, ServerOptions, ToolTransform
from gaia_bridge.protocol.kinds import KINDS, PROMPT, RESOURCE, TOOL
from gaia_bridge.protocol.vocabulary import LOG_LEVEL_KEY
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.eras import only_era
from gaia_bridge.sources.upstream.listing.feature_lists import no_features, with_list
from gaia_bridge.sources.upstream.listing.tool_transforms import TransformedTools, transformed
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_cli.servers.common import Activity

PINGS = 3
"""The number of pings; the shortest time tells most about the server."""

_LOG_LEVEL = "info"
"""The least level of log messages that are shown for a called tool; servers of the handshake era are sent the level."""


class UnknownNameError(Exception):
    """The server has no tool, prompt or resource of that name.

    Args:
        names: The names that it has.
        reason: The server's error message, if it was asked.
    """

    def __init__(self, names: list[str], reason: str = "") -> None:
        super().__init__("unknown name")
        self.names = names
        self.reason = reason


class AskedServer(Struct, frozen=True):
    """A server, and the client side that asks it.

    Args:
        transport: The way to reach it.
        limits: The limits.
        activity: The display of the steps and the progress.
        options: The options of its entry, for the server and its tools.
        delegate: Our answers to its questions; by default none.
    """

    transport: Transport
    limits: UpstreamLimits
    activity: Activity
    options: ServerOptions = field(default_factory=ServerOptions)
    delegate: ClientDelegate = field(default_factory=ClientDelegate)

    def connected(self) -> AbstractAsyncContextManager[Connection]:
        """Connect to the server."""
        # A server of both eras can send us requests only in the handshake era.
        era = Era.LEGACY if self.delegate.capabilities else None
        return connect(self.transport, self.delegate, self.limits, era=era, only=only_era(self.options))


class Probe(Struct, frozen=True):
    """The facts about a server. All times in seconds."""

    handshake: ServerHandshake
    connected: float
    """Until the handshake was complete; with a child process, its start included."""
    listed: float
    """The time to read all lists."""
    ping: float | None
    """The shortest round trip, if the server answers pings at all."""
    definitions: dict[str, list[JSON]] = field(default_factory=dict[str, list[JSON]])
    """The definitions by the kinds of `protocol.kinds.KINDS`; those that the server has."""
    problems: list[str] = field(default_factory=list[str])
    """Features that the server declares, and that did not work."""


class CallAnswer(Struct, frozen=True):
    """The answer to one call."""

    result: JSON
    """The wire result."""
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether the tool reports a failure."""
        return self.result.get("isError") is True


async def probe(
    transport: Transport, limits: UpstreamLimits, activity: Activity, options: ServerOptions | None = None
) -> Probe:
    """Connect, read every list, ping, and disconnect.

    Args:
        transport: The way to reach the server.
        limits: The limits.
        activity: The display of the steps.
        options: The options of its entry.

    Raises:
        UpstreamError: The connection failed.
    """
    started = anyio.current_time()
    async with connect(transport, ClientDelegate(), limits, only=only_era(options or ServerOptions())) as connection:
        connected = anyio.current_time() - started
        problems: list[str] = []
        definitions: dict[str, list[JSON]] = {}
        started = anyio.current_time()
        for kind in KINDS.values():
            activity.connected(f"reading its {kind.name}s")
            is_declared = kind.is_declared(connection.handshake.capabilities)
            if is_declared and (items := await connection.list_declared(kind, problems)) is not None:
                definitions[kind.name] = items
        listed = anyio.current_time() - started
        activity.connected("asking whether it is there")
        ping = await _ping(connection, problems)
        return Probe(connection.handshake, connected, listed, ping, definitions, problems)


async def call(server: AskedServer, tool: str | None, arguments: Callable[[JSON], Awaitable[JSON]]) -> CallAnswer:
    """Connect and call one tool.

    Args:
        server: The server.
        tool: The tool's name, as commands show it; `None` if the user named none.
        arguments: Returns its arguments, given its `inputSchema`.

    Raises:
        UnknownNameError: The server has no such tool.
        ToolError: The configuration hides one of the arguments.
        ProtocolError: The server answered with a JSON-RPC error.
        UpstreamError: The server violates the protocol, or does not answer.
    """

    async def on_progress(report: Progress) -> None:
        reached = f"{report.progress:g}" + ("" if report.total is None else f"/{report.total:g}")
        server.activity.progress(f"{reached} {report.message or ''}")

    async with server.connected() as connection:
        server.activity.connected("reading its tools")
        shown = shown_tools(await connection.list_all("tool"), server.options.tools)
        tools = {item["name"]: item for item in shown.features.tools}
        if tool is None or tool not in tools:
            raise UnknownNameError(sorted(tools))
        schema = tools[tool].get("inputSchema")
        own, given = shown.call(tool, await arguments(schema if is_object(schema) else {}))
        params: JSON = {"name": own, "arguments": given}
        if connection.handshake.modern:
            params["_meta"] = {LOG_LEVEL_KEY: _LOG_LEVEL}
        server.activity.doing(f"calling {tool}")
        started = anyio.current_time()
        result = await connection.request("tools/call", params, on_progress=on_progress)
        return CallAnswer(result, anyio.current_time() - started)


async def get_prompt(server: AskedServer, prompt: str | None, arguments: Callable[[JSON], Awaitable[JSON]]) -> JSON:
    """Connect and get one prompt.

    Args:
        server: The server.
        prompt: Its name; `None` if the user named none.
        arguments: Returns its arguments, given its definition.

    Raises:
        UnknownNameError: The server has no such prompt.
        ProtocolError: The server answered with a JSON-RPC error.
        UpstreamError: The server violates the protocol, or does not answer.
    """
    async with server.connected() as connection:
        server.activity.connected("reading its prompts")
        declared = PROMPT.is_declared(connection.handshake.capabilities)
        items = await connection.list_all("prompt") if declared else []
        prompts: dict[str, JSON] = {item["name"]: item for item in items if _named(item)}
        if prompt is None or prompt not in prompts:
            raise UnknownNameError(sorted(prompts))
        given = await arguments(prompts[prompt])
        server.activity.doing(f"getting {prompt}")
        return await connection.request("prompts/get", {"name": prompt, "arguments": given})


async def read_resource(server: AskedServer, uri: str | None) -> JSON:
    """Connect and read one resource.

    Args:
        server: The server.
        uri: Its URI, which need not be listed; `None` if the user named none.

    Raises:
        UnknownNameError: The server refuses, and lists no such resource.
        ProtocolError: The server answered with a JSON-RPC error.
        UpstreamError: The server violates the protocol, or does not answer.
    """
    async with server.connected() as connection:
        server.activity.connected("reading its resources" if uri is None else f"reading {uri}")
        if not RESOURCE.is_declared(connection.handshake.capabilities):
            raise UnknownNameError([])
        if uri is None:
            raise UnknownNameError(await _uris(connection))
        try:
            return await connection.request("resources/read", {"uri": uri})
        except ProtocolError as error:
            uris = await _uris(connection)
            if uri in uris:
                raise
            raise UnknownNameError(uris, f"{error.message} ({error.code})") from None


async def _uris(connection: Connection) -> list[str]:
    items = await connection.list_all("resource")
    return [item["uri"] for item in items if is_object(item) and isinstance(item.get("uri"), str)]


def shown_tools(items: Sequence[Any], transforms: Mapping[str, ToolTransform]) -> TransformedTools:
    """Return the tools of a server as the commands show them: with the transforms of the configuration, if any.

    Args:
        items: The tools that the server listed. Without transforms, all named ones are shown.
        transforms: The transforms of the configuration, by tool.
    """
    features = no_features("")
    if transforms:
        features = with_list(features, TOOL, items)
    else:
        features = replace(features, tools=tuple(item for item in items if _named(item)))
    return transformed(features, ServerOptions(tools=transforms))


async def _ping(connection: Connection, problems: list[str]) -> float | None:
    try:
        return min([await connection.ping() for _ in range(PINGS)])
    except ProtocolError as error:
        problems.append(f"it does not answer pings: {error.message} ({error.code})")
    except UpstreamError as error:
        problems.append(f"it does not answer pings: it {error}")
    return None


def _named(item: Any) -> bool:
    return is_object(item) and isinstance(item.get("name"), str)
