"""Checks how this machine reaches others: the certificates that are trusted, and the proxies.

Certificates are the system's, and those that variables name. Proxies that variables name have to be valid addresses,
answer, and be bypassed for this machine itself.
"""

from __future__ import annotations

import os
import shlex
import ssl
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import anyio

from gaia_bridge.config.proxies import ProxyAddressError, SocksError, proxy_at
from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge_desk.doctor.checks import Finding, Kind, Level, Subject
from gaia_bridge_desk.doctor.surroundings import Surroundings

_FINE = Kind(
    "ca.fine", Level.OK, "certificates of authorities are there", "servers on the network, and downloads, are verified"
)
_NO_STORE = Kind(
    "ca.no-store",
    Level.ERROR,
    "the system has no certificates of authorities",
    "no server with https can be verified, so none is connected to",
    "install them: the package ca-certificates on Linux, Install Certificates.command of python.org on macOS",
)
_STORE_UNREADABLE = Kind(
    "ca.store-unreadable",
    Level.ERROR,
    "the system's certificates of authorities cannot be read",
    "no server with https can be verified, so none is connected to",
    "let everybody read them: sudo chmod a+rX, or name others by SSL_CERT_FILE",
)
_MISSING = Kind(
    "ca.missing",
    Level.ERROR,
    "a variable names a file of certificates that is not there",
    "servers that see the variable refuse every https connection, mostly with a message about certificates",
    "unset the variable, or have it name a file that exists",
)
_UNREADABLE = Kind(
    "ca.unreadable",
    Level.ERROR,
    "a variable names a file of certificates that cannot be read",
    "servers that see the variable refuse every https connection, mostly with a message about certificates",
    "make the file readable, or unset the variable",
)
_INVALID = Kind(
    "ca.invalid",
    Level.ERROR,
    "a variable names a file without certificates in PEM",
    "servers that see the variable refuse every https connection, mostly with a message about certificates",
    "write the certificates in PEM (-----BEGIN CERTIFICATE-----), or unset the variable",
)
_UNCHECKED = Kind(
    "ca.unchecked",
    Level.WARNING,
    "a variable switches verification off",
    "programs that see it talk to whoever answers, and tell them their tokens",
    "unset it, and name the certificate of your authority instead: NODE_EXTRA_CA_CERTS or SSL_CERT_FILE",
)

_FILES: Final = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_FOLDER: Final = "SSL_CERT_DIR"
_SWITCHES: Final = {"NODE_TLS_REJECT_UNAUTHORIZED": "0", "PYTHONHTTPSVERIFY": "0"}


def _check(at: Surroundings) -> list[Finding]:
    findings = [*_of_variables(at), *_switched_off(at)]
    store, problem = _store()
    is_named = any(at.environ.get(name) for name in ("SSL_CERT_FILE", _FOLDER))
    if problem and not is_named:
        command = f"sudo chmod a+rX {shlex.quote(_barred(store))}"
        findings.append(_STORE_UNREADABLE.finding(f"{store} cannot be read: {problem}", store, command))
    elif not store and not is_named:
        findings.append(_NO_STORE.finding("no certificate of an authority was found where OpenSSL looks"))
    if not findings:
        named = [name for name in (*_FILES, _FOLDER) if at.environ.get(name)]
        text = (f"of the system ({store})" if not problem else "") + (f", and of {', '.join(named)}" if named else "")
        findings.append(_FINE.finding(f"certificates are there: {text}"))
    return findings


def _store() -> tuple[str, str]:
    """Return the system's file or folder of certificates, if any, and why it cannot be read, if so."""
    paths = ssl.get_default_verify_paths()
    unreadable = ("", "")
    for path, is_filled in ((paths.openssl_cafile, _has_text), (paths.openssl_capath, os.listdir)):
        try:
            if is_filled(path):
                return path, ""
        except FileNotFoundError:
            pass
        except OSError as error:
            unreadable = (path, error.strerror or str(error))
    return unreadable


def _has_text(path: str) -> bool:
    if not stat.S_ISREG(os.stat(path).st_mode):  # to open a pipe would wait for ever
        return False
    with open(path, "rb") as file:
        return bool(file.read(1))


def _barred(path: str) -> str:
    """Return the first folder on the way to a path that cannot be entered, or else the real path itself."""
    end = Path(os.path.realpath(path))
    return str(next((folder for folder in reversed(end.parents) if not os.access(folder, os.X_OK)), end))


