"""Numbers and names that nobody sets, each with its reason; apart from the settings, which take longer to load."""

from __future__ import annotations

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
"""The port on which `gaia-bridge serve` listens by default."""

SHIPPED_AGENTS = {"code": "gaia_agents:CodeAgent", "project": "gaia_agents:ProjectAgent"}
"""The agents that ship with the bridge, by the names of their entry points. No others take these names."""

MODEL_CLASS = "gaia.llm:OpenAIModel"
"""The class that answers for the user's model; docs/models.md says which model that is."""

WINDOW_AGENTS = {"code": "gaia_agents:CodeAgent.for_windows", "project": "gaia_agents:ProjectAgent.for_windows"}
"""The agents that ship, each working in the folder of the window that asks."""

BRIDGE_PACKAGES = ("gaia_bridge", "gaia_bridge_cli", "gaia_bridge_daemon", "gaia_bridge_desk", "gaia_bridge_doors")
"""The packages of the bridge."""

OWN_PACKAGES = ("gaia", *BRIDGE_PACKAGES)
"""The packages between the bridge and the code of an agent's author: their frames explain nothing to that author."""

OFFICIAL_REGISTRY = "https://registry.modelcontextprotocol.io"
"""The address of the public registry of MCP servers; `--registry` and `GAIA_BRIDGE_REGISTRY` name another one."""

KIB = 1024
MIB = 1024 * KIB

LENT_LOOP_PATIENCE = 2.0
"""Seconds that a bridge's event loop is given to say whether an agent may use one of its servers. One that stands still
longer may be waiting for that agent."""

MAX_HOPS = 8
"""Bridges that a request may pass, and processes that may start one another: nobody has so many on purpose."""

SIGNAL_INTERVAL = 0.5
"""Seconds after which a thread that waits looks for signals: CPython wakes it for one that arrives while it sleeps, but
not for one that arrives just before, or that the system delivers to another thread."""

JSON_LOG_BYTES = 10 * MIB
"""Bytes of one file of `--log-json`; then the file is rotated."""

JSON_LOG_FILES = 3
"""Older files of `--log-json` that are kept."""

JSON_LOG_QUEUE = 10_000
"""Records that wait to be written to the log file; of more, the newest are left out: nobody waits for a disk."""

LOOP_PATIENCE = 1.0
"""Seconds that an event loop may be held before the log names the cause. Its own work takes hundredths."""

YOUNG_OBJECTS = 3_000
"""New objects of a server after which the garbage collector looks at them: those of a dozen calls, most of them gone by
then. With 700, a call costs 2 % more."""

LOOP_SILENCE = 60.0
"""Seconds between two such lines about the same loop: an agent that blocks in each call has others to read."""

STREAM_BYTES = MIB
"""Bytes that a server has written to standard output or error and nobody has read yet; of more, lines are dropped.
Some thousand lines: a terminal that was held for a while shows them all when it goes on.
"""

STREAM_INTERVAL = 0.02
"""Seconds between two writes to these streams: long enough for many lines of a busy server, too short to be noticed."""

STREAM_FAREWELL = 1.0
"""Seconds at the end of the process for these lines to be read."""

STREAM_PATIENCE = 1.0
"""Seconds that a command waits once for its standard error to be read: a pager that is just starting takes less."""

STOP_DEADLINE = 8.0
"""Seconds from a signal, or from the end of input, to the end of `gaia-bridge serve`, whatever hangs: Docker and
editors kill after ten. `HttpLimits.shutdown_grace` for the calls in flight, then `UpstreamLimits.stop_grace` and
`terminate_grace` for children, and a second for everything else."""

LEAST_RESULT = 2_048
"""Bytes that a result may have, at least, where large content becomes a link: a link alone has some hundred bytes."""
