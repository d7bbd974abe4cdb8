"""The system message: who the agent is, which tools it has, and how tools of MCP servers are spoken of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gaia.agents.base.tools import ToolEntry, describe_tools

__all__ = ["ENOUGH_STEPS", "compose", "is_deferred"]

ENOUGH_STEPS = (
    "(You have used all the steps that you have for this. Answer now with what you know, and say what is left to do.)"
)
"""The message to a model that would call tools for ever."""

_DISCIPLINE = (
    "Tools of MCP servers have long names. Call them by their names exactly as listed; when you speak of one to the "
    "user, use what stands behind it:"
)


def compose(own: str, tools: Mapping[str, ToolEntry], *, searched: bool, more: Iterable[str] = ()) -> str:
    """Put the system message together.

    Args:
        own: What the agent, or the session, says of itself.
        tools: All tools of the agent.
        searched: Whether the model finds its tools with a search, instead of being given all.
        more: What the client adds.
    """
    parts = [own]
    if tools and searched:
        parts.append(_search_hint(tools))
    elif tools:
        parts += [f"Tools:\n{describe_tools(tools)}", _spoken_names(tools)]
    return "\n\n".join(part for part in (*parts, *more) if part)


def _spoken_names(tools: Mapping[str, ToolEntry]) -> str:
    names = [
        f"- {name}: {entry['_mcp_tool_name']} ({entry['_mcp_server']})"
        for name, entry in tools.items()
        if "_mcp_tool_name" in entry
    ]
    return "\n".join((_DISCIPLINE, *names)) if names else ""


def _search_hint(tools: Mapping[str, ToolEntry]) -> str:
    servers = dict.fromkeys(str(entry["_mcp_server"]) for entry in tools.values() if "_mcp_server" in entry)
    source = f", among them those of {', '.join(servers)}" if servers else ""
    return (
        f"You have {len(tools)} tools{source}. You see only some of them: search for what you need before you say that "
        "you cannot do something. What a search finds can be called at once, by exactly the name that it shows."
    )


def is_deferred(total: int, threshold: int, forced: bool = False) -> bool:
    """Whether a model is offered a search instead of all tools.

    Args:
        total: How many tools there are, those of MCP servers included.
        threshold: From how many on.
        forced: Whatever their number.
    """
    return forced or total >= threshold
