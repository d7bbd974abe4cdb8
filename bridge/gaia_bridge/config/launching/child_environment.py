"""The part of our environment that a program of the configuration sees, and the sources of the usual programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gaia_bridge.model import StdioServerSpec

HARMLESS_ENVIRONMENT: Final = (
    *("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
    *("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
"""Variables that every child sees, beside those that begin with `LC_`: user, folders, language, and the certificates
that are trusted there. Not those that hold the credentials of other programs."""

PROXY_ENVIRONMENT: Final = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
"""Variables that every child sees as well, in upper and lower case, without the user and password in them: those are
for the user of the bridge, and go only to children whose entry lists them in `inherit_env`."""

_USER_OF_PROXY: Final = re.compile(r"(?<=://)[^/]*@|^[^/:]+:[^/]*@")

OWN_PREFIX: Final = "GAIA_BRIDGE_"
"""The prefix of our own variables; no child sees ours."""

PARTS_OF: Final = {
    **dict.fromkeys(("uv", "uvx"), "uv: https://docs.astral.sh/uv/"),
    **dict.fromkeys(("node", "npm", "npx"), "Node.js: https://nodejs.org/"),
    "docker": "Docker: https://docs.docker.com/",
}
"""The download pages of the programs that start most servers."""


def child_environment(spec: StdioServerSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a child's environment: the harmless variables, those that its entry inherits, and those that it sets."""
    inherited = environ if spec.inherit_env is True else [*HARMLESS_ENVIRONMENT, *(spec.inherit_env or ())]
    names = [*inherited, *(name for name in environ if name.startswith("LC_"))]
    seen = {name: environ[name] for name in names if name in environ and not name.startswith(OWN_PREFIX)}
    return proxies_without_users(environ) | seen | dict(spec.env)


def proxies_without_users(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for proxies that are set, in upper and lower case, without user and password."""
    names = (name for upper in PROXY_ENVIRONMENT for name in (upper, upper.lower()))
    return {name: _USER_OF_PROXY.sub("", environ[name]) for name in names if name in environ}
