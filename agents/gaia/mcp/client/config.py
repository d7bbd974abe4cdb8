"""Where an agent's MCP servers are remembered ("MCPConfig", stacking)."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gaia.mcp.client.config_report import ConfigReport
from gaia_bridge.config import Layer, ServersConfig, TrustStore, default_servers_path
from gaia_bridge.config.launching.workplaces import relative_words
from gaia_bridge.config.layers import is_local
from gaia_bridge.config.paths import is_current_folder
from gaia_bridge.config.process_rules import APPROVALS_NEEDED
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import is_object

__all__ = ["MCPConfig", "ServerToStart"]

logger = logging.getLogger(__name__)


class ServerToStart(NamedTuple):
    """A configured server that counts."""

    entry: Any
    """As it is written; where its file lies elsewhere than we work, its relative paths begin there."""
    folder: Path
    """Where relative paths in `${file:...}` begin."""
    refusal: Callable[[], str | None]
    """Says before each start why it must not be started any more, if it must not."""


class MCPConfig:
    """The configured servers, read once and written back with every change.

    `~/.gaia/mcp_servers.json` and `./mcp_servers.json` are both read; a server of the second replaces one of the same
    name in the first. Where the current folder has no such file, the second is the one beside the agent's file, or else
    beside the program that was started. Each change goes to the file that has the server; a new one goes to the second
    file if there is one, else to the first. A file that cannot be read is logged and left as it is.

    Args:
        config_file: Use this file alone. It need not exist; a leading `~` is the home folder.
        agent: Whose servers these are, if they are an agent's.

    Attributes:
        config_file: The file that new servers are written to.
    """

    def __init__(self, config_file: str | Path | None = None, *, agent: object | None = None) -> None:
        if config_file is None:
            _make_home_folder()
            self._config = ServersConfig(beside=_folders_of(agent))
        else:
            self._config = ServersConfig(Path(config_file))
        self.config_file: Path = self._config.save_target.path
        for layer in self._config.layers:
            if layer.error is not None:
                logger.error("MCP servers are missing: %s", layer.error)
            for warning in layer.warnings:
                logger.warning("%s", warning)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The files as they were read, the lowest first."""
        return self._config.layers

    @property
    def load_report(self) -> ConfigReport:
        """A report of each file's entries, and of those that cannot be used and why, with references filled in.

        It reads as GAIA's dictionary as well: `load_report["mode"]`.
        """
        resolved = self._config.resolve()
        return ConfigReport(resolved.layers, resolved.secrets, config_file=self.config_file)

    @property
    def _servers(self) -> dict[str, dict[str, Any]]:
        """The entries as they are written, by name."""
        return self._config.entries

    def add_server(self, name: str, config: dict[str, Any]) -> None:
        """Add or replace a server, and save.

        Args:
            name: The server: up to 128 characters that can be seen.
            config: Its entry, such as `{"command": "npx", "args": [...], "env": {...}}` or `{"url": ...}`.

        Raises:
            ConfigError: The name or the entry cannot be written, or the file cannot be changed. It is as it was then.
        """
        self._config.add(name, config, replace=True)

    def remove_server(self, name: str) -> None:
        """Remove a server from whichever file has it, and save. An unknown name changes nothing.

        Args:
            name: The server.

        Raises:
            ConfigError: A file cannot be changed.
        """
        self._config.remove(name)

    def get_server(self, name: str) -> dict[str, Any]:
        """Return a copy of a server's entry, as it is written; empty if there is none.

        Args:
            name: The server.
        """
        entry: object = self._config.entries.get(name)
        return entry if is_object(entry) else {}

    def get_servers(self) -> dict[str, dict[str, Any]]:
        """Return a copy of all entries, as they are written, by name."""
        return self._config.entries

    def server_exists(self, name: str) -> bool:
        """Whether there is a server of that name.

        Args:
            name: The server.
        """
        return self._config.owner(name) is not None

    def kept_in(self, name: str) -> tuple[str, str]:
        """Return the file that has a server, as people write it, and the command-line option for it, if needed."""
        layer = self._config.owner(name)
        path = self.config_file if layer is None else layer.path
        if path == default_servers_path():
            return f"~/.gaia/{path.name}", ""
        return str(path), f" --config {shlex.quote(str(path))}"

    def folder_of(self, name: str) -> Path:
        """Return where relative paths in `${file:...}` of a server's entry begin: the folder of the file that has it.

        Args:
            name: The server.
        """
        layer = self._config.owner(name)
        return (self.config_file if layer is None else layer.path).parent

    def to_start(self) -> tuple[dict[str, ServerToStart], dict[str, str]]:
        """Return the servers that may be started, by name, and why the other entries of a project's file may not.

        All may, but where `gaia-bridge` runs the agent: there, what a project's file lists needs an approval
        (`gaia-bridge trust`), and until it has one, a global entry of that name counts.
        """
        trust = TrustStore() if APPROVALS_NEEDED.holds else None
        layers, refused = self._config.counting(trust)
        servers: dict[str, ServerToStart] = {}
        for name, layer in layers.items():
            entry = layer.entries[name]
            file = layer.approved_as(entry) if trust is not None and is_object(entry) else None
            refusal = _nothing if file is None else partial(_refusal, file, name, entry)
            servers[name] = ServerToStart(_placed(layer, name, entry), layer.path.parent, refusal)
        return servers, refused

    def as_remembered(self, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        """Return an entry as it is saved: one that names files of the current folder will be started there again.

        Args:
            name: The server.
            entry: The entry, as it was given.
        """
        if self._config.target(name).is_in_place or entry.get("command") is None or entry.get("cwd"):
            return entry
        return {**entry, "cwd": os.getcwd()} if any(map(os.path.exists, relative_words(entry))) else entry


def _folders_of(agent: object | None) -> tuple[Path, ...]:
    """Return the folders in which the file of an agent lies, and that of the program."""
    names = ("__main__",) if agent is None else (type(agent).__module__, "__main__")
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    return tuple(Path(os.path.realpath(file)).parent for file in files if isinstance(file, str))


def _placed(layer: Layer, name: str, entry: Any) -> Any:
    """Return an entry with the folder to start it in: an entry of the user's file gets a folder of its own.

    One of a project's file gets the folder of that file, unless it is the current one: the files that it names
    relatively are there, and were approved there.
    """
    folder = layer.path.parent
    if not is_local(layer):
        return layer.placed(name, entry)
    if not is_object(entry) or entry.get("command") is None or is_current_folder(folder):
        return entry
    inner = entry.get("cwd")
    if inner is None or (isinstance(inner, str) and not inner.startswith(("~", "$"))):
        return {**entry, "cwd": os.path.join(folder, inner or "")}
    return entry


def _refusal(file: Path, name: str, entry: dict[str, Any]) -> str | None:
    try:
        if TrustStore().is_approved(file, name, entry):
            return None
    except ConfigError as error:
        return f"whether it was approved cannot be told: {error}"
    return "it was changed since it was approved; gaia-bridge trust shows what it is now"


def _nothing() -> None:
    """Return no reason against a start."""


def _make_home_folder() -> None:
    # Where it cannot be made, there is nothing to read either; who wants to save something is told then.
    with suppress(ConfigError, OSError):
        default_servers_path().parent.mkdir(mode=0o700, exist_ok=True)
