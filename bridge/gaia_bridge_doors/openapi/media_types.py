"""Media types, as OpenAPI documents and HTTP headers write them. Pure."""

from __future__ import annotations

import re
from typing import Final

_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([A-Za-z0-9._:-]+)", re.IGNORECASE)

_TEXTS: Final = frozenset({"application/javascript", "application/xml", "application/x-ndjson", "application/yaml"})


def essence(media: str) -> str:
    """Return the type itself, in lower case and without parameters."""
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Return whether a media type is JSON, or a wildcard that includes JSON."""
    kind = essence(media)
    return kind in ("application/json", "text/json", "*/*", "application/*") or kind.endswith("+json")


def is_text(media: str) -> bool:
    """Return whether a media type is text that a model can read."""
    kind = essence(media)
    return kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+xml", "+yaml"))


def charset_of(media: str) -> str:
    """Return the character encoding of a `Content-Type`; UTF-8 if it names none."""
    match = _CHARSET.search(media)
    return match[1] if match else "utf-8"
