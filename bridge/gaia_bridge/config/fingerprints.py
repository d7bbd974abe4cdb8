"""Identifies servers: equal entries have the same SHA-256, made only of the values that reach the server. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Literal

from gaia_bridge.model import AgentServerSpec, OAuthOptions, OpenApiServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.text.json_types import JSON

LAUNCH_KEYS: Final = (
    *("type", "command", "args", "env", "cwd", "inherit_env"),
    *("url", "headers", "oauth", "proxy", "agent", "openapi", "tools"),
)
"""Keys that decide how the server is reached, and what is sent: `tools` can hold references, and describes tools to
models."""

PROGRAM_KEYS: Final = ("command", "args", "env", "cwd", "url", "openapi", "proxy")
"""The launch keys whose values are filled in and decide which server is reached."""


def fingerprint(spec: ServerSpec) -> str:
    """Return an identifier of the server that is reached, independent of its name and use. The same in every process.

    It is 64 hexadecimal digits, from which no secret can be read.
    """
    if isinstance(spec, StdioServerSpec):
        inherited = spec.inherit_env if isinstance(spec.inherit_env, bool) else sorted(spec.inherit_env)
        return digest(["stdio", spec.command, spec.args, dict(spec.env), spec.cwd, inherited])
    if isinstance(spec, AgentServerSpec):
        return digest(["agent", spec.agent])
    headers = {name.lower(): value for name, value in spec.headers.items()}
    if isinstance(spec, OpenApiServerSpec):
        return digest(["openapi", spec.document, spec.url, headers, *_by(spec.proxy)])
    return digest(["sse" if spec.sse else "http", spec.url, headers, _identity(spec.oauth), *_by(spec.proxy)])


def _by(proxy: str | Literal[False] | None) -> list[str | bool]:
    """Return the proxy on the way to a server, if the entry decides it."""
    return [] if proxy is None else [proxy]


def _identity(oauth: OAuthOptions | None) -> list[str | None]:
    """Return our identity at a server and our scope there: other identities may see other tools."""
    return [] if oauth is None else [oauth.grant, oauth.client_id, oauth.client_metadata_url, oauth.issuer, oauth.scope]


def launch_line(entry: JSON) -> JSON:
    """Return the part of an entry that decides which server is reached, and how; references are not filled in."""
    return {key: entry[key] for key in LAUNCH_KEYS if entry.get(key) is not None}


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
