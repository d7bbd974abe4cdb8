"""The parts taken out of results, for as long as they can be read: bounded, and shared fairly among their owners."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from gaia_bridge.text.json_types import JSON

RESULT_SCHEME: Final = "gaia-result://"


class Kept(Struct):
    """The contents behind one link."""

    uri: str
    contents: Sequence[JSON]
    """Contents of a resource; of one that is read in pieces, without its text."""
    size: int
    """Bytes."""
    owner: Hashable = None
    """The owner, who alone may read the contents."""
    pieces: tuple[bytes, ...] = ()
    """The text in UTF-8, in pieces."""
    until: float = 0.0


class _Use(Struct):
    """The use of space by one owner."""

    size: int = 0
    entries: int = 0


def new_uri() -> str:
    """Return an address that nobody can guess; in lower case, as some editors write the beginning of every URI so."""
    return f"{RESULT_SCHEME}{secrets.token_hex(16)}"


class KeptResults:
    """The contents behind all links: so many, of so many bytes together, for so many seconds each.

    Each owner has an equal share of the space for certain, and the rest that the others leave of theirs. Of an owner
    with more than its share, the oldest contents go when somebody else needs room.
    """

    def __init__(self, seconds: float, entries: int, size: int) -> None:
        self._seconds = seconds
        self._entries = entries
        self.size = size
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._uses: dict[Hashable, _Use] = {}

    def keep(self, kept: Kept) -> bool:
        """Keep contents, in place of those that have been kept for long enough; return `False` if there is no room."""
        now = time.monotonic()
        while self._kept and self._kept[oldest := next(iter(self._kept))].until < now:
            self._drop(oldest)
        if not self._made_room(kept.owner, kept.size):
            return False
        kept.until = now + self._seconds
        self._kept[kept.uri] = kept
        use = self._uses.setdefault(kept.owner, _Use())
        use.size += kept.size
        use.entries += 1
        return True

    def contents(self, uri: str, owner: Hashable = None) -> list[JSON] | None:
        """Return the contents of a link, whole or a piece of it; `None` if they are missing, or another owner's.

        Args:
            uri: The link; with `/2` at its end, the second piece.
        """
        name, _, number = uri.removeprefix(RESULT_SCHEME).partition("/")
        address = RESULT_SCHEME + name
        kept = self._kept.get(address)
        if kept is None or kept.owner != owner:
            return None
        if time.monotonic() >= kept.until:
            self._drop(address)
            return None
        pieces = kept.pieces
        if number:
            is_number = number.isascii() and number.isdecimal() and len(number) <= 9
            if not is_number or not 0 < int(number) <= len(pieces):
                return None
            pieces = (pieces[int(number) - 1],)
        if not pieces:
            return [{**contents, "uri": uri} for contents in kept.contents]
        text = b"".join(pieces).decode(errors="surrogatepass")
        return [{**contents, "text": text, "uri": uri} for contents in kept.contents]

    def pieces(self, uri: str) -> int:
        """Return the number of pieces in which the contents of a link can be read; 0 if they have none."""
        kept = self._kept.get(uri)
        return 0 if kept is None else len(kept.pieces)

    def forget(self, owner: Hashable) -> None:
        """Forget everything that was kept for an owner, who is gone."""
        for uri in [*self._of(owner)]:
            self._drop(uri)

    def _made_room(self, owner: Hashable, size: int) -> bool:
        """Drop contents to make room for one more of an owner; return `False` if others would lose their share."""
        own = self._uses.get(owner, _Use())
        others = [use for other, use in self._uses.items() if other != owner]
        sizes = _allowance(self.size, [use.size for use in others])
        entries = _allowance(self._entries, [use.entries for use in others])
        if size > sizes or entries < 1:
            return False
        for uri in [*self._of(owner)]:
            if own.size + size <= sizes and own.entries < entries:
                break
            self._drop(uri)
        while sum(use.size for use in self._uses.values()) + size > self.size:
            self._drop_of_largest(owner, "size")
        while len(self._kept) + 1 > self._entries:
            self._drop_of_largest(owner, "entries")
        return True

    def _drop_of_largest(self, spared: Hashable, measure: str) -> None:
        """Drop the oldest contents of the owners that have the most, but for one owner."""
        others = {owner: getattr(use, measure) for owner, use in self._uses.items() if owner != spared}
        most = max(others.values())
        self._drop(next(uri for uri, kept in self._kept.items() if others.get(kept.owner) == most))

    def _of(self, owner: Hashable) -> Iterator[str]:
        return (uri for uri, kept in self._kept.items() if kept.owner == owner)

    def _drop(self, uri: str) -> None:
        kept = self._kept.pop(uri)
        use = self._uses[kept.owner]
        use.size -= kept.size
        use.entries -= 1
        if not use.entries:
            del self._uses[kept.owner]


def _allowance(whole: int, others: Sequence[int]) -> int:
    """Return how much of the whole one owner may have beside others of that use: each has its share for certain."""
    share = whole // (len(others) + 1)
    return whole - sum(min(used, share) for used in others)
