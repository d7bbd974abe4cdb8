"""URLs, header fields and failures of HTTP: checks, meanings, and texts for people. Pure."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import httpx2

from gaia_bridge.client.transport import LaunchError
from gaia_bridge.client.transports.http.tls import tls_problem
from gaia_bridge.text.escaping import one_line

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\x20-\x7e\t]*")
_OURS: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "proxy-authorization", "transfer-encoding"}
)
"""Headers that a configuration cannot set: they describe the framing of a message, or are for a proxy alone."""
_LAST_PORT: Final = 65_535
LONGEST_WAIT: Final = 86_400.0
"""Seconds: a day. A longer `Retry-After` means "do not retry", and would be shown to people as 1e+09 s."""


def retry_after(value: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header (RFC 9110, section 10.2.3), or `None` if it is absent or invalid."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]+", value.strip()):
        return min(float(value), LONGEST_WAIT)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return min(max((date - datetime.now(UTC)).total_seconds(), 0.0), LONGEST_WAIT)


def url_for_log(url: httpx2.URL) -> str:
    """Show a URL without the parts that may be secret: user, query, fragment."""
    return one_line(str(url.copy_with(userinfo=b"", query=None, fragment=None)), 200)


def usable_url(url: str) -> httpx2.URL:
    """Parse the URL of a server; raise `LaunchError`, which does not repeat it, if it cannot be used."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError, ValueError):
        raise LaunchError("has a URL that cannot be read") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise LaunchError("has a URL that does not begin with http:// or https:// and a host")
    if parsed.port is not None and not 0 < parsed.port <= _LAST_PORT:
        raise LaunchError(f"has a URL with the port {parsed.port}; ports are 1 to {_LAST_PORT}")
    return parsed


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Check headers, so that nothing in them can end a line, and return them with names in lower case.

    Blanks at the ends of a value, as from a file, are removed: they are not part of a value (RFC 9110, section 5.5).

    Raises:
        LaunchError: A header cannot be sent; the error has its name, but not its value.
    """
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise LaunchError(f"cannot be sent the header {one_line(name, 60)!r}: only visible ASCII can")
    checked = {name.lower(): value.strip(" \t") for name, value in headers.items()}
    if refused := _OURS & checked.keys():
        raise LaunchError(f"cannot be sent a header {min(refused)!r} of your own: it belongs to the connection")
    return checked


def origin(url: httpx2.URL) -> tuple[str, str, int]:
    """Return the origin of a URL, which all URLs of one server share (RFC 6454)."""
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme, 0)


def named_status(status: int) -> str:
    """Return a status code with its name, where it has one."""
    try:
        return f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return str(status)


def reason_of(error: BaseException) -> str:
    """Return the reason why a connection failed, from the innermost cause that has a text."""
    reason = str(error) or type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError) and (problem := tls_problem(cause)):
            return one_line(problem, 300)
        if isinstance(cause, OSError) and cause.strerror:
            # The system's own text where it has one, since asyncio puts addresses in its place.
            number = 0 if isinstance(cause, ssl.SSLError) else cause.errno or 0
            reason = os.strerror(number) if number > 0 else cause.strerror
        members: Sequence[BaseException] = getattr(cause, "exceptions", ())
        cause = members[0] if members else cause.__cause__ or cause.__context__
    return one_line(reason, 200)
