"""The places of stored logins, without reading any of them."""

from __future__ import annotations

import re
from pathlib import Path

from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.config.paths import home_folder


def default_folder() -> Path:
    """Return the folder of all logins, `~/.gaia/oauth`; raise `AuthorizationError` if there is no home folder."""
    try:
        return home_folder() / ".gaia" / "oauth"
    except RuntimeError:
        raise AuthorizationError("there is no home folder to keep the login in; set HOME") from None


def prefix_of(host: str) -> str:
    """Return the beginning of the names of files that may hold the login at a server."""
    return re.sub(r"[^a-z0-9.-]", "_", host.lower())[:60] + "-"
