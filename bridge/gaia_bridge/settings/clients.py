"""Limits of clients: of transports, of lists, of results, and of notifications of changes."""

from __future__ import annotations

from gaia_bridge.constants import KIB, LEAST_RESULT, MIB
from gaia_bridge.protocol.names import known_name
from gaia_bridge.settings.limits import Limits


class HttpLimits(Limits, frozen=True):
    """Limits of the HTTP server: a client that is slow, greedy or gone must not keep the others waiting."""

    body_bytes: int = 4 * MIB
    """Bytes of one request body; the default of the SDK, applied to every route."""
    header_bytes: int = 32 * KIB
    """Bytes of all header lines of one request."""
    header_timeout: float = 10.0
    """Seconds to send the header lines (uvicorn itself waits for ever)."""
    body_timeout: float = 30.0
    """Seconds to send a body, for the same reason."""
    body_patience: float = 0.05
    """Seconds in which a small body nearly always follows its headers: until then, no handler is called."""
    keep_alive: float = 75.0
    """Seconds an idle connection is kept. Longer than a client's pool keeps it, so that the client closes first."""
    quick_answer: float = 1.0
    """Seconds for an answer to be plain JSON. One that takes longer, or has messages before it, is an event stream,
    because clients and proxies close silent connections, and so that a client whose connection breaks can come back for
    it. A stream costs three times as much, and most tools take less than a second. Clients of 2026-07-28 get plain JSON
    within `ping_interval`: only that has an HTTP status, and they resume nothing."""
    ping_interval: float = 15.0
    """Seconds between two signs of life in a silent event stream, for the same reason."""
    stream_messages: int = 64
    """Messages that wait in one event stream for a client that reads slowly; then the sender of the next one waits."""
    sessions: int = 256
    """Legacy sessions per endpoint. One more replaces a session that is not in use; if all are in use, it is answered
    503."""
    retry_after: int = 5
    """Seconds after which a client that was answered 503 should retry: calls end and streams break all the time."""
    handshake_bytes: int = 16 * KIB
    """Bytes of the params of one `initialize`: they are kept as long as the session, at 25 times their size. Real ones
    have one kilobyte, and all sessions of an endpoint keep 100 MiB at worst."""
    batch: int = 100
    """Messages of one batch, on stdio as well: they are processed at once."""
    session_idle: float = 1_800.0
    """Seconds without a request after which a legacy session ends. An open stream keeps it."""
    replay_events: int = 256
    """Events kept per session for a client that resumes a broken stream."""
    replay_bytes: int = 4 * MIB
    """Bytes of the same: many sessions must not add up to the whole memory."""
    unsent_bytes: int = 64 * MIB
    """Bytes that may wait for one client that does not read: some of the largest results. With more, the client is
    disconnected; its session stays."""
    unsent_total_bytes: int = 128 * MIB
    """The same for all clients together. With more, those that have read nothing for longest are disconnected."""
    retry_interval: int = 500
    """Milliseconds after which a client whose stream was closed should reconnect."""
    refusals: int = 20
    """Refused requests that are logged one by one within `refusal_window`; of further ones, the number."""
    refusal_window: float = 60.0
    """Seconds for the same."""
    shutdown_grace: float = 3.0
    """Seconds for open requests to finish at shutdown."""


class BacklogLimits(Limits, frozen=True):
    """Limits of answers that are ready and wait to be written to clients, on every transport.

    For bytes that were written to a socket, see `HttpLimits.unsent_bytes`.
    """

    client_bytes: int = 64 * MIB
    """Bytes of answers that wait for one client; with more, its next calls wait. Some of the largest results."""
    total_bytes: int = 256 * MIB
    """Bytes of those for all clients together. With more, the stream with most waiting bytes is ended."""
    requests: int = 4096
    """Requests of one client on a stream that are not answered, or whose answers it has not read; one more is refused.
    Several times as many as the busiest sensible client has."""
    large: int = 256 * KIB
    """Bytes from which on an answer is large. A target whose last answer was smaller is called at once."""
    at_once: int = 32
    """Recent calls of one client whose answers may be large or are of unknown size: so many answers can come beyond
    `client_bytes`. As many as a busy client makes of one tool at once."""
    interval: float = 1.0
    """Seconds after which such a call no longer delays others: most are answered sooner, and slow answers come one by
    one."""
    large_interval: float = 10.0
    """The same where the last answer was large."""
    patience: float = 60.0
    """Seconds that a call waits to be made. Then a client that has read nothing meanwhile gets an error; over HTTP it
    has lost its connection by then (`HttpLimits.body_timeout`)."""
    targets: int = 10_000
    """Tools, prompts and resources whose size of the last answer is remembered; as many as an agent may have."""


