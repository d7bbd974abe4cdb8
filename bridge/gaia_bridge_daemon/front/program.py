"""`gaia-bridge connect`, from its command line to the end of the client."""

from __future__ import annotations

import os
import signal
import sys

from gaia_bridge_daemon.front.launching import BridgeDownError, connect
from gaia_bridge_daemon.front.place import Place, PlaceError, Scope, current_folder, remedy, runtime_folder
from gaia_bridge_daemon.front.relay import FrontRelay

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket
    from typing import Any

_UNAVAILABLE = 69
"""As `gaia_bridge_cli.exit_codes` has it, which takes longer to import."""

_LINEAGE = "GAIA_BRIDGE_LINEAGE"
"""As `gaia_bridge.calls.process_ancestry` has it, which takes longer to import."""


class FrontOptions:
    """The options of a front.

    Args:
        source: The name of the agent or server that is wanted alone; empty for everything.
        config: The path of a file of servers, if one is named.
        agents: References of agents.
        keep: Minutes that a bridge stays without a client, if this front starts it.
        servers: Whether configured servers are published, too.
    """

    def __init__(
        self,
        source: str = "",
        config: str | None = None,
        agents: Sequence[str] = (),
        keep: float | None = None,
        servers: bool = True,
    ) -> None:
        self.source = source
        self.config = config
        self.agents = tuple(agents)
        self.keep = keep
        self.servers = servers


def options_of(words: Sequence[str]) -> FrontOptions | None:
    """Return the options of a command line in the form that editors use.

    Args:
        words: The arguments after `connect`.

    Returns:
        The options; `None` for any other line, which the whole program parses, and explains.
    """
    found = FrontOptions()
    everything = False
    rest = iter(words)
    for word in rest:
        if word == "--all":
            everything = True
        elif word == "--no-servers":
            found.servers = False
        elif word in ("--config", "--agent", "--keep"):
            if not _is_taken(found, word, next(rest, "")):
                return None
        elif word.startswith("-") or not word:
            return None
        elif is_agent(word):
            found.agents = (*found.agents, word)
        elif found.source:
            return None
        else:
            found.source = word
    is_odd = (everything and found.source) or (found.config and not found.servers)
    return None if is_odd else found


def is_agent(word: str) -> bool:
    """Return whether a word of the command line is an agent to publish, not the name of a published source."""
    path, colon, name = word.partition(":")
    if path.endswith(".py") or path in (".", ".."):
        return True
    if colon:
        return path.replace(".", "").isidentifier() and name.isidentifier()
    return "/" in path and os.path.exists(os.path.expanduser(path))  # a published source may be called "a/b"


def _is_taken(found: FrontOptions, option: str, value: str) -> bool:
    """Set an option from its value; return whether the value is an ordinary one."""
    if not value or value.startswith("-"):
        return False
    if option == "--config":
        found.config = value
    elif option == "--agent":
        found.agents = (*found.agents, value)
    elif value.isascii() and value.replace(".", "", 1).isdecimal():
        found.keep = float(value)
    else:
        return False
    return True


def run(options: FrontOptions) -> int:
    """Relay between standard input and output and the bridge, until the client is gone.

    Returns:
        The exit code.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a bridge may end after we left it: no zombies
    try:
        reaching = Reaching(options)
        FrontRelay(reaching.reach, reaching.heard).run()
    except BridgeDownError as error:
        sys.stderr.write(f"gaia-bridge connect: error: {error}\n")
        return _UNAVAILABLE
    except OSError as error:
        sys.stderr.write(
            f"gaia-bridge connect: error: {error.filename or 'a stream'}: {error.strerror}{remedy(error)}\n"
        )
        return _UNAVAILABLE
    return 0


class Reaching:
    """Connects a relay to the bridge of some options; other errors are raised as `BridgeDownError`.

    Args:
        options: The options of the front; they apply in the current folder.
    """

    def __init__(self, options: FrontOptions) -> None:
        self._source = options.source
        self._folder = current_folder()
        self._scope = Scope.of(options.config, options.agents, self._folder, options.servers)
        self._keep = None if options.keep is None else 60 * options.keep

    def heard(self, news: dict[str, Any]) -> None:
        """Store the bridge's time to stay, so that the one that replaces it stays as long."""
        self._keep = news.get("keep", self._keep)

    def reach(self, asked: int) -> socket:
        """Connect to the bridge, and start it if need be.

        Args:
            asked: The largest id of a request that a bridge has sent.

        Raises:
            BridgeDownError: There is no bridge, and none can be started.
        """
        asks: dict[str, object] = {"source": self._source, "asked": asked, "folder": self._folder}
        asks["lineage"] = os.environ.get(_LINEAGE, "")
        try:
            connection, told = connect(Place(runtime_folder(), self._scope.name), self._scope, self._keep, asks)
        except PlaceError as error:
            raise BridgeDownError(str(error)) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            why = f"{where}{error.strerror or error}{remedy(error)}"
            raise BridgeDownError(f"the bridge cannot be started: {why}") from None
        self.heard(told)
        return connection
