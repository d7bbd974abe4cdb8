"""The checks of a request's head, which is refused where two readers may not agree on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gaia_bridge.server.http.access_policy import quoted

HEAD_END: Final = b"\r\n\r\n"


class SeenHead(NamedTuple):
    """The head of the last request of a connection. Clients begin most of their requests with the very same bytes."""

    head: bytes
    length: int
    """Bytes of the body that follows."""
    scope: dict[str, Any]
    facts: dict[object, Any]
    """See `scope_keys.SAME_HEAD`."""


TWO_LENGTHS: Final = "Content-Length and Transfer-Encoding came; expected one of them (RFC 9112 section 6.1)."
INVALID_REQUEST: Final = "Invalid HTTP request received. Expected HTTP/1.1."
_SHORT_END: Final = re.compile(rb"\n\r?\n")
_REQUEST_LINE: Final = re.compile(rb"(?!CONNECT )[-!#$%&'*+.^_`|~0-9a-zA-Z]+ [!-~]+ HTTP/1\.[01]\r\n")
_BODY_HEADER: Final = re.compile(rb"\r\n(content-length|transfer-encoding)[ \t]*:")


def head_problem(data: bytes) -> str | None:
    """Return why two readers may not agree on the head of a request (RFC 9112, 2.2, 3, 5.2 and 6.3), if that is so.

    Nothing of a head is acted on before its end, so that one which comes in tiny pieces need not be looked at with each
    of them.
    """
    end = data.find(HEAD_END)
    if end >= 0:
        head = data[: end + 4]
    elif data and (short := _SHORT_END.search(data)) is not None:
        head = data[: short.end()]
    else:
        return None
    ends = head.count(b"\r\n")
    if head.count(b"\n") != ends:
        return "A line of the head ends with a line feed alone; expected a carriage return before it."
    if head.count(b"\r") != ends:
        return "A carriage return stands alone in the head; expected a line feed after it."
    if b"\r\n " in head or b"\r\n\t" in head:
        return "A line of the head begins with a blank; expected each header on one line."
    lower = head.lower()
    if b"\r\ntransfer-encoding" in lower and len(set(_BODY_HEADER.findall(lower))) > 1:
        return TWO_LENGTHS
    if _REQUEST_LINE.match(head) is None:
        return INVALID_REQUEST
    return None


def fields_problem(headers: list[tuple[bytes, bytes]], values: Mapping[bytes, bytes], version: str) -> str | None:
    """Return why the fields of a head are unclear about the host, or the end of the body (RFC 9112, 3.2 and 6.1)."""
    if b"host" not in values and version == "1.1":
        return "No Host header came; expected one."
    if len(values) != len(headers):
        names = [name for name, _ in headers]
        if names.count(b"host") > 1 or names.count(b"transfer-encoding") > 1:
            return "A Host or Transfer-Encoding header came more than once; expected one."
    coding = values.get(b"transfer-encoding")
    if coding is not None and coding.lower() != b"chunked":
        return f"Transfer-Encoding: {quoted(coding)} came; expected chunked."
    return None
