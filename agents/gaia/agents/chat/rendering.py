"""What a tool returned, as text that a model can read. Pure."""

from __future__ import annotations

from typing import Any

from gaia_bridge.jsontypes import is_array, is_object
from gaia_bridge.results import jsonable

__all__ = ["as_text", "content_text"]

_HEAVY = 64 * 1024 * 1024
"""Bytes up to which a value is encoded at all, before it is cut."""


def as_text(value: Any, limit: int) -> str:
    """Turn a tool's result into text.

    Args:
        value: Text, an MCP result, or anything that JSON can carry. Base64 is never shown to a model: a picture or a
            file is named instead.
        limit: Bytes of UTF-8 at most; what is beyond is cut off, and the text says so.

    Raises:
        ToolError: It has no JSON form.
    """
    if value is None:
        return "(no output)"
    if isinstance(value, str):
        return _cut(value, limit)
    plain, encoded = jsonable(value, _HEAVY)
    if isinstance(plain, str):
        return _cut(plain, limit)
    if is_object(plain) and _is_content(plain.get("content")):
        return _cut(_result_text(plain), limit)
    light = _without_data(plain)
    return _cut(encoded if light == plain else jsonable(light, _HEAVY)[1], limit)


def content_text(blocks: list[Any]) -> str:
    """MCP content as text: texts as they are, everything else named in brackets (S2-12), one below the other."""
    return "\n".join(_block_text(block) for block in blocks)


def _result_text(result: dict[str, Any]) -> str:
    text = content_text(result["content"])
    if text or "structuredContent" not in result:
        return text or "(no output)"
    return jsonable(result["structuredContent"], _HEAVY)[1]


def _block_text(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"uri": str(uri)}} | {"type": "resource_link", "uri": str(uri)}:
            return f"[Resource: {uri}]"
        case {"type": "image" | "audio" as kind, **rest}:
            return f"[{kind.capitalize()}: {rest.get('mimeType', 'unknown type')}]"
        case _:
            return jsonable(_without_data(block), _HEAVY)[1]


def _is_content(value: Any) -> bool:
    return is_array(value) and all(is_object(item) and isinstance(item.get("type"), str) for item in value)


def _without_data(value: Any) -> Any:
    """The same without what only looks like text: the base64 of pictures, sounds and files in MCP content."""
    if is_array(value):
        return [_without_data(item) for item in value]
    if not is_object(value):
        return value
    if value.get("type") in ("image", "audio") and isinstance(value.get("data"), str):
        return {**value, "data": f"({len(value['data'])} characters of base64 left out)"}
    if isinstance(value.get("blob"), str) and "uri" in value:
        return {**value, "blob": f"({len(value['blob'])} characters of base64 left out)"}
    return {key: _without_data(item) for key, item in value.items()}


def _cut(text: str, limit: int) -> str:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return text if encoded.isascii() else encoded.decode("utf-8")
    kept = encoded[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[cut off: {len(encoded):,} bytes came, {limit:,} are shown; ask for less]"
