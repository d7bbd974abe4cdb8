"""Proxies that variables name: whether they are addresses, answer, and are gone round for this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import anyio

from gaia_bridge.config.proxies import ProxyAddressError, SocksError, proxy_at
from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge_desk.doctor.checks import Subject
from gaia_bridge_desk.doctor.findings import Finding, Kind, Level
from gaia_bridge_desk.doctor.surroundings import Surroundings

__all__ = ["PROXIES"]

_NONE = Kind("proxy.none", Level.OK, "no proxy is configured", "servers reach the network directly")
_FINE = Kind(
    "proxy.fine",
    Level.OK,
    "the proxies that are named answer",
    "servers on the network are reached by them, and programs are told of them",
)
_INVALID = Kind(
    "proxy.invalid",
    Level.ERROR,
    "a variable for a proxy holds no address",
    "programs that see it cannot connect to anything, or go without the proxy",
    "write it as http://HOST:PORT, or unset it",
)
_DEAF = Kind(
    "proxy.deaf",
    Level.WARNING,
    "a proxy takes no connection",
    "downloads of npx and uvx, and servers on the network, wait and then fail",
    "start the proxy, connect to its network, or unset the variable",
)
_SOCKS = Kind(
    "proxy.socks",
    Level.ERROR,
    "a proxy speaks SOCKS",
    "the bridge speaks to HTTP proxies alone: it connects to no server on the network that this proxy is for",
    'name an HTTP proxy in its place, or write "proxy": "http://HOST:PORT" or "proxy": false into the entries',
)
_LOOPBACK = Kind(
    "proxy.loopback",
    Level.WARNING,
    "connections to this machine go through the proxy, too",
    "an editor with these variables asks the proxy for the bridge at 127.0.0.1, which the proxy does not have",
    "export NO_PROXY=localhost,127.0.0.1,::1",
)

_NAMES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")


async def _check(at: Surroundings) -> list[Finding]:
    named = dict(_named(at.environ))
    if not named:
        return [_NONE.found("no proxy is configured")]
    found: list[Finding] = []
    places: dict[tuple[str, int], str] = {}
    for name, value in named.items():
        try:
            proxy = proxy_at(value, name)
        except SocksError:
            found.append(_SOCKS.found(f"{name} names a SOCKS proxy", name))
        except ProxyAddressError:
            found.append(_INVALID.found(f"{name} is no address of a proxy", name))
        else:
            places.setdefault((proxy.host, proxy.port), name)
    if not at.offline:
        found += await _deaf_ones(places, at.limits.connect_timeout)
    if places and not _goes_round(at.environ):
        found.append(_LOOPBACK.found(f"{', '.join(named)} without NO_PROXY for 127.0.0.1 and localhost", "NO_PROXY"))
    shown = ", ".join(f"{name} {host}:{port}" for (host, port), name in places.items())
    return found or [_FINE.found(f"by {shown}")]


def _named(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for upper in _NAMES:
        for name in (upper, upper.lower()):
            if value := environ.get(name):
                yield name, value


async def _deaf_ones(places: Mapping[tuple[str, int], str], seconds: float) -> list[Finding]:
    """The proxies that take no connection."""
    found: list[Finding] = []

    async def look(host: str, port: int, name: str) -> None:
        try:
            with anyio.fail_after(seconds):
                async with await anyio.connect_tcp(host, port):
                    return
        except TimeoutError:
            found.append(_DEAF.found(f"{name}: {host}:{port} takes no connection within {seconds:g} s", name))
        except OSError:
            found.append(_DEAF.found(f"{name}: {host}:{port} takes no connection", name))

    async with anyio.create_task_group() as tasks:
        for (host, port), name in places.items():
            tasks.start_soon(look, host, port, name)
    return sorted(found, key=lambda finding: finding.about)


def _goes_round(environ: Mapping[str, str]) -> bool:
    hosts = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")
    plain = {host.strip().strip(".[]").partition("/")[0] for host in hosts}
    return "*" in plain or any(is_loopback_host(host) or host == "127.0.0.0" for host in plain if host)


PROXIES = Subject("Proxies", (_NONE, _FINE, _INVALID, _SOCKS, _DEAF, _LOOPBACK), _check)
