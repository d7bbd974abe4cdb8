"""Where the doctor looks: the environment, the configuration with its servers, and what it may do there."""

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
    """What is to be thought of a server of the configuration."""

    USABLE = "usable"
    DISABLED = "disabled"
    UNAPPROVED = "not approved"
    MISSING = "refers to what is missing"
    UNUSABLE = "cannot be used"


class Entry(Struct, frozen=True):
    """One server of the configuration.

    Args:
        name: Its name.
        layer: The file that it is in.
        state: What is to be thought of it.
        spec: How it is reached, if it can be used.
        problem: Why it cannot.
        warnings: What the user should know although it can.
        keyring: Whether it refers to the keyring.
    """

    name: str
    layer: Layer
    state: State
    spec: ServerSpec | None = None
    problem: str = ""
    warnings: tuple[str, ...] = ()
    keyring: bool = False


class Surroundings(Struct, frozen=True):
    """Where the doctor looks.

    Args:
        servers: The files of the configuration.
        entries: Their servers, those that count.
        trust_problem: Why approvals cannot be read, if they cannot.
        config: The file that was named, if one was.
        server: The one server that is wanted, if not all.
        offline: Whether no server is started, and nothing on the network asked.
        environ: The environment.
        platform: The system, as `sys.platform` has it.
        limits: How long anything may take.
        reports: What was seen of each server that was looked at; filled while the doctor looks.
    """

    servers: ServersConfig
    entries: tuple[Entry, ...] = ()
    trust_problem: str = ""
    config: Path | None = None
    server: str | None = None
    offline: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    platform: str = sys.platform
    limits: DoctorLimits = DoctorLimits()
    reports: list[JSON] = field(default_factory=list[JSON])

    @property
    def wanted(self) -> list[Entry]:
        """The servers that are looked at."""
        return [entry for entry in self.entries if self.server in (None, entry.name)]

    @property
    def config_words(self) -> str:
        """What names the same configuration on a command line."""
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
    """Read the configuration. What its references lead to is looked up, which may take as long as a keyring wants.

    Args:
        config: The file that stands alone, if one is named.
        server: The one server that is wanted, if not all.
        offline: Whether no server is started, and nothing on the network asked.
        references: Whether the entries are looked at, with what their references lead to.
        environ: The environment; that of this process if not given.
        platform: The system, as `sys.platform` has it.
        limits: How long anything may take.
    """
    environ = dict(os.environ) if environ is None else environ
    servers = ServersConfig(config)
    entries, problem = _judged(servers, environ) if references else ((), "")
    return Surroundings(
        servers=servers,
        entries=entries,
        trust_problem=problem,
        config=config,
        server=server,
        offline=offline,
        environ=environ,
        platform=platform,
        limits=limits or DoctorLimits(),
    )


def _judged(servers: ServersConfig, environ: Mapping[str, str]) -> tuple[tuple[Entry, ...], str]:
    """The entries that count or would count, and why approvals cannot be read, if they cannot."""
    problem, trust = "", TrustStore()
    try:
        trust.is_approved(default_servers_path(), "", {})
    except ConfigError as error:  # nothing that needs an approval counts
        problem = str(error)
    found, refused = servers.counting(trust)
    waiting = [
        Entry(name, _holder(servers, name), State.UNAPPROVED, problem=reason) for name, reason in refused.items()
    ]
    return (*(_entry(name, layer, environ) for name, layer in found.items()), *waiting), problem


def _holder(servers: ServersConfig, name: str) -> Layer:
    """The file whose entry would count."""
    layer = servers.owner(name)
    assert layer is not None  # it was found there
    return layer


def _entry(name: str, layer: Layer, environ: Mapping[str, str]) -> Entry:
    """The entry of that name, as it is judged."""
    value = layer.entries[name]
    if is_disabled(value):
        return Entry(name, layer, State.DISABLED)
    keyring = any("${keyring:" in text for text in texts_in(value))
    try:
        parsed = layer.parsed(name, value, environ)
    except MissingReferenceError as error:
        return Entry(name, layer, State.MISSING, problem=str(error), keyring=keyring)
    except EntryError as error:
        return Entry(name, layer, State.UNUSABLE, problem=str(error), keyring=keyring)
    return Entry(name, layer, State.USABLE, parsed.spec, warnings=parsed.warnings, keyring=keyring)
