"""What the servers that are used are given: limits of their connections, of documents of HTTP APIs, of registries."""

from __future__ import annotations

from gaia_bridge.constants import KIB, MIB
from gaia_bridge.protocol.revisions import PUBLISHED, Revisions
from gaia_bridge.settings.limits import Limits


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
    download_timeout: float = 600.0
    """Seconds for the same where a launcher (`npx`, `uvx`, `docker`, ...) may be downloading the server: images and
    packages of hundreds of megabytes take minutes. Once anything else than a download shows, `connect_timeout` counts.
    An entry with `startup_timeout` has that instead."""
    downloads: bool = False
    """Whether the server is started by a launcher; its launch line says so."""
    rollback_grace: float = 30.0
    """Seconds for a launcher to end after SIGTERM while it downloads: npm takes back what it did, which takes it 7 on a
    busy machine. If it is killed before, its copy of the server is broken for good."""
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
    """Seconds that a list is trusted if the server does not say how long (`ttlMs`): as long as our own clients may keep
    it (`Settings.list_ttl`). Also where the server announces changes: many declare that and announce none."""
    renewal: float = 0.25
    """Seconds that a client waits for such a list to be read again. A quick server has answered by then; a slow one
    must not delay every list that it is merged into, and what it has new is announced."""
    first_look: float = 2.0
    """Seconds that clients wait for a server that is starting and of which nothing is known: the first thing that they
    ask is what there is, and a server in Python or Node has answered by then. A server that hangs costs this once in
    its life, however many wait."""
    first_list: float = 10.0
    """Seconds for the same where a client lists once, or is not known to list again when something changed: what it is
    not told now it never sees. `ClientLimits.first_request` bounds each of its requests."""
    listing_patience: float = 60.0
    """Seconds that are left to a server that is starting when the process ends that began it, to be listed once by a
    process of its own, beside the time for a start. The next process lists it at once."""
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
    garbage_lines: int = 5_000
    """Lines on standard output, or events, that are no messages, within `garbage_window`; with more the server is given
    up. Many servers log there, which every client skips; a runaway loop writes thousands a second."""
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
    given_up_grace: float = 5.0
    """Seconds after a call was cancelled or timed out for which the server may still work on it: a question or a log
    message that names no call may be about it until then. Servers that heed a cancellation need milliseconds."""
    answered_grace: float = 1.0
    """Seconds after an answer for which a log message that names no call may be about that call: it reaches no other
    session then. Servers that log what they finish late do so at once; a client that calls next is mostly slower."""
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

    @property
    def start_timeout(self) -> float:
        """Seconds from launch to a completed handshake, a download included where there may be one."""
        return max(self.connect_timeout, self.download_timeout) if self.downloads else self.connect_timeout
