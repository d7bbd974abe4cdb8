"""Find agents: `module:Class`, a file, a folder, or the name of an installed agent.

A reference is read in this order, and the first that fits decides:

    path/to/file.py[:Class]   one agent of that file, or every agent class that the file defines
    path/to/folder  .  ~/x    every `*.py` directly in that folder that does not start with `_`, sorted
    module:Class              also `module:instance` and `module:function`, async or not; dots reach into classes
    code                      an installed agent: an entry point of the group `gaia.agents`
    folder                    a folder of the current folder
    module                    every agent class that the module, or package, defines itself

The folder of the reference is put first on `sys.path`, as Python does for scripts. That never happens for installed
agents: an editor starts them in a folder that its user may have just downloaded.

Agent code may do anything while it is imported or built. Whatever it raises, `SystemExit` and `KeyboardInterrupt`
included, becomes an `AgentLoadError`: one line that says what happened and where.
"""

from __future__ import annotations

from gaia_bridge.bridge.discovery.search import (
    ENTRY_POINT_GROUP,
    LoadedAgent,
    SearchResult,
    find_agents,
    lasting_reference,
    load_agent,
    place_of,
)

__all__ = [
    "ENTRY_POINT_GROUP",
    "LoadedAgent",
    "SearchResult",
    "find_agents",
    "lasting_reference",
    "load_agent",
    "place_of",
]
