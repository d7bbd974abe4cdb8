"""Whether two entries lead to the same server: the SHA-256 of what reaches it, and of nothing else. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Literal

from gaia_bridge.model import AgentServerSpec, OAuthOptions, OpenApiServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.text.json_types import JSON

LAUNCH_KEYS: Final = (
    "type",
    "command",
    "args",
    "env",
    "cwd",
    "inherit_env",
    "url",
    "headers",
    "oauth",
    "proxy",
    "agent",
    "openapi",
    "tools",
)
"""What an entry says about how its server is reached, and about what it is sent: `tools` can hold references, and tells
models what tools are for."""

PROGRAM_KEYS: Final = ("command", "args", "env", "cwd", "url", "openapi", "proxy")
"""Those of them whose values are filled in and decide which server that is."""


def fingerprint(spec: ServerSpec) -> str:
    """A name for what is reached, whatever it is called and however it is used. The same in every process.

    Args:
        spec: A server, its references filled in.

    Returns:
        64 hexadecimal digits, from which no secret can be read.
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
    """Who is on the way, where the entry says so."""
    return [] if proxy is None else [proxy]


def _identity(oauth: OAuthOptions | None) -> list[str | None]:
    """Who we are to a server, and what we may do there: it may show others something else."""
    return [] if oauth is None else [oauth.grant, oauth.client_id, oauth.client_metadata_url, oauth.issuer, oauth.scope]


def launch_line(entry: JSON) -> JSON:
    """The part of an entry that decides what is started or spoken to, and how; its references not filled in."""
    return {key: entry[key] for key in LAUNCH_KEYS if entry.get(key) is not None}


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
