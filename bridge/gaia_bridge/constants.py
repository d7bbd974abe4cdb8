"""Numbers and names that nobody sets, each with its reason; apart from the settings, which take longer to load."""

from __future__ import annotations

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
"""The port on which `gaia-bridge serve` listens by default."""

SHIPPED_AGENTS = {"code": "gaia_agents:CodeAgent", "project": "gaia_agents:ProjectAgent"}
"""The agents that ship with the bridge, by the names of their entry points. No others take these names."""

WINDOW_AGENTS = {"code": "gaia_agents:CodeAgent.for_windows", "project": "gaia_agents:ProjectAgent.for_windows"}
"""The agents that ship, each working in the folder of the window that asks."""

BRIDGE_PACKAGES = ("gaia_bridge", "gaia_bridge_cli", "gaia_bridge_daemon", "gaia_bridge_desk", "gaia_bridge_doors")
"""The packages of the bridge."""

OWN_PACKAGES = ("gaia", *BRIDGE_PACKAGES)
"""The packages between the bridge and the code of an agent's author: their frames explain nothing to that author."""

KIB = 1024
MIB = 1024 * KIB

MAX_HOPS = 8
"""Bridges that a request may pass, and processes that may start one another: nobody has so many on purpose."""

SIGNAL_INTERVAL = 0.5
"""Seconds after which a thread that waits looks for signals: CPython wakes it for one that arrives while it sleeps, but
not for one that arrives just before, or that the system delivers to another thread."""

LOOP_PATIENCE = 1.0
"""Seconds that an event loop may be held before the log names the cause. Its own work takes hundredths."""

LOOP_SILENCE = 60.0
"""Seconds between two such lines about the same loop: an agent that blocks in each call has others to read."""

LEAST_RESULT = 2_048
"""Bytes that a result may have, at least, where large content becomes a link: a link alone has some hundred bytes."""
