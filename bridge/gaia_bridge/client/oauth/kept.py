"""Where logins are kept, without a look at any of them."""

from __future__ import annotations

import re
from pathlib import Path

from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.config.paths import home_folder


def default_folder() -> Path:
    """The folder of all logins: `~/.gaia/oauth`.

    Raises:
        AuthorizationError: There is no home folder.
    """
    try:
        return home_folder() / ".gaia" / "oauth"
    except RuntimeError:
        raise AuthorizationError("there is no home folder to keep the login in; set HOME") from None


def prefix_of(host: str) -> str:
    """How the names of the files begin that may have the login at a server."""
    return re.sub(r"[^a-z0-9.-]", "_", host.lower())[:60] + "-"
