"""Shortens results for clients that pass on only a part: a large text becomes both its ends and a link.

The time is in proportion to the kept part. The functions change nothing but their results, so threads can call them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from msgspec import Struct

from gaia_bridge.calls.results.kept_results import Kept, new_uri
from gaia_bridge.constants import KIB
from gaia_bridge.protocol.messages import encoded
from gaia_bridge.text.borders import border_after, border_before
from gaia_bridge.text.json_text import from_json
from gaia_bridge.text.json_types import JSON, is_array, is_larger, is_object

_LINK: Final = 700
"""Bytes of a link and of the text about it for a model, at most."""
_TYPE: Final = 100
"""Characters of a media type; a longer text is none."""
_READ_WHOLE: Final = 256 * KIB
"""Characters of a text that is parsed to compare it with structured content; a longer one is compared as it is
written.
"""
_CHUNK: Final = 65_536
"""Characters of one step, or some more."""
_MEMBERS: Final = 256
"""Members of an object, or items of an array, that are handled in one step."""


class ClientCut(Struct, frozen=True):
    """The limits to which the result of a call is shortened for a client's model."""

    size: int
    """Bytes of text that it may have, in JSON."""
    owner: Hashable
    """The owner of the kept texts, who alone may read them."""
    most: int
    """Bytes that can be kept. Texts that have more stay in their result."""
    reader: str = ""
    """The tool that reads kept texts; empty where the model can read resources."""
    drops_structured: bool = False
    """Whether structured content may go even if a schema promises it, because it would take the place of the rest."""


class Shortened(Struct, frozen=True):
    """A result that was shortened."""

    result: JSON
    kept: Kept | None = None
    """The text to keep for the result, so that its link leads somewhere."""