def _of_variables(at: Surroundings) -> Iterator[Finding]:
    for name in _FILES:
        if path := at.environ.get(name):
            yield from _of_file(name, path)
    if folders := at.environ.get(_FOLDER):
        named = folders.split(os.pathsep)
        if missing := next((folder for folder in named if not os.path.isdir(folder)), None):
            yield _MISSING.finding(f"{_FOLDER} names {missing}, which is no folder", _FOLDER, f"unset {_FOLDER}")
        elif barred := next((folder for folder in named if not os.access(folder, os.R_OK | os.X_OK)), None):
            yield _UNREADABLE.finding(f"{_FOLDER} names {barred}, which cannot be read", _FOLDER)


def _of_file(name: str, path: str) -> Iterator[Finding]:
    """Yield the problems of a file of certificates; a folder is allowed where Python reads it."""
    if not os.path.exists(path):
        yield _MISSING.finding(f"{name} names {path}, which is not there", name, f"unset {name}, or mend its path")
        return
    if os.path.isdir(path) and name == "REQUESTS_CA_BUNDLE":
        return
    if not os.path.isfile(path):  # to open a pipe would wait for ever
        yield _UNREADABLE.finding(f"{name} names {path}, which is no regular file", name)
        return
    try:
        with open(path, "rb") as file:
            file.read(1)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(path)
    except ssl.SSLError:
        yield _INVALID.finding(f"{name} names {path}, which holds no certificate in PEM", name)
    except OSError as error:
        yield _UNREADABLE.finding(f"{name} names {path}, which cannot be read: {error.strerror}", name)


def _switched_off(at: Surroundings) -> Iterator[Finding]:
    for name, value in _SWITCHES.items():
        if at.environ.get(name) == value:
            yield _UNCHECKED.finding(f"{name} is {value}", name, f"unset {name}")


CERTIFICATES = Subject(
    "Certificates", (_FINE, _NO_STORE, _STORE_UNREADABLE, _MISSING, _UNREADABLE, _INVALID, _UNCHECKED), _check
)


_NONE = Kind("proxy.none", Level.OK, "no proxy is configured", "servers reach the network directly")
_PROXY_FINE = Kind(
    "proxy.fine",
    Level.OK,
    "the proxies that are named answer",
    "servers on the network are reached by them, and programs are told of them",
)
_PROXY_INVALID = Kind(
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


async def _check_proxies(at: Surroundings) -> list[Finding]:
    named = dict(_named(at.environ))
    if not named:
        return [_NONE.finding("no proxy is configured")]
    findings: list[Finding] = []
    places: dict[tuple[str, int], str] = {}
    for name, value in named.items():
        try:
            proxy = proxy_at(value, name)
        except SocksError:
            findings.append(_SOCKS.finding(f"{name} names a SOCKS proxy", name))
        except ProxyAddressError:
            findings.append(_PROXY_INVALID.finding(f"{name} is no address of a proxy", name))
        else:
            places.setdefault((proxy.host, proxy.port), name)
    if not at.is_offline:
        findings += await _silent_proxies(places, at.limits.connect_timeout)
    if places and not _is_loopback_bypassed(at.environ):
        findings.append(
            _LOOPBACK.finding(f"{', '.join(named)} without NO_PROXY for 127.0.0.1 and localhost", "NO_PROXY")
        )
    shown = ", ".join(f"{name} {host}:{port}" for (host, port), name in places.items())
    return findings or [_PROXY_FINE.finding(f"by {shown}")]


def _named(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for upper in _NAMES:
        for name in (upper, upper.lower()):
            if value := environ.get(name):
                yield name, value


async def _silent_proxies(places: Mapping[tuple[str, int], str], seconds: float) -> list[Finding]:
    """Return a finding for each proxy that takes no connection."""
    findings: list[Finding] = []

    async def look(host: str, port: int, name: str) -> None:
        try:
            with anyio.fail_after(seconds):
                async with await anyio.connect_tcp(host, port):
                    return
        except TimeoutError:
            findings.append(_DEAF.finding(f"{name}: {host}:{port} takes no connection within {seconds:g} s", name))
        except OSError:
            findings.append(_DEAF.finding(f"{name}: {host}:{port} takes no connection", name))

    async with anyio.create_task_group() as tasks:
        for (host, port), name in places.items():
            tasks.start_soon(look, host, port, name)
    return sorted(findings, key=lambda finding: finding.about)


def _is_loopback_bypassed(environ: Mapping[str, str]) -> bool:
    hosts = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")
    plain = {host.strip().strip(".[]").partition("/")[0] for host in hosts}
    return "*" in plain or any(is_loopback_host(host) or host == "127.0.0.0" for host in plain if host)


PROXIES = Subject("Proxies", (_NONE, _PROXY_FINE, _PROXY_INVALID, _SOCKS, _DEAF, _LOOPBACK), _check_proxies)
