"""Responses of an HTTP API as results of tools. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from gaia_bridge.calls.results.conversion import error_result
from gaia_bridge.client.transports.http_values import named_status
from gaia_bridge.client.transports.refusals import words_in
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import from_json
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_doors.openapi.media_types import charset_of, is_json, is_text

_COMPLETE: Final[JSON] = {"resultType": "complete"}
_HEADER: Final = 1_000
"""Characters of one header that are shown."""


def success_result(status: int, media: str, body: bytes, url: str) -> JSON:
    """The result of a call that succeeded.

    Args:
        status: The status of the response.
        media: Its content type, with parameters; may be empty.
        body: Its body.
        url: Where it came from, without what may be secret.
    """
    if not body:
        return _with_content(_text(f"HTTP {named_status(status)}, without content"))
    if not media or is_json(media):
        text = _decoded(body, media)
        try:
            value = from_json(text, allow_inf_nan=False)
        except ValueError:  # whatever it says it is
            return _with_content(_text(text) if media or _is_readable(text) else _blob(body, media, url))
        result = _with_content(_text(text))
        return {**result, "structuredContent": value} if is_object(value) else result
    kind = media.partition(";")[0].strip().lower()
    if is_text(media):
        return _with_content(_text(_decoded(body, media)))
    for family in ("image", "audio"):
        if kind.startswith(f"{family}/"):
            return _with_content({"type": family, "data": b64encode(body).decode("ascii"), "mimeType": kind})
    return _with_content(_blob(body, kind, url))


def head_result(status: int, headers: Mapping[str, str]) -> JSON:
    """The result of a call that asks for headers only."""
    lines = [f"{name}: {one_line(value, _HEADER)}" for name, value in headers.items() if name != "set-cookie"]
    return _with_content(_text("\n".join([f"HTTP {named_status(status)}", *lines])))


def failure_result(status: int, media: str, body: bytes, asked: str, limit: int) -> JSON:
    """The result of a call that failed.

    Args:
        status: The status of the response.
        media: Its content type.
        body: As much of its body as was read; of a page for browsers, only the title is shown.
        asked: The request, without what may be secret.
        limit: Bytes of the body that are shown.
    """
    shown, more = "", ""
    if media.partition(";")[0].strip().lower() == "text/html":
        shown = words_in("text/html", body[:limit])
    elif not media or is_json(media) or is_text(media):
        shown = _decoded(body[:limit], media).strip()
        more = " [...]" if shown and len(body) > limit else ""
    return error_result(
        f"{asked} was answered with HTTP {named_status(status)}" + (f":\n{shown}{more}" if shown else "")
    )


def _with_content(block: JSON) -> JSON:
    return {**_COMPLETE, "content": [block]}


def _text(text: str) -> JSON:
    return {"type": "text", "text": text}


def _blob(body: bytes, kind: str, url: str) -> JSON:
    media = kind or "application/octet-stream"
    data = b64encode(body).decode("ascii")
    return {"type": "resource", "resource": {"uri": url, "mimeType": media, "blob": data}}


def _is_readable(text: str) -> bool:
    return "\ufffd" not in text and "\0" not in text


def _decoded(body: bytes, media: str) -> str:
    try:
        return body.decode(charset_of(media), "replace")
    except (LookupError, UnicodeError):  # there are encodings that know no "replace"
        return body.decode("utf-8", "replace")
