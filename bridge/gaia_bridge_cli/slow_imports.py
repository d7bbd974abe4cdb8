"""Says what is still being loaded, where that takes long: an agent that waits looks like a bridge that hangs."""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from gaia_bridge.constants import OWN_PACKAGES

logger = logging.getLogger(__name__)

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
