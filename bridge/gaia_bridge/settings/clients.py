"""What clients are given: of transports, of lists, of results, and of changes."""

from __future__ import annotations

from gaia_bridge.constants import KIB, LEAST_RESULT, MIB
from gaia_bridge.protocol.names import known_name
from gaia_bridge.settings.limits import Limits


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
    body_patience: float = 0.05
    """Seconds in which a small body follows its head nearly always: until then, nobody is called for the head alone."""
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
    """Tasks that one client made and hears of; beyond, the oldest are forgotten, and cannot be asked for."""
    streams: int = 1_024
    """`subscriptions/listen` requests at one endpoint that are open at once."""
    confirm_timeout: float = 2.0
    """Seconds for the sources to be asked before a `subscriptions/listen` request is confirmed all the same: a server
    that has to be started, or hangs, must not keep the client from hearing of everything else."""


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

    first_request: float = 3.5
    """Seconds that one request of a client that lists once is held back for servers that are starting: several Python
    frameworks give up a request after 5 (openai-agents 0.24, autogen-ext 0.7, google-adk 2.13), Codex a start after
    10."""
    known_results: bool = True
    """Whether results are made smaller for clients that are known to lose the rest."""
    known_instructions: bool = True
    """Whether instructions are made to fit what clients are known to take."""
    results: tuple[tuple[str, int], ...] = ()
    """Clients, by the names with which they introduce themselves in any case, and bytes of text that a result may have
    for them, whatever is known; 0: any number. Each client once."""
    instructions: tuple[tuple[str, int], ...] = ()
    """The same for instructions, in characters."""
    kept_seconds: float = 3_600.0
    """How long what was taken out of a result can be read: as long as a conversation may come back to it."""
    kept: int = 256
    """Results that something was taken out of, of one endpoint. Each client has an equal share for certain, and what
    the others leave of theirs; of its own, the latest."""
    kept_bytes: int = 64 * MIB
    """Of all those together, shared likewise. What is larger alone, or would take of the share of others, stays in its
    result."""

    def __post_init__(self) -> None:
        """Check every field, and every client's number."""
        super().__post_init__()
        for name, least in (("results", LEAST_RESULT), ("instructions", 1)):
            said: dict[str, object] = {}
            for pair in getattr(self, name):
                match pair:
                    case (str(client), int(size)) if (
                        (known := known_name(client)) and type(size) is int and (not size or size >= least)
                    ):
                        if known in said:
                            both = f"{said[known]!r:.100} and {pair!r:.100}"
                            expected = "one number for a client, whatever the case of its name"
                            raise ValueError(f"ClientLimits.{name} has {both}; expected {expected}")
                        said[known] = pair
                    case _:
                        expected = f"the name of a client, and 0 for any number or at least {least:,}"
                        raise ValueError(f"ClientLimits.{name} has {pair!r:.100}; expected {expected}")
