"""Whoever is the first to keep something makes `~/.gaia` for this user alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from gaia_bridge.client import Era
from gaia_bridge.config import TrustStore
from gaia_bridge.config.launching.workplaces import made_folder, own_folder
from gaia_bridge.model import ServerFeatures, ServerInfo
from gaia_bridge.sources.upstream.listing.feature_cache import FeatureCache, Remembered, default_cache_folder
from gaia_bridge_cli.remembered_path import remember_search_path
from gaia_bridge_cli.server_logs import ServerLogs, default_log_folder
from gaia_bridge_daemon.front.place import runtime_folder


def log() -> None:
    logs = ServerLogs(default_log_folder())
    logs.write("a", "x")
    logs.close()


def cache() -> None:
    anyio.run(
        FeatureCache(default_cache_folder()).store, "f", Remembered(ServerFeatures(ServerInfo("x", "1")), Era.LEGACY)
    )


FIRST: dict[str, Callable[[], object]] = {
    "a log": log,
    "a cache": cache,
    "an approval": lambda: TrustStore().approve(Path("/x/mcp_servers.json"), "x", {"command": "x"}),
    "the search path": lambda: remember_search_path({"PATH": "/bin"}),
    "sockets": lambda: runtime_folder({"XDG_RUNTIME_DIR": "/nowhere"}),
    "a server": lambda: made_folder(own_folder("a")),
}


@pytest.mark.parametrize("first", FIRST)
def test_the_folder_is_private_whatever_is_kept_first(first: str) -> None:
    before = os.umask(0o022)
    try:
        FIRST[first]()
    finally:
        os.umask(before)
    kept = Path("~/.gaia").expanduser()
    for path in (kept, *kept.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
