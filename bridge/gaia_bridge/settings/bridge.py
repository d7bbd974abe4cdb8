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
    """A bridge in the background, for all editors of a user."""

    keep: float = 600.0
    """Seconds that it stays without a client: an editor that is closed is often opened again soon."""
    greeting_timeout: float = 10.0
    """Seconds for whoever connects to say who it is: a front does so at once."""
    drain_timeout: float = 600.0
    """Seconds for calls in flight where another bridge takes its place: as long as a call may take."""
    log_bytes: int = MIB
    """Of its log; then it is put aside, and the one that was put aside before is removed."""
    log_look: float = 60.0
    """Seconds between two looks how long it is."""
    log_kept: float = 604_800.0
    """Seconds that the log of a bridge is kept that failed: a week. The next one that starts removes it."""


class DoctorLimits(Limits, frozen=True):
    """What `gaia-bridge doctor` waits for."""

    check_timeout: float = 30.0
    """Seconds for all about one subject, so that whatever hangs is told of, and the rest as well."""
    program_timeout: float = 10.0
    """Seconds for a program to say its version: `npx` on a cold disk takes three."""
    connect_timeout: float = 3.0
    """Seconds for what listens on this machine, or a proxy, to take a connection and to say what it is."""
    server_timeout: float = 45.0
    """Seconds for one server to start and to list what it has; its first start may have to download it."""
    servers_timeout: float = 180.0
    """Seconds for all of them."""
    servers: int = 6
    """Servers that are started at once: each may be a Node.js, and people have few cores."""
    free_bytes: int = 10 * MIB
    """Room on the disk of a folder of the bridge; with less, it is told to be full. Logs grow to a few of these."""
    open_files: int = 256
    """Files that may be open at once; fewer are told of. It is what macOS allows at first."""


class AcpLimits(Limits, frozen=True):
    """What an editor may use of an agent over the Agent Client Protocol.

    Questions have `AgentLimits.question_timeout`.
    """

    sessions: int = 64
    """Conversations at once. Each may hold servers of its own; an editor has a few."""
    servers: int = 64
    """Servers that an editor gives to one conversation."""
    tools: int = 2_000
    """Tools of those servers in one turn. An agent with many searches among them, but each is described to it."""
    turn_timeout: float = 3_600.0
    """Seconds for one turn: a person may sit before several questions of it."""
    starting: float = 20.0
    """Seconds that the first turn waits for the editor's servers to start; what starts later is there in the next."""
    line_bytes: int = 32 * MIB
    """One message: prompts carry whole files and pictures."""
    command_timeout: float = 600.0
    """Seconds for a command that an agent runs in a terminal of the editor: as long as a call may take."""
    command_output: int = 64 * KIB
    """Bytes of its output that are kept: the end of them. A model is told no more of one call."""
    terminal: float = 60.0
    """Seconds for the editor to open a terminal: it may ask the person first."""
    release: float = 5.0
    """Seconds for the editor to close a terminal, also when the turn is over."""
    page: int = 50
    """Kept conversations in one answer to `session/list`."""


class AgentLimits(Limits, frozen=True):
    """What one agent may use of the process."""

    threads: int = 8
    """Blocking calls at once. A pool of its own, so that a stuck agent cannot stall another or the protocol."""
    queue: int = 64
    """Calls that may wait for a thread; one more is answered "busy", because a silent queue looks like a hang."""
    call_timeout: float = 600.0
    """Seconds for one tool call. Long enough for a build or a model; finite, so that nothing waits for ever."""
    factory_timeout: float = 30.0
    """Seconds for an `async` factory to make an agent: it may connect to something, and nobody is served meanwhile."""
    definitions_timeout: float = 10.0
    """Seconds for an agent to list its tools, prompts or resources: a list is data, not work."""
    definitions: int = 10_000
    """Tools, prompts, resources or templates of one agent, each; no client can use more, and each is checked."""
    definitions_bytes: int = 16 * MIB
    """Of JSON, for the same: a list that is yielded may never end."""
    definitions_max_age: float = 1.0
    """Seconds a list is trusted before it is read again, for agents that change without saying so."""
    result_bytes: int = 16 * MIB
    """One result, serialised. More would stall every client of the process while it is encoded."""
    large_result_bytes: int = 256 * KIB
    """A result that takes the interpreter for more than a millisecond to write. Such are made, and go out to clients,
    one after the other, so that others get on in between."""
    schema_bytes: int = 256 * KIB
    """One tool schema."""
    question_timeout: float = 300.0
    """Seconds a question to the user may stay open; afterwards the call that asked is cancelled."""
    max_parked: int = 64
    """Calls of one agent that may wait for answers of clients, beside those that work; with one more, the oldest is
    cancelled, because no client has to come back. Each may hold a thread that does nothing."""
    max_rounds: int = 10
    """How often one call may ask for input before it is refused, so that two programs cannot loop for ever."""
    requests_in_result: int = 16
    """Questions of one `input_required` result that are put to a client, one after the other."""
    state_lifetime: float = 600.0
    """Seconds in which a client may come back with the answers that a call asked for (`requestState`)."""
    farewell: float = 1.0
    """Seconds for an agent's coroutines to put away what they hold, once it is no longer published."""
    log_bytes: int = 64 * KIB
    """One log message; more belongs in a resource."""
    notes: int = 1_000
    """Progress and log messages that wait for a slow client; beyond it the oldest is dropped."""
    skills: int = 1_000
    """Skills of one agent; what comes after them is left out."""
    skill_files: int = 512
    """Files of one skill. What every host takes (SEP-2640, "Limits"); one with more is left out."""
    skill_bytes: int = 16 * MIB
    """All files of one skill together, for the same reason."""
    skill_frontmatter_bytes: int = 64 * KIB
    """The frontmatter of one skill: its description has 1,024 characters at most."""
    skill_folder_entries: int = 20_000
    """Files and folders that are looked at below one `skills/` folder. It may have been laid where a whole disk is."""
    skill_interval: float = 2.0
    """Seconds between two looks at whether a `skills/` folder has changed, for clients that wait to be told."""


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
