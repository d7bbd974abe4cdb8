"""A mixin by which an agent announces that something about it changed, whatever class it derives from."""

from __future__ import annotations

from pathlib import Path

from gaia_bridge.contract import Publisher


class AnnouncesChanges:
    """Mixin that remembers the publishers of this agent and passes announcements on to all of them.

    Needs no `super().__init__()` call, works with any base class, and every method may be called from any thread;
    while the agent is not published, announcements go nowhere.
    """

    def on_mcp_published(self, publisher: Publisher) -> None:
        """Remember a publisher. The bridge calls this when it starts to publish this agent."""
        self._mcp_publishers = (*self._publishers(), publisher)

    def on_mcp_unpublished(self, publisher: Publisher) -> None:
        """Forget a publisher. The bridge calls this when it stops publishing this agent."""
        self._mcp_publishers = tuple(other for other in self._publishers() if other is not publisher)

    def notify_mcp_tools_changed(self) -> None:
        """Announce that `get_mcp_tool_definitions` now returns something else."""
        for publisher in self._publishers():
            publisher.tools_changed()

    def notify_mcp_prompts_changed(self) -> None:
        """Announce that `get_mcp_prompts` now returns something else."""
        for publisher in self._publishers():
            publisher.prompts_changed()

    def notify_mcp_resources_changed(self) -> None:
        """Announce that `get_mcp_resources` or `get_mcp_resource_templates` now returns something else."""
        for publisher in self._publishers():
            publisher.resources_changed()

    def notify_mcp_resource_updated(self, uri: str) -> None:
        """Announce that the content at `uri` changed."""
        for publisher in self._publishers():
            publisher.resource_updated(uri)

    def mcp_own_files(self) -> frozenset[Path]:
        """Return the files that decide which programs the publishing bridges start. Never write them for a client."""
        return frozenset(file for publisher in self._publishers() for file in publisher.own_files())

    def _publishers(self) -> tuple[Publisher, ...]:
        publishers: tuple[Publisher, ...] = getattr(self, "_mcp_publishers", ())
        return publishers
