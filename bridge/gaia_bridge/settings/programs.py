"""What the programs of a user are given: a bridge in the background, `doctor`, an editor that speaks ACP."""

from __future__ import annotations

from gaia_bridge.constants import KIB, MIB
from gaia_bridge.settings.limits import Limits


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
