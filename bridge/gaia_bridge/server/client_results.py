"""Shortens results for clients that pass on only so much of them to their models, by the table of clients.

The part that is too much is kept for that client, and can be read in pieces: as a resource, or with a tool of ours
where the client gives its model no way to read resources.

Clients of early revisions refuse a whole result for one block of content of a kind that they do not know: it becomes
one that they know.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY
from gaia_bridge.calls.results.client_shortening import ClientCut, Shortened, shortened_for_client
from gaia_bridge.calls.results.conversion import error_result, is_input_required
from gaia_bridge.calls.results.kept_results import RESULT_SCHEME, KeptResults
from gaia_bridge.model import Change
from gaia_bridge.protocol.kinds import TOOL
from gaia_bridge.protocol.meta import SERVER_INFO_KEY
from gaia_bridge.protocol.names import known_name
from gaia_bridge.protocol.revisions import LATEST_HANDSHAKE
from gaia_bridge.protocol.vocabulary import for_modern_questions
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.known_clients import KnownClient, known_client, result_limits
from gaia_bridge.settings import Settings
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array, is_object

_THREADS: Final = 1
"""Large results of one endpoint that threads shorten at once: more would take the loop's time from it."""
_UNKNOWN: Final[Mapping[str, frozenset[str]]] = {
    "2024-11-05": frozenset({"audio", "resource_link"}),
    "2025-03-26": frozenset({"resource_link"}),
}
"""The kinds of content that each revision lacks."""
_OF_MODERN_RESULTS: Final = ("resultType", "ttlMs", "cacheScope")
"""The fields that results of earlier revisions do not have."""
_COMPLETE: Final = {"resultType": "complete"}
_KEPT_BY_NOBODY: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class ClientResults:
    """The results of one endpoint, as its clients are given them."""

    def __init__(self, catalog: Catalog, settings: Settings) -> None:
        self._catalog = catalog
        limits = settings.clients
        self._large = settings.agent.large_result_bytes
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._own = {known_name(name): size for name, size in limits.results}
        self._uses_table = limits.known_results
        self._kept = KeptResults(limits.kept_seconds, limits.kept, limits.kept_bytes)
        self._owners: set[Hashable] = set()
        sizes = (*(result_limits() if self._uses_table else ()), *self._own.values())
        self._least = min(filter(None, sizes), default=sys.maxsize)
        """Bytes that every client passes on."""
        self._stamp: JSON | None = None
        catalog.listen(self._on_change)

    def of_era(self, call: Call, result: JSON, *, is_cacheable: bool) -> JSON:
        """Return a result as the revision of its client has it.

        Since 2026-07-28 that is with its kind, its server, and how long it may be kept where that is said.
        """
        if not call.modern:
            if call.connection.revision != LATEST_HANDSHAKE:
                result = content_for(call.connection.revision, call.method, result)
            return {key: result[key] for key in result if key not in _OF_MODERN_RESULTS}
        if is_input_required(result):
            ids = known_client(str(call.client_info.get("name", ""))).wants_link_ids
            whole = for_modern_questions(result, call.client_capabilities, with_link_ids=ids)
        else:
            whole = (_KEPT_BY_NOBODY if is_cacheable else _COMPLETE) | result
        about, stamp = result.get("_meta"), self.stamp()
        # `_meta` may hold anything in results of other methods than those of the core.
        return {**whole, "_meta": {**stamp, **about} if is_object(about) else stamp}

    def stamp(self) -> JSON:
        """Return the `_meta` of results for clients of 2026-07-28."""
        if self._stamp is None:
            self._stamp = {SERVER_INFO_KEY: self._catalog.implementation(modern=True)}
        return self._stamp

    def _on_change(self, change: Change) -> None:
        if change.kind.is_offer:
            self._stamp = None

    def may_change(self, result: JSON, size: int) -> bool:
        """Return whether some client is given another result of a tool of so many bytes, which `fitted` returns."""
        return size > self._least or "structuredContent" in result

    async def fitted(self, call: Call, result: JSON, size: int) -> JSON:
        """Return the result of a tool of so many bytes as its client passes it on; the same object if that is all."""
        limit, facts = self._limit(call)
        shadows = facts.prefers_structured and "structuredContent" in result
        if size <= limit and not shadows:
            return result
        if not limit:
            if not (shadows and self._uses_table):
                return result
            limit = sys.maxsize
        reader = "" if facts.reads_resources else self._reader_name()
        cut = ClientCut(limit, call.principal, self._kept.size, reader, facts.prefers_structured)
        name: str = call.params["name"]
        shorten = partial(shortened_for_client, result, name, self._catalog.tool_definition(name), cut)
        if size > self._large:
            shortened = await anyio.to_thread.run_sync(shorten, limiter=self._threads)
        else:
            shortened = shorten()
        if shortened is None or not self._keeps(call, shortened):
            return result
        fitted = shortened.result
        return fitted if call.modern else content_for(call.connection.revision, call.method, fitted)

    def _keeps(self, call: Call, shortened: Shortened) -> bool:
        """Keep the shortened part until the client is gone; return whether its link leads somewhere."""
        if shortened.kept is None:
            return True
        if not self._kept.keep(shortened.kept):
            return False
        if call.principal not in self._owners:
            self._owners.add(call.principal)
            if not call.when_client_leaves(partial(self._forget, call.principal)):
                self._owners.discard(call.principal)
        return True

    def capabilities(self, call: Call) -> JSON:
        """Return the capabilities declared to a client so that it reads the results that are kept for it."""
        size, facts = self._limit(call)
        has_tools = any(source.features.tools for source in self._catalog.sources)
        return {"resources": {}} if size and facts.reads_resources and has_tools else {}

    def read(self, call: Call) -> JSON | None:
        """Return the result of a `resources/read` of a result kept for that client; `None` for everything else."""
        uri: str = call.params["uri"]
        contents = self._kept.contents(uri, call.principal) if uri.startswith(RESULT_SCHEME) else None
        return None if contents is None else {"contents": contents}

    def with_reader(self, call: Call, definitions: list[JSON]) -> list[JSON]:
        """Return the tools that a client is listed, with ours if its model cannot read kept results in another way."""
        if not definitions or not self._is_given_reader(call):
            return definitions
        return [*definitions, _definition(self._reader_name())]

    def called(self, call: Call, name: str, arguments: Mapping[str, Any]) -> JSON | None:
        """Return the result of a call of our tool; `None` if another tool is called."""
        if not self._is_given_reader(call) or name != self._reader_name():
            return None
        uri = arguments.get("uri")
        kept, _, number = str(uri).removeprefix(RESULT_SCHEME).partition("/")
        address, piece = RESULT_SCHEME + kept, _piece(arguments.get("piece"), number)
        contents = self._kept.contents(f"{address}/{piece}", call.principal) if piece else None
        if contents is None:
            return error_result(
                f"There is no piece {one_line(str(piece), 40)} of {one_line(str(uri), 100)}. Expected a uri and a piece"
                " as the shortened result told them; it is kept for some time only, so call its tool again"
            )
        texts = f"[Piece {piece} of {self._kept.pieces(address)}]", contents[0]["text"]
        return {"resultType": "complete", "content": [{"type": "text", "text": text} for text in texts]}

    def given_whole(self, client_info: Mapping[str, Any]) -> int:
        """Return the most bytes of a result of texts that a client, which is no bridge, is given unchanged."""
        return min(self._limit_of(client_info)[0] or sys.maxsize, self._large)

    def _limit(self, call: Call) -> tuple[int, KnownClient]:
        """Return the bytes that the client of a call passes on, 0 for any number; and the other facts about it."""
        if HOPS_META_KEY in call.meta:  # a bridge knows its client, and keeps the rest where that client can read it
            return 0, KnownClient()
        return self._limit_of(call.client_info)

    def _limit_of(self, client_info: Mapping[str, Any]) -> tuple[int, KnownClient]:
        name = str(client_info.get("name", ""))
        facts = known_client(name)
        own = self._own.get(known_name(name)) if self._own else None
        if own is not None:
            return own, facts
        return (facts.result or 0) if self._uses_table else 0, facts

    def _is_given_reader(self, call: Call) -> bool:
        size, facts = self._limit(call)
        return bool(size) and not facts.reads_resources

    def _reader_name(self) -> str:
        return self._catalog.own_names("read_result")[0]

    def _forget(self, client: Hashable) -> None:
        self._owners.discard(client)
        self._kept.forget(client)


