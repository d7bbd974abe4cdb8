"""What a tool returned, as text that a model can read. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from gaia_bridge.errors import ToolError
from gaia_bridge.protocol.json_types import is_array, is_object
from gaia_bridge.protocol.vocabulary import CONTENT_TYPES
from gaia_bridge.results.conversion import jsonable

__all__ = ["as_text", "content_text", "cut"]

_HEAVY = 64 * 1024 * 1024
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
"""What blocks of content may have, too, and a model can do without."""

_DATA_URL = re.compile(r"data:[^,\s]{0,200};base64,")


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
        plain, encoded = jsonable(value, _HEAVY)
    if _is_result(plain):
        return cut(_result_text(plain), limit)
    blocks = plain if is_array(plain) else [plain]
    if blocks and all(map(_is_block, blocks)):
        return cut(content_text(blocks), limit)
    light = _without_data(plain)
    if isinstance(light, str):
        return cut(light, limit)
    return cut(encoded if light == plain else jsonable(light, _HEAVY)[1], limit)


def content_text(blocks: list[Any]) -> str:
    """MCP content as text: texts as they are, everything else named in brackets, one below the other."""
    return "\n".join(_block_text(block) for block in blocks)


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
    text = content_text(result["content"])
    if result.get("isError") is True:
        raise ToolError(text or "the tool failed without saying why")
    if text or result.get("structuredContent") is None:
        return text or "(no output)"
    return jsonable(_without_data(result["structuredContent"]), _HEAVY)[1]


def _block_text(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"uri": str(uri)}} | {"type": "resource_link", "uri": str(uri)}:
            return f"[Resource: {_shown(uri)}]"
        case {"type": "image" | "audio" as kind, **rest}:
            return f"[{kind.capitalize()}: {rest.get('mimeType', 'unknown type')}]"
        case _:
            return jsonable(_without_data(block), _HEAVY)[1]


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


def _without_data(value: Any) -> Any:
    """The same without what only looks like text: the base64 of pictures, sounds and files."""
    if isinstance(value, str):
        return _shown(value)
    if is_array(value):
        return [_without_data(item) for item in value]
    if not is_object(value):
        return value
    heavy = [key for key in ("data", "blob") if isinstance(value.get(key), str) and _is_described(value, key)]
    return {key: _left_out(item) if key in heavy else _without_data(item) for key, item in value.items()}


def _is_described(value: dict[str, Any], key: str) -> bool:
    """Whether MCP says that this is base64."""
    if key == "data":
        return value.get("type") in ("image", "audio")
    return "uri" in value or "mimeType" in value


def _shown(text: str) -> str:
    return _left_out(text) if _DATA_URL.match(text) else text


def _left_out(data: str) -> str:
    start = _DATA_URL.match(data)
    return f"{start[0] if start else ''}({len(data):,} characters of base64 left out)"
