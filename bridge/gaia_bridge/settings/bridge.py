"""All limits of one bridge, in one object."""

from __future__ import annotations

from msgspec.structs import replace

from gaia_bridge.constants import KIB, MAX_HOPS, MIB
from gaia_bridge.model import ToolSearchPolicy
from gaia_bridge.protocol.revisions import PUBLISHED, Revisions
from gaia_bridge.settings.agents import AgentLimits
from gaia_bridge.settings.clients import (
    BacklogLimits,
    ChatEndpointLimits,
    ClientLimits,
    HttpLimits,
    PageLimits,
    SubscriptionLimits,
)
from gaia_bridge.settings.limits import Limits
from gaia_bridge.settings.programs import AcpLimits, BackgroundLimits
from gaia_bridge.settings.upstream import UpstreamLimits


class Settings(Limits, frozen=True):
    """All limits of one bridge."""

    revisions: Revisions = PUBLISHED
    """What clients without a handshake are served in; see `speaking`."""

    agent: AgentLimits = AgentLimits()
    background: BackgroundLimits = BackgroundLimits()
    http: HttpLimits = HttpLimits()
    upstream: UpstreamLimits = UpstreamLimits()
    acp: AcpLimits = AcpLimits()
    clients: ClientLimits = ClientLimits()
    subscriptions: SubscriptionLimits = SubscriptionLimits()
    backlog: BacklogLimits = BacklogLimits()
    pages: PageLimits = PageLimits()
    tool_search: ToolSearchPolicy = ToolSearchPolicy.AUTO
    """Which clients are shown two tools, that find and call the others, instead of all."""
    tool_search_bytes: int = 128 * KIB
    """One answer of a search: a model has to read it, and it is a quarter of what many can."""
    chats: ChatEndpointLimits = ChatEndpointLimits()
    list_ttl: int = 5_000
    """Milliseconds a 2026-07-28 client may keep a list without asking again. Short, because a client need not listen
    for changes; not zero, because some list before every call."""
    max_hops: int = MAX_HOPS
    """Bridges that a request may have passed before it comes here."""
    line_bytes: int = 4 * MIB
    """One line on stdio; the same as one HTTP body, so that both transports give the same verdict."""
    stdio_grace: float = 1.0
    """Seconds for calls in flight to finish after the editor closed our input (gone within two)."""
    stdio_starting: float = 30.0
    """Seconds that calls in flight are kept after that while the server that they wait for is starting: as long as it
    may take to start, since who asks and closes is owed an answer. An editor that went away ends us before."""

    def speaking(self, revisions: Revisions) -> Settings:
        """The same with other revisions, in both directions.

        Args:
            revisions: Those without a handshake; `PUBLISHED.and_also(DRAFTS)` to speak drafts too.
        """
        return replace(self, revisions=revisions, upstream=replace(self.upstream, revisions=revisions))
