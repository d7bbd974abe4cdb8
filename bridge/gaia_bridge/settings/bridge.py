"""All limits of one bridge in one object, with those of agents and of the programs of a user."""

from __future__ import annotations

from msgspec.structs import replace

from gaia_bridge.constants import KIB, MAX_HOPS, MIB
from gaia_bridge.model import ToolSearchPolicy
from gaia_bridge.protocol.revisions import PUBLISHED, Revisions
from gaia_bridge.settings.clients import (
    BacklogLimits,
    ChatEndpointLimits,
    ClientLimits,
    HttpLimits,
    PageLimits,
    SubscriptionLimits,
)
from gaia_bridge.settings.limits import Limits
from gaia_bridge.settings.upstream import UpstreamLimits


class BackgroundLimits(Limits, frozen=True):
    """Limits of a bridge in the background, for all editors of a user."""

    keep: float = 600.0
    """Seconds that it stays without a client: an editor that is closed is often opened again soon."""
    greeting_timeout: float = 10.0
    """Seconds for a new connection to introduce itself: a front does so at once."""
    drain_timeout: float = 600.0
    """Seconds for calls in flight when another bridge takes its place: as long as a call may take."""
    log_bytes: int = MIB
    """Bytes of its log; then the log is renamed, and the one that was renamed before is removed."""
    log_look: float = 60.0
    """Seconds between two checks of the size of the log."""
    log_kept: float = 604_800.0
    """Seconds that the log of a bridge that failed is kept: a week. The next bridge that starts removes it."""


class DoctorLimits(Limits, frozen=True):
    """Limits of `gaia-bridge doctor`."""

    check_timeout: float = 30.0
    """Seconds for all checks of one subject, so that a check that hangs is reported, and the others as well."""
    program_timeout: float = 10.0
    """Seconds for a program to print its version: `npx` on a cold disk takes three."""
    connect_timeout: float = 3.0
    """Seconds for a listener on this machine, or a proxy, to accept a connection and to identify itself."""
    server_timeout: float = 45.0
    """Seconds for one server to start and to list its tools and so on; its first start may have to download it."""
    servers_timeout: float = 180.0
    """Seconds for all of them."""
    servers: int = 6
    """Servers that are started at once: each may be a Node.js, and people have few cores."""
    free_bytes: int = 10 * MIB
    """Free bytes on the disk of a folder of the bridge; with less, the disk is reported as full. Logs grow to a few
    times as much."""
    open_files: int = 256
    """Files that the process must be allowed to open at once; a lower limit is reported. It is the default of macOS."""


class AcpLimits(Limits, frozen=True):
    """Limits of an editor that uses an agent over the Agent Client Protocol.

    Questions have `AgentLimits.question_timeout`.
    """

    sessions: int = 64
    """Conversations at once. Each may hold servers of its own; an editor has a few."""
    servers: int = 64
    """Servers that an editor gives to one conversation."""
    tools: int = 2_000
    """Tools of those servers in one turn. An agent with many tools searches them, but gets the definition of each."""
    turn_timeout: float = 3_600.0
    """Seconds for one turn: a person may sit before several questions of it."""
    starting: float = 20.0
    """Seconds that the first turn waits for the editor's servers to start; later ones are available in the next."""
    line_bytes: int = 32 * MIB
    """Bytes of one message: prompts carry whole files and pictures."""
    command_timeout: float = 600.0
    """Seconds for a command that an agent runs in a terminal of the editor: as long as a call may take."""
    command_output: int = 64 * KIB
    """Bytes of its output that are kept, from the end. A model receives no more from one call."""
    terminal: float = 60.0
    """Seconds for the editor to open a terminal: it may ask the person first."""
    release: float = 5.0
    """Seconds for the editor to close a terminal, also when the turn is over."""
    page: int = 50
    """Stored conversations in one answer to `session/list`."""


