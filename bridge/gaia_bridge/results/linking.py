"""Results that are too large: what is large in them is kept, and takes the form of a link to a resource."""

from __future__ import annotations

import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from gaia_bridge.constants import LEAST_RESULT
from gaia_bridge.protocol.json_text import from_json, to_json
from gaia_bridge.protocol.json_types import JSON, is_object
from gaia_bridge.sanitize.borders import border_after, border_before

__all__ = ["RESULT_SCHEME", "ClientCut", "Cut", "ResultLinks"]

RESULT_SCHEME: Final = "gaia-result://"
_ANY_TEXT: Final = {"type", "title", "description", "default", "examples"}
"""What a schema may say of a text without forbidding any."""

_LINKS: Final = 8
"""Blocks of one result that have a link each."""

_ROOM: Final = 512
"""Bytes of a link to all other blocks, and of what is said of it."""

_LINK: Final = 700
"""Bytes of a link and of what is said of it to a model, at most."""


class Cut(Struct, frozen=True):
    """How a result is made smaller."""

    size: int
    """Bytes that it may have, in JSON."""
    preview: int
    """Characters that stay of the beginning of a text, at most."""


class ClientCut(Struct, frozen=True):
    """How the result of a call is made smaller for the model of a client that shows it no more."""

    size: int
    """Bytes of text that it may have, in JSON."""
    owner: Hashable
    """Who may read what is kept."""
    reader: str = ""
    """The tool that reads it; empty where the model can read resources."""
    drops_structured: bool = False
    """Whether structured content may go even if a schema promises it, because it would take the place of the rest."""


class _Kept(Struct):
    contents: list[JSON]
    until: float
    size: int
    owner: Hashable = None
    pieces: tuple[int, ...] = ()
    """Where the pieces of the text begin, and where the last one ends."""


