"""Reads lists to their last page or to a limit, with retries where these may help."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from anyio import current_time, sleep

from gaia_bridge.client.transport import ConnectionLostError, UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.headers import HeaderMap, annotation_problem, header_map, parameter_headers
from gaia_bridge.protocol.kinds import KINDS
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_array, is_object, value_at

logger = logging.getLogger(__name__)

Ask = Callable[[str, JSON], Awaitable[JSON]]
"""Makes one request, from its method and parameters."""
_NO_HEADERS: Final[Mapping[str, str]] = {}


class ReadPage(NamedTuple):
    """One page of a list, unchanged."""

    cursor: str | None
    """The cursor of its request; `None` for the first page."""
    items: list[Any]
    """The definitions, unchecked."""
    more: JSON
    """All other fields of the result."""


async def read_pages(kind: str, ask: Ask, limits: UpstreamLimits, server: str) -> list[ReadPage]:
    """Read a list. An endless one, or one that repeats a cursor or takes too long, is cut with a warning.

    An empty cursor is valid; but some servers mean the end of the list by it, and refuse it or begin again.

    Raises:
        ProtocolError: The server answered with a JSON-RPC error.
        UpstreamError: The server did not answer, not in time, or with no list.
    """
    listed = KINDS[kind]
    pages: list[ReadPage] = []
    room = limits.tools
    cursor: str | None = None
    seen: set[str] = set()
    until = current_time() + limits.list_cap
    for _ in range(limits.pages):
        try:
            page = await _page(listed.method, {} if cursor is None else {"cursor": cursor}, ask, limits, until)
        except ProtocolError:
            if cursor == "":
                return pages
            raise
        if not is_array(items := page.get(listed.field)):
            raise UpstreamError(f"answered {listed.method} with something that is no list")
        if cursor == "" and items == pages[0].items[: len(items)]:
            return pages
        more = {name: value for name, value in page.items() if name != listed.field}
        pages.append(ReadPage(cursor, items[:room], more))
        room -= len(items)
        following = page.get("nextCursor")
        cursor = following if isinstance(following, str) else None
        if room >= 0 and cursor is None:
            return pages
        if room < 0 or cursor is None or cursor in seen or current_time() >= until:
            break
        seen.add(cursor)
    kept = sum(len(page.items) for page in pages)
    logger.warning("%s: %s is too long or does not end; after %d definitions it is cut", server, listed.method, kept)
    return pages


async def _page(method: str, params: JSON, ask: Ask, limits: UpstreamLimits, until: float) -> JSON:
    """Request one page, with retries: unlike calling a tool, requesting a list again does no harm."""
    for attempt in range(limits.read_retries):
        try:
            return await ask(method, params)
        except ConnectionLostError:
            raise
        except UpstreamError as error:
            pause = error.retry_after
            if (pause is not None and pause > limits.retry_after_cap) or current_time() >= until:
                raise
            logger.debug("%s is asked for again: the server %s", method, error)
        # Full jitter, so that many clients of a server that recovers do not come back at the same moment.
        jitter = random.uniform(0, min(limits.backoff_cap, limits.backoff_start * 2**attempt))
        await sleep(jitter if pause is None else max(0.0, pause))
    return await ask(method, params)


class ToolHeaders:
    """Repeats arguments in HTTP headers for servers that want it (`x-mcp-header`, MCP 2026-07-28, transports)."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._maps: dict[str, HeaderMap] = {}

    def admitted(self, pages: list[ReadPage]) -> list[ReadPage]:
        """Return a new list with the tools that may be used: one with invalid header annotations must be dropped."""
        self._maps = {}
        return [page._replace(items=self._admitted(page.items)) for page in pages]

    def _admitted(self, tools: list[Any]) -> list[Any]:
        kept: list[Any] = []
        for tool in tools:
            schema, name = value_at(tool, "inputSchema"), value_at(tool, "name")
            if (reason := annotation_problem(schema)) is not None:
                logger.warning(
                    "%s: tool %s is left out: %s", self._server, printable(str(name), 200), printable(reason)
                )
                continue
            kept.append(tool)
            if isinstance(name, str) and (headers := header_map(schema)):
                self._maps[name] = headers
        return kept

    def of(self, params: JSON | None) -> Mapping[str, str]:
        """Return the headers of a `tools/call` with these parameters."""
        if params is None or not self._maps:
            return _NO_HEADERS
        name, arguments = params.get("name"), params.get("arguments")
        headers = self._maps.get(name) if isinstance(name, str) else None
        if headers is None or not is_object(arguments):
            return _NO_HEADERS
        return parameter_headers(headers, arguments)