class AgentLimits(Limits, frozen=True):
    """Limits of one agent."""

    threads: int = 8
    """Blocking calls at once. A pool of its own, so that a stuck agent cannot stall another or the protocol."""
    queue: int = 64
    """Calls that may wait for a thread; one more is answered "busy", because a silent queue looks like a hang."""
    call_timeout: float = 600.0
    """Seconds for one tool call. Long enough for a build or a model; finite, so that nothing waits for ever."""
    factory_timeout: float = 30.0
    """Seconds for an `async` factory to create an agent: it may connect to a service, and clients wait meanwhile."""
    definitions_timeout: float = 10.0
    """Seconds for an agent to list its tools, prompts or resources: a list is data, not work."""
    definitions: int = 10_000
    """Tools, prompts, resources or templates of one agent, each; no client can use more, and each is checked."""
    definitions_bytes: int = 16 * MIB
    """Bytes of JSON of the same: a list from a generator may never end."""
    definitions_max_age: float = 1.0
    """Seconds a list is used before it is read again, for agents that change without a notification."""
    result_bytes: int = 16 * MIB
    """Bytes of one serialised result. More would stall every client of the process while it is encoded."""
    large_result_bytes: int = 256 * KIB
    """Bytes of a result from which on its encoding holds the interpreter for more than a millisecond. Such results are
    encoded and sent one after the other, so that others get on in between."""
    schema_bytes: int = 256 * KIB
    """Bytes of one tool schema."""
    question_timeout: float = 300.0
    """Seconds a question to the user may stay open; afterwards the call that asked is cancelled."""
    max_parked: int = 64
    """Calls of one agent that may wait for answers of clients, beside those that work; with one more, the oldest is
    cancelled, because a client may never answer. Each may hold an idle thread."""
    max_rounds: int = 10
    """Times that one call may ask for input before it is refused, so that two programs cannot loop for ever."""
    requests_in_result: int = 16
    """Questions of one `input_required` result, which a client is asked one after the other."""
    state_lifetime: float = 600.0
    """Seconds in which a client may return the answers that a call asked for (`requestState`)."""
    farewell: float = 1.0
    """Seconds for an agent's coroutines to clean up, once the agent is no longer published."""
    log_bytes: int = 64 * KIB
    """Bytes of one log message; more belongs in a resource."""
    notes: int = 1_000
    """Progress and log messages that wait for a slow client; beyond it the oldest is dropped."""
    skills: int = 1_000
    """Skills of one agent; further ones are left out."""
    skill_files: int = 512
    """Files of one skill, as many as every host accepts (SEP-2640, "Limits"); a skill with more is left out."""
    skill_bytes: int = 16 * MIB
    """Bytes of all files of one skill together, for the same reason."""
    skill_frontmatter_bytes: int = 64 * KIB
    """Bytes of the frontmatter of one skill: its description has 1,024 characters at most."""
    skill_folder_entries: int = 20_000
    """Files and folders that are read below one `skills/` folder, which may have been put where a whole disk is."""
    skill_interval: float = 2.0
    """Seconds between two checks of a `skills/` folder for changes, for clients that wait for notifications."""


class Settings(Limits, frozen=True):
    """All limits of one bridge."""

    revisions: Revisions = PUBLISHED
    """The revisions of MCP for clients without a handshake; see `speaking`."""

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
    """The clients that receive two tools, one to find and one to call the others, instead of all tools."""
    tool_search_bytes: int = 128 * KIB
    """Bytes of one answer of a search: a model has to read it, and it is a quarter of the context of many."""
    chats: ChatEndpointLimits = ChatEndpointLimits()
    direct_calls: bool = True
    """Whether plain calls of tools are passed on directly, at a third of the cost. Without it, all take the way of the
    others: for whoever looks for a fault."""
    list_ttl: int = 5_000
    """Milliseconds a 2026-07-28 client may keep a list without asking again. Short, because a client need not listen
    for changes; not zero, because some list before every call."""
    max_hops: int = MAX_HOPS
    """Bridges that a request may have passed before it arrives here."""
    line_bytes: int = 4 * MIB
    """Bytes of one line on stdio; the same as of one HTTP body, so that both transports refuse the same messages."""
    stdio_grace: float = 1.0
    """Seconds for calls in flight to finish after the editor closed our input (gone within two)."""
    stdio_starting: float = 30.0
    """Seconds that calls in flight are kept after that while the server that they wait for is starting: as long as its
    start may take, since a client that asks and closes its end is owed an answer. An editor that quit ends us first."""

    def speaking(self, revisions: Revisions) -> Settings:
        """Return these settings with other revisions, for clients and for servers.

        Args:
            revisions: The revisions without a handshake; `PUBLISHED.and_also(DRAFTS)` for drafts too.
        """
        return replace(self, revisions=revisions, upstream=replace(self.upstream, revisions=revisions))