def shortened_for_client(result: JSON, tool: str, definition: JSON | None, cut: ClientCut) -> Shortened | None:
    """Return a result whose text a client passes on whole; `None` if it does so already, or it cannot be kept.

    Blocks that are no text stay as they are. All large texts become one, of which both ends stay: the parts in between
    can be read in pieces that the client passes on as well.
    """
    content = result.get("content")
    if not isinstance(content, list):
        return None
    blocks = cast("list[JSON]", content)
    structured = result.get("structuredContent")
    may_drop = structured is not None and (cut.drops_structured or "outputSchema" not in (definition or {}))
    is_over = may_drop and (is_larger(structured, cut.size) or len(encoded(structured)) > cut.size)
    # A picture would not be shown beside it.
    has_more = any(is_object(block) and block.get("type") != "text" for block in blocks)
    drops = is_over or (may_drop and cut.drops_structured and has_more)
    if drops and not _tells(blocks, structured, cut.size if is_over else 0):
        blocks = [*blocks, {"type": "text", "text": "".join(json_chunks(structured))}]
    texts = {place: text for place, block in enumerate(blocks) if (text := _text_of(block)) is not None}
    shows_text = drops or structured is None or not cut.drops_structured
    if not shows_text or not _are_over(texts.values(), cut.size):
        return Shortened(_without_structured(result, blocks)) if drops else None
    moved, rest = _largest(texts, cut.size // 2)
    if sum(len(texts[place]) for place in moved) > cut.most:
        return None
    joined = "\n\n".join(texts[place] for place in moved)
    alone = blocks[moved[0]] if len(moved) == 1 else {}
    linked, kept = _linked(joined, tool, alone, cut, cut.size - rest - _LINK)
    first, gone = moved[0], set(moved)
    shown = [
        replaced
        for place, block in enumerate(blocks)
        for replaced in (linked if place == first else () if place in gone else (block,))
    ]
    return Shortened(_without_structured(result, shown) if drops else {**result, "content": shown}, kept)


def _linked(text: str, tool: str, alone: JSON, cut: ClientCut, room: int) -> tuple[list[JSON], Kept]:
    """Return both ends of a text, within so many bytes, and a link to all of it.

    If the text is that of only one block, the link has the type and the annotations of that block.
    """
    uri = new_uri()
    written = tuple(piece.encode(errors="surrogatepass") for piece in pieces(text, cut.size * 3 // 4))
    size, count = sum(map(len, written)), len(written)
    head, tail = both_ends(text, room)
    how = (
        f"Call {cut.reader} with uri {uri} and piece 1 to {count}"
        if cut.reader
        else (f"It is the resource {uri}, to be read in {count} pieces, {uri}/1 to {uri}/{count}")
    )
    left_out = len(text) - len(head) - len(tail)
    note = f"\n[{left_out} of {len(text)} characters are left out here. {how}, to read all.]\n"
    resource = alone.get("resource")
    mime = resource.get("mimeType") if is_object(resource) else None
    mime = mime if isinstance(mime, str) and len(mime) <= _TYPE else "text/plain"
    link: JSON = {"type": "resource_link", "uri": uri, "name": f"result of {tool[:100]}", "mimeType": mime}
    link["size"] = size
    ends: JSON = {"type": "text", "text": head + note + tail}
    if "annotations" in alone:
        ends["annotations"] = link["annotations"] = alone["annotations"]
    return [ends, link], Kept(uri, [{"mimeType": mime}], size, cut.owner, written)


def _largest(texts: Mapping[int, str], stays: int) -> tuple[list[int], int]:
    """Return the places of the largest texts, in order, as few as leave at most `stays` bytes in the others; and the
    bytes of the others.
    """
    left, small = stays, set[int]()
    for place in sorted(texts, key=lambda place: (len(texts[place]), -place)):
        size = json_bytes(texts[place], left)
        if size > left:
            break
        left -= size
        small.add(place)
    return [place for place in texts if place not in small], stays - left


def _are_over(texts: Collection[str], size: int) -> bool:
    for text in texts:
        size -= json_bytes(text, size)
        if size < 0:
            return True
    return False


def _text_of(block: Any) -> str | None:
    match block:
        case {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case _:
            return None


def _tells(blocks: Sequence[JSON], structured: Any, size: int) -> bool:
    """Return whether a text of the content repeats all of the structured content, which has more than so many bytes."""
    values = [structured]
    if is_object(structured) and len(structured) == 1:
        values += structured.values()
    # No character has more than four bytes in JSON without being escaped.
    texts = (text for block in blocks if (text := _text_of(block)) is not None and len(text) > size // 6)
    return any(text in values or any(_is_written(text, value) for value in values) for text in texts)


def _is_written(text: str, value: Any) -> bool:
    if len(text) > _READ_WHOLE:
        return is_json_of(text, value)
    try:
        return bool(from_json(text) == value)
    except ValueError:
        return False


def _without_structured(result: JSON, content: Sequence[JSON]) -> JSON:
    kept = {key: value for key, value in result.items() if key != "structuredContent"}
    return {**kept, "content": list(content)}


def json_chunks(value: Any, *, in_ascii: bool = False) -> Iterator[str]:
    """Yield the JSON text of a value, in parts."""
    if not is_larger(value, _CHUNK):
        yield json.dumps(value, ensure_ascii=in_ascii)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), _CHUNK):
            yield json.dumps(value[start : start + _CHUNK], ensure_ascii=in_ascii)[1:-1]
        yield '"'
    elif is_object(value) or is_array(value):
        yield from _members(value, in_ascii=in_ascii)
    else:
        yield json.dumps(value)


def _members(value: dict[str, Any] | list[Any], *, in_ascii: bool) -> Iterator[str]:
    """Yield the JSON text of an object or a list, some members at a time where these are small."""
    before, end = "{}" if isinstance(value, dict) else "[]"
    rest: Iterator[Any] = iter(value.items() if isinstance(value, dict) else value)
    while some := list(islice(rest, _MEMBERS)):
        part = dict(some) if isinstance(value, dict) else some
        if not is_larger(part, _CHUNK):
            yield before + json.dumps(part, ensure_ascii=in_ascii)[1:-1]
            before = ", "
            continue
        for member in some:
            yield before
            if isinstance(value, dict):
                key, member = member
                yield from (*json_chunks(key, in_ascii=in_ascii), ": ")
            yield from json_chunks(member, in_ascii=in_ascii)
            before = ", "
    yield end


def is_json_of(text: str, value: Any) -> bool:
    """Return whether a text is the JSON of a value, in the order of its members, with any white space."""
    place, read = 0, ""
    for chunk in json_chunks(value, in_ascii=text.isascii()):
        wanted = _without_space(chunk)
        while len(read) < len(wanted):
            if place >= len(text):
                return False
            read += _without_space(text[place : place + _CHUNK])
            place += _CHUNK
        if not read.startswith(wanted):
            return False
        read = read[len(wanted) :]
    return not read and len(text) - place < _CHUNK and not text[place:].strip()


def _without_space(text: str) -> str:
    return "".join(text.split())


def json_bytes(text: str, limit: int) -> int:
    """Return the bytes of a text in JSON; some number beyond the limit if the text certainly has more."""
    return len(text) + 2 if len(text) > limit else len(encoded(text))


def both_ends(text: str, room: int) -> tuple[str, str]:
    """Return both ends of a text, together of at most so many bytes in JSON, without quotation marks.

    Of lines, both are whole ones.
    """
    room = max(room, 0)
    head = text[: _fitting(text[: room * 2 // 3], room * 2 // 3)]
    end = head.rfind("\n", len(head) // 2)
    head = head[:end] if end > 0 else text[: border_before(text, len(head))]
    tail = text[max(len(head), len(text) - room // 3) :][::-1]  # `_fitting` measures from the beginning
    tail = tail[: _fitting(tail, room // 3)][::-1]
    start = tail.find("\n", 0, len(tail) // 2 + 1)
    tail = tail[start + 1 :] if start >= 0 else text[border_after(text, len(text) - len(tail)) :]
    return head, tail


def pieces(text: str, size: int) -> Iterator[str]:
    """Yield pieces of a text, each of at most so many bytes in JSON, without quotation marks.

    A piece goes up to the end of a line where there is one.
    """
    start = 0
    while start < len(text):
        beginning = text[start : start + size]
        beginning = beginning[: _fitting(beginning, size)]
        is_last = start + len(beginning) >= len(text)
        end = 0 if is_last else beginning.rfind("\n", len(beginning) // 2) + 1
        stop = start + (end or len(beginning) or 1)
        border = border_before(text, stop)
        stop = border if border > start else stop
        yield text[start:stop]
        start = stop


def _fitting(text: str, size: int) -> int:
    """Return how many characters of the beginning of a text have so many bytes in JSON, at most."""
    if len(encoded(text)) - 2 <= size:
        return len(text)
    low, high = 0, len(text)
    while low < high:  # what a text has in JSON is what its parts have
        middle = (low + high + 1) // 2
        more = len(encoded(text[low:middle])) - 2
        if more <= size:
            low, size = middle, size - more
        else:
            high = middle - 1
    return low
