"""Long lists in pages (MCP, server/utilities/pagination): bounded in number and bytes, in the order of the list."""

from __future__ import annotations

from collections.abc import Sequence

from gaia_bridge.contract import ClientRequest, Source
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.json_schema.validation import shape_problem
from gaia_bridge.protocol.definition_repairs import repaired, with_portable_output
from gaia_bridge.protocol.kinds import DefinitionKind
from gaia_bridge.protocol.vocabulary import definition_problem, for_legacy, for_modern
from gaia_bridge.settings import PageLimits
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_array, is_object

_MARK = "from-"
"""The first characters of a cursor; the number of the page's first item follows."""


class Pager:
    """Cuts one list, which is replaced as a whole when it changes."""

    def __init__(self, limits: PageLimits) -> None:
        self._limits = limits
        self._items: Sequence[JSON] = ()
        self._ends: list[int] = []

    def page(self, items: Sequence[JSON], cursor: str | None) -> tuple[Sequence[JSON], str | None]:
        """Return one page, and the cursor of the next, if there is one.

        Args:
            cursor: Where the page begins, from an earlier page; at the start if `None`. It stays valid when the
                list changes; clients are notified of that and list again.

        Raises:
            ProtocolError: No page ever gave that cursor.
        """
        if items is not self._items:
            self._items, self._ends = items, self._cut(items)
        start = 0 if cursor is None else _number(cursor)
        end = next((end for end in self._ends if end > start), len(items))
        if end >= len(items):
            return items if start == 0 else items[start:], None
        return items[start:end], f"{_MARK}{end}"

    def _cut(self, items: Sequence[JSON]) -> list[int]:
        ends: list[int] = []
        start = size = 0
        for number, item in enumerate(items):
            more = len(to_json(item))
            if number > start and (number - start >= self._limits.items or size + more > self._limits.bytes):
                ends.append(number)
                start, size = number, 0
            size += more
        return ends


async def page_of_server(
    server: Source, kind: DefinitionKind, cursor: str | None, definitions: Sequence[JSON], request: ClientRequest
) -> JSON:
    """Return a page of a server's list as the server cuts it, with its other fields. An unread page is requested.

    Args:
        kind: The kind of the list.
        definitions: The whole list, as the client is shown it.

    Raises:
        ProtocolError: The server has no such list, or no such page.
    """
    pages = server.features.for_era(modern=request.modern).pages
    page = next((page for page in pages.get(kind.name, ()) if page.cursor == cursor), None)
    if page is None:
        unread = await server.forward(kind.method, {} if cursor is None else {"cursor": cursor}, request)
        return _fitting(kind, unread, modern=request.modern)
    shown = {definition[kind.key]: definition for definition in definitions}
    return {kind.field: [shown[key] for key in page.keys if key in shown], **page.more}


def _fitting(listed: DefinitionKind, page: JSON, *, modern: bool) -> JSON:
    """Return a page as it came from a server, with the definitions that clients of the era can be given."""
    kind = listed.name
    if not is_array(items := page.get(listed.field)):
        return page
    sound = [repaired(kind, item) for item in items if is_object(item) and shape_problem(item) is None]
    if kind == "tool":
        sound = [with_portable_output(tool)[0] for tool in sound if definition_problem(kind, tool) is None]
    if modern:
        shown = [for_modern(kind, item) for item in sound if definition_problem(kind, item) is None]
    else:
        shown = [fitted for item in sound if (fitted := for_legacy(kind, item)) is not None]
    return {**page, listed.field: shown}


def _number(cursor: str) -> int:
    digits = cursor.removeprefix(_MARK)
    if digits == cursor or not digits.isascii() or not digits.isdecimal() or len(digits) > 9:
        raise ProtocolError(INVALID_PARAMS, "Unknown cursor: list again from the start")
    return int(digits)