class SubscriptionLimits(Limits, frozen=True):
    """Limits of notifications of changes to clients, on every transport."""

    notify_timeout: float = 5.0
    """Seconds one client may take to accept one change notification; then it is dropped for that client."""
    resources: int = 1_000
    """Resources that one client, or one `subscriptions/listen` request, may subscribe to."""
    tasks: int = 1_000
    """Tasks that one client created, is notified of and can query; beyond, the oldest are forgotten."""
    streams: int = 1_024
    """`subscriptions/listen` requests at one endpoint that are open at once."""
    confirm_timeout: float = 2.0
    """Seconds for the sources to respond before a `subscriptions/listen` request is confirmed without them: a server
    that has to be started, or hangs, must not keep the client from the changes of all others."""


class PageLimits(Limits, frozen=True):
    """Limits of one page of a list."""

    items: int = 1_000
    """Definitions of one page. Many clients never ask for a second page, so the first holds all that anyone can use."""
    bytes: int = 2 * MIB
    """Bytes of JSON of one page: half of the limit of a line on stdio. A larger definition is a page of its own."""


class ChatEndpointLimits(Limits, frozen=True):
    """Limits of requests to one agent through the OpenAI-compatible API, and of its answers.

    A request itself has at most `HttpLimits.body_bytes`, as on every other route.
    """

    turn_timeout: float = 600.0
    """Seconds for one turn, with all its tool calls; as long as one tool call of an agent may take."""
    turns: int = 16
    """Turns of one agent at once; one more is refused for now, because each may hold a model and a thread."""
    messages: int = 2_000
    """Messages of one request."""
    tools: int = 128
    """Entries of `tools` in one request; as many as OpenAI accepts."""
    lent_tools: int = 128
    """Tools of the bridge that an agent can use in one turn: no model chooses well among more."""
    answer_length: int = 4 * MIB
    """Characters of one answer."""
    ping_interval: float = 15.0
    """Seconds between two signs of life in a silent stream, because proxies close silent connections; also the wait for
    the first piece before a stream begins without it. Until then a failure has an HTTP status."""
    session_idle: float = 1_800.0
    """Seconds without a turn after which the state of servers for a session (`isolation: session`) is released."""
    stored: int = 1_000
    """Responses that are kept for `previous_response_id`; as many as an agent has sessions."""
    stored_bytes: int = 64 * MIB
    """Bytes of all those together, each counted with the whole conversation before it."""
    stored_seconds: float = 86_400.0
    """Seconds that one is kept: a client that goes on after a day can send the conversation itself."""
    farewell: float = 2.0
    """Seconds for turns to finish at shutdown; less than `HttpLimits.shutdown_grace`, so that a stream can still report
    the reason of its end."""


class ClientLimits(Limits, frozen=True):
    """Reductions for clients that do not pass all content on to models; `docs/clients.md` has the table."""

    first_request: float = 3.5
    """Seconds that one request of a client that lists only once waits for servers that are starting: several Python
    frameworks give up a request after 5 (openai-agents 0.24, autogen-ext 0.7, google-adk 2.13), Codex a start after
    10."""
    known_results: bool = True
    """Whether results are shortened for clients that are known to drop the rest."""
    known_instructions: bool = True
    """Whether instructions are shortened to the known limits of clients."""
    results: tuple[tuple[str, int], ...] = ()
    """Clients, by the names with which they introduce themselves in any case, and the bytes of text that a result may
    have for them, instead of the known limit; 0 for no limit. Each client once."""
    instructions: tuple[tuple[str, int], ...] = ()
    """The same for instructions, in characters."""
    kept_seconds: float = 3_600.0
    """Seconds that the parts removed from a result can be read: as long as a conversation may come back to them."""
    kept: int = 256
    """Results with removed parts that are kept for one endpoint. Each client has an equal share for certain, and the
    unused shares of others; of its own results, the latest are kept."""
    kept_bytes: int = 64 * MIB
    """Bytes of all those parts together, shared likewise. A part that is larger alone, or would need the share of
    others, stays in its result."""

    def __post_init__(self) -> None:
        """Check every field, and the number of every client."""
        super().__post_init__()
        for name, least in (("results", LEAST_RESULT), ("instructions", 1)):
            entries: dict[str, object] = {}
            for pair in getattr(self, name):
                match pair:
                    case (str(client), int(size)) if (
                        (key := known_name(client)) and type(size) is int and (not size or size >= least)
                    ):
                        if key in entries:
                            both = f"{entries[key]!r:.100} and {pair!r:.100}"
                            expected = "one number for a client, whatever the case of its name"
                            raise ValueError(f"ClientLimits.{name} has {both}; expected {expected}")
                        entries[key] = pair
                    case _:
                        expected = f"the name of a client, and 0 for any number or at least {least:,}"
                        raise ValueError(f"ClientLimits.{name} has {pair!r:.100}; expected {expected}")
