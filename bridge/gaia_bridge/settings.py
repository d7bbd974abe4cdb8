"""Limits and deadlines, each with its reason. One frozen object is handed down; `constants` has what nobody sets."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.constants import KIB, LEAST_RESULT, MAX_HOPS, MIB
from gaia_bridge.model import ToolSearchPolicy
from gaia_bridge.protocol.revisions import PUBLISHED, Revisions

__all__ = [
    "AcpLimits",
    "AgentLimits",
    "BackgroundLimits",
    "BacklogLimits",
    "ChatEndpointLimits",
    "ClientLimits",
    "DoctorLimits",
    "HttpLimits",
    "Limits",
    "OpenApiLimits",
    "PageLimits",
    "RegistryLimits",
    "Settings",
    "SubscriptionLimits",
    "UpstreamLimits",
]


class Limits(Struct, frozen=True):
    """Numbers that bound what is used, each with a default and its reason.

    Raises:
        ValueError: A value is not of the type of its default, or is a number that is negative or not finite. The
            message names the class, the field, the value and what was expected.
    """

    def __post_init__(self) -> None:
        """Check every field."""
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            value = getattr(self, name)
            if value is default:
                continue
            if (problem := _unmet(value, default)) is not None:
                raise ValueError(f"{type(self).__name__}.{name} is {value!r:.100}; expected {problem}")


def _unmet(value: Any, default: object) -> str | None:
    """What was expected instead of the value; `None` if it is as expected."""
    kind = type(default)
    if kind is int:
        is_met = type(value) is int and value >= 0
        return None if is_met else "a whole number, 0 or more"
    if kind is float:
        is_met = type(value) in (int, float) and 0 <= value < math.inf
        return None if is_met else "a number, 0 or more and finite"
    return None if isinstance(value, kind) else f"a value of the type {kind.__name__}"


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


class HttpLimits(Limits, frozen=True):
    """What the HTTP side accepts (faults-and-security section 6)."""

    body_bytes: int = 4 * MIB
    """One request body; the SDK's own default, applied to every route."""
    header_bytes: int = 32 * KIB
    """All header lines of one request."""
    header_timeout: float = 10.0
    """Seconds to send the header lines (uvicorn itself waits for ever)."""
    body_timeout: float = 30.0
    """Seconds to send a body, for the same reason."""
    keep_alive: float = 75.0
    """Seconds an idle connection is kept. Longer than a client's pool keeps it, so that the client closes first."""
    quick_answer: float = 0.05
    """Seconds for an answer to be plain JSON. One that takes longer, or has something said before it, is an event
    stream, because clients and proxies close what is silent. Few calls take as long, and fewer are worth resuming."""
    ping_interval: float = 15.0
    """Seconds between two signs of life in an event stream in which nothing is said, for the same reason."""
    stream_messages: int = 64
    """Messages that wait in one event stream for a client that reads slowly; then whoever sends the next one waits."""
    sessions: int = 256
    """Legacy sessions per endpoint. For one more, one that nobody uses gives way; if all are in use, the next
    one is answered 503."""
    retry_after: int = 5
    """Seconds after which a client that was answered 503 should come back: calls end and streams break all the time."""
    handshake_bytes: int = 16 * KIB
    """The params of one `initialize`: they are kept as long as the session, at twenty-five times their size. Real ones
    have one kilobyte, and all sessions of an endpoint keep 100 MiB at worst."""
    batch: int = 100
    """Messages of one batch, on stdio as well: they are worked on at once."""
    session_idle: float = 1_800.0
    """Seconds without a request after which a legacy session ends. An open stream keeps it."""
    replay_events: int = 256
    """Events kept per session for a client that resumes a broken stream."""
    replay_bytes: int = 4 * MIB
    """Bytes of the same: many sessions must not add up to the whole memory."""
    unsent_bytes: int = 64 * MIB
    """What may wait for one client that does not read: some of the largest results. One that leaves more is cut off;
    its session stays."""
    unsent_total_bytes: int = 128 * MIB
    """The same for all clients together. With more, those that have read nothing for longest are cut off."""
    retry_interval: int = 500
    """Milliseconds after which a client whose stream was closed should come back."""
    refusals: int = 20
    """Refused requests that are logged one by one within `refusal_window`; of the others, how many there were."""
    refusal_window: float = 60.0
    """Seconds for the same."""
    shutdown_grace: float = 3.0
    """Seconds for open requests to finish at shutdown."""


