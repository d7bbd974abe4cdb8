"""The published parts of an object: its own methods, its decorated functions, and the parts that it names itself."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol, cast

from msgspec.structs import replace

from gaia_bridge.contract import AgentLike, HasParts, Republishes
from gaia_bridge.model import AS_AGENTS_SAY, AgentOffer
from gaia_bridge.sources.agent.ask_tool import AskTool
from gaia_bridge.sources.agent.registry_tools import Chosen, RegistryTools
from gaia_bridge.sources.functions.collection import decorated_functions
from gaia_bridge.sources.functions.signatures import place_of

GAIA_METHODS: Final = ("process_query", "_register_tools")
"""Methods that agents of amd-gaia have, and that neither MCP servers nor chat models have."""
_GAIA_TOOLS: Final = "gaia.agents.base.tools"


class ToolChoice:
    """The choice of the tools of an agent that are published."""

    def __init__(self, agent: Any, offer: AgentOffer = AS_AGENTS_SAY) -> None:
        self._wanted = offer.tools
        self._chosen_by_class = _of_class(agent, "mcp_tools")
        decorated = None if self._chosen_by_class is None else decorated_functions(agent)
        self._decorated = frozenset(name for kind, name in (decorated.places if decorated else ()) if kind == "tool")

    def has(self, name: str, owner: object) -> bool:
        """Whether a tool is published."""
        if isinstance(owner, AskTool):
            return True
        if self._wanted is not None:
            return _is_in(self._wanted, name)
        return name not in self._decorated or self._chosen_by_class is None or _is_in(self._chosen_by_class, name)


def parts_of(agent: Any, offer: AgentOffer = AS_AGENTS_SAY) -> tuple[Any, ...]:
    """Return the objects that are published beside an agent, under its name; each has the methods of an agent.

    Args:
        offer: The publisher's wishes about it. If it names tools, all tools are there to choose from.

    Raises:
        TypeError: Two of its decorated functions have one name, or one cannot be published.
    """
    decorated = decorated_functions(agent)
    parts: list[Any] = [] if decorated is None else [decorated]
    if offer.names:
        offer = replace(offer, tools=True)
    if isinstance(agent, HasParts):
        parts += agent.get_mcp_parts() if offer == AS_AGENTS_SAY else agent.get_mcp_parts(offer)
    elif is_of_gaia(agent):
        parts += _parts_of_gaia(agent, offer)
    republished = agent.get_mcp_republished() if isinstance(agent, Republishes) else None
    return (*parts, republished) if republished is not None else tuple(parts)


def _parts_of_gaia(agent: Any, offer: AgentOffer) -> Iterator[AgentLike]:
    """Yield the parts of an agent of amd-gaia. Its class may choose the tools as classes of our own agents do."""
    by_hand = isinstance(agent, AgentLike)
    tools = _of_class(agent, "mcp_tools") if offer.tools is None else offer.tools
    tools = not by_hand if tools is None else tools
    if tools is not False:
        yield RegistryTools(lambda: _gaia_tools(agent), tools)
    own_ask = getattr(agent, "mcp_ask", None)
    ask = own_ask if offer.ask is None else offer.ask and (own_ask or True)
    if ask is True or isinstance(ask, str) or (ask is None and not by_hand):
        description = getattr(agent, "mcp_ask_description", "")
        yield AskTool(agent, ask if isinstance(ask, str) else "ask", description)


def _of_class(agent: object, name: str) -> Chosen | None:
    """Return an agent's own choice of published tools; `None` if it states none, or is none of GAIA's."""
    chosen = getattr(agent, name, None) if isinstance(agent, HasParts) or is_of_gaia(agent) else None
    if isinstance(chosen, str):
        raise TypeError(
            f"{name} of {type(agent).__name__} is {chosen!r}; expected True, False, or names: ({chosen!r},)"
        )
    return cast("Chosen", chosen) if isinstance(chosen, bool | Collection) else None


def _is_in(chosen: Chosen, name: str) -> bool:
    return chosen if isinstance(chosen, bool) else name in chosen


class _PublishedAgent(Protocol):
    @property
    def tool_names(self) -> tuple[str, ...]: ...

    @property
    def can_be_asked(self) -> bool: ...


def unmet(offer: AgentOffer, agents: Sequence[_PublishedAgent]) -> str:
    """Return the problem if something that is wanted of published agents is not there; empty if all is."""
    there = [name for agent in agents for name in agent.tool_names]
    unknown = sorted(offer.names.difference(there))
    if unknown:
        existing = ", ".join(sorted(set(there))) or "none"
        return f"no agent has a tool {' or '.join(map(repr, unknown))}; the tools that there are: {existing}"
    if offer.ask and not any(agent.can_be_asked for agent in agents):
        return "a tool that asks is wanted, and no agent can be asked"
    return ""


def is_of_gaia(agent: object) -> bool:
    """Whether something is an agent of amd-gaia's kind, or a class of such agents."""
    return all(callable(getattr(agent, name, None)) for name in GAIA_METHODS)


def refuse_unbuilt(agent: object) -> NoReturn:
    """Refuse an agent whose own constructor left out that of its base class.

    Raises:
        TypeError: Always; names the constructor and its place.
    """
    raise TypeError(f"{place_of(type(agent).__init__)} does not call super().__init__(), which an agent needs")


def _gaia_tools(agent: Any) -> Mapping[str, Any]:
    """Return the tools of an agent of amd-gaia: its own registry, or the one that all share."""
    own: object = getattr(agent, "_tools_registry", None)
    shared: object = getattr(sys.modules.get(_GAIA_TOOLS), "_TOOL_REGISTRY", None)
    for registry in (own, shared):
        if isinstance(registry, Mapping):
            return dict(cast("Mapping[str, Any]", registry))
    return {}
