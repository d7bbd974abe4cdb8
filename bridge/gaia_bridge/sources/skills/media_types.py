"""The MIME types of a skill's files, and whether they are text. The same on every machine: no system table is read."""

from __future__ import annotations

from contextlib import suppress
from mimetypes import MimeTypes
from typing import Final

_TYPES: Final = MimeTypes()
for _ending, _type in (
    (".bash", "application/x-sh"),
    (".cjs", "text/javascript"),
    (".csv", "text/csv"),
    (".jsonl", "application/jsonl"),
    (".md", "text/markdown"),
    (".mdx", "text/markdown"),
    (".py", "text/x-python"),
    (".sh", "application/x-sh"),
    (".sql", "application/sql"),
    (".toml", "application/toml"),
    (".ts", "text/x-typescript"),
    (".txt", "text/plain"),
    (".webp", "image/webp"),
    (".woff2", "font/woff2"),
    (".yaml", "application/yaml"),
    (".yml", "application/yaml"),
):
    _TYPES.add_type(_type, _ending)

_BINARY: Final = ("audio/", "font/", "image/", "video/")
_TEXT: Final = frozenset(
    f"application/{name}"
    for name in ("javascript", "json", "jsonl", "sql", "toml", "x-csh", "x-sh", "x-tex", "xml", "yaml")
)
_UNKNOWN: Final = "application/octet-stream"


def media_type(name: str) -> str | None:
    """Return the MIME type of a file by its name; `None` if the name does not decide it."""
    kind, encoding = _TYPES.guess_type(name)
    if encoding is not None:
        return {"gzip": "application/gzip"}.get(encoding, _UNKNOWN)
    return kind


def contents_of(uri: str, name: str, content: bytes) -> dict[str, str]:
    """Return the contents of a file for `resources/read`: as text, if it is one."""
    kind = media_type(name)
    text: str | None = None
    if kind is None or _may_be_text(kind):
        with suppress(UnicodeDecodeError):
            text = content.decode()
    if text is not None and (kind is not None or "\0" not in text):
        return {"uri": uri, "mimeType": kind or "text/plain", "text": text}
    from base64 import b64encode

    return {"uri": uri, "mimeType": kind or _UNKNOWN, "blob": b64encode(content).decode()}


def _may_be_text(kind: str) -> bool:
    if kind == "image/svg+xml":
        return True
    if kind.startswith(_BINARY):
        return False
    return kind.startswith("text/") or kind in _TEXT or kind.endswith(("+json", "+xml"))
