"""Large results become links: a model reads the parts that it needs, not all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

from gaia_bridge.calls.results.kept_results import Kept, KeptResults, new_uri
from gaia_bridge.constants import LEAST_RESULT
from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_object

_ANY_TEXT: Final = {"type", "title", "description", "default", "examples"}
"""The keywords of a schema that permit every text."""
_LINKS: Final = 8
"""Blocks of one result that have a link each."""
_ROOM: Final = 512
"""Bytes of a link to all other blocks, and of the text about it."""


class ResultSize(Middleware):
    """Replaces large content in the result of a tool by a link to a resource that holds this content.

    The largest blocks first, until the result is small enough: of a text, its beginning stays. Of many blocks, the last
    ones become one link. Structured content is left out as well, unless the tool has an output schema, which promises
    it to the client's program. The structured content of a function that returns a text is shortened as the text is,
    as the schema permits any.

    The resource is read at the same endpoint, by whoever knows its URI, which nobody can guess. A result that was
    forgotten is a resource that is not there.

    Args:
        size: Bytes that a result may have.
        preview: Characters of a text that stay, at most.
        seconds: How long what is linked is kept.
        entries: How many links are kept.
        kept_size: Bytes that are kept for them, together. A part that is larger alone stays in its result.
    """

    capabilities: ClassVar[Mapping[str, JSON]] = {"resources": {}}

    def __init__(
        self,
        size: int = 65_536,
        *,
        preview: int = 1_000,
        seconds: float = 3_600.0,
        entries: int = 256,
        kept_size: int = 64 * 1_048_576,
    ) -> None:
        if size < LEAST_RESULT:
            raise ValueError(
                f"got a size of {size} bytes; expected at least {LEAST_RESULT}, as links have some hundred each"
            )
        self._size = size
        self._preview = preview
        self._kept = KeptResults(seconds, entries, kept_size)

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Make the result small enough."""
        return self._shortened(await call_next(request), request.name, request.tool)

    async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Return the contents of a link."""
        contents = self._kept.contents(request.name)
        return await call_next(request) if contents is None else {"contents": contents}

    def _shortened(self, result: JSON, tool: str, definition: JSON | None) -> JSON:
        """Return a result that is small enough; the same object if it is so already."""
        content = result.get("content")
        if not isinstance(content, list) or len(to_json(result)) <= self._size:
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
            if rest <= self._size or sizes[place] < LEAST_RESULT:
                break
            (block,) = blocks[place]
            blocks[place] = self._linked(block, sizes[place], tool)
            rest -= sizes[place] - len(to_json(blocks[place]))
            member = _only_text(small.get("structuredContent"), block, definition)
            if member is not None and len(blocks[place]) > 1:
                shortened = {member: blocks[place][0]["text"]}
                rest -= len(to_json(small["structuredContent"])) - len(to_json(shortened))
                small["structuredContent"] = shortened
        if rest > self._size:
            self._fold(blocks, sizes, rest, tool)
        return {**small, "content": [block for replaced in blocks for block in replaced]}

    def _linked(self, block: JSON, size: int, tool: str) -> list[JSON]:
        """Return a link to a block, after the beginning of its text; the block itself, if it is too large to keep."""
        contents = _contents_of(block)
        if contents is None or not self._kept.keep(kept := Kept(new_uri(), [contents], size)):
            return [block]
        uri = kept.uri
        link: JSON = {"type": "resource_link", "uri": uri, "name": f"result of {tool}"}
        if "mimeType" in contents:
            link["mimeType"] = contents["mimeType"]
        text = contents.get("text")
        if text is None:
            return [link]
        link["size"] = len(text.encode(errors="surrogatepass"))
        # A text of wide characters may be large, and shorter than what is to stay.
        stays = min(self._preview, len(text) // 2, self._size // 4)
        note = f"\n[The first {stays} of {len(text)} characters. All of it is the resource {uri}]"
        beginning = {"text": text[:stays] + note, "type": "text"}
        if "annotations" in block:
            beginning["annotations"] = link["annotations"] = block["annotations"]
        return [beginning, link]

    def _fold(self, blocks: list[list[JSON]], sizes: list[int], rest: int, tool: str) -> None:
        """Put the last blocks of many into one resource, as many as are too much."""
        moved: list[int] = []
        contents: list[JSON] = []
        size = 0
        for place in reversed(range(len(blocks))):
            if rest + _ROOM <= self._size:
                break
            kept = _contents_of(blocks[place][0]) if len(blocks[place]) == 1 else None
            if kept is not None and size + sizes[place] <= self._kept.size:
                moved.append(place)
                contents.append(kept)
                size += sizes[place]
                rest -= sizes[place]
        uri = new_uri()
        if len(moved) < 2 or not self._kept.keep(Kept(uri, contents[::-1], size)):
            return
        for place in moved:
            blocks[place] = []
        note = f"[{len(moved)} more blocks of content are the resource {uri}]"
        link: JSON = {"type": "resource_link", "uri": uri, "name": f"more of the result of {tool}"}
        blocks[moved[-1]] = [{"type": "text", "text": note}, link]


def _only_text(structured: Any, block: JSON, tool: JSON | None) -> str | None:
    """Return the only member of structured content, if it is that block's text, and the schema permits any text."""
    if not is_object(structured) or list(structured.values()) != [block.get("text")]:
        return None
    (member,) = structured
    properties = (tool or {}).get("outputSchema", {}).get("properties")
    schema = properties.get(member) if is_object(properties) else None
    if not is_object(schema) or schema.get("type") != "string" or not schema.keys() <= _ANY_TEXT:
        return None
    return member


def _contents_of(block: Any) -> JSON | None:
    """Return the contents of a resource for this block of content; `None` for a kind that cannot be one."""
    match block:
        case {"type": "text", "text": str(text)}:
            return {"text": text, "mimeType": "text/plain"}
        case {"type": "image" | "audio", "data": str(data), "mimeType": str(mime)}:
            return {"blob": data, "mimeType": mime}
        case {"type": "resource", "resource": resource} if is_object(resource):
            return {key: resource[key] for key in ("text", "blob", "mimeType", "_meta") if key in resource}
        case _:
            return None
