"""The upstream servers that `serve` starts: those of the user, and those of the project that the user has approved."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gaia_bridge.config import LayerState, LoadReport, ServersConfig, TrustStore
from gaia_bridge.config.servers_file import is_disabled
from gaia_bridge.errors import ConfigError
from gaia_bridge.jsontypes import JSON
from gaia_bridge.model import LeftOut, ServerSpec

__all__ = ["ConfiguredServers"]

logger = logging.getLogger(__name__)


class ConfiguredServers:
    """Reads the configuration, once at the start and again whenever a file changes.

    Args:
        path: The one file that counts, approved by being named; if `None`, the user's file and the project's.

    Attributes:
        left_out: The servers that are not used although nobody disabled them, and the files that cannot be.
    """

    def __init__(self, path: Path | None) -> None:
        self._config = ServersConfig(path)
        self.left_out: tuple[LeftOut, ...] = ()
        self._path = path
        self._told: frozenset[str] = frozenset()

    @property
    def files(self) -> list[Path]:
        """What decides about the servers: an approval does as well."""
        files = [layer.path for layer in self._config.layers]
        if not self._path:
            with suppress(ConfigError):  # without a home folder nothing is ever approved
                files.append(TrustStore().path)
        return files

    def first(self) -> Sequence[ServerSpec]:
        """The servers at the start. A broken file that was not named leaves its servers out.

        Raises:
            ConfigError: The file that was named cannot be used.
        """
        report = self._report(TrustStore())
        if self._path is not None and all(layer.state is LayerState.ABSENT for layer in self._config.layers):
            raise ConfigError(str(self._path), "cannot be read: No such file or directory")
        for error in report.errors:
            if self._path is not None:
                raise error
            logger.error("its servers are left out: %s", error)
        self._tell(report)
        return report.servers

    def again(self) -> Sequence[ServerSpec]:
        """The servers after a change.

        Raises:
            ConfigError: A file cannot be used; whatever runs should stay as it is.
        """
        self._config.reload()
        approvals = _Approvals()
        report = self._report(approvals)
        for error in (*report.errors, *approvals.errors):
            raise error
        self._tell(report)
        return report.servers

    def _report(self, approvals: TrustStore) -> LoadReport:
        return self._config.resolve(trust=None if self._path else approvals)

    def _tell(self, report: LoadReport) -> None:
        """Say what is left out, and what is odd; not again what was said before."""
        lines = list(report.warnings)
        left_out = [LeftOut("file", error.place, error.problem) for error in report.errors]
        for layer in report.layers:
            skipped = [item for item in layer.skipped if not is_disabled(layer.layer.entries[item.name])]
            lines += [f"{layer.layer.path}: server {item.name} is left out: {item.reason}" for item in skipped]
            left_out += [LeftOut("server", item.name, item.reason) for item in skipped]
        for line in lines:
            if line not in self._told:
                logger.warning("%s", line)
        self._told = frozenset(lines)
        self.left_out = tuple(left_out)


class _Approvals(TrustStore):
    """Remembers why a question about a server could not be answered."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[ConfigError] = []

    def is_approved(self, file: Path, name: str, entry: JSON) -> bool:
        try:
            return super().is_approved(file, name, entry)
        except ConfigError as error:
            self.errors.append(error)
            raise
