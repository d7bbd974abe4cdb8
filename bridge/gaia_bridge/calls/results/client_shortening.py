"""Results of which a client passes on only so much to its model: what is too large becomes both its ends and a link.

What it takes is in proportion to what is kept; it changes nothing but what it returns, so that a thread can do it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from gaia_bridge.calls.results.json_chunks import is_json_of, json_chunks
from gaia_bridge.calls.results.kept_results import Kept, new_uri
from gaia_bridge.calls.results.text_pieces import both_ends, json_bytes, pieces
from gaia_bridge.constants import KIB
from gaia_bridge.protocol.encoding import encoded
from gaia_bridge.text.json_text import from_json
from gaia_bridge.text.json_types import JSON, is_larger, is_object

_LINK: Final = 700
"""Bytes of a link and of what is said of it to a model, at most."""

_TYPE: Final = 100
"""Characters of a media type; a longer one is none."""

_READ_WHOLE: Final = 256 * KIB
"""Characters of a text that is parsed to see whether it says what structured content does; a longer one is compared
as it is written."""


class ClientCut(Struct, frozen=True):
    """How the result of a call is made smaller for the model of a client that shows it no more."""

    size: int
    """Bytes of text that it may have, in JSON."""
    owner: Hashable
    """Who may read what is kept."""
    most: int
    """Bytes that can be kept. What is larger stays in its result."""
    reader: str = ""
    """The tool that reads it; empty where the model can read resources."""
    drops_structured: bool = False
    """Whether structured content may go even if a schema promises it, because it would take the place of the rest."""


class Shortened(Struct, frozen=True):
    """A result that was made smaller."""

    result: JSON
    kept: Kept | None = None
    """What is to be kept for it, so that its link leads somewhere."""


def shortened_for_client(result: JSON, tool: str, definition: JSON | None, cut: ClientCut) -> Shortened | None:
    """A result of whose text a client passes on all; `None` if it passes on all of it, or it cannot be kept.

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
        return None
    blocks = cast("list[JSON]", content)
    structured = result.get("structuredContent")
    may_drop = structured is not None and (cut.drops_structured or "outputSchema" not in (definition or {}))
    is_over = may_drop and _is_over(structured, cut.size)
    # A picture would not be shown beside it.
    drops = is_over or (may_drop and cut.drops_structured and any(map(_is_more_than_text, blocks)))
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
    """Both ends of a text that have so many bytes, and a link to all of it.

    Args:
        text: The text.
        tool: The name of the tool.
        alone: The block whose text it is, if it is of only one.
        cut: How small it is to be, and for whom.
        room: Bytes of both ends.
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
    told = f"\n[{left_out} of {len(text)} characters are left out here. {how}, to read all.]\n"
    resource = alone.get("resource")
    mime = resource.get("mimeType") if is_object(resource) else None
    mime = mime if isinstance(mime, str) and len(mime) <= _TYPE else "text/plain"
    link: JSON = {"type": "resource_link", "uri": uri, "name": f"result of {tool[:100]}", "mimeType": mime}
    link["size"] = size
    ends: JSON = {"type": "text", "text": head + told + tail}
    if "annotations" in alone:
        ends["annotations"] = link["annotations"] = alone["annotations"]
    return [ends, link], Kept(uri, [{"mimeType": mime}], size, cut.owner, written)


def _largest(texts: Mapping[int, str], stays: int) -> tuple[list[int], int]:
    """The places of the largest texts, in order, as few as leave no more than so many bytes in the others; and how many
    bytes those have.
    """
    left, small = stays, set[int]()
    for place in sorted(texts, key=lambda place: (len(texts[place]), -place)):
        size = json_bytes(texts[place], left)
        if size > left:
            break
        left -= size
        small.add(place)
    return [place for place in texts if place not in small], stays - left


def _is_over(value: Any, size: int) -> bool:
    """Whether a value has more than so many bytes in JSON."""
    return is_larger(value, size) or len(encoded(value)) > size


def _are_over(texts: Collection[str], size: int) -> bool:
    """Whether texts have more than so many bytes in JSON, together."""
    for text in texts:
        size -= json_bytes(text, size)
        if size < 0:
            return True
    return False


def _text_of(block: Any) -> str | None:
    """The text of a block of content, if it is one."""
    match block:
        case {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case _:
            return None


def _is_more_than_text(block: Any) -> bool:
    return is_object(block) and block.get("type") != "text"


def _tells(blocks: Sequence[JSON], structured: Any, size: int) -> bool:
    """Whether a text of the content says all that the structured content does, which has more than so many bytes."""
    said = [structured]
    if is_object(structured) and len(structured) == 1:
        said += structured.values()
    # No character has more than four bytes in JSON without being escaped.
    texts = (text for block in blocks if (text := _text_of(block)) is not None and len(text) > size // 6)
    return any(text in said or any(_says(text, value) for value in said) for text in texts)


def _says(text: str, value: Any) -> bool:
    """Whether a text is the JSON of a value."""
    if len(text) > _READ_WHOLE:
        return is_json_of(text, value)
    try:
        return bool(from_json(text) == value)
    except ValueError:
        return False


def _without_structured(result: JSON, content: Sequence[JSON]) -> JSON:
    kept = {key: value for key, value in result.items() if key != "structuredContent"}
    return {**kept, "content": list(content)}
