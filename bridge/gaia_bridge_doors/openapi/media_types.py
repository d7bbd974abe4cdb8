"""Media types, as OpenAPI documents and HTTP headers write them. Pure."""

from __future__ import annotations

import re
from typing import Final

_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([A-Za-z0-9._:-]+)", re.IGNORECASE)

_TEXTS: Final = frozenset({"application/javascript", "application/xml", "application/x-ndjson", "application/yaml"})


def essence(media: str) -> str:
    """The type itself, in lower case and without parameters."""
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Whether it is JSON, or anything, which JSON is too."""
    kind = essence(media)
    return kind in ("application/json", "text/json", "*/*", "application/*") or kind.endswith("+json")


def is_text(media: str) -> bool:
    """Whether it is text that a model can read."""
    kind = essence(media)
    return kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+xml", "+yaml"))


def charset_of(media: str) -> str:
    """The character encoding that a `Content-Type` names; UTF-8 if none."""
    found = _CHARSET.search(media)
    return found[1] if found else "utf-8"