class BacklogLimits(Limits, frozen=True):
    """What may be on its way to clients: answers that are ready and wait to be written, on every transport.

    What was written to a socket is `HttpLimits.unsent_bytes`.
    """

    client_bytes: int = 64 * MIB
    """Of answers that wait for one client; with more, its next calls wait. Some of the largest results."""
    total_bytes: int = 256 * MIB
    """Of those for all clients together. With more, the stream is ended on which most is waiting."""
    requests: int = 4096
    """Requests of one client on a stream that are not answered, or whose answers it has not read; one more is refused.
    Several times as many as one that floods for a reason has."""
    large: int = 256 * KIB
    """From how many bytes on an answer is large. What answered less the last time is called at once."""
    at_once: int = 32
    """Calls of one client that may have large answers, or of which nothing is known, and were made just now: so much
    can come beyond `client_bytes`. As many as a busy client makes of one tool at once."""
    interval: float = 1.0
    """Seconds after which such a call keeps no other waiting: most answer sooner, and those that take long come one by
    one."""
    large_interval: float = 10.0
    """The same where the last answer was large."""
    patience: float = 60.0
    """Seconds that a call waits to be made. A client that has read nothing meanwhile is told so; over HTTP it has lost
    its connection by then (`HttpLimits.body_timeout`)."""
    targets: int = 10_000
    """Tools, prompts and resources of which it is remembered how large their last answer was; as many as an agent may
    have."""


class SubscriptionLimits(Limits, frozen=True):
    """What clients that want to hear of changes are given, on every transport."""

    notify_timeout: float = 5.0
    """Seconds one client may take to accept one change notification; then it is dropped for that client."""
    resources: int = 1_000
    """Resources that one client, or one `subscriptions/listen` request, may want to hear of."""
    tasks: int = 1_000
    """Tasks that one client made and hears of; beyond, the oldest are forgotten, and it asks how they are."""
    streams: int = 1_024
    """`subscriptions/listen` requests at one endpoint that are open at once."""
    confirm_timeout: float = 2.0
    """Seconds for the sources to be asked before a `subscriptions/listen` request is confirmed all the same: a server
    that has to be started, or hangs, must not keep the client from hearing of everything else."""


class OpenApiLimits(Limits, frozen=True):
    """What the document of an HTTP API may cost. Its requests have the bounds of all servers (`UpstreamLimits`)."""

    fetch_timeout: float = 15.0
    """Seconds for the document to arrive, so that what is wrong can still be said before a start is given up."""
    document_bytes: int = 16 * MIB
    """One document; those of the largest public APIs have about ten."""
    document_parts: int = 2_000_000
    """Objects, lists and values of one document: in YAML, a few lines of aliases can stand for billions."""
    operations: int = 500
    """Operations that become tools, as many as one list of a server may have (`UpstreamLimits.tools`)."""
    tools_bytes: int = 8 * MIB
    """All tools of one document as JSON, since what many of them refer to is in each; as much as clients can hold."""
    error_bytes: int = 16 * KIB
    """What is shown of the body of a response that says that a call failed: a model has to read it."""


class RegistryLimits(Limits, frozen=True):
    """What a registry of MCP servers is given."""

    timeout: float = 15.0
    """Seconds for one answer: somebody waits for it at a terminal."""
    answer_bytes: int = 8 * MIB
    """One answer: a hundred servers of some KiB each."""
    pages: int = 20
    """Pages that one search reads: a registry that lists what is not wanted, or goes in circles, has no end."""
    values: int = 1_000
    """Values of one server that a user can be asked for; those with most have some thirty."""


