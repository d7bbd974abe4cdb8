"""Extracts the message for people from responses with an error status, or of an unexpected content type.

Callers need this message: a quota, a plan, an unknown user are no faults of the bridge, and models can act upon them.
Pages for browsers are reduced to their titles.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator
from typing import Any, Final

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports.http.http_client import HttpReply
from gaia_bridge.client.transports.http.http_values import named_status
from gaia_bridge.constants import KIB
from gaia_bridge.text.escaping import one_line, without_hidden
from gaia_bridge.text.json_text import from_json
from gaia_bridge.text.json_types import is_array, is_object

_READ: Final = 16 * KIB
"""The most bytes of a body that are read: messages are at its beginning."""
_SHOWN: Final = 300
"""The most characters of a message that are shown."""
_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{0,1000})", re.IGNORECASE)
_PAGE: Final = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_SAYING: Final = ("error_description", "detail", "message", "error", "msg", "title", "reason", "errors")
"""The keys of common bodies of errors, the most telling first (RFC 6749, RFC 9457; FastAPI, Express, Spring)."""
_PARAMETER: Final = re.compile(
    r'\b(error|error_description|scope)\s*=\s*(?:"((?:[^"\\]|\\.){0,500})"|([^\s,"]{1,200}))'
)


async def _beginning_of(reply: HttpReply, seconds: float) -> bytes:
    """Read the first bytes of a body within some seconds; they can be read again afterwards."""
    beginning = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while len(beginning) < _READ and (piece := await reply.read()):
                beginning += piece
    except (TimeoutError, UpstreamError):
        pass  # the bytes until then suffice
    reply.again(bytes(beginning))
    return bytes(beginning[:_READ])


async def words_of(reply: HttpReply, seconds: float) -> str:
    """Return the message of a response, on one line; empty where there is none beyond the status.

    The body is read within some seconds; what was read can be read again.
    """
    words = words_in(reply.content_type, await _beginning_of(reply, seconds))
    if reply.status in (401, 403):
        challenge = reply.headers.get("www-authenticate", "")
        asked = {name: quoted or bare for name, quoted, bare in _PARAMETER.findall(challenge)}
        problem, scope = asked.get("error_description") or asked.get("error"), asked.get("scope")
        problem = "" if problem and problem in words else problem  # the body often has the same words, and more
        words = "; ".join(filter(None, (problem, scope and f"scope: {scope}", words)))
    line = one_line(without_hidden(words), _SHOWN)
    return "" if line.lower().strip(". ") in _names(reply.status) else line


def words_in(kind: str, body: bytes) -> str:
    """Return the message in a body of some content type, perhaps an empty one; empty where it is not for people."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    if kind in ("text/html", "application/xhtml+xml") or _PAGE.match(text):
        title = _TITLE.search(text)
        return "" if title is None else html.unescape(title[1]).strip()
    if kind.endswith("json") or text.startswith("{"):
        try:
            return "; ".join(_descriptions(from_json(text), 3)) or text
        except ValueError:
            return text
    return text if kind in ("", "text/plain") and "\0" not in text else ""


def _names(status: int) -> tuple[str, ...]:
    """Return the texts, in lower case, that only repeat the status."""
    number, _, phrase = named_status(status).lower().partition(" ")
    phrase = phrase.strip("()")
    return (number, phrase, f"{number} {phrase}", f"{number}: {phrase}", f"http {number}")


def _descriptions(value: Any, depth: int) -> Iterator[str]:
    """Yield the texts in a JSON value that describe the error."""
    if isinstance(value, str):
        yield value
    elif is_array(value) and depth:
        for item in value[:3]:
            yield from _descriptions(item, depth - 1)
    elif is_object(value) and depth:
        for name in _SAYING:
            texts = [text for text in _descriptions(value.get(name), depth - 1) if text.strip()]
            if texts:
                yield from texts
                return
