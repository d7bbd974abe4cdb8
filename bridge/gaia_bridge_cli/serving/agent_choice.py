"""Chooses the agents of `gaia-bridge serve`: the named ones, or the suitable ones of those that ship with it.

Modules that load slowly are named meanwhile: an agent that waits looks like a bridge that hangs.
"""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.bridge.discovery import LoadedAgent, find_agents
from gaia_bridge.constants import OWN_PACKAGES
from gaia_bridge.text.json_types import is_object
from gaia_bridge_cli.logs import keep_log

_PATIENCE = 5.0
"""Seconds until a slow module is named; a large library takes two or three."""

_OURS: Final = frozenset({"gaia_agents", *OWN_PACKAGES})
"""Packages of ours, whose frames lie between an agent and the call that it waits for."""

_HINT: Final = 'if it starts a server, move it under `if __name__ == "__main__":`'
"""The remedy for a module that calls something long when it is imported, as `mcp.run()` at its end."""


@contextmanager
def told_of_slow_imports(patience: float = _PATIENCE) -> Generator[None]:
    """Log every few seconds, during the block, which line of an agent's code the calling thread runs.

    Args:
        patience: Seconds between two such records.
    """
    done, importer = threading.Event(), threading.get_ident()

    def watch() -> None:
        waited = 0.0
        while not done.wait(patience):
            waited += patience
            frame = sys._current_frames().get(importer)  # pyright: ignore[reportPrivateUsage] # documented
            logger.warning("agents are still being loaded after %g s: %s", waited, _being_loaded(frame))

    watcher = threading.Thread(target=watch, name="imports", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(_PATIENCE)  # a record that is just being written is finished before the block ends


def _being_loaded(frame: FrameType | None) -> str:
    """Describe the innermost line of the agent's own code that a thread runs, and the server that it awaits, if any."""
    frames = list(_outward(frame))
    line = next(filter(_is_of_agent, frames), None)
    if line is None:
        line = next((each for each in frames if each.f_code.co_name == "<module>" and not _is_program(each)), None)
    if line is None:
        reference = next((text for each in frames if (text := _reference_of(each))), "")
        return f"{reference} is being read" if reference else "no module is being imported"
    where = f"{line.f_code.co_filename}:{line.f_lineno}"
    if line.f_code.co_name == "<module>":
        text = f"module {line.f_globals.get('__name__')!r} is at {where}"
    else:
        text = f"{line.f_code.co_qualname}() is at {where}"
    inner, outer = frames[: frames.index(line)], frames[frames.index(line) :]
    server = next((name for each in inner if (name := _server_of(each))), "")
    if server:
        return f"{text}, and waits for its server {server!r}"
    is_module = any(each.f_code.co_name == "<module>" for each in filter(_is_of_agent, outer))
    return f"{text} ({_HINT})" if is_module and not any(map(_imports, inner)) else text


def _outward(frame: FrameType | None) -> Generator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_of_agent(frame: FrameType) -> bool:
    """Return whether a frame runs the agent's own code: no library, and none of ours."""
    file = frame.f_code.co_filename
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    if package in _OURS or file.startswith("<"):
        return False
    libraries = {sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not _is_program(frame) and not file.startswith(tuple(libraries))


def _is_program(frame: FrameType) -> bool:
    """Return whether a frame is of the program that loads agents: its script is none of them."""
    return frame.f_globals.get("__name__") == "__main__"


def _imports(frame: FrameType) -> bool:
    """Return whether a frame is of an `import` statement."""
    return frame.f_code.co_filename.startswith("<frozen importlib")


def _reference_of(frame: FrameType) -> str:
    """Return the reference of the agents that a frame of the loader reads; empty for all other frames."""
    if frame.f_globals.get("__name__") != find_agents.__module__:
        return ""
    reference: object = getattr(frame.f_locals.get("self"), "reference", "")
    return reference if isinstance(reference, str) else ""


def _server_of(frame: FrameType) -> str:
    """Return the name of the server that a frame of GAIA's MCP client connects to; empty for all other frames."""
    if not str(frame.f_globals.get("__name__")).startswith("gaia.mcp.client.transports."):
        return ""
    owner: object = frame.f_locals.get("self")
    name: object = getattr(owner, "name", "")
    return name if isinstance(name, str) else ""


logger = logging.getLogger(__name__)


class AgentChoice(Struct, frozen=True):
    """The options of the command line about agents.

    Args:
        named: The references of agents.
        wanted: Whether to publish agents at all.
        beyond: Whether other machines can reach the bridge: then agents that write files need to be named.
        configured: Whether a configuration was named.
        in_windows: Whether shipped agents work in the folder of each window, not in ours.
    """

    named: tuple[str, ...]
    wanted: bool
    beyond: bool
    configured: bool
    in_windows: bool = False

    def load(self, *, others: bool) -> list[LoadedAgent]:
        """Load the chosen agents.

        Args:
            others: Whether there are other sources to serve, so that agents that were not named can be left out.

        Raises:
            AgentLoadError: An agent cannot be loaded.
        """
        if not self.wanted or (self.beyond and self.configured and not self.named):
            return []
        with keep_log(), told_of_slow_imports():
            references = find_agents(self.named, in_windows=self.in_windows)
        for entry in references:
            if not entry.agents and (self.named or not others):
                raise entry.failures[0]
            for failure in entry.failures:
                logger.warning("left out: %s", failure)
        agents = [agent for entry in references for agent in entry.agents]
        if not self.beyond or self.named:
            return agents
        for agent in filter(_writes, agents):
            logger.warning(
                "left out: agent %s can write, and other machines can reach it; name it to serve it", agent.name
            )
        return [agent for agent in agents if not _writes(agent)]


def _writes(loaded: LoadedAgent) -> bool:
    """Return whether one of its tools does not declare that it only reads."""
    agent: Any = loaded.agent
    annotations = [tool.get("annotations") for tool in agent.get_mcp_tool_definitions()]
    return not all(is_object(about) and about.get("readOnlyHint") is True for about in annotations)
