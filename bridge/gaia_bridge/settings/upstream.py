"""Limits of the servers that the bridge uses: of their connections, of documents of HTTP APIs, of registries."""

from __future__ import annotations

from gaia_bridge.constants import KIB, MIB
from gaia_bridge.protocol.revisions import PUBLISHED, Revisions
from gaia_bridge.settings.limits import Limits


class OpenApiLimits(Limits, frozen=True):
    """Limits of the document of an HTTP API. Its requests have the limits of all servers (`UpstreamLimits`)."""

    fetch_timeout: float = 15.0
    """Seconds for the document to arrive, so that an error can still be reported before a start is given up."""
    document_bytes: int = 16 * MIB
    """Bytes of one document; those of the largest public APIs have about ten MiB."""
    document_parts: int = 2_000_000
    """Objects, lists and values of one document: in YAML, a few lines of aliases can stand for billions."""
    operations: int = 500
    """Operations that become tools, as many as one list of a server may have (`UpstreamLimits.tools`)."""
    tools_bytes: int = 8 * MIB
    """Bytes of all tools of one document as JSON, since shared schemas are copied into each; as much as clients can
    hold."""
    error_bytes: int = 16 * KIB
    """Bytes shown of the body of an error response: a model has to read it."""


class RegistryLimits(Limits, frozen=True):
    """Limits of a registry of MCP servers."""

    timeout: float = 15.0
    """Seconds for one answer: a user waits for it at a terminal."""
    answer_bytes: int = 8 * MIB
    """Bytes of one answer: a hundred servers of some KiB each."""
    pages: int = 20
    """Pages that one search reads: a registry that ignores the search, or goes in circles, has no end."""
    values: int = 1_000
    """Values of one server that a user can be asked for; the most in real servers are some thirty."""


