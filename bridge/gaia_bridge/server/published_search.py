"""Two tools that find and call all others, for clients that take only so many tools.

Which clients these are is in `known_clients`. A tool that is called by name is called as it would be directly: here it
is only found out which tool is meant (`Methods` does the rest).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import anyio.to_thread

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.calls.results.conversion import error_result
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import ToolSearchPolicy
from gaia_bridge.protocol.meta import is_model_visible
from gaia_bridge.protocol.names import known_name
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.known_clients import tool_limit
from gaia_bridge.server.tool_search import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    SearchError,
    ToolRanking,
    is_destructive,
    no_matches,
    refused,
    search_by_pattern,
    search_text,
    success,
)
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import from_json, to_json
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)

_SOURCES: Final = 400
"""Characters of the description that name the sources of the tools."""


class PublishedSearch:
    """The search tools of one endpoint.

    Args:
        policy: The clients that see them.
        answer_bytes: Bytes that one answer may have; a tool that has more by itself is sent all the same.
    """

    def __init__(self, catalog: Catalog, policy: ToolSearchPolicy, answer_bytes: int) -> None:
        self._catalog = catalog
        self._policy = policy
        self._answer_bytes = answer_bytes
        self._rankings = {modern: ToolRanking() for modern in (False, True)}
        self._switched: dict[str, tuple[int, int]] = {}

    @property
    def switched(self) -> list[JSON]:
        """The clients that see the search because they take fewer tools, with their limits and the numbers of tools."""
        return [{"client": client, "limit": limit, "tools": tools} for client, (limit, tools) in self._switched.items()]

    def visible_tools(self, definitions: list[JSON], call: ClientRequest) -> list[JSON]:
        """Return the tools that a client sees: all, or the search tools and those that no search may find.

        The latter are for the views of MCP Apps, which call them as they are listed; the client's host hides them.
        """
        if not self._is_shown(definitions, call):
            return definitions
        return [*self._search_tools(), *(tool for tool in definitions if not is_model_visible(tool))]

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, by its public name."""
        tool = self._catalog.tool_definition(name)
        if tool is None and self._policy is not ToolSearchPolicy.NEVER:
            tool = next((tool for tool in self._search_tools() if tool["name"] == name), None)
        return None if tool is None else tool["inputSchema"]

    def is_search(self, name: str, call: ClientRequest) -> bool:
        """Return whether a client that is shown the search calls the tool that searches. No other tool has the name."""
        return self._is_ours(0, name, call)

    def is_call(self, name: str, call: ClientRequest) -> bool:
        """Return whether it calls the tool that calls others by name. No other tool has the name."""
        return self._is_ours(1, name, call)

    def _is_ours(self, which: int, name: str, call: ClientRequest) -> bool:
        if self._policy is ToolSearchPolicy.NEVER or name != self._names()[which]:
            return False
        return self._is_shown(self._catalog.definitions("tool", modern=call.modern), call)

    def _is_shown(self, definitions: Sequence[JSON], call: ClientRequest) -> bool:
        """Return whether a client is shown the search instead of all tools; other bridges decide by themselves."""
        if not definitions or self._policy is not ToolSearchPolicy.AUTO:
            return bool(definitions) and self._policy is ToolSearchPolicy.ALWAYS
        client = str(call.client_info.get("name", ""))
        return HOPS_META_KEY not in call.meta and self._is_too_much(len(definitions), client)

    def _is_too_much(self, tools: int, client: str) -> bool:
        """Return whether a client takes fewer tools; logged once, until the answer changes."""
        name, limit = known_name(client), tool_limit(client)
        if limit is None:
            return False
        if tools <= limit:
            if self._switched.pop(name, None) is not None:
                logger.warning("%s is shown all %d tools again", one_line(client, 80), tools)
            return False
        if name not in self._switched:
            logger.warning(
                "%s takes at most %d tools: instead of %d it is shown two that find and call them"
                " (--tool-search never shows all)",
                one_line(client, 80),
                limit,
                tools,
            )
        self._switched[name] = (limit, tools)
        return True

    def _names(self) -> Sequence[str]:
        return self._catalog.own_names("tool_search", "call_tool")

    def _search_tools(self) -> list[JSON]:
        search, call = self._names()
        sources = ", ".join(source.name for source in self._catalog.sources if source.features.tools)
        return _definitions(search, call, one_line(sources, _SOURCES))

    async def search(self, arguments: JSON, *, modern: bool) -> JSON:
        """Answer a search of a client of one era."""
        await self._catalog.refresh()
        definitions = self._catalog.definitions("tool", modern=modern)
        call = self._names()[1]
        # A thread, because thousands of tools are looked at.
        search = partial(self._answer, definitions, arguments, call, self._rankings[modern])
        return await anyio.to_thread.run_sync(search, abandon_on_cancel=True)

    def _answer(self, definitions: Sequence[JSON], arguments: JSON, call: str, ranking: ToolRanking) -> JSON:
        tools = {tool["name"]: tool for tool in definitions if is_model_visible(tool)}
        try:
            query, pattern = search_text(arguments, "query"), search_text(arguments, "pattern")
            limit = arguments.get("limit")
            matches = ranking.search(tools, query, limit) if query else search_by_pattern(tools, pattern, limit)
        except SearchError as error:
            return error_result(_text(refused(error)))
        if not matches.names:
            return _result(no_matches(matches))
        message = (
            f"Found {matches.total:,} {'tool' if matches.total == 1 else 'tools'}. Call one with {call}:"
            ' {"name": its name, "arguments": {...}}, where the arguments fit its inputSchema.'
        )
        return _result(success(matches, self._fitting([_for_model(tools[name]) for name in matches.names]), message))

    def _fitting(self, tools: Sequence[JSON]) -> list[JSON]:
        """Return as many tools as fit in an answer, and one at least."""
        size = 0
        for number, tool in enumerate(tools):
            size += len(to_json(tool))
            if number and size > self._answer_bytes:
                return list(tools[:number])
        return list(tools)

    async def called_tool(self, given: JSON) -> tuple[str, JSON]:
        """Return name and arguments of the tool that a call by name is for; raise `SearchError` if that is unclear."""
        search, call = self._names()
        name = given.get("name")
        example = f'{call} takes {{"name": "a_tool", "arguments": {{...}}}}, with a name that {search} has told'
        if not isinstance(name, str):
            raise SearchError("The name of the tool is missing", example)
        if others := sorted(given.keys() - {"name", "arguments"}):
            raise SearchError(f"There is no place for {one_line(', '.join(others), 200)} beside the arguments", example)
        arguments = _plain(given.get("arguments"))
        if not is_object(arguments):
            raise SearchError("The arguments are no object", example)
        there_are = f"Find the tools that there are with {search}"
        try:
            await self._catalog.lookup(lambda: self._catalog.tool(name), name)
        except ProtocolError as error:
            raise SearchError(one_line(error.message), there_are) from None
        if (definition := self._catalog.tool_definition(name)) is None:  # the endpoint of one server lets it decide
            raise SearchError(one_line(f"Unknown tool: {name}"), there_are)
        if not is_model_visible(definition):
            raise SearchError(f"{name} is a tool for the views of an app only", f"Find those for models with {search}")
        return name, arguments


