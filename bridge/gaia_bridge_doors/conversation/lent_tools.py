"""Tools that this bridge publishes, lent to an agent for one turn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
from msgspec import Struct

from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.calls.results.conversion import error_result, words
from gaia_bridge.chat_types import LentTool
from gaia_bridge.contract import Source
from gaia_bridge.errors import RequestError
from gaia_bridge.model import SourceState
from gaia_bridge.protocol.meta import is_model_visible
from gaia_bridge.runtime.agent_runner import LoopHandle
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.conversation.tool_request import EVERYTHING, Borrowing, RequestedTools
from gaia_bridge_doors.conversation.turn_log import TurnLog

logger = logging.getLogger(__name__)

_SHOWN: Final = 20
"""The most names that an error lists."""


class _LendableTool(Struct, frozen=True):
    """A tool that can be lent."""

    source: Source
    name: str
    """The source's name of the tool."""
    definition: JSON
    """The published definition, under its public name."""

    @property
    def public_name(self) -> str:
        name: str = self.definition["name"]
        return name


async def offered_tools(catalog: Catalog, asked: RequestedTools, agent: object, limit: int) -> list[_LendableTool]:
    """Return the tools that a request wants to lend to an agent, each once.

    Args:
        catalog: Everything that the bridge publishes.
        asked: The tools in the request.
        agent: The agent. Its own tools are never lent to it: it has them, and could call itself for ever.
        limit: The most tools that may be lent.

    Raises:
        ChatError: There is no such agent, server or tool, or there are too many tools.
    """
    if not asked.borrowings:
        return []
    await catalog.refresh()
    others = [source for source in catalog.sources if getattr(source, "agent", None) is not agent]
    pool = list(_pool(catalog, others))
    found: dict[str, _LendableTool] = {}
    for borrowing in asked.borrowings:
        found |= {tool.public_name: tool for tool in _chosen(borrowing, others, pool)}
    if len(found) > limit:
        message = f"tools: {len(found)} tools of the bridge; expected at most {limit}. Choose with allowed_tools."
        raise ChatError(400, message, "array_too_long", "tools")
    for number, function in enumerate(asked.client):
        if (name := function["function"]["name"]) in found:
            param = asked.names_at[number]
            message = f"{param}: {name!r} is the name of a tool of the bridge too. Give the function another."
            raise ChatError(400, message, "invalid_value", param)
    return list(found.values())


def _pool(catalog: Catalog, sources: Sequence[Source]) -> Iterator[_LendableTool]:
    for definition in filter(is_model_visible, catalog.definitions("tool", modern=True)):
        source, name = catalog.tool(definition["name"])
        if source in sources:
            yield _LendableTool(source, name, definition)


def _chosen(borrowing: Borrowing, sources: Sequence[Source], pool: Sequence[_LendableTool]) -> Iterator[_LendableTool]:
    """Yield the tools of one entry. The entry may use their public names, or those at their own server."""
    label = borrowing.label
    tools = [tool for tool in pool if label in (EVERYTHING, tool.source.name)]
    if label != EVERYTHING:
        _check_label(borrowing, sources, has_tools=bool(tools))
    wanted = borrowing.names
    if wanted is None:
        yield from tools
        return
    if missing := wanted - {name for tool in tools for name in (tool.name, tool.public_name)}:
        there = _listed(tool.name if label != EVERYTHING else tool.public_name for tool in tools)
        message = f"{borrowing.param}.allowed_tools: {label!r} has no tool {_listed(sorted(missing))}; it has {there}."
        raise ChatError(400, message, "unknown_tool", f"{borrowing.param}.allowed_tools")
    yield from (tool for tool in tools if wanted & {tool.name, tool.public_name})


def _check_label(borrowing: Borrowing, sources: Sequence[Source], *, has_tools: bool) -> None:
    param = f"{borrowing.param}.server_label"
    source = next((source for source in sources if source.name == borrowing.label), None)
    if source is None:
        there = _listed([EVERYTHING, *(source.name for source in sources)])
        message = f"{param}: {borrowing.label!r} is no other agent and no server of this bridge; there are {there}."
        raise ChatError(400, message, "unknown_server_label", param)
    status = source.status
    if not has_tools and status.state is not SourceState.READY:
        message = f"{param}: {source.kind.value} '{source.name}' is not ready: {status.reason}. Try again later."
        raise ChatError(503, message, "server_not_ready", param, {"retry-after": "1"})


def _listed(names: Any) -> str:
    found = [ascii(name) for name in names]
    more = len(found) - _SHOWN
    return (", ".join(found[:_SHOWN]) + (f" and {more} more" if more > 0 else "")) or "none"


class Loan:
    """Tools that are lent to an agent until the end of a turn. To be made on the bridge's event loop.

    Args:
        endpoint: The endpoint that publishes them, and answers the calls.
        tools: The tools.
        request: Makes the request of one call, given the tool's public name and its arguments.
        line: The log of the calls.
    """

    def __init__(
        self,
        endpoint: Dispatcher,
        tools: Sequence[_LendableTool],
        request: Callable[[str, JSON], OwnRequest],
        line: TurnLog,
    ) -> None:
        self._line = line
        self._endpoint = endpoint
        self._request = request
        self._loop = LoopHandle()
        self._over = False
        self._calls: set[anyio.CancelScope] = set()
        self.tools = tuple(LentTool(tool.definition, _Caller(self, tool)) for tool in tools)

    def end(self) -> None:
        """Take the tools back. Running calls are cancelled."""
        self._over = True
        for call in list(self._calls):
            call.cancel()

    async def call(self, tool: _LendableTool, arguments: JSON) -> JSON:
        """Call a tool, from any event loop. Raises only if it is cancelled."""
        if not self._over:
            with suppress(RuntimeError):  # the bridge itself ended
                return await self._loop.wait(partial(self._perform, tool, arguments))
        return error_result(f"tool '{tool.public_name}' was lent for a turn that is over")

    async def _perform(self, tool: _LendableTool, arguments: JSON) -> JSON:
        if not is_object(arguments):
            return error_result(f"tool '{tool.public_name}' takes an object of arguments")
        request = self._request(tool.public_name, arguments)
        result: JSON | None = None
        with anyio.CancelScope() as call, self._line.calling(tool.public_name, tool.source.name, arguments) as called:
            if self._over:
                call.cancel()
            self._calls.add(call)
            try:
                result = called.result = await self._endpoint.own_request(request)
            except RequestError as error:
                result = called.result = error_result(words(error))
            except Exception:
                logger.exception("the lent tool %s failed", tool.public_name)
                problem = f"tool '{tool.public_name}' failed; the details are in the bridge's log"
                result = called.result = error_result(problem)
            finally:
                self._calls.discard(call)
        return result or error_result(f"tool '{tool.public_name}' was cancelled: the turn is over")


class _Caller:
    """The function that calls a lent tool."""

    def __init__(self, loan: Loan, tool: _LendableTool) -> None:
        self._loan = loan
        self._tool = tool

    async def __call__(self, arguments: JSON) -> JSON:
        return await self._loan.call(self._tool, arguments)