class UpstreamLimits(Limits, frozen=True):
    """Limits of an upstream server. An entry of the configuration may set others for its own server."""

    revisions: Revisions = PUBLISHED
    """The revisions of MCP for servers without a handshake; see `Settings.speaking`."""

    connect_timeout: float = 30.0
    """Seconds from launch to a completed handshake; `npx` and `uvx` install on first use."""
    download_timeout: float = 600.0
    """Seconds for the same where a launcher (`npx`, `uvx`, `docker`, ...) may be downloading the server: images and
    packages of hundreds of megabytes take minutes. Once the launcher is seen to do anything else, `connect_timeout`
    counts. An entry with `startup_timeout` has that instead."""
    downloads: bool = False
    """Whether the server is started by a launcher, which is derived from its command."""
    rollback_grace: float = 30.0
    """Seconds for a launcher to end after SIGTERM while it downloads: npm rolls its installation back, which takes 7 on
    a busy machine. If it is killed before, its copy of the server is broken for good."""
    launch_interval: float = 0.02
    """Seconds between two launches of children: each stops the event loop for a moment, and fifty servers that start at
    once must not keep the first client waiting."""
    probe_timeout: float = 3.0
    """Seconds to answer `server/discover` before the older handshake is begun too: some servers ignore unknown methods,
    and each connection to them costs this long."""
    standing_timeout: float = 0.5
    """Seconds for a server over HTTP to open the stream for its own messages, before any other request: many drop such
    messages while there is no stream. Some servers answer only when they have a message."""
    list_timeout: float = 10.0
    """Seconds for one page of a list."""
    list_cap: float = 60.0
    """Seconds after which no further page of a list is requested, and none again: a hundred slow pages would take a
    hundred times `list_timeout`. The pages read until then are the list."""
    list_max_age: float = 5.0
    """Seconds that a list is used if the server sets no time (`ttlMs`): as long as our own clients may keep it
    (`Settings.list_ttl`). Also where the server announces changes: many declare that and announce none."""
    renewal: float = 0.25
    """Seconds that a client waits for such a list to be read again. A quick server has answered by then; a slow one
    must not delay every list that it is merged into, and its changes are announced later."""
    first_look: float = 2.0
    """Seconds that clients wait for a server that is starting and whose lists are unknown: clients request lists first,
    and a server in Python or Node has answered by then. A server that hangs costs this once in its life, however many
    clients wait."""
    first_list: float = 10.0
    """Seconds for the same where a client lists once, or is not known to list again after a change: it never sees tools
    that come later. `ClientLimits.first_request` bounds each of its requests."""
    listing_patience: float = 60.0
    """Seconds for a server that is still starting when our process ends: a process of its own lists it once, within
    this and the time for a start. The next process then has its lists at once."""
    second_start: float = 2.0
    """Factor of the wait for a server's second connection, of a client's own era: this times the duration of the first,
    plus `first_look`, since the machine may be busier now. If it hangs, that is lost once, then the first serves."""
    call_timeout: float = 60.0
    """Seconds for one forwarded request without a sign of life; progress restarts them. Messages before its answer have
    the same time to reach a client that reads slowly; then the rest of them is left out."""
    call_cap: float = 600.0
    """Seconds for one forwarded request, whatever progress it reports."""
    ping_timeout: float = 15.0
    """Seconds to answer a ping, sent when a server has let requests time out."""
    watch_interval: float = 10.0
    """Seconds between two checks whether this process stood still, and the shortest standstill that counts."""
    resume_spread: float = 3.0
    """Seconds over which the pings to all servers after a standstill are spread, so that not all come at once."""
    timeouts_before_restart: int = 3
    """Requests in a row that may time out before the server has to answer a ping or is restarted."""
    pages: int = 100
    """Pages of one list: an endless cursor must end somewhere."""
    tools: int = 500
    """Definitions of one list; more would drown every client."""
    message_bytes: int = 16 * MIB
    """Bytes of one message from a server."""
    text_bytes: int = 32 * KIB
    """Bytes of each text in which a server describes itself: name, version, instructions."""
    garbage_lines: int = 5_000
    """Lines on standard output, or events, that are no messages, within `garbage_window`; with more the server is given
    up. Many servers log there, which every client skips; an endless loop writes thousands a second."""
    garbage_window: float = 10.0
    """Seconds for the same."""
    blank_lines: int = 20_000
    """Lines without content, such as blank ones and comments, within `garbage_window`: a thousand times as many as keep
    a connection alive, and less than a second of work. With more the server is not read any further."""
    loop_share: float = 0.1
    """The share of the event loop's time that a server with endless messages may take: beyond, it is read more slowly.
    The share is thousands of messages a second, and several such servers leave time for the others."""
    loop_burst: float = 0.25
    """Seconds of that time at once, before the share counts: several results of the largest size."""
    write_timeout: float = 30.0
    """Seconds for a server to accept one message: a child on its standard input, a server over HTTP a message without a
    response."""
    requests_in: int = 96
    """Requests of one server that are open at once; more are refused. Higher than the number that may wait for clients
    (`max_parked`), so that the oldest of these can give way."""
    requests_in_result: int = 16
    """Questions of one `input_required` result."""
    notes: int = 1_000
    """Progress messages of one request that wait for a slow receiver, and replies that wait for a slow server; beyond
    it the oldest is dropped."""
    max_rounds: int = 10
    """Times that one request may ask for input before it is given up, so that two programs cannot loop for ever; as
    many as the official clients allow."""
    question_timeout: float = 300.0
    """Seconds a server's question to a client may stay open; afterwards the server gets an error as its answer."""
    given_up_grace: float = 5.0
    """Seconds after a call was cancelled or timed out in which the server may still work on it: a question or a log
    message that names no call may be about it until then. Servers that handle cancellation need milliseconds."""
    answered_grace: float = 1.0
    """Seconds after an answer in which a log message that names no call may be about that call, and reaches no other
    session. Servers that log after their answer do so at once; a client's next call mostly comes later."""
    max_sessions: int = 32
    """Clients of one server that have a connection of their own (`isolation: session`): processes, mostly."""
    max_parked: int = 64
    """Calls at one server that may wait for answers of clients, beside those that it works on; as for agents."""
    stop_grace: float = 1.5
    """Seconds for a child to end after its input was closed."""
    terminate_grace: float = 2.0
    """Seconds for the process group to end after SIGTERM, before SIGKILL."""
    backoff_start: float = 0.5
    """Seconds before the first restart; doubled with each, and chosen at random below that (full jitter)."""
    backoff_cap: float = 30.0
    """Seconds between restarts at most."""
    crashes: int = 5
    """Crashes within `crash_window` after which a server is not restarted by itself."""
    crash_window: float = 180.0
    """Seconds for the same, as in editors."""
    healthy: float = 600.0
    """Seconds of service after which earlier failures no longer count: too long to be an accident."""
    restart_patience: float = 5.0
    """The longest pause before a restart, in seconds, that a request waits for. If it is longer, the answer is "try
    again in N s" at once: the client can use the time, and an unreachable HTTP server is reported as quickly."""
    announce_interval: float = 10.0
    """Seconds between two announcements of lists that changed with a new connection: a server that comes and goes must
    not make every client list again each time."""
    progress_rate: int = 10
    """Progress messages of one request that a client receives within a second; of more, the latest."""
    cache_bytes: int = 2 * MIB
    """Bytes on disk of one server's lists; larger lists are not kept, and the server is started to list them."""
    cache_entries: int = 256
    """Servers whose lists are kept on disk; of more, the ones used last."""
    idle_timeout: float = 600.0
    """Seconds without a request after which a lazily started server is stopped."""
    poll_interval: float = 1.0
    """Seconds between two polls of a task whose server sets no interval."""
    poll_floor: float = 0.1
    """The least seconds between two polls, whatever the server sets: a poll is a request, and many tasks may run."""
    poll_cap: float = 30.0
    """The most seconds between two polls: with a longer interval, a caller would wait although the task is over."""
    drain_timeout: float = 10.0
    """Seconds for the requests in flight of a server that is no longer configured; then it is stopped."""
    max_concurrency: int = 64
    """Requests at once; more wait their turn, within their own deadline."""
    refresh_interval: float = 1.0
    """Seconds between two readings of a list whose changes a server announces."""
    http_connect_timeout: float = 5.0
    """Seconds for a TCP connection, and for TLS."""
    http_keep_alive: float = 4.0
    """Seconds an idle HTTP connection is kept. Shorter than servers keep it (uvicorn and Node: five), so that no
    request meets a connection that is just being closed."""
    http_alive_after: int = 60
    """Seconds of silence after which TCP checks whether the other end of a connection is still there; a minute later
    it is given up. An event stream may be silent for hours, and would wait for ever after a network failure."""
    farewell: float = 1.0
    """Seconds for the last messages to an HTTP server: on the end of a response stream, of a cancelled request, of the
    session."""
    retry_floor: float = 0.5
    """The least seconds before a broken event stream is resumed, whatever the server's `retry` is."""
    retry_cap: float = 30.0
    """The most seconds for the same."""
    resumes: int = 5
    """Times that one request's event stream is resumed."""
    read_retries: int = 2
    """Times that a list is requested again after the server failed to answer; calls are never repeated."""
    retry_after_cap: float = 60.0
    """The most seconds of `Retry-After` that a retry waits for."""
    fetch_timeout: float = 5.0
    """Seconds for one answer of an authorization server, redirects included."""
    fetch_bytes: int = 256 * KIB
    """Bytes of one such answer; real ones have a few kilobytes."""
    login_timeout: float = 300.0
    """Seconds for a user to log in in a browser, and to wait for a login that another process has begun."""
    step_ups: int = 2
    """Times that the server may demand further scopes for one request before its refusal is final."""
    openapi: OpenApiLimits = OpenApiLimits()

    @property
    def start_timeout(self) -> float:
        """Seconds from launch to a completed handshake, a download included where there may be one."""
        return max(self.connect_timeout, self.download_timeout) if self.downloads else self.connect_timeout
