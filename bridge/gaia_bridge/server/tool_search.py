"""Search among many tools, by regular expression, or by words with the best first; agents search with it as well.

A search that cannot be done raises `SearchError`, of which `refused` makes an answer.

Tools are looked up by name in a mapping whose order is kept. Their definitions are MCP's, or have its fields:
`name`, `description`, `inputSchema`, `annotations`.

Regular expressions that a model wrote are matched in time linear in the text: the engine is the one behind JSON
Schema's `pattern`, which does not backtrack. Python's own only says what is wrong with a pattern that the engine
refused. Words are ranked (BM25) in an index of SQLite's in memory: they are stemmed, names count most, and `readFile`,
`read_file` and `read-file` are two words.
"""

from __future__ import annotations

import re
import threading
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from gaia_bridge.text.json_types import JSON, is_array, is_object

if TYPE_CHECKING:
    from sqlite3 import Connection

Definition = Mapping[str, Any]
DEFAULT_LIMIT: Final = 10
"""Tools of one answer, by default. More is more to read than a model needs to choose one."""
MAX_LIMIT: Final = 50
"""Tools of one answer, at most."""
_ANYTHING: Final = ".*"
_SUMMARY: Final = 150
"""Characters of a description that say enough to choose a tool."""
_SEARCHED: Final = 10_000
"""Characters of a description that are searched; no tool needs more to describe its purpose."""
MAX_PATTERN: Final = 500
"""Characters of a pattern: some forty tool names with `|` between them."""
_COMPILED: Final = 128 * 1024
"""Bytes of a compiled pattern, with which its cost per character of text grows; most have a few hundred."""
_STATES: Final = 1024 * 1024
"""Bytes of the engine's memory while it matches."""
_MAX_WORDS: Final = 32
"""Words of a query; the further words that a model pastes help to find no tool."""
_TEXT: Final = 10_000
"""Characters of each field that are indexed."""
_MAX_PARAMETERS: Final = 500
"""Parameters of one tool that are indexed, those of nested objects included."""
_WEIGHTS: Final = (8.0, 2.0, 1.0)
"""The weights of a word in the name, the description, and the parameters."""
_PREFIX: Final = 3
"""Letters from which on a word is also the beginning of others: `repo` of `repository`."""
_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class SearchError(ValueError):
    """A search that cannot be done: the value that came, the one that was expected, and a better one."""

    def __init__(self, problem: str, suggestion: str) -> None:
        super().__init__(problem)
        self.suggestion = suggestion


class Matches(Struct, frozen=True):
    """The result of a search."""

    by: str
    """`pattern` or `query`."""
    text: str
    total: int
    names: Sequence[str]
    """The names of the tools in the answer, in the order of the tools or the best first."""


def as_limit(value: object) -> int:
    """Return the number of tools that `value` asks for: 1 to `MAX_LIMIT`, `DEFAULT_LIMIT` if unclear.

    Models write `"3"`, `3.0`, `0` and `null` as well.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return DEFAULT_LIMIT
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:  # nor is NaN
        return DEFAULT_LIMIT
    return int(min(value, MAX_LIMIT))


def search_text(arguments: Mapping[str, Any], key: str) -> str | None:
    """Return the text of a search, by an argument's name, or `None`; raise `SearchError` for anything else."""
    value = arguments.get(key)
    if value is None or isinstance(value, str):
        return value
    problem = f"{key} has to be text, got {type(value).__name__}"
    raise SearchError(problem, f'Write it as text, like {{"{key}": "file"}}')


def search_by_pattern(tools: Mapping[str, Definition], pattern: str | None, limit: object) -> Matches:
    """Return the tools whose names or descriptions match a regular expression, in their order; all without one.

    Args:
        limit: How many tools the answer has, as `as_limit` understands it.

    Raises:
        SearchError: The pattern is none.
    """
    pattern = pattern or _ANYTHING
    try:
        compiled = Pattern(pattern)
    except PatternError as error:
        cure = "Use a simple pattern, such as 'file', 'read|write' or '^git_'; '.*' finds every tool"
        raise SearchError(str(error), cure) from None
    names = [
        name
        for name, definition in tools.items()
        if compiled.matches(name) or compiled.matches(str(definition.get("description") or "")[:_SEARCHED])
    ]
    return Matches("pattern", pattern, len(names), names[: as_limit(limit)])


def is_destructive(definition: Definition) -> bool:
    """Return whether a tool's annotations say that it may destroy something (MCP `annotations.destructiveHint`)."""
    annotations = definition.get("annotations")
    return is_object(annotations) and annotations.get("destructiveHint") is True


