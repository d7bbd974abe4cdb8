"""The surroundings of an examination: the environment, the configuration with its servers, and what is allowed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from msgspec import Struct, field

from gaia_bridge.config import (
    EntryError,
    Layer,
    MissingReferenceError,
    ServersConfig,
    TrustStore,
    default_servers_path,
    is_disabled,
)
from gaia_bridge.config.expansion import texts_in
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import ServerSpec
from gaia_bridge.settings import DoctorLimits
from gaia_bridge.text.json_types import JSON


class State(Enum):
    """The state of a server of the configuration."""

    USABLE = "usable"
    DISABLED = "disabled"
    UNAPPROVED = "not approved"
    MISSING = "refers to what is missing"
    UNUSABLE = "cannot be used"


class ServerEntry(Struct, frozen=True):
    """One server of the configuration.

    Args:
        name: Its name.
        layer: The file that it is in.
        state: Its state.
        spec: Its specification, if it can be used.
        problem: Why it cannot be used.
        warnings: Notes for the user although it can be used.
        has_keyring_reference: Whether it refers to the keyring.
    """

    name: str
    layer: Layer
    state: State
    spec: ServerSpec | None = None
    problem: str = ""
    warnings: tuple[str, ...] = ()
    has_keyring_reference: bool = False


class Surroundings(Struct, frozen=True):
    """The surroundings of an examination.

    Args:
        servers: The files of the configuration.
        entries: The entries of their servers that count, or would after an approval.
        trust_problem: Why approvals cannot be read, if they cannot.
        config: The file that was named, if one was.
        server: The one server to examine, if not all.
        is_offline: Whether to start no server, and to ask nothing on the network.
        environ: The environment.
        platform: The system, as `sys.platform` has it.
        limits: The time limits.
        reports: A report on each server that was examined; filled during the examination.
    """

    servers: ServersConfig
    entries: tuple[ServerEntry, ...] = ()
    trust_problem: str = ""
    config: Path | None = None
    server: str | None = None
    is_offline: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    platform: str = sys.platform
    limits: DoctorLimits = DoctorLimits()
    reports: list[JSON] = field(default_factory=list[JSON])

    @property
    def wanted(self) -> list[ServerEntry]:
        """The servers to examine."""
        return [entry for entry in self.entries if self.server in (None, entry.name)]

    @property
    def config_words(self) -> str:
        """The option that names the same configuration on a command line; empty for the usual one."""
        import shlex

        return "" if self.config is None else f" --config {shlex.quote(str(self.config))}"


def look_around(
    config: Path | None = None,
    server: str | None = None,
    *,
    offline: bool = False,
    references: bool = True,
    environ: Mapping[str, str] | None = None,
    platform: str = sys.platform,
    limits: DoctorLimits | None = None,
) -> Surroundings:
    """Read the configuration, and look up its references, which may take as long as a keyring wants.

    Args:
        config: The file that stands alone, if one is named.
        server: The one server to examine, if not all.
        offline: Whether to start no server, and to ask nothing on the network.
        references: Whether to read the entries, with their references looked up.
        environ: The environment; that of this process if not given.
        platform: The system, as `sys.platform` has it.
        limits: The time limits.
    """
    environ = dict(os.environ) if environ is None else environ
    servers = ServersConfig(config)
    entries, problem = _entries(servers, environ) if references else ((), "")
    return Surroundings(
        servers=servers,
        entries=entries,
        trust_problem=problem,
        config=config,
        server=server,
        is_offline=offline,
        environ=environ,
        platform=platform,
        limits=limits or DoctorLimits(),
    )


def _entries(servers: ServersConfig, environ: Mapping[str, str]) -> tuple[tuple[ServerEntry, ...], str]:
    """Return the entries that count or would count, and why approvals cannot be read, if so."""
    problem, trust = "", TrustStore()
    try:
        trust.is_approved(default_servers_path(), "", {})
    except ConfigError as error:  # nothing that needs an approval counts
        problem = str(error)
    counting, refused = servers.counting(trust)
    waiting = [
        ServerEntry(name, _holder(servers, name), State.UNAPPROVED, problem=reason) for name, reason in refused.items()
    ]
    return (*(_entry(name, layer, environ) for name, layer in counting.items()), *waiting), problem


def _holder(servers: ServersConfig, name: str) -> Layer:
    """Return the file whose entry would count."""
    layer = servers.owner(name)
    assert layer is not None  # the name comes from one of the layers
    return layer


def _entry(name: str, layer: Layer, environ: Mapping[str, str]) -> ServerEntry:
    """Return the entry of that name, with its state."""
    value = layer.entries[name]
    if is_disabled(value):
        return ServerEntry(name, layer, State.DISABLED)
    keyring = any("${keyring:" in text for text in texts_in(value))
    try:
        parsed = layer.parsed(name, value, environ)
    except MissingReferenceError as error:
        return ServerEntry(name, layer, State.MISSING, problem=str(error), has_keyring_reference=keyring)
    except EntryError as error:
        return ServerEntry(name, layer, State.UNUSABLE, problem=str(error), has_keyring_reference=keyring)
    return ServerEntry(name, layer, State.USABLE, parsed.spec, warnings=parsed.warnings, has_keyring_reference=keyring)
