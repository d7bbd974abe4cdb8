"""Deferred tools: instead of dozens of tools, a model is offered a search, and the tools that it has found.

What a session has loaded is a dictionary that the caller keeps, in the order of loading, so that the tools in a request
stay where they are and a prompt cache stays valid:

    search = ToolSearch()
    loaded: dict[str, None] = {}                            # of one session
    entries = agent.tool_registry.snapshot()
    if is_deferred(len(entries), threshold=15):
        offered = search.offered(entries, loaded)           # again for every request to the model
    ...
    if search.answers(call_name, entries):
        result = search.run(call_name, arguments, entries, loaded)
    else:
        search.load(call_name, entries, loaded)             # a tool may be called that was not looked for
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gaia.agents.base.tool_schema import flat_parameters
from gaia.agents.base.tools import ToolEntry
from gaia_bridge.server.tool_search import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Matches,
    SearchError,
    ToolRanking,
    is_destructive,
    no_matches,
    refused,
    search_by_pattern,
    search_text,
    success,
    summary,
)
from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["MAX_LOADED", "ToolSearch"]

MAX_LOADED: Final = 120
"""Tools that one session has loaded at most; the oldest leave first. OpenAI takes 128 in a request, and a turn may add
a few."""

_PATTERN_SEARCH: Final = "tool_search_regex"
_RANKED_SEARCH: Final = "tool_search"

_LIMIT: Final[JSON] = {
    "type": "integer",
    "description": f"How many tools to load at most (default: {DEFAULT_LIMIT}, max: {MAX_LIMIT}).",
    "default": DEFAULT_LIMIT,
}


class ToolSearch:
    """The search tools of one agent. Safe to use from several threads, for as many sessions as there are.

    Where one of the agent's own tools has the name of a search tool, that name is the agent's, and the search tool gets
    another one.

    Args:
        ranked: Whether there is a search by words beside the one by pattern.
        needs_approval: Whether the user is asked before a tool runs; the destructive ones if not given.
    """

    def __init__(self, *, ranked: bool = False, needs_approval: Callable[[ToolEntry], bool] = is_destructive) -> None:
        self._needs_approval = needs_approval
        self._ranking = ToolRanking()
        self._tools = (_pattern_search(), _ranked_search()) if ranked else (_pattern_search(),)

    def offered(self, entries: Mapping[str, ToolEntry], loaded: dict[str, None]) -> dict[str, ToolEntry]:
        """Return the tools to offer the model: the search tools, then those loaded, in the order of loading.

        Args:
            entries: The agent's tools by name.
            loaded: What the session has loaded. Tools that there are no more are taken out of it.

        Returns:
            Registry entries by name. Those of search tools have no `function`: `run` serves them.
        """
        _drop(loaded, [name for name in loaded if name not in entries])
        return self._named(entries) | {name: entries[name] for name in loaded}

    def answers(self, name: str, entries: Mapping[str, ToolEntry]) -> bool:
        """Whether a call of that name is a search, and for `run`."""
        return name in self._named(entries)

    def run(self, name: str, arguments: object, entries: Mapping[str, ToolEntry], loaded: dict[str, None]) -> JSON:
        """Search, and load what is found. Whatever is wrong with the arguments is reported in the result.

        Args:
            name: The name of a search tool, for which `answers` is true.
            arguments: What the model gave.
            entries: The agent's tools by name.
            loaded: What the session has loaded; what is found is added.

        Returns:
            `status` (`success`, `no_matches` or `error`), and what belongs to it; a `success` has `total_matches`,
            `tools`, `newly_loaded` and `message`.
        """
        tool = self._named(entries)[name]
        try:
            what = self._search_result(tool["_search"], arguments, entries)
        except SearchError as error:
            return refused(error)
        if not what.names:
            return no_matches(what)
        summaries = [
            {
                **summary(match, entries[match]),
                "requires_approval": self._needs_approval(entries[match]),
                "loaded": match in loaded,
            }
            for match in what.names
        ]
        for match in what.names:
            self.load(match, entries, loaded)
        message = f"Found {what.total:,} {'tool' if what.total == 1 else 'tools'}. Those listed can be called now."
        return success(what, summaries, message, newly_loaded=sum(not match["loaded"] for match in summaries))

    def load(self, name: str, entries: Mapping[str, ToolEntry], loaded: dict[str, None]) -> None:
        """Load a tool that is called or preloaded; nothing to do for one that is loaded, or does not exist."""
        if name in entries and name not in loaded:
            loaded[name] = None
            _drop(loaded, list(loaded)[: max(0, len(loaded) - MAX_LOADED)])

    def _named(self, entries: Mapping[str, ToolEntry]) -> dict[str, ToolEntry]:
        """Return the search tools by name; where a tool has that name already, a number is added."""
        named: dict[str, ToolEntry] = {}
        for tool in self._tools:
            name, number = tool["name"], 1
            while name in entries:
                number += 1
                name = f"{tool['name']}_{number}"
            named[name] = tool if number == 1 else {**tool, "name": name}
        return named

    def _search_result(self, kind: str, arguments: object, entries: Mapping[str, ToolEntry]) -> Matches:
        if arguments is None:
            arguments = {}
        if not is_object(arguments):
            raise SearchError(
                f"the arguments have to be an object, got {type(arguments).__name__}", 'Write {"pattern": "file"}'
            )
        limit: Any = arguments.get("limit")
        text = search_text(arguments, kind)
        if kind == "query":
            return self._ranking.search(entries, text, limit)
        return search_by_pattern(entries, text, limit)


def _drop(loaded: dict[str, None], names: list[str]) -> None:
    for name in names:
        loaded.pop(name, None)


def _pattern_search() -> ToolEntry:
    return _search_tool(
        _PATTERN_SEARCH,
        "pattern",
        "Find tools and make them available. Most of the tools that you can use are not listed here until you have"
        " looked for them: search with a regular expression over their names and descriptions, then call what was"
        " found.",
        "A regular expression; case does not matter. Examples: 'file', 'read|write', '^git_', and '.*' for every tool.",
    )


def _ranked_search() -> ToolEntry:
    return _search_tool(
        _RANKED_SEARCH,
        "query",
        "Find tools and make them available, the most fitting first. Most of the tools that you can use are not listed"
        " here until you have looked for them: say what is to be done, then call what was found.",
        "What the tool should do, in a few words, such as 'read a file from disk'.",
    )


def _search_tool(name: str, key: str, description: str, about_key: str) -> ToolEntry:
    schema: JSON = {
        "type": "object",
        "properties": {key: {"type": "string", "description": about_key}, "limit": _LIMIT},
        "required": [key],
    }
    return {
        "name": name,
        "description": description,
        "parameters": flat_parameters(schema),
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True},
        "atomic": True,
        "_search": key,
    }
