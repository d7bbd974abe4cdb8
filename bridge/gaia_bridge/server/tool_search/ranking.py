"""Ranked search: tools by words, the best first (BM25), in an index of SQLite's in memory.

Words are stemmed, names count most, and `readFile`, `read_file` and `read-file` are two words.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gaia_bridge.server.tool_search.search import Definition, Found, SearchError, as_limit
from gaia_bridge.text.json_types import is_array, is_object

if TYPE_CHECKING:
    from sqlite3 import Connection

_MAX_WORDS: Final = 32
"""Words of a query; what a model pastes beyond that says nothing about a tool."""

_TEXT: Final = 10_000
"""Characters of each field that are indexed."""

_MAX_PARAMETERS: Final = 500
"""Parameters of one tool that are indexed, those of nested objects included."""

_WEIGHTS: Final = (8.0, 2.0, 1.0)
"""What a word counts in the name, the description, and the parameters."""

_PREFIX: Final = 3
"""Letters from which on a word is also the beginning of others: `repo` of `repository`."""

_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; a name in camel, snake or kebab case is several."""
    return _WORD.findall(_HUMP.sub(" ", text).lower())


class ToolRanking:
    """An index of tools, made when it is first needed and again when they changed. Safe to use from several threads.

    A tool that changed is another object: definitions are replaced, and not changed in place.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indexed: dict[str, Definition] = {}
        self._index: Connection | None = None

    def search(self, tools: Mapping[str, Definition], query: str | None, limit: object) -> Found:
        """The tools that have to do with the words of a query, the best first, and among equals in their order.

        Args:
            query: Words; none of them has to occur, and one that occurs in few tools counts more.
            limit: How many are told, as `as_limit` understands it.

        Raises:
            SearchError: There is no word in the query.
        """
        words = list(dict.fromkeys(words_of(query or "")))[:_MAX_WORDS]
        if not words:
            raise SearchError("the query has no words in it", "Say in a few words what the tool should do")
        with self._lock:
            index = self._current(tools)
            rows: list[tuple[int]] = index.execute(
                "SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, ?, ?, ?), rowid",
                (" OR ".join(map(_term, words)), *_WEIGHTS),
            ).fetchall()
        names = list(tools)
        ranked = [names[number] for (number,) in rows[: as_limit(limit)]]
        return Found("query", query or "", len(rows), ranked)

    def _current(self, tools: Mapping[str, Definition]) -> Connection:
        """The index of these tools."""
        if self._index is not None and _are_same(self._indexed, tools):
            return self._index
        if self._index is None:
            self._index = _empty_index()
            weakref.finalize(self, self._index.close)
        self._indexed = dict(tools)
        rows = ((number, *_fields(name, tool)) for number, (name, tool) in enumerate(tools.items()))
        with self._index:
            self._index.execute("DELETE FROM tools")
            self._index.executemany("INSERT INTO tools(rowid, name, description, parameters) VALUES (?, ?, ?, ?)", rows)
        return self._index


def _empty_index() -> Connection:
    import sqlite3  # which most programs never need

    index = sqlite3.connect(":memory:", check_same_thread=False)
    index.execute("CREATE VIRTUAL TABLE tools USING fts5(name, description, parameters, tokenize='porter unicode61')")
    return index


def _are_same(indexed: Mapping[str, Definition], tools: Mapping[str, Definition]) -> bool:
    return len(indexed) == len(tools) and all(
        old == new and indexed[old] is tools[new] for old, new in zip(indexed, tools, strict=True)
    )


def _term(word: str) -> str:
    """A word in SQLite's query language, in quotes, so that nothing in it is an operator."""
    return f'"{word}" OR "{word}"*' if len(word) >= _PREFIX else f'"{word}"'


def _fields(name: str, tool: Definition) -> tuple[str, str, str]:
    title = tool.get("title") or ""
    return (
        _indexable([name, "".join(words_of(name)), str(title)]),
        _indexable([str(tool.get("description") or "")]),
        _indexable(_parameters(tool.get("inputSchema"))),
    )


def _indexable(texts: Iterable[str]) -> str:
    return " ".join(words_of(" ".join(texts)[:_TEXT])).encode("utf-8", "replace").decode("utf-8")


def _parameters(schema: Any) -> list[str]:
    """The names and descriptions of parameters, from the outside in."""
    texts: list[str] = []
    waiting: list[Any] = [schema]
    while waiting and len(texts) < _MAX_PARAMETERS:
        part = waiting.pop(0)
        if not is_object(part):
            continue
        properties = part.get("properties")
        for name, inner in properties.items() if is_object(properties) else ():
            texts.append(name)
            if is_object(inner) and isinstance(inner.get("description"), str):
                texts.append(inner["description"])
            waiting.append(inner)
        waiting.append(part.get("items"))
        for keyword in ("allOf", "anyOf", "oneOf"):
            if is_array(part.get(keyword)):
                waiting.extend(part[keyword])
    return texts
