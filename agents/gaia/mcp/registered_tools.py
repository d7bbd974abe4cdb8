"""The tools in an agent's registry by the MCP server that they came from, so that exactly those go with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from gaia.agents.base.tools import (
    _TOOL_REGISTRY,  # pyright: ignore[reportPrivateUsage]  # the specification's name for it
    ToolEntry,
    ToolRegistry,
)
from gaia_bridge.model import NamingPolicy, SourceKind
from gaia_bridge.protocol.names import SourceName, assign_names

__all__ = ["RegisteredTools"]

T = TypeVar("T")


class RegisteredTools:
    """The entries of each client, of an agent that may have several. Usable from any thread."""

    def __init__(self) -> None:
        self._entries: dict[object, list[ToolEntry]] = {}
        self._lock = threading.RLock()

    def __contains__(self, client: object) -> bool:
        return client in self._entries

    def register(self, client: object, server: str, registry: ToolRegistry, hook: Callable[[], None]) -> None:
        """Let a hook register a client's tools, and take away those that it registered before and no longer does.

        Args:
            client: Whose tools they are.
            server: What its server is called here.
            registry: The agent's registry.
            hook: Registers with `add`, or by hand: in `registry`, or by writing into `_TOOL_REGISTRY`.
        """
        with self._lock:
            before = self._entries.pop(client, [])
            self._entries[client] = []
            existing = _entries_of(server, registry)
            current = self._entries[client]
            try:
                hook()
            except BaseException:
                current += before  # what it had is still there, and goes with the client
                raise
            finally:
                current += _others(_entries_of(server, registry), [*existing, *current])
            _remove(_others(before, current), registry)

    def refresh(self, client: object, server: str, registry: ToolRegistry, hook: Callable[[], None]) -> bool:
        """As `register`, but only if the client has not been removed meanwhile; returns whether it was done."""
        with self._lock:
            if client not in self._entries:
                return False
            self.register(client, server, registry, hook)
            return True

    def add(self, client: object, entry: ToolEntry, registry: ToolRegistry) -> None:
        """Register one tool. If another tool has its name already, it gets one that ends in a hash."""
        with self._lock:
            entry["name"] = _free_name(entry, registry)
            registry.register(entry)
            self._entries.setdefault(client, []).append(entry)

    def remove(self, client: object, registry: ToolRegistry) -> None:
        """Take away all tools that this client registered, and no others."""
        with self._lock:
            _remove(self._entries.pop(client, []), registry)

    def forget(self) -> None:
        """Remove the tools of an agent that is gone from the shared registry, which would keep them alive."""
        for entries in self._entries.values():
            for entry in entries:
                if _TOOL_REGISTRY.get(entry["name"]) is entry:
                    del _TOOL_REGISTRY[entry["name"]]
        self._entries.clear()


def _free_name(entry: ToolEntry, registry: ToolRegistry) -> str:
    name = str(entry["name"])
    taken = registry.get(name)
    if taken is None or _identity(taken) == _identity(entry):
        return name
    ours = _identity(entry)
    names, _ = assign_names([_identity(taken), ours], NamingPolicy.GAIA)
    return next(free for free, item in names.items() if item == ours)


def _identity(entry: ToolEntry) -> SourceName:
    server, tool_name = entry.get("_mcp_server"), entry.get("_mcp_tool_name")
    if server is None or tool_name is None:
        return SourceName("", SourceKind.AGENT, str(entry["name"]))
    return SourceName(str(server), SourceKind.SERVER, str(tool_name))


def _entries_of(server: str, registry: ToolRegistry) -> list[ToolEntry]:
    """Entries of a server: the agent's own, and the shared ones, which is the specification's way to register."""
    shared = [entry for entry in _TOOL_REGISTRY.copy().values() if "_owner" not in entry]
    own = [entry for entry in registry.snapshot().values() if "_owner" in entry]
    return [entry for entry in (*shared, *own) if entry.get("_mcp_server") == server]


def _others(entries: list[ToolEntry], registered: list[ToolEntry]) -> list[ToolEntry]:
    """Return the entries that are none of the `registered` objects."""
    identities = {id(entry) for entry in registered}
    return [entry for entry in entries if id(entry) not in identities]


def _remove(entries: list[dict[str, Any]], registry: ToolRegistry) -> None:
    for entry in entries:
        name = entry["name"]
        if "_owner" not in entry:
            if _TOOL_REGISTRY.get(name) is entry:
                del _TOOL_REGISTRY[name]
        elif registry.get(name) is entry:
            registry.unregister(name)