class UpstreamLimits(Limits, frozen=True):
    """What an upstream server is given. An entry of the configuration may say otherwise for its own server."""

    revisions: Revisions = PUBLISHED
    """What servers without a handshake are spoken to in; see `Settings.speaking`."""

    connect_timeout: float = 30.0
    """Seconds from launch to a completed handshake; `npx` and `uvx` install on first use."""
    launch_interval: float = 0.02
    """Seconds between two launches of children: each stops the event loop for a moment, and fifty servers that start at
    once must not keep the first client waiting."""
    probe_timeout: float = 3.0
    """Seconds to answer `server/discover` before the older handshake is begun too: some servers ignore what they do
    not know, and each connection to them would cost this long."""
    standing_timeout: float = 0.5
    """Seconds that a server over HTTP is given to open the stream for what it says of its own accord, before anything
    else is asked: many drop what they would say there before. Some answer only when they have something to say."""
    list_timeout: float = 10.0
    """Seconds for one page of a list."""
    list_cap: float = 60.0
    """Seconds after which no further page of a list is asked for, and none again: a hundred slow ones would take as
    many times `list_timeout`. What was read until then is the list."""
    list_max_age: float = 5.0
    """Seconds that a list is trusted that a server announces no changes of, if the server does not say how long
    (`ttlMs`): as long as our own clients may keep it (`Settings.list_ttl`)."""
    renewal: float = 0.25
    """Seconds that a client waits for such a list to be read again. A quick server has answered by then; a slow one
    must not delay every list that it is merged into, and what it has new is announced."""
    first_look: float = 2.0
    """Seconds that clients wait for a server that is starting and of which nothing is known: the first thing that they
    ask is what there is, many never ask again, and a server in Python or Node has answered by then. A server that
    hangs costs this once in its life, however many wait."""
    second_start: float = 2.0
    """How many times as long as the first connection to a server took, and `first_look` beside, clients wait for a
    second one of their era: the machine may be busier now. One that hangs costs that once, then the first serves."""
    call_timeout: float = 60.0
    """Seconds for one forwarded request without a sign of life; progress starts them anew. As long may take
    what was said before its answer to reach a client that reads slowly; then the rest of it is left out."""
    call_cap: float = 600.0
    """Seconds for one forwarded request, whatever progress it reports."""
    ping_timeout: float = 15.0
    """Seconds to answer a ping, sent when a server has let requests time out."""
    watch_interval: float = 10.0
    """Seconds between two looks whether this process stood still, and for how long it must have to matter."""
    resume_spread: float = 3.0
    """Seconds over which servers are asked whether they are still there after that, so as not to ask all at once."""
    timeouts_before_restart: int = 3
    """Requests in a row that may time out before the server has to answer a ping or is restarted."""
    pages: int = 100
    """Pages of one list: an endless cursor must end somewhere."""
    tools: int = 500
    """Definitions of one list; more would drown every client."""
    message_bytes: int = 16 * MIB
    """One message from a server."""
    text_bytes: int = 32 * KIB
    """What a server says about itself: name, version, instructions."""
    garbage_lines: int = 200
    """Lines on standard output that are no messages, within `garbage_window`; with more the child is ended."""
    garbage_window: float = 10.0
    """Seconds for the same."""
    blank_lines: int = 20_000
    """Lines that carry nothing, such as blank ones and comments, within `garbage_window`: a thousand times what keeps
    a connection alive, and less than a second of work. With more the server is not read any further."""
    loop_share: float = 0.1
    """Of the event loop's time, how much one server may take whose messages never end: then it is read more slowly.
    That is thousands of messages a second, and several such servers leave time for the others."""
    loop_burst: float = 0.25
    """Seconds of that time at once, before the share counts: several results of the largest size."""
    error_output_bytes: int = 64 * KIB
    """What is kept of a child's error output."""
    write_timeout: float = 30.0
    """Seconds for a server to accept one message: a child on its standard input, one over HTTP what it has no
    response to."""
    requests_in: int = 96
    """Requests of one server that are answered at once; more are refused. More than may wait for clients
    (`max_parked`), so that the oldest of these can give way."""
    requests_in_result: int = 16
    """Questions of one `input_required` result."""
    notes: int = 1_000
    """Progress messages of one request that wait for a slow receiver, and replies that wait for a slow server; beyond
    it the oldest is dropped."""
    max_rounds: int = 10
    """How often one request may ask for input before it is given up, so that two programs cannot loop for ever; what
    the official clients allow."""
    question_timeout: float = 300.0
    """Seconds a server's question to a client may stay open; afterwards the server is told that there is no answer."""
    max_sessions: int = 32
    """Clients of one server that have a connection of their own (`isolation: session`): processes, mostly."""
    max_parked: int = 64
    """Calls at one server that may wait for answers of clients, beside those that it works on; as for agents."""
    stop_grace: float = 1.5
    """Seconds for a child to end after its input was closed."""
    terminate_grace: float = 2.0
    """Seconds for the process group to end after SIGTERM, before SIGKILL."""
    backoff_start: float = 0.5
    """Seconds before the first restart; doubled with each, and drawn at random below that (full jitter)."""
    backoff_cap: float = 30.0
    """Seconds between restarts at most."""
    crashes: int = 5
    """Crashes within `crash_window` after which a server is not restarted until asked."""
    crash_window: float = 180.0
    """Seconds for the same; what editors do too."""
    healthy: float = 600.0
    """Seconds of service after which earlier failures count no longer: long enough that it was no accident."""
    restart_patience: float = 5.0
    """Seconds of a pause before a restart that a request waits for. With a longer one it is answered "try again in N s"
    at once: whoever asks can use the time, and an HTTP server that is away is reported as quickly."""
    announce_interval: float = 10.0
    """Seconds between two announcements of lists that changed with a new connection: a server that comes and goes must
    not make every client list again each time."""
    progress_rate: int = 10
    """Progress messages of one request that a client is sent within a second; of more, the latest."""
    cache_bytes: int = 2 * MIB
    """What is kept on disk of one server's lists; with more it is started to be asked."""
    cache_entries: int = 256
    """Servers whose lists are kept on disk; of more, those that were used last."""
    idle_timeout: float = 600.0
    """Seconds without a request after which a lazily started server is stopped."""
    poll_interval: float = 1.0
    """Seconds between two looks at a task of a server that does not say how often it wants to be asked."""
    poll_floor: float = 0.1
    """Seconds for the same at least, whatever it says: a poll is a request, and many tasks may run at once."""
    poll_cap: float = 30.0
    """Seconds for the same at most: with a longer interval, whoever waits would wait for nothing."""
    drain_timeout: float = 10.0
    """Seconds for the requests in flight of a server that is no longer configured; then it is stopped."""
    max_concurrency: int = 64
    """Requests at once; more wait their turn, within their own deadline."""
    refresh_interval: float = 1.0
    """Seconds between two readings of a list that a server says has changed."""
    http_connect_timeout: float = 5.0
    """Seconds for a TCP connection, and for TLS."""
    http_keep_alive: float = 4.0
    """Seconds an idle HTTP connection is kept. Shorter than what servers keep them (uvicorn and Node: five), so that
    no request meets a connection that is just being closed."""
    http_alive_after: int = 60
    """Seconds of silence after which TCP asks whether the other end of a connection is still there; a minute later it
    is given up. An event stream may say nothing for hours, and would be waited on for ever if the network went away."""
    farewell: float = 1.0
    """Seconds for what is said to an HTTP server when something is over: the end of a response stream, a cancelled
    request, the session."""
    retry_floor: float = 0.5
    """Seconds before a broken event stream is resumed, at least, whatever the server's `retry` says."""
    retry_cap: float = 30.0
    """Seconds for the same, at most."""
    resumes: int = 5
    """How often one request's event stream is resumed."""
    read_retries: int = 2
    """How often a list is asked for again after the server failed to answer; calls never are."""
    retry_after_cap: float = 60.0
    """Seconds of `Retry-After` that are waited for."""
    fetch_timeout: float = 5.0
    """Seconds for one answer of an authorization server, redirects included."""
    fetch_bytes: int = 256 * KIB
    """One such answer; real ones have a few kilobytes."""
    login_timeout: float = 300.0
    """Seconds for a user to log in in a browser, and to wait for a login that another process has begun."""
    step_ups: int = 2
    """How often one request may ask for further scopes before the server's refusal is final."""
    openapi: OpenApiLimits = OpenApiLimits()