class ResultLinks:
    """What was taken out of results, for as long as it can be read.

    Args:
        seconds: How long what is linked is kept.
        entries: How many links are kept.
        kept_size: Bytes that are kept for them, together. What is larger alone stays in its result.
    """

    def __init__(self, seconds: float, entries: int, kept_size: int) -> None:
        self._seconds = seconds
        self._entries = entries
        self._kept_size = kept_size
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._used = 0

    def shortened(self, result: JSON, tool: str, definition: JSON | None, cut: Cut) -> JSON:
        """A result that has at most so many bytes; the same one if it has no more.

        Args:
            result: The result of a tool.
            tool: The name of the tool.
            definition: The definition of the tool.
            cut: How small it is to be.
        """
        content = result.get("content")
        if not isinstance(content, list) or len(to_json(result)) <= cut.size:
            return result
        blocks: list[list[JSON]] = [[block] for block in cast("list[JSON]", content)]
        small = dict(result)
        if "structuredContent" in result and "outputSchema" not in (definition or {}):
            structured = small.pop("structuredContent")
            if not content:
                text = json.dumps(structured, ensure_ascii=False)
                blocks = [[{"type": "text", "text": text}]]
        sizes = [len(to_json(block)) for (block,) in blocks]
        rest = len(to_json({**small, "content": []})) + sum(sizes)
        for place in sorted(range(len(blocks)), key=sizes.__getitem__, reverse=True)[:_LINKS]:
            if rest <= cut.size or sizes[place] < LEAST_RESULT:
                break
            (block,) = blocks[place]
            blocks[place] = self._linked(block, sizes[place], tool, cut)
            rest -= sizes[place] - len(to_json(blocks[place]))
            member = _only_text(small.get("structuredContent"), block, definition)
            if member is not None and len(blocks[place]) > 1:
                shortened = {member: blocks[place][0]["text"]}
                rest -= len(to_json(small["structuredContent"])) - len(to_json(shortened))
                small["structuredContent"] = shortened
        if rest > cut.size:
            self._fold(blocks, sizes, rest, tool, cut)
        return {**small, "content": [block for replaced in blocks for block in replaced]}

    def shortened_for_client(self, result: JSON, tool: str, definition: JSON | None, cut: ClientCut) -> JSON:
        """A result of whose text a client passes on all; the same one if it passes on all of it.

        What is no text is left alone. All large texts become one, of which both ends stay: the parts in between can be
        read in pieces that the client passes on as well.

        Args:
            result: The result of a tool.
            tool: The name of the tool.
            definition: The definition of the tool.
            cut: How small it is to be, and for whom.
        """
        content = result.get("content")
        if not isinstance(content, list):
            return result
        blocks = cast("list[JSON]", content)
        structured = result.get("structuredContent")
        drops = structured is not None and (cut.drops_structured or not _is_promised(definition))
        drops = drops and len(to_json(structured)) > cut.size
        if drops and not _tells(blocks, structured):
            blocks = [*blocks, {"type": "text", "text": json.dumps(structured, ensure_ascii=False)}]
        texts = {place: text for place, block in enumerate(blocks) if (text := _text_of(block)) is not None}
        sizes = {place: len(to_json(text)) for place, text in texts.items()}
        shows_text = drops or structured is None or not cut.drops_structured
        if not shows_text or sum(sizes.values()) <= cut.size:
            return _without_structured(result, blocks) if drops else result
        moved = _largest(sizes, cut.size // 2)
        rest = sum(sizes.values()) - sum(sizes[place] for place in moved)
        joined = "\n\n".join(texts[place] for place in moved)
        size = len(to_json(joined))
        if size > self._kept_size:
            return result
        linked = self._both_ends(joined, size, tool, cut, max(cut.size - rest - _LINK, 0))
        first, gone = moved[0], set(moved)
        shown = [
            replaced
            for place, block in enumerate(blocks)
            for replaced in (linked if place == first else () if place in gone else (block,))
        ]
        return _without_structured(result, shown) if drops else {**result, "content": shown}

    def contents(self, uri: str, owner: Hashable = None) -> list[JSON] | None:
        """What a link leads to, whole or a piece of it; `None` if it is not there, or is another client's.

        Args:
            uri: The link; with `/2` at its end, the second piece.
            owner: Who reads.
        """
        name, _, number = uri.removeprefix(RESULT_SCHEME).partition("/")
        address = RESULT_SCHEME + name
        kept = self._kept.get(address)
        if kept is None or kept.owner != owner:
            return None
        if time.monotonic() >= kept.until:
            self._drop(address)
            return None
        if not number:
            return [{**contents, "uri": uri} for contents in kept.contents]
        if not number.isascii() or not number.isdecimal() or len(number) > 9 or not 0 < int(number) < len(kept.pieces):
            return None
        text: str = kept.contents[0]["text"]
        piece = text[kept.pieces[int(number) - 1] : kept.pieces[int(number)]]
        return [{**kept.contents[0], "text": piece, "uri": uri}]

    def pieces(self, uri: str) -> int:
        """In how many pieces what a link leads to can be read; 0 if it has none."""
        kept = self._kept.get(uri)
        return 0 if kept is None else max(len(kept.pieces) - 1, 0)

    def forget(self, owner: Hashable) -> None:
        """Forget what was kept for a client, which is gone."""
        for uri in [uri for uri, kept in self._kept.items() if kept.owner == owner]:
            self._drop(uri)

    def _linked(self, block: JSON, size: int, tool: str, cut: Cut) -> list[JSON]:
        """A link to a block, after the beginning of its text; the block itself, if it is too large to be kept."""
        contents = _contents_of(block)
        if contents is None or size > self._kept_size:
            return [block]
        uri = self._keep([contents], size)
        link: JSON = {"type": "resource_link", "uri": uri, "name": f"result of {tool}"}
        if "mimeType" in contents:
            link["mimeType"] = contents["mimeType"]
        text = contents.get("text")
        if text is None:
            return [link]
        link["size"] = len(text.encode(errors="surrogatepass"))
        # A text of wide characters may be large, and shorter than what is to stay.
        stays = min(cut.preview, len(text) // 2, cut.size // 4)
        told = f"\n[The first {stays} of {len(text)} characters. All of it is the resource {uri}]"
        beginning = {"text": text[:stays] + told, "type": "text"}
        if "annotations" in block:
            beginning["annotations"] = link["annotations"] = block["annotations"]
        return [beginning, link]

    def _both_ends(self, text: str, size: int, tool: str, cut: ClientCut, room: int) -> list[JSON]:
        """Both ends of a text that have so many bytes, and a link to all of it."""
        pieces = _pieces(text, cut.size * 3 // 4)
        uri = self._keep([{"text": text, "mimeType": "text/plain"}], size, cut.owner, pieces)
        head, tail = _ends(text, room)
        count = len(pieces) - 1
        how = (
            f"Call {cut.reader} with uri {uri} and piece 1 to {count}"
            if cut.reader
            else (f"It is the resource {uri}, to be read in {count} pieces, {uri}/1 to {uri}/{count}")
        )
        left_out = len(text) - len(head) - len(tail)
        told = f"\n[{left_out} of {len(text)} characters are left out here. {how}, to read all.]\n"
        link: JSON = {"type": "resource_link", "uri": uri, "name": f"result of {tool[:100]}", "mimeType": "text/plain"}
        link["size"] = len(text.encode(errors="surrogatepass"))
        return [{"type": "text", "text": head + told + tail}, link]

    def _fold(self, blocks: list[list[JSON]], sizes: list[int], rest: int, tool: str, cut: Cut) -> None:
        """Put the last blocks of many into one resource, as many as are too much."""
        moved: list[int] = []
        contents: list[JSON] = []
        size = 0
        for place in reversed(range(len(blocks))):
            if rest + _ROOM <= cut.size:
                break
            kept = _contents_of(blocks[place][0]) if len(blocks[place]) == 1 else None
            if kept is not None and size + sizes[place] <= self._kept_size:
                moved.append(place)
                contents.append(kept)
                size += sizes[place]
                rest -= sizes[place]
        if len(moved) < 2:
            return
        uri = self._keep(contents[::-1], size)
        for place in moved:
            blocks[place] = []
        told = f"[{len(moved)} more blocks of content are the resource {uri}]"
        link: JSON = {"type": "resource_link", "uri": uri, "name": f"more of the result of {tool}"}
        blocks[moved[-1]] = [{"type": "text", "text": told}, link]

    def _keep(self, contents: list[JSON], size: int, owner: Hashable = None, pieces: tuple[int, ...] = ()) -> str:
        """Keep what a link leads to, in place of what has been kept for long enough; returns its URI."""
        now = time.monotonic()
        while self._kept and self._kept[oldest := next(iter(self._kept))].until < now:
            self._drop(oldest)
        uri = f"{RESULT_SCHEME}{secrets.token_urlsafe(16)}"
        self._kept[uri] = _Kept(contents, time.monotonic() + self._seconds, size, owner, pieces)
        self._used += size
        while len(self._kept) > self._entries or self._used > self._kept_size:
            self._drop(next(iter(self._kept)))
        return uri

    def _drop(self, uri: str) -> None:
        self._used -= self._kept.pop(uri).size


def _largest(sizes: dict[int, int], stays: int) -> list[int]:
    """The places of the largest texts, in order: as few as leave no more than so many bytes in the others."""
    moved: list[int] = []
    rest = sum(sizes.values())
    for place in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if rest <= stays:
            break
        moved.append(place)
        rest -= sizes[place]
    return sorted(moved)


def _ends(text: str, room: int) -> tuple[str, str]:
    """Both ends of a text, together of at most so many bytes in JSON; of lines, whole ones."""
    head = _first(text, room * 2 // 3)
    end = head.rfind("\n", len(head) // 2)
    head = head[:end] if end > 0 else text[: border_before(text, len(head))]
    tail = _first(text[: len(head) - 1 if head else None : -1], room // 3)[::-1]
    start = tail.find("\n", 0, len(tail) // 2 + 1)
    tail = tail[start + 1 :] if start >= 0 else text[border_after(text, len(text) - len(tail)) :]
    return head, tail


def _first(text: str, size: int) -> str:
    """As much of the beginning of a text as has so many bytes in JSON."""
    beginning = text[: max(size, 0)]
    while beginning and (over := len(to_json(beginning)) - 2 - size) > 0:
        # No character has more than six bytes in JSON.
        beginning = beginning[: len(beginning) - (over + 5) // 6]
    return beginning


def _pieces(text: str, size: int) -> tuple[int, ...]:
    """Where the pieces of a text begin, each of at most so many bytes in JSON, and where the last one ends."""
    places = [0]
    while places[-1] < len(text):
        start = places[-1]
        piece = _first(text[start : start + size], size)
        end = piece.rfind("\n", len(piece) // 2) + 1 if start + len(piece) < len(text) else 0
        stop = start + (end or len(piece) or 1)
        border = border_before(text, stop)
        places.append(border if border > start else stop)
    return tuple(places)


def _text_of(block: Any) -> str | None:
    """The text of a block of content, if it is one."""
    match block:
        case {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case _:
            return None


def _tells(blocks: Sequence[JSON], structured: Any) -> bool:
    """Whether a text of the content says all that the structured content does."""
    said = [structured]
    if is_object(structured) and len(structured) == 1:
        said += structured.values()
    return any((text := _text_of(block)) is not None and (text in said or _read(text) in said) for block in blocks)


def _read(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None


def _is_promised(definition: JSON | None) -> bool:
    return "outputSchema" in (definition or {})


def _without_structured(result: JSON, content: Sequence[JSON]) -> JSON:
    kept = {key: value for key, value in result.items() if key != "structuredContent"}
    return {**kept, "content": list(content)}


def _only_text(structured: Any, block: JSON, tool: JSON | None) -> str | None:
    """The only member of structured content, if it is the text of that block, and the schema permits any text there."""
    if not is_object(structured) or list(structured.values()) != [block.get("text")]:
        return None
    (member,) = structured
    properties = (tool or {}).get("outputSchema", {}).get("properties")
    schema = properties.get(member) if is_object(properties) else None
    if not is_object(schema) or schema.get("type") != "string" or not schema.keys() <= _ANY_TEXT:
        return None
    return member


def _contents_of(block: Any) -> JSON | None:
    """What a resource holds that is this block of content; `None` for a kind that cannot be one."""
    match block:
        case {"type": "text", "text": str(text)}:
            return {"text": text, "mimeType": "text/plain"}
        case {"type": "image" | "audio", "data": str(data), "mimeType": str(mime)}:
            return {"blob": data, "mimeType": mime}
        case {"type": "resource", "resource": resource} if is_object(resource):
            return {key: resource[key] for key in ("text", "blob", "mimeType", "_meta") if key in resource}
        case _:
            return None
