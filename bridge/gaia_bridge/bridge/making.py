"""Makes the sources that a bridge publishes from the objects that a program names, and adds several at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import anyio
from msgspec.structs import replace

from gaia_bridge.bridge.chaining import BridgeTransport, PublishedAgent, agent_named
from gaia_bridge.bridge.chaining.sdk_transport import SdkServerTransport
from gaia_bridge.bridge.contents import agent_of, instead_of
from gaia_bridge.bridge.discovery.classes import is_bridge, is_mcp_server, missing_methods, name_of
from gaia_bridge.client.transport import Transport
from gaia_bridge.client.transport_factory import Pace
from gaia_bridge.errors import AgentLoadError, BridgeError
from gaia_bridge.model import AS_AGENTS_SAY, AgentOffer, AgentServerSpec, OpenApiServerSpec, ServerSpec
from gaia_bridge.settings import Settings
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.sources.composition.composed import RunningSource, composed
from gaia_bridge.sources.composition.description import Composition
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache, default_cache_folder
from gaia_bridge.sources.upstream.source import Upstream


async def added_in_order(
    names: Sequence[str], add: Callable[[str, anyio.Event], Awaitable[None]]
) -> dict[str, BridgeError]:
    """Add sources at the same time, and publish them in the given order.

    Args:
        names: Their names, in the order in which they are published.
        add: Adds one: reads what it offers, then waits for its turn to publish it.

    Returns:
        The error of each source that could not be added.
    """
    refused: dict[str, BridgeError] = {}

    async def add_one(name: str, turn: anyio.Event, next_turn: anyio.Event) -> None:
        try:
            await add(name, turn)
        except BridgeError as error:
            refused[name] = error
        await turn.wait()  # also where it was refused before its turn
        next_turn.set()

    turns = [anyio.Event() for _ in range(len(names) + 1)]
    turns[0].set()
    async with anyio.create_task_group() as tasks:
        for name, (turn, next_turn) in zip(names, pairwise(turns), strict=True):
            tasks.start_soon(add_one, name, turn, next_turn)
    return {name: refused[name] for name in names if name in refused}


class _Owner(Protocol):
    """The parts of the bridge that its sources use, which may be set at any time."""

    settings: Settings
    on_error_line: Callable[[str, str], None] | None
    own_files: Callable[[], Iterable[Path]]
    refusal: Callable[[ServerSpec], str | None]
    agent_offer: AgentOffer


class SourceMaker:
    """Makes sources, which do not run yet.

    Args:
        owner: The bridge that publishes them.
        own: The id of the bridge.
        cache: Remembers what servers offer; a file in the user's folder if `None`.
    """

    def __init__(self, owner: _Owner, own: str, cache: FeatureCache | None) -> None:
        self._owner = owner
        self._own = own
        self._cache = cache or FeatureCache(default_cache_folder(), owner.settings.upstream)
        self._launches = Pace(owner.settings.upstream.launch_interval)

    def source(self, target: object, name: str | None, offer: AgentOffer = AS_AGENTS_SAY) -> RunningSource:
        """Return the source that a target of `Bridge.add` stands for.

        Raises:
            AgentLoadError: The object lacks the methods of an agent.
        """
        if isinstance(target, Composition):
            return composed(self.source(target.target, name or target.name, offer), target.steps)
        if isinstance(target, ServerSpec):
            return self.upstream(target if name is None else replace(target, name=name))
        return self._agent(target, name, offer)

    def upstream(self, spec: ServerSpec, transport: Transport | None = None) -> Upstream:
        """Return an upstream server, which does not run yet, and is reached by `transport` if not as its entry says."""
        owner = self._owner
        if transport is None and isinstance(spec, AgentServerSpec):
            transport = PublishedAgent(spec.name, partial(agent_named, spec.agent), owner.settings.agent)
        return Upstream(
            spec,
            owner.settings.upstream,
            transport=transport,
            # The cache remembers what the entry leads to. A document is read as quickly, and may have changed.
            cache=None if transport is not None or isinstance(spec, OpenApiServerSpec) else self._cache,
            on_error_line=None if owner.on_error_line is None else partial(owner.on_error_line, spec.name),
            launches=self._launches,
            own=self._own,
            refusal=partial(owner.refusal, spec) if spec.options.approval else None,
        )

    def _agent(self, target: object, name: str | None, offer: AgentOffer) -> AgentSource | Upstream:
        try:
            candidate: Any = agent_of(target)
        except TypeError as error:  # what is decorated in it
            raise AgentLoadError(name or repr(target), str(error)) from error
        limits = self._owner.settings.agent
        if not isinstance(candidate, type) and not missing_methods(candidate):
            name = name or name_of(candidate)
            if is_bridge(candidate):
                return self.upstream(AgentServerSpec(name, name), BridgeTransport(candidate))
            if is_mcp_server(candidate):
                spec = AgentServerSpec(name, name, alike=False)
                return self.upstream(spec, SdkServerTransport(candidate, name, limits))
            try:
                wanted, is_own = offer.over(self._owner.agent_offer), bool(offer.names or offer.ask)
                return AgentSource(candidate, name, limits, lambda: self._owner.own_files(), wanted, checks=is_own)
            except TypeError as error:  # what is decorated in it
                raise AgentLoadError(name, str(error)) from error
        raise AgentLoadError(
            repr(candidate),
            "expected an instance with get_mcp_tool_definitions() and execute_mcp_tool(), or with get_model_id() "
            f"and get_model_info(), got {candidate!r}",
            instead_of(candidate),
        )