def _plain(arguments: object) -> object:
    """Return the arguments of a tool in their intended form: some models omit empty ones, some write JSON into JSON."""
    if isinstance(arguments, str):
        try:
            return from_json(arguments, allow_inf_nan=False)
        except ValueError:
            return arguments
    return {} if arguments is None else arguments


def _for_model(tool: JSON) -> JSON:
    """Return the parts of a tool's definition that a model needs to call it."""
    return {
        "name": tool["name"],
        "description": tool.get("description") or tool.get("title") or "",
        "dangerous": is_destructive(tool),
        "inputSchema": tool["inputSchema"],
    }


def _result(content: JSON) -> JSON:
    return {"resultType": "complete", "content": [{"type": "text", "text": _text(content)}]}


def _text(content: JSON) -> str:
    return to_json(content).decode()


def _definitions(search: str, call: str, sources: str) -> list[JSON]:
    about = {
        "query": "What the tool should do, in a few words, such as 'read a file'. The best come first.",
        "pattern": "Instead of a query: a regular expression over names and descriptions, such as 'read|write' or"
        " '^git_'. '.*' finds every tool.",
    }
    limit = f"How many tools to tell at most (default: {DEFAULT_LIMIT}, max: {MAX_LIMIT})."
    return [
        {
            "name": search,
            "title": "Find tools",
            "description": "This server has more tools than are listed. Find those that help with a task, with the"
            f" schemas of their arguments, and call them with {call}. There are tools of: {sources}.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    **{key: {"type": "string", "description": text} for key, text in about.items()},
                    "limit": {"type": "integer", "description": limit, "default": DEFAULT_LIMIT},
                },
            },
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        },
        {
            "name": call,
            "title": "Call a tool",
            "description": f"Call a tool of this server by its name, with arguments that fit its inputSchema. {search}"
            " tells both.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": f"The tool's name, as {search} told it."},
                    "arguments": {
                        "type": "object",
                        "description": "The tool's arguments.",
                        "additionalProperties": True,
                    },
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        },
    ]
