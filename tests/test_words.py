"""Names and docstrings of the packages below are in plain words; ruff's D401 asks for the imperative beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLAIN_PACKAGES = ("agents",)
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


def _problems(source: str, place: str) -> Iterator[str]:
    """Yield each place of a file that breaks a rule, with the rule."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in _names(node):
            if name.lstrip("_") in VAGUE_NAMES:
                yield f"{place}:{getattr(node, 'lineno', 0)}: {name!r} is too vague: name the thing"
    for line, text in _docstrings(tree):
        first = text.split(maxsplit=1)[:1]
        if first and first[0].strip(":,.").lower() in RIDDLES:
            yield f"{place}:{line}: begins with {first[0]!r}: begin with a verb, or with the noun of the thing"


@pytest.mark.parametrize("package", PLAIN_PACKAGES)
def test_names_and_docstrings_are_plain_words(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    problems = [p for f in files for p in _problems(f.read_text("utf-8"), str(f.relative_to(ROOT)))]
    assert not problems, "\n".join(problems)


def test_vague_names_and_riddles_are_reported_where_they_are() -> None:
    source = 'def told(known):\n    """Who asks."""\n    self._found = 1\n'
    assert [line.split(": ")[0] for line in sorted(_problems(source, "x.py"))] == [
        "x.py:1",
        "x.py:1",
        "x.py:2",
        "x.py:3",
    ]
