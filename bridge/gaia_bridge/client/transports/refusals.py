"""What a response says in words whose status is not one of success, or whose kind is not the expected one.

Whoever asked for the call has to know it: a quota, a plan, an unknown user are no faults of the bridge, and models can
act upon them. Pages for browsers are reduced to their titles.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator
from typing import Any, Final

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports.http_client import Reply
from gaia_bridge.client.transports.http_values import named_status
from gaia_bridge.constants import KIB
from gaia_bridge.text.escaping import one_line, without_hidden
from gaia_bridge.text.json_text import from_json
from gaia_bridge.text.json_types import is_array, is_object

_READ: Final = 16 * KIB
"""Bytes of a body that are looked at: what it says in words comes first."""
_SHOWN: Final = 300
"""Characters that are repeated."""

_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{0,1000})", re.IGNORECASE)
_PAGE: Final = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_SAYING: Final = ("error_description", "detail", "message", "error", "msg", "title", "reason", "errors")
"""The keys of common bodies of errors, the most telling first (RFC 6749, RFC 9457; FastAPI, Express, Spring)."""
_PARAMETER: Final = re.compile(
    r'\b(error|error_description|scope)\s*=\s*(?:"((?:[^"\\]|\\.){0,500})"|([^\s,"]{1,200}))'
)


async def _beginning_of(reply: Reply, seconds: float) -> bytes:
    """The first bytes of a body, which can be read again afterwards.

    Args:
        seconds: How long is waited for them.
    """
    found = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while len(found) < _READ and (piece := await reply.read()):
                found += piece
    except (TimeoutError, UpstreamError):
        pass  # what came until then has to do
    reply.again(bytes(found))
    return bytes(found[:_READ])


async def words_of(reply: Reply, seconds: float) -> str:
    """What a response says in words, on one line; empty where it says nothing.

    Args:
        reply: The response. Its body can be read again afterwards, as far as it was read.
        seconds: How long is waited for its body.
    """
    words = words_in(reply.content_type, await _beginning_of(reply, seconds))
    if reply.status in (401, 403):
        challenge = reply.headers.get("www-authenticate", "")
        asked = {name: quoted or bare for name, quoted, bare in _PARAMETER.findall(challenge)}
        problem, scope = asked.get("error_description") or asked.get("error"), asked.get("scope")
        words = "; ".join(dict.fromkeys(filter(None, (problem, scope and f"scope: {scope}", words))))
    line = one_line(without_hidden(words), _SHOWN)
    return "" if line.lower().strip(". ") in _names(reply.status) else line


def words_in(kind: str, body: bytes) -> str:
    """What a body says in words; empty where it is for no reader.

    Args:
        kind: Its content type, without parameters; may be empty.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    if kind in ("text/html", "application/xhtml+xml") or _PAGE.match(text):
        title = _TITLE.search(text)
        return "" if title is None else html.unescape(title[1]).strip()
    if kind.endswith("json") or text.startswith("{"):
        try:
            return "; ".join(_said(from_json(text), 3)) or text
        except ValueError:
            return text
    return text if kind in ("", "text/plain") and "\0" not in text else ""


def _names(status: int) -> tuple[str, ...]:
    """What says no more than the status, in lower case."""
    number, _, phrase = named_status(status).lower().partition(" ")
    phrase = phrase.strip("()")
    return (number, phrase, f"{number} {phrase}", f"{number}: {phrase}", f"http {number}")


def _said(value: Any, depth: int) -> Iterator[str]:
    """The texts in a JSON value that say what went wrong."""
    if isinstance(value, str):
        yield value
    elif is_array(value) and depth:
        for item in value[:3]:
            yield from _said(item, depth - 1)
    elif is_object(value) and depth:
        for name in _SAYING:
            found = [text for text in _said(value.get(name), depth - 1) if text.strip()]
            if found:
                yield from found
                return
