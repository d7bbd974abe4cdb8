"""Reports of a bridge for people and monitors: `/health`, `/ready`, `/status` and `/tools`.

`/health` and `/status` also say what clients of GAIA's own MCP bridge look for (`gaia mcp status`, `gaia mcp test`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from gaia_bridge.model import LeftOut, ServerInfo, SourceKind
from gaia_bridge.protocol.kinds import KINDS, SKILL
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.endpoint import Endpoint
from gaia_bridge.sources.composition.composed import innermost
from gaia_bridge.sources.upstream.source import Upstream
from gaia_bridge.text.json_types import JSON
from gaia_bridge.version import __version__

if TYPE_CHECKING:
    from gaia_bridge_doors.conversation.models import Models

GROUPS: Final[Mapping[SourceKind, str]] = {SourceKind.AGENT: "agents", SourceKind.SERVER: "servers"}
"""The first part of the path of a source's own endpoint."""

INFO: Final = ServerInfo(
    name="gaia-mcp-bridge",
    version=__version__,
    title="GAIA MCP bridge",
    description="Agents and MCP servers, published as one MCP server.",
)
"""The bridge's name, version and description, as clients see them."""

_ALIVE: Final[JSON] = {"status": "healthy", "service": INFO.title}


class Report:
    """The published sources of a bridge, and their state.

    Args:
        endpoints: Its endpoints, by group and name; that of everything is `("", "")`.
        models: The models of its OpenAI-compatible API.
        left_out: Returns the servers that are configured but not published.
    """

    def __init__(
        self,
        endpoints: Mapping[tuple[str, str], Endpoint],
        models: Models,
        left_out: Callable[[], Iterable[LeftOut]],
    ) -> None:
        self._endpoints = endpoints
        self._models = models
        self._left_out = left_out
        self.routes: Mapping[str, Callable[[], JSON]] = {
            "/health": self.health,
            "/ready": self.readiness,
            "/status": self.status,
            "/tools": self.tools,
        }

    @property
    def _everything(self) -> Catalog:
        return self._endpoints["", ""].dispatcher.catalog

    def health(self) -> JSON:
        """Return that the bridge answers, and how much it publishes: counts, which take no time."""
        sources = self._everything.sources
        return {
            **_ALIVE,
            "agents": sum(source.kind is SourceKind.AGENT for source in sources),
            "tools": sum(len(source.features.tools) for source in sources),
        }

    def readiness(self) -> JSON:
        """Return that the bridge is ready, which it is as soon as it answers, and the states of its sources."""
        sources = {source.name: source.status.state.value for source in self._everything.sources}
        return {"status": "ready", "sources": sources}

    def status(self) -> JSON:
        """Return each source with its state, its path, how much it offers, and the parts left out."""
        return {
            **_ALIVE,
            "name": INFO.name,
            "version": INFO.version,
            "leftOut": _as_json(self._left_out()),
            "toolSearch": self._tool_search(),
            "models": [{"id": model.id, "agent": model.source.name, "turns": model.turns} for model in self._models],
            "sources": [
                {
                    "name": source.name,
                    "kind": source.kind.value,
                    "state": source.status.state.value,
                    "reason": source.status.reason,
                    "path": _path(GROUPS[source.kind], source.name),
                    "server": {"name": source.features.info.name, "version": source.features.info.version},
                    **{kind.field: len(kind.of(source.features)) for kind in KINDS.values() if kind is not SKILL},
                    "leftOut": _as_json(source.features.left_out),
                    **({"connection": own.details} if isinstance(own := innermost(source), Upstream) else {}),
                }
                for source in self._everything.sources
            ],
            "agents": {
                source.name: {"description": source.features.info.description or source.features.info.name}
                for source in self._everything.sources
                if source.kind is SourceKind.AGENT
            },
            "tools": {
                tool["name"]: {"description": tool.get("description", "")}
                for tool in self._everything.definitions("tool", modern=True)
            },
        }

    def _tool_search(self) -> JSON:
        """Return the policy of the tool search and, if it depends on the client, the clients that see it, and why."""
        clients = [
            {"path": _path(group, name), **client}
            for (group, name), endpoint in self._endpoints.items()
            for client in endpoint.dispatcher.tool_search.switched
        ]
        policy = self._endpoints["", ""].dispatcher.settings.tool_search
        return {"policy": policy.value, "clients": clients}

    def tools(self) -> JSON:
        """Return the definitions of all tools."""
        return {"tools": self._everything.definitions("tool", modern=True)}


def _as_json(left_out: Iterable[LeftOut]) -> list[JSON]:
    return [{"kind": item.kind, "name": item.name, "reason": item.reason} for item in left_out]


def _path(group: str, name: str) -> str:
    """Return the path of the endpoint of a source, or of the one that publishes everything."""
    return f"/{group}/{quote(name, safe='')}/mcp" if group else "/mcp"
