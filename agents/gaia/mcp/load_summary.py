"""The state of an agent's configured servers, for its console: a line each, as GAIA prints it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gaia.mcp.client.config import MCPConfig
from gaia.mcp.client.config_report import gaia_report
from gaia_bridge.config.documents import is_disabled
from gaia_bridge.config.paths import home_folder
from gaia_bridge.text.escaping import one_line

__all__ = ["load_summary"]

_WITHOUT_REASON: Final = "the log says why"


def load_summary(config: MCPConfig, statuses: list[dict[str, Any]]) -> str:
    """Say which files were read, and how each of their servers is.

    Args:
        config: The configuration.
        statuses: What `MCPClientManager.get_status_report` says.

    Returns:
        Lines; nothing if no servers are configured.
    """
    servers = config.get_servers()
    if not servers:
        return ""
    by_name = {status["name"]: status for status in statuses}
    lines = (_server(name, entry, by_name.get(name, {})) for name, entry in servers.items())
    return "\n".join([*_files(gaia_report(config.layers, config.config_file)), "", *lines])


def _files(report: Mapping[str, Any]) -> list[str]:
    if report["mode"] == "explicit":
        return [f"Config file: {_shown(report['config_file'])}"]
    read = [f"{_shown(report[kind]['path'])} ({kind})" for kind in ("local", "global") if report[kind]["exists"]]
    lines = [f"Config: {' + '.join(read)}"]
    if report["overrides"]:
        lines.append(f"  Local overrides: {', '.join(map(one_line, report['overrides']))}")
    return lines


def _server(name: str, entry: object, status: Mapping[str, Any]) -> str:
    shown = one_line(name)
    if is_disabled(entry):
        return f"  – {shown} (disabled)"
    if status.get("connected"):
        count = status["tool_count"]
        return f"  ✓ {shown} ({count} tool{'' if count == 1 else 's'})"
    return f"  ✗ {shown} (failed to connect: {one_line(status.get('error') or _WITHOUT_REASON)})"


def _shown(path: Path) -> str:
    with suppress(RuntimeError, ValueError):  # there is no home folder, or it is not in there
        return one_line(os.path.join("~", path.relative_to(home_folder())))
    return one_line(str(path))
