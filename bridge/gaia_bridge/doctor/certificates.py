"""Whose certificates are believed: the system's, and those that variables name."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from typing import Final

from gaia_bridge.doctor.checks import Subject
from gaia_bridge.doctor.findings import Finding, Kind, Level
from gaia_bridge.doctor.surroundings import Surroundings

__all__ = ["CERTIFICATES"]

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
    found = [*_of_variables(at), *_switched_off(at)]
    store = _store()
    if not store and not any(at.environ.get(name) for name in ("SSL_CERT_FILE", _FOLDER)):
        found.append(_NO_STORE.found("no certificate of an authority was found where OpenSSL looks"))
    if not found:
        named = [name for name in (*_FILES, _FOLDER) if at.environ.get(name)]
        told = f"of the system ({store})" + (f", and of {', '.join(named)}" if named else "")
        found.append(_FINE.found(f"certificates are there: {told}"))
    return found


def _store() -> str:
    """Where the system keeps certificates, if there are some."""
    paths = ssl.get_default_verify_paths()
    file, folder = paths.openssl_cafile, paths.openssl_capath
    if os.path.isfile(file) and os.path.getsize(file):
        return file
    if os.path.isdir(folder) and os.listdir(folder):
        return folder
    return ""


def _of_variables(at: Surroundings) -> Iterator[Finding]:
    for name in _FILES:
        if path := at.environ.get(name):
            yield from _of_file(name, path)
    if folders := at.environ.get(_FOLDER):
        missing = [folder for folder in folders.split(os.pathsep) if not os.path.isdir(folder)]
        if missing:
            yield _MISSING.found(f"{_FOLDER} names {missing[0]}, which is no folder", _FOLDER, f"unset {_FOLDER}")


def _of_file(name: str, path: str) -> Iterator[Finding]:
    """What is wrong with a file of certificates; a folder will do where Python reads it."""
    if not os.path.exists(path):
        yield _MISSING.found(f"{name} names {path}, which is not there", name, f"unset {name}, or mend its path")
        return
    if os.path.isdir(path) and name == "REQUESTS_CA_BUNDLE":
        return
    if not os.path.isfile(path):  # to open a pipe would wait for ever
        yield _UNREADABLE.found(f"{name} names {path}, which is no regular file", name)
        return
    try:
        with open(path, "rb") as file:
            file.read(1)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(path)
    except ssl.SSLError:
        yield _INVALID.found(f"{name} names {path}, which holds no certificate in PEM", name)
    except OSError as error:
        yield _UNREADABLE.found(f"{name} names {path}, which cannot be read: {error.strerror}", name)


def _switched_off(at: Surroundings) -> Iterator[Finding]:
    for name, value in _SWITCHES.items():
        if at.environ.get(name) == value:
            yield _UNCHECKED.found(f"{name} is {value}", name, f"unset {name}")


CERTIFICATES = Subject("Certificates", (_FINE, _NO_STORE, _MISSING, _UNREADABLE, _INVALID, _UNCHECKED), _check)
