"""TLS to servers: always verified, with advice in the texts of failures."""

from __future__ import annotations

import os
import ssl
from functools import cache
from typing import Final

import httpx2

from gaia_bridge.client.transport import LaunchError
from gaia_bridge.text.escaping import one_line

OF_UNKNOWN_AUTHORITY: Final = range(18, 22)
"""The verification codes of OpenSSL for certificates of authorities that are not trusted here (x509_vfy.h)."""
_NOT_IN_TIME: Final = "its operator has to renew it, unless the clock of this machine is wrong"
_OF_ANOTHER: Final = "its URL has to name the host as the certificate does"
_OF_NOBODY: Final = "if you trust it, have SSL_CERT_FILE name a file with the certificate of its authority"
_ADVICE: Final = {9: _NOT_IN_TIME, 10: _NOT_IN_TIME, 62: _OF_ANOTHER, 64: _OF_ANOTHER} | dict.fromkeys(
    OF_UNKNOWN_AUTHORITY, _OF_NOBODY
)
"""Advice by the verification codes of OpenSSL (x509_vfy.h)."""
_NOT_TLS: Final = "it does not speak TLS there; the URL of a server without TLS begins with http://"
_NOTHING_IN_COMMON: Final = "it has no version and cipher of TLS in common with us, who want TLS 1.2 or newer"
_FAILURES: Final = {
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,  # what OpenSSL 3.2 and newer call it
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _NOTHING_IN_COMMON,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NOTHING_IN_COMMON,
    "UNSUPPORTED_PROTOCOL": _NOTHING_IN_COMMON,
}
"""Problems by the reasons of OpenSSL (sslerr.h)."""


def verifying_context() -> ssl.SSLContext:
    """Return the TLS context with the authorities of the system, or of `SSL_CERT_FILE` or `SSL_CERT_DIR`.

    They are read when they are needed first, and kept; a file that cannot be used is a `LaunchError`.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    try:
        return _loaded(file, folder)
    except OSError as error:  # of the file, or of OpenSSL
        reason = "it has no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise LaunchError(
            f"cannot be verified: SSL_CERT_FILE is {one_line(file or '', 200)!r}, which cannot be used ({reason}); "
            "expected a file of certificates in PEM"
        ) from None


@cache
def _loaded(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Read all authorities, which takes some 20 ms, once for each value of the variables (the keys of the cache)."""
    context = httpx2.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def tls_problem(error: ssl.SSLError) -> str:
    """Describe a failure of TLS, with advice; empty if there is nothing to add to the error's own text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = _ADVICE.get(error.verify_code)
        return f"its certificate is not valid: {error.verify_message.rstrip('.')}" + (f"; {advice}" if advice else "")
    return _FAILURES.get(error.reason or "", "")
