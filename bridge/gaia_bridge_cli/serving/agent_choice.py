"""Which agents `gaia-bridge serve` publishes: those that were named, or of those that ship with it what is fitting.

What takes long to load is named meanwhile: an agent that waits looks like a bridge that hangs.
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
"""Seconds until that is said; a large library takes two or three."""

_OURS: Final = frozenset({"gaia_agents", *OWN_PACKAGES})
"""Packages of ours, which run between an agent and what it waits for."""

_SERVES = 'what starts a server belongs under `if __name__ == "__main__":`'


@contextmanager
def told_of_slow_imports(patience: float = _PATIENCE) -> Generator[None]:
    """While the block runs, say every so often which line of an agent's code the calling thread runs.

    Args:
        patience: Seconds until that is said, and until it is said again.
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
        watcher.join(_PATIENCE)  # what it is just saying is said before the block is over


def _being_loaded(frame: FrameType | None) -> str:
    """The innermost line of the agent's own code that a thread runs, and the server that it waits for, if it does."""
    frames = list(_outward(frame))
    line = next(filter(_is_of_agent, frames), None)
    if line is None:
        line = next((each for each in frames if each.f_code.co_name == "<module>"), None)
    if line is None:
        return "no module is being imported"
    where = f"{line.f_code.co_filename}:{line.f_lineno}"
    if line.f_code.co_name == "<module>":
        text = f"module {line.f_globals.get('__name__')!r} is at {where}"
    else:
        text = f"{line.f_code.co_qualname}() is at {where}"
    servers = [_server_of(each) for each in frames[: frames.index(line)]]
    server = next(filter(None, servers), "")
    return f"{text}, and waits for its server {server!r}" if server else f"{text} ({_SERVES})"


def _outward(frame: FrameType | None) -> Generator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_of_agent(frame: FrameType) -> bool:
    """Whether a frame runs what somebody wrote for this agent: no library, and nothing of ours."""
    file = frame.f_code.co_filename
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    if package in _OURS or file.startswith("<"):
        return False
    own_program = package == "__main__" and os.path.basename(file) in ("gaia-bridge", "__main__.py")
    libraries = {sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not own_program and not file.startswith(tuple(libraries))


def _server_of(frame: FrameType) -> str:
    """The name of the server that a frame of GAIA's MCP client connects to; empty for all other frames."""
    if not str(frame.f_globals.get("__name__")).startswith("gaia.mcp.client.transports."):
        return ""
    owner: object = frame.f_locals.get("self")
    name: object = getattr(owner, "name", "")
    return name if isinstance(name, str) else ""


logger = logging.getLogger(__name__)


class AgentChoice(Struct, frozen=True):
    """What the command line says about agents.

    Args:
        named: The references.
        wanted: Whether there are to be any.
        beyond: Whether other machines can reach the bridge: then nobody's files are written unless that was asked for.
        configured: Whether a configuration was named.
        in_windows: Whether those that ship work in the folder of each window, not in ours.
    """

    named: tuple[str, ...]
    wanted: bool
    beyond: bool
    configured: bool
    in_windows: bool = False

    def load(self, *, others: bool) -> list[LoadedAgent]:
        """Load them.

        Args:
            others: Whether there is something else to serve, so that agents that nobody named can be left out.

        Raises:
            AgentLoadError: One cannot be loaded.
        """
        if not self.wanted or (self.beyond and self.configured and not self.named):
            return []
        with keep_log(), told_of_slow_imports():
            found = find_agents(self.named, in_windows=self.in_windows)
        for entry in found:
            if not entry.agents and (self.named or not others):
                raise entry.failures[0]
            for failure in entry.failures:
                logger.warning("left out: %s", failure)
        agents = [agent for entry in found for agent in entry.agents]
        if not self.beyond or self.named:
            return agents
        for agent in filter(_writes, agents):
            logger.warning(
                "left out: agent %s can write, and other machines can reach it; name it to serve it", agent.name
            )
        return [agent for agent in agents if not _writes(agent)]


def _writes(loaded: LoadedAgent) -> bool:
    """Whether one of its tools does not say of itself that it only reads."""
    agent: Any = loaded.agent
    annotations = [tool.get("annotations") for tool in agent.get_mcp_tool_definitions()]
    return not all(is_object(about) and about.get("readOnlyHint") is True for about in annotations)
