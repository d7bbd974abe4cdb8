"""Renders MCP content as text, for a model, a file or a terminal. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.json_types import JSON, is_array, is_object

FAILED_SILENTLY: Final = "The tool failed without saying why"
"""The text for a failure that has none."""
_UNKNOWN: Final = "of unknown kind"
_TAB: Final = " " * 4
"""A tab on a terminal, which may not be written as it is: with a tab, a line could be made to look like another."""
_DATA_URL: Final = re.compile(r"data:[^,\s]{0,200};base64,")


class ContentStyle(NamedTuple):
    """The way in which content is shown to one kind of reader. Text is shown as it is; all else is named in a note.

    A note has facts, which are fields of the block or of the resource in it: `uri`, `mimeType`, `description`, `title`
    (else its `name`), and `size`, the bytes that its base64 stands for.
    """

    note: str = "[{kind}: {facts}]"
    """A note: `{kind}` is `image`, `audio` or `resource`, `{Kind}` the same with a capital, `{facts}` a list."""
    media: tuple[str, ...] = ("mimeType", "size")
    """Facts about an image or audio."""
    resource: tuple[str, ...] = ("uri", "mimeType", "size")
    """Facts about an embedded resource."""
    link: tuple[str, ...] = ("uri", "title", "mimeType", "description")
    """Facts about a link to a resource."""
    embedded_text: bool = True
    """Whether an embedded resource that is text is shown, instead of a note."""
    texts_only: bool = False
    """Whether blocks that are no text are left out."""
    indent: int | None = None
    """Spaces of each level of JSON; `None` writes JSON in one line."""
    fact_limit: int = 4096
    """Characters of one fact. A model needs the whole URI to read a resource, and signed ones are long."""
    terminal: bool = False
    """Whether control characters are escaped: a terminal would obey them."""


def render_result(result: JSON, style: ContentStyle) -> str:
    """Return the content of a tool's result, or its structured content if the content has no text; may be empty."""
    content, structured = result.get("content"), result.get("structuredContent")
    text = render_content(content if is_array(content) else [], style)
    return text if text or structured is None else _escaped(render_json(structured, style.indent), style)


def render_content(blocks: Iterable[Any], style: ContentStyle) -> str:
    """Return blocks of content as text, one below the other."""
    texts = [render_block(block, style) for block in blocks]
    return "\n".join(text for text in texts if text or not style.texts_only)


def render_block(block: Any, style: ContentStyle) -> str:
    """Return one block of content as text; empty if the style leaves it out.

    A block of an unknown type is its text, if it has one, and else JSON without base64.
    """
    text = _text_of(block, style)
    if text is not None:
        return _escaped(text, style)
    if style.texts_only:
        return ""
    kind, facts, fields = _facts_of(block, style)
    if kind is None:
        return _escaped(render_json(block, style.indent), style)
    shown = [one_line(fact, style.fact_limit) for fact in (_fact(facts, name) for name in fields) if fact]
    return style.note.format(kind=kind, Kind=kind.capitalize(), facts=", ".join(shown) or _UNKNOWN)


def render_json(value: Any, indent: int | None) -> str:
    """Return a value as JSON, without base64, indented or in one line; a part without JSON is written with `str`."""
    separators = (",", ":") if indent is None else None
    light = without_base64(value)
    return json.dumps(light, indent=indent, separators=separators, ensure_ascii=False, default=_named)


def without_base64(value: Any) -> Any:
    """Return a JSON value in which notes stand for the base64 of images, audio and files, which nobody can read."""
    if isinstance(value, str):
        return _left_out(value) if _DATA_URL.match(value) else value
    if is_array(value):
        return [without_base64(item) for item in value]
    if not is_object(value):
        return value
    return {
        key: _left_out(item) if isinstance(item, str) and _is_base64(value, key) else without_base64(item)
        for key, item in value.items()
    }


def _text_of(block: Any, style: ContentStyle) -> str | None:
    match block:
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text if style.embedded_text else None
        case {"type": "image" | "audio" | "resource" | "resource_link"}:
            return None
        case {"text": str(text)}:
            return text
        case {"type": "text"} if "text" not in block:
            return ""
        case _:
            return None


def _facts_of(block: Any, style: ContentStyle) -> tuple[str | None, JSON, tuple[str, ...]]:
    """Return the kind of a block, if it is known; the object with its facts; and the names of those to show."""
    match block:
        case {"type": "image" | "audio" as kind}:
            return kind, block, style.media
        case {"type": "resource", "resource": resource} if is_object(resource):
            return "resource", resource, style.resource
        case {"type": "resource" | "resource_link"}:
            return "resource", block, style.link
        case _:
            return None, {}, ()


def _fact(facts: JSON, name: str) -> str:
    if name == "size":
        data = facts.get("data", facts.get("blob"))
        return f"{_size(data):,} bytes" if isinstance(data, str) else ""
    fact = facts.get(name)
    if name == "title" and not fact:
        fact = facts.get("name")
    return without_base64(fact) if isinstance(fact, str) else ""


def _is_base64(value: JSON, key: str) -> bool:
    """Return whether MCP defines a field as base64, or a MIME type beside it shows that it is."""
    mime_type = value.get("mimeType")
    if key == "blob":
        return isinstance(mime_type, str) or "uri" in value
    return key == "data" and (
        value.get("type") in ("image", "audio") or (isinstance(mime_type, str) and not mime_type.startswith("text/"))
    )


def _left_out(data: str) -> str:
    start = _DATA_URL.match(data)
    head = start[0] if start else ""
    return f"{head}({_size(data[len(head) :]):,} bytes of base64 left out)"


def _size(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")


def _named(value: Any) -> str:
    return f"[{len(value):,} bytes]" if isinstance(value, bytes) else str(value)


def _escaped(text: str, style: ContentStyle) -> str:
    if not style.terminal:
        return text
    return "\n".join(printable(line.replace("\t", _TAB), None) for line in text.split("\n"))
