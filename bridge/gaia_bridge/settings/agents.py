"""What agents are given, and what they may be asked for."""

from __future__ import annotations

from gaia_bridge.constants import KIB, MIB
from gaia_bridge.settings.limits import Limits


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