class PageLimits(Limits, frozen=True):
    """How much of a list a client is given at once."""

    items: int = 1_000
    """Definitions. Many clients never ask for a second page, so the first one holds all that anybody can use."""
    bytes: int = 2 * MIB
    """Of JSON. Half of what a line on stdio may have, whatever the definitions are like; one that has more is a page
    of its own."""


class ChatEndpointLimits(Limits, frozen=True):
    """What one agent may be asked through the OpenAI-compatible API, and how much it may answer.

    A request itself has at most `HttpLimits.body_bytes`, as on every other route.
    """

    turn_timeout: float = 600.0
    """Seconds for one turn, with all its tool calls; as long as one tool call of an agent may take."""
    turns: int = 16
    """Turns of one agent at once; the next one is told to come again, because each may hold a model and a thread."""
    messages: int = 2_000
    """Messages of one request."""
    tools: int = 128
    """Entries of `tools` in one request; as many as OpenAI takes."""
    lent_tools: int = 128
    """Tools of the bridge that an agent is lent for one turn: no model chooses well among more."""
    answer_length: int = 4 * MIB
    """Characters of one answer."""
    ping_interval: float = 15.0
    """Seconds between two signs of life in a stream in which nothing is said, because proxies close what is silent;
    also how long the first piece is waited for before a stream is begun without it. Until then a failure has a
    status."""
    session_idle: float = 1_800.0
    """Seconds without a turn after which what servers keep for a session (`isolation: session`) is let go."""
    stored: int = 1_000
    """Responses that are kept for `previous_response_id`; as many as an agent has sessions."""
    stored_bytes: int = 64 * MIB
    """Of all those together, each counted with the whole conversation before it."""
    stored_seconds: float = 86_400.0
    """How long one is kept: who goes on after a day has what was said, and can send it."""
    farewell: float = 2.0
    """Seconds for turns to finish at shutdown; less than `HttpLimits.shutdown_grace`, so that a stream can still say
    why it ends."""


