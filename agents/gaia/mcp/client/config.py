"""Where an agent's MCP servers are remembered ("MCPConfig", stacking)."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

from gaia_bridge.config import LoadReport, ServersConfig, default_servers_path
from gaia_bridge.errors import ConfigError
from gaia_bridge.protocol.json_types import is_object

__all__ = ["MCPConfig"]

logger = logging.getLogger(__name__)


class MCPConfig:
    """The configured servers, read once and written back with every change.

    `~/.gaia/mcp_servers.json` and `./mcp_servers.json` are both read; a server of the second replaces one of the same
    name in the first. Each change goes to the file that has the server; a new one goes to the second file if there is
    one, else to the first. A file that cannot be read is logged and left as it is.

    Args:
        config_file: Use this file alone. It need not exist; a leading `~` is the home folder.

    Attributes:
        config_file: The file that new servers are written to.
    """

    def __init__(self, config_file: str | Path | None = None) -> None:
        if config_file is None:
            _make_home_folder()
        self._config = ServersConfig(None if config_file is None else Path(config_file))
        self.config_file: Path = self._config.save_target.path
        for layer in self._config.layers:
            if layer.error is not None:
                logger.error("MCP servers are missing: %s", layer.error)
            for warning in layer.warnings:
                logger.warning("%s", warning)

    @property
    def load_report(self) -> LoadReport:
        """What each file contributes, which entries cannot be used and why, references filled in."""
        return self._config.resolve()

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
        """A copy of a server's entry, as it is written; empty if there is none.

        Args:
            name: The server.
        """
        entry: object = self._config.entries.get(name)
        return entry if is_object(entry) else {}

    def get_servers(self) -> dict[str, dict[str, Any]]:
        """A copy of all entries, as they are written, by name."""
        return self._config.entries

    def server_exists(self, name: str) -> bool:
        """Whether there is a server of that name.

        Args:
            name: The server.
        """
        return self._config.owner(name) is not None

    def folder_of(self, name: str) -> Path:
        """Where relative paths in `${file:...}` of a server's entry begin: the folder of the file that has it.

        Args:
            name: The server.
        """
        layer = self._config.owner(name)
        return (self.config_file if layer is None else layer.path).parent


def _make_home_folder() -> None:
    # Where it cannot be made, there is nothing to read either; who wants to save something is told then.
    with suppress(ConfigError, OSError):
        default_servers_path().parent.mkdir(mode=0o700, exist_ok=True)
