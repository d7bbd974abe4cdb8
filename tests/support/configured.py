"""The servers of one configuration file, as the bridge reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gaia_bridge.config import LoadReport, ServersConfig

__all__ = ["load_servers"]


def load_servers(path: Path, environ: Mapping[str, str] | None = None) -> LoadReport:
    """Read one file.

    Raises:
        ConfigError: It cannot be used.
    """
    report = ServersConfig(path).resolve(environ)
    for error in report.errors:
        raise error
    return report