def summary(name: str, definition: Definition) -> JSON:
    """Return a tool for an answer: its name, the beginning of its description, and whether it is dangerous."""
    description = " ".join(str(definition.get("description") or "").split())
    shown = description if len(description) <= _SUMMARY else f"{description[:_SUMMARY]}..."
    return {"name": name, "description": shown, "dangerous": is_destructive(definition)}


def success(matches: Matches, tools: Sequence[JSON], message: str, **more: Any) -> JSON:
    """Return the answer to a search with matches: tools, and the use that a model can make of them."""
    if missing := matches.total - len(tools):
        message += f" {missing:,} more match: search for something narrower, or with a higher limit."
    count = {matches.by: matches.text, "total_matches": matches.total}
    return {"status": "success", **count, "tools": tools, **more, "message": message}


def no_matches(matches: Matches) -> JSON:
    """Return the answer to a search without matches."""
    return {
        "status": "no_matches",
        "message": f"No tool matches the {matches.by} {matches.text!r}",
        "suggestion": "Try something broader: a single word such as 'file', 'read' or 'web', or the pattern '.*'",
    }


def refused(error: SearchError) -> JSON:
    """Return the answer to a search that cannot be done."""
    return {"status": "error", "error": str(error), "suggestion": error.suggestion}


class PatternError(ValueError):
    """A pattern that cannot be used; the message says why."""


class Pattern:
    """A compiled pattern. It may match anywhere in a text, in upper or lower case.

    Args:
        text: The pattern, as for Python's `re`, without look-around and back references.

    Raises:
        PatternError: It is none, or more than is allowed.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN:
            raise PatternError(f"the pattern has {len(text):,} characters; at most {MAX_PATTERN} are allowed")
        try:
            import jsonschema_rs

            options = jsonschema_rs.RegexOptions(size_limit=_COMPILED, dfa_size_limit=_STATES)
            self._validator = jsonschema_rs.validator_for({"pattern": f"(?i){text}"}, pattern_options=options)
        except ValueError:
            raise PatternError(_explanation(text)) from None

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in a text."""
        try:
            return self._validator.is_valid(text)
        except ValueError:  # lone surrogates, of which the engine knows nothing
            return self._validator.is_valid(text.encode("utf-8", "replace").decode("utf-8"))


def _explanation(text: str) -> str:
    try:
        with warnings.catch_warnings():  # of what a later Python would make of it
            warnings.simplefilter("ignore")
            re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return f"the pattern is no regular expression: {error}"
    return (
        "the pattern uses something that is not supported here: look-around such as (?=x), back references such as \\1,"
        " \\Z, comments, a { without a backslash that begins no repetition, or repetitions that multiply"
    )


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; a name in camel, snake or kebab case has several."""
    return _WORD.findall(_HUMP.sub(" ", text).lower())


class ToolRanking:
    """An index of tools, made when it is first needed and again when they changed. Safe to use from several threads.

    A tool that changed is another object: definitions are replaced, and not changed in place.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indexed: dict[str, Definition] = {}
        self._index: Connection | None = None

    def search(self, tools: Mapping[str, Definition], query: str | None, limit: object) -> Matches:
        """Return the tools that match words of a query, the best first, and among equals in their order.

        None of the words has to occur, and one that occurs in few tools counts more.

        Args:
            limit: How many tools the answer has, as `as_limit` understands it.

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
        return Matches("query", query or "", len(rows), ranked)

    def _current(self, tools: Mapping[str, Definition]) -> Connection:
        if self._index is None:
            import sqlite3  # which most programs never need

            index = sqlite3.connect(":memory:", check_same_thread=False)
            weakref.finalize(self, index.close)
            columns = "name, description, parameters, tokenize='porter unicode61'"
            index.execute(f"CREATE VIRTUAL TABLE tools USING fts5({columns})")
            self._index = index
        elif _are_same(self._indexed, tools):
            return self._index
        self._indexed = dict(tools)
        rows = ((number, *_fields(name, tool)) for number, (name, tool) in enumerate(tools.items()))
        with self._index:
            self._index.execute("DELETE FROM tools")
            self._index.executemany("INSERT INTO tools(rowid, name, description, parameters) VALUES (?, ?, ?, ?)", rows)
        return self._index


def _are_same(indexed: Mapping[str, Definition], tools: Mapping[str, Definition]) -> bool:
    return len(indexed) == len(tools) and all(
        old == new and indexed[old] is tools[new] for old, new in zip(indexed, tools, strict=True)
    )


def _term(word: str) -> str:
    """Return a word in SQLite's query language, in quotes, so that nothing in it is an operator."""
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
    """Return the names and descriptions of parameters, from the outside in."""
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
