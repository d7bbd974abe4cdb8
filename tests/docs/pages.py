"""The pages of the documentation: their links, their headings, their blocks of code, as GitHub reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["DOCS", "ROOT", "Block", "Link", "anchors", "blocks", "headings", "links", "pages"]

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"

_FENCE: Final = re.compile(r"^( *)(```+)([\w+-]*)[^\n]*\n(.*?)^\1\2[ ]*$\n?", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"(`+)(?!`)(?:[^\n]|\n(?!\n))*?(?<!`)\1(?!`)")
_LINK: Final = re.compile(r"(!?)\[(?:[^\[\]]|\[[^\]]*\](?:\([^)]*\))?)*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^(#{1,6}) +(.+?) *#*$", re.MULTILINE)
_DROPPED: Final = re.compile(r"[^\w\- ]")


class Block(NamedTuple):
    """A block of code in a page."""

    page: str
    """Its page, from the folder of the project on."""
    number: int
    """Which of the page's blocks it is, from 1 on."""
    language: str
    """What is written behind the fence; empty if nothing is."""
    text: str
    start: int
    """Where its text begins in the page."""


class Link(NamedTuple):
    """A link, or a picture, of a page."""

    target: str
    is_picture: bool
    start: int
    """Where the target begins in the text."""


def pages() -> list[Path]:
    """Every page: of the project itself, of its documentation, and of the folders that have one for people."""
    own = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "vscode-config" / "README.md",
        ROOT / "tests" / "README.md",
    ]
    return [*own, *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The blocks of code of a page, in order."""
    name, text = page.relative_to(ROOT).as_posix(), page.read_text("utf-8")
    found = enumerate(_FENCE.finditer(text), 1)
    return [Block(name, number, fence[3], fence[4], fence.start(4)) for number, fence in found]


def links(text: str) -> Iterator[Link]:
    """The links and pictures of a page, those within the text of others too; not what is shown as code.

    Args:
        text: The page.
    """
    hidden = _CODE.sub(_blank, _FENCE.sub(_blank, text))
    at = 0
    while found := _LINK.search(hidden, at):
        yield Link(found[2], found[1] == "!", found.start(2))
        at = found.start() + 2  # pictures that are links are within them


def headings(text: str) -> list[tuple[int, str]]:
    """The headings of a page, each with its level, from 1 on.

    Args:
        text: The page.
    """
    return [(len(found[1]), found[2]) for found in _HEADING.finditer(_FENCE.sub(_blank, text))]


def anchors(text: str) -> set[str]:
    """What links can lead to within a page: its headings, as GitHub names them.

    Args:
        text: The page.
    """
    found: set[str] = set()
    for _, heading in headings(text):
        words = re.sub(r"\]\([^)]*\)", "", heading)
        slug = _DROPPED.sub("", words.lower()).strip().replace(" ", "-")
        name, number = slug, 0
        while name in found:
            number += 1
            name = f"{slug}-{number}"
        found.add(name)
    return found


def _blank(code: re.Match[str]) -> str:
    """As many blanks, so that all else stays where it is."""
    return re.sub(r"[^\n]", " ", code[0])