def lost_result(uri: str) -> str:
    """Return the message for a client that reads a result that is not kept for it; empty for any other URI."""
    if not uri.startswith(RESULT_SCHEME):
        return ""
    return (
        f"Resource not found: {one_line(uri, 100)}. It is kept for some time only, for the client that was given it, so"
        " call its tool again"
    )


def _piece(wanted: object, number: str) -> object:
    """Return the piece that a model wants: it may write `null` for none, and `2.0` for the second."""
    if wanted is None:
        return number or 1
    return int(wanted) if isinstance(wanted, float) and wanted.is_integer() else wanted


def _definition(name: str) -> JSON:
    uri = {"type": "string", "description": f"What the shortened result said, {RESULT_SCHEME}..."}
    piece = {"type": "integer", "description": "Which piece, from 1.", "default": 1, "minimum": 1}
    return {
        "name": name,
        "title": "Read a long result",
        "description": "Read a result that was too long to be shown whole, piece by piece.",
        "inputSchema": {"type": "object", "properties": {"uri": uri, "piece": piece}, "required": ["uri"]},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def content_for(revision: str, method: str, result: JSON) -> JSON:
    """Return a result with content and definitions of tools that clients of a revision before 2025-11-25 know."""
    if method == TOOL.method and is_array(tools := result.get(TOOL.field)):
        # Only 2025-11-25 has tools that run as tasks.
        return {**result, "tools": [{key: tool[key] for key in tool if key != "execution"} for tool in tools]}
    unknown = _UNKNOWN.get(revision)
    if unknown is None:
        return result
    if method == "tools/call" and is_array(blocks := result.get("content")):
        return {**result, "content": [_block(block, number, unknown) for number, block in enumerate(blocks)]}
    if method == "prompts/get" and is_array(messages := result.get("messages")):
        shown = [
            {**message, "content": _block(message.get("content"), number, unknown)} if is_object(message) else message
            for number, message in enumerate(messages)
        ]
        return {**result, "messages": shown}
    return result


def _block(block: Any, number: int, unknown: frozenset[str]) -> Any:
    """Return a block of a known kind: sound as a resource, a link as a sentence about it."""
    kind = block.get("type") if is_object(block) else None
    if kind not in unknown:
        return block
    about = {key: block[key] for key in ("annotations", "_meta") if key in block}
    if kind == "audio":
        # The address of a part of the same message (RFC 2392): a resource has to have one.
        sound = {"uri": f"cid:{number}@content", "mimeType": block.get("mimeType"), "blob": block.get("data")}
        return {"type": "resource", "resource": sound, **about}
    from gaia_bridge.calls.results.rendering import ContentStyle, render_block  # few need it

    return {"type": "text", "text": render_block(block, ContentStyle()), **about}
