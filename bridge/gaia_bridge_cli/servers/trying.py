"""Tries several servers at once, and reports in one line for each whether it works."""

from __future__ import annotations

from collections.abc import Collection

import anyio

from gaia_bridge.client.oauth.errors import LoginRequiredError
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transport_factory import limits_for, secrets_of, transport_for
from gaia_bridge.config import ServersConfig
from gaia_bridge.errors import ConfigError, ProtocolError
from gaia_bridge.model import AgentServerSpec, ServerSpec
from gaia_bridge.runtime.exceptions import only_error_in
from gaia_bridge.settings import DoctorLimits, UpstreamLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.redaction import Redactor
from gaia_bridge_cli.servers.common import Activity, activity, usable_spec
from gaia_bridge_cli.servers.server_probe import Probe, probe


def introduced(probed: Probe) -> str:
    """Return the name of a server, and the number of its tools."""
    number = len(probed.definitions.get("tool", []))
    name = " ".join(str(probed.handshake.info.get(key, "")) for key in ("name", "version"))
    title = f"{one_line(name) or 'a server'}, MCP {probed.handshake.revision}"
    return f"{title}: {number} tool{'' if number == 1 else 's'}"


def tried(servers: ServersConfig, names: Collection[str]) -> dict[str, str]:
    """Start or reach servers as the bridge does, some at a time, and return the outcome of each by its name.

    Args:
        servers: The configuration that lists them.
        names: The servers.
    """
    limits = DoctorLimits()
    outcomes = dict.fromkeys(names, f"not tried: the others took {limits.servers_timeout:g} s")
    at_once = anyio.CapacityLimiter(limits.servers)

    async def one(name: str) -> None:
        try:
            spec = usable_spec(servers, name)
        except ConfigError as error:
            outcomes[name] = f"not now: {one_line(error.problem)}"
            return
        async with at_once:
            outcomes[name] = await _outcome(spec, limits)

    async def all_of_them() -> None:
        with anyio.move_on_after(limits.servers_timeout):
            async with anyio.create_task_group() as tasks:
                for name in names:
                    tasks.start_soon(one, name)

    with activity(f"trying {', '.join(names)}"):
        anyio.run(all_of_them)
    return outcomes


async def _outcome(spec: ServerSpec, limits: DoctorLimits) -> str:
    if isinstance(spec, AgentServerSpec):
        return "an agent of the bridge"
    bounds = limits_for(UpstreamLimits(), spec)
    secretless = Redactor(secrets_of(spec))
    try:
        with anyio.fail_after(limits.server_timeout):
            probed = await probe(transport_for(spec, bounds, _ignored), bounds, Activity(), spec.options)
            return f"works: {introduced(probed)}"
    except TimeoutError:
        return f"does not work now: it took longer than {limits.server_timeout:g} s"
    except Exception as error:
        cause = only_error_in(error)
        if isinstance(cause, LoginRequiredError):
            login = f"gaia-bridge login {spec.name}"
            if cause.with_token:
                return f"wants a login or a token: {login}; or add it {cause.with_token}"
            return f"wants a login: {login}"
        if not isinstance(cause, UpstreamError | ProtocolError):
            raise
        return f"does not work now: it {one_line(secretless(str(cause)), 300)}"


def _ignored(line: str) -> None:
    """Ignore the error output of a server."""
