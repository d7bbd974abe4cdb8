"""Docstrings, and names of the packages below, are in plain words; ruff's D401 asks for the imperative beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED_PLAINLY = ("agents", "bridge")
"""Where names are looked at as well."""
RIDDLES = frozenset({"what", "whose", "who", "which", "nobody"})
VAGUE_NAMES = frozenset({"found", "told", "said", "known", "meant", "sought", "settled", "mended"})


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node gives to something."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)) | ast.alias(asname=str(name)):
            yield name
        case _:
            pass


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each string that stands alone, with its line: docstrings, and those below attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text
            case _:
                pass


def _vague_names(tree: ast.AST) -> Iterator[str]:
    """Yield the line of each vague name, with the rule."""
    for node in ast.walk(tree):
        for name in _names(node):
            if name.lstrip("_") in VAGUE_NAMES:
                yield f"{getattr(node, 'lineno', 0)}: {name!r} is too vague: name the thing"


def _riddles(tree: ast.AST) -> Iterator[str]:
    """Yield the line of each docstring that begins with a riddle, with the rule."""
    for line, text in _docstrings(tree):
        first = text.split(maxsplit=1)[:1]
        if first and first[0].strip(":,.").lower() in RIDDLES:
            yield f"{line}: begins with {first[0]!r}: begin with a verb, or with the noun of the thing"


ANY_OF: Mapping[Callable[[ast.AST], Iterator[str]], re.Pattern[str]] = {
    _vague_names: re.compile(rf"\b_*(?:{'|'.join(VAGUE_NAMES)})\b"),
    _riddles: re.compile(rf"['\"][\s:,.\\]*(?:{'|'.join(RIDDLES)})\b", re.IGNORECASE),
}
"""Text without which a rule is kept."""


@pytest.mark.parametrize(
    ("rule", "package"),
    [*((_vague_names, package) for package in NAMED_PLAINLY), (_riddles, "agents"), (_riddles, "bridge")],
)
def test_names_and_docstrings_are_plain_words(rule: Callable[[ast.AST], Iterator[str]], package: str) -> None:
    place = ROOT / package
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert files
    problems = [
        f"{file}:{problem}"
        for file in files
        if (ANY_OF[rule].search(text := file.read_text("utf-8")))  # the others need not be parsed, which takes seconds
        for problem in rule(ast.parse(text))
    ]
    assert not problems, "\n".join(problems)


def test_vague_names_and_riddles_are_reported_where_they_are() -> None:
    tree = ast.parse('def told(known):\n    """Who asks."""\n    self._found = 1\n')
    assert [line.split(": ")[0] for line in sorted(_vague_names(tree))] == ["1", "1", "3"]
    assert [line.split(": ")[0] for line in _riddles(tree)] == ["2"]