class ClientLimits(Limits, frozen=True):
    """What clients are given less of, because they do not pass on all of it; `docs/clients.md` has the table."""

    known_results: bool = True
    """Whether results are made smaller for clients that are known to lose the rest."""
    known_instructions: bool = True
    """Whether instructions are made to fit what clients are known to take."""
    results: tuple[tuple[str, int], ...] = ()
    """Clients, by the names with which they introduce themselves, and bytes of text that a result may have for them,
    whatever is known; 0: any number."""
    instructions: tuple[tuple[str, int], ...] = ()
    """The same for instructions, in characters."""
    kept_seconds: float = 3_600.0
    """How long what was taken out of a result can be read: as long as a conversation may come back to it."""
    kept: int = 256
    """Results that something was taken out of, of one endpoint; of more, the latest."""
    kept_bytes: int = 64 * MIB
    """Of all those together. What is larger alone stays in its result."""

    def __post_init__(self) -> None:
        """Check every field, and every client's number."""
        super().__post_init__()
        for name, least in (("results", LEAST_RESULT), ("instructions", 1)):
            for pair in getattr(self, name):
                match pair:
                    case (str(client), int(size)) if (
                        client.strip() and type(size) is int and (not size or size >= least)
                    ):
                        continue
                    case _:
                        expected = f"the name of a client, and 0 for any number or at least {least:,}"
                        raise ValueError(f"ClientLimits.{name} has {pair!r:.100}; expected {expected}")


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
    leftover_age: float = 604_800.0
    """Seconds after which the log of a bridge that runs no more is only in the way."""


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
    release: float = 5.0
    """Seconds for the editor to close a terminal, also when the turn is over."""
    page: int = 50
    """Kept conversations in one answer to `session/list`."""


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
