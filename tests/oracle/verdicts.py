"""What a reply says, in a line; and the table of the differences that there may be."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.oracle.endpoints import MODERN, Reply
from tests.oracle.requests import Case

__all__ = ["Row", "compared", "explained", "rows"]

_TABLE: Final = Path(__file__).with_name("differences.toml")
_OWN: Final = frozenset(("serverInfo", "io.modelcontextprotocol/serverInfo", "instructions", "requestState"))
"""What every server says of itself."""


class Row(NamedTuple):
    """Differences that there may be, and why."""

    eras: tuple[str, ...]
    cases: tuple[str, ...]
    ours: str
    theirs: str
    why: str

    def covers(self, era: str, label: str, ours: str, theirs: str) -> bool:
        """Whether it is one of them."""
        return (
            era in self.eras
            and fnmatchcase(ours, self.ours)
            and fnmatchcase(theirs, self.theirs)
            and any(fnmatchcase(label, pattern) for pattern in self.cases)
        )


@cache
def rows() -> tuple[Row, ...]:
    """The table."""
    with _TABLE.open("rb") as file:
        found = tomllib.load(file)["difference"]
    both = ["handshake", "modern"]
    return tuple(
        Row(tuple(row.get("eras", both)), tuple(row["cases"]), row["ours"], row["theirs"], row["why"]) for row in found
    )


def explained(revision: str, case: Case, ours: str, theirs: str) -> list[Row]:
    """The rows that a difference is covered by."""
    era = "modern" if revision == MODERN else "handshake"
    return [row for row in rows() if row.covers(era, case.label, ours, theirs)]


def compared(case: Case, ours: Reply, theirs: Reply) -> tuple[str, str]:
    """What both say, equal if there is nothing to tell."""
    mine, other = _said(case, ours), _said(case, theirs)
    if mine != other or not (places := sorted(set(_differing(_content(ours), _content(theirs))))):
        return mine, other
    return f"{mine} with {' '.join(places)}", f"{other} with another"


def _said(case: Case, reply: Reply) -> str:
    shown = [f"allow: {reply.headers['allow']}"] if "allow" in reply.headers else []
    if "mcp-session-id" in reply.headers and is_object(case.content) and case.content.get("method") == "initialize":
        shown.append("a session")
    words = [_of_message(message) for message in reply.messages]
    if not words:
        words = ["no message"]
    return ", ".join([f"{reply.status or 'line'} {'; '.join(words)}", *shown])


def _of_message(message: Any) -> str:
    if not is_object(message):
        return f"{message!r}"
    request_id = message.get("id", "absent")
    whose = "" if request_id == 7 and not isinstance(request_id, float) else f" of {str(request_id)[:20]!r}"
    if "method" in message:
        return str(message["method"])
    if is_object(error := message.get("error")):
        return f"error {error['code']}{whose}"
    return f"result{whose}"


def _content(reply: Reply) -> list[Any]:
    return [_essence(message) for message in reply.messages]


def _essence(message: JSON) -> Any:
    """What is compared of a message: the words of an error are everybody's own (JSON-RPC 2.0, section 5.1)."""
    if is_object(error := message.get("error")):
        return {"error": error.get("data") or {}}
    return message.get("result", message.get("params"))


def _differing(ours: Any, theirs: Any, place: str = "") -> Iterable[str]:
    """Where two values are different."""
    if is_object(ours) and is_object(theirs):
        for key in ours.keys() | theirs.keys():
            if key in _OWN:
                continue
            here = f"{place}/{key.rpartition('/')[2]}"
            if key not in ours:
                yield f"-{here}"
            elif key not in theirs:
                yield f"+{here}"
            else:
                yield from _differing(ours[key], theirs[key], here)
    elif is_array(ours) and is_array(theirs) and len(ours) == len(theirs):
        for mine, other in zip(ours, theirs, strict=True):
            yield from _differing(mine, other, place)
    elif ours != theirs or type(ours) is not type(theirs):
        yield place or "/"
