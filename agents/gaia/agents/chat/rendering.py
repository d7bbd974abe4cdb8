"""The result of a tool, as text that a model can read. Pure."""

from __future__ import annotations

from typing import Any, Final

from gaia_bridge.calls.results.conversion import jsonable
from gaia_bridge.calls.results.rendering import (
    FAILED_SILENTLY,
    ContentStyle,
    render_content,
    render_result,
    without_base64,
)
from gaia_bridge.errors import ToolError
from gaia_bridge.protocol.vocabulary import CONTENT_TYPES
from gaia_bridge.text.json_types import is_array, is_object

__all__ = ["HEAVY", "as_text", "content_text", "cut"]

HEAVY: Final = 64 * 1024 * 1024
"""Bytes up to which a value is encoded at all, before it is cut."""

_RESULT_FIELDS: Final = frozenset({"_meta", "content", "isError", "resultType", "structuredContent"})

_BLOCK_FIELDS: Final = {
    "text": {"type", "text"},
    "image": {"type", "data", "mimeType"},
    "audio": {"type", "data", "mimeType"},
    "resource": {"type", "resource"},
    "resource_link": {"type", "uri", "name"},
}
_EXTRAS: Final = {"_meta", "annotations", "description", "icons", "size", "title"}
"""Optional fields of content blocks that a model can do without."""

_STYLE: Final = ContentStyle("[{Kind}: {facts}]", media=("mimeType",), resource=("uri",), link=("uri",))
"""Short: a model has no use for how large a picture is that it cannot see."""


def as_text(value: Any, limit: int) -> str:
    """Turn a tool's result into text.

    Args:
        value: Text, an MCP result, or anything that JSON can carry. Base64 is never shown to a model: a picture or a
            file is named instead.
        limit: Bytes of UTF-8 at most; what is beyond is cut off, and the text says so.

    Raises:
        ToolError: It has no JSON form, or is an MCP result that says that the tool failed.
    """
    if value is None:
        return "(no output)"
    if isinstance(value, bytes | bytearray):
        return cut(_file_text(value), limit)
    plain: Any = value
    encoded = ""
    if not isinstance(value, str):
        plain, encoded = jsonable(value, HEAVY)
    if _is_result(plain):
        return cut(_result_text(plain), limit)
    blocks = plain if is_array(plain) else [plain]
    if blocks and all(map(_is_block, blocks)):
        return cut(content_text(blocks), limit)
    light = without_base64(plain)
    if isinstance(light, str):
        return cut(light, limit)
    return cut(encoded if light == plain else jsonable(light, HEAVY)[1], limit)


def content_text(blocks: list[Any]) -> str:
    """MCP content as text: texts as they are, everything else named in brackets, one below the other."""
    return render_content(blocks, _STYLE)


def cut(text: str, limit: int) -> str:
    """Text that can be sent, and is not too long.

    Args:
        text: Any; what is half a character is replaced.
        limit: Bytes of UTF-8. Where there is room for it, the text says that it was cut.
    """
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode("utf-8")
    note = f"\n[cut off: of {len(encoded):,} bytes, at most {limit:,} are shown; ask for less]"
    kept = encoded[: limit - len(note)] if limit > len(note) else encoded[:limit]
    return kept.decode("utf-8", "ignore") + (note if limit > len(note) else "")


def _result_text(result: dict[str, Any]) -> str:
    text = render_result(result, _STYLE)
    if result.get("isError") is True:
        raise ToolError(text or FAILED_SILENTLY)
    return text or "(no output)"


def _file_text(data: bytes | bytearray) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"[File: {len(data):,} bytes]"


def _is_result(value: Any) -> bool:
    """Whether it is an MCP result, and not something else that has a `content`."""
    if not is_object(value) or not value.keys() <= _RESULT_FIELDS or not is_array(value.get("content")):
        return False
    return all(is_object(block) and str(block.get("type")) in CONTENT_TYPES for block in value["content"])


def _is_block(value: Any) -> bool:
    """Whether it is MCP content and nothing more: other things have a `type`, too, and more to say."""
    fields = _BLOCK_FIELDS.get(str(value.get("type"))) if is_object(value) else None
    return fields is not None and fields <= value.keys() <= fields | _EXTRAS
