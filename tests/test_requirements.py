"""The manifest and the marks say the same, in both directions.

Marks are read from the source text, so that the result does not depend on which tests this run selected.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.requirements import REQUIREMENTS, Requirement, State

TESTS = Path(__file__).parent

MARKED = (State.COVERED, State.BEGUN)
"""The states of rows that need a marked test; rows of the other states must not have one."""

ROW_COUNTS = {"S0": 64, "S1": 24, "S2": 31, "S3": 23, "S4": 27, "P": 20, "S": 37, "C": 34, "F": 199}
"""How many rows each source has at least: none may be lost while states change."""


class MarkError(Exception):
    """A requirement mark that cannot be read, or that marks no test."""


def marked_rows(source: str, file: str) -> dict[str, list[str]]:
    """The rows that tests of one file are marked with.

    Args:
        source: The text of the file.
        file: Its name, for messages.

    Returns:
        The tests of each row, as `file::test_name`.

    Raises:
        MarkError: A mark that holds something else than literal ids, or stands on something that is no test.
    """
    if "requirement" not in source:  # most files, and all of them take seconds
        return {}
    tree = ast.parse(source, file)
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_test(node)]
    rows: dict[str, list[str]] = {}
    read: set[ast.Call] = set()
    for test in tests:
        for mark in (mark for decorator in test.decorator_list for mark in _marks(decorator)):
            read.add(mark)
            for row in _ids(mark, file):
                rows.setdefault(row, []).append(f"{file}::{test.name}")
    for mark in _marks(tree):
        if mark not in read:
            raise MarkError(f"{file}:{mark.lineno}: a requirement mark that decorates no test function")
    return rows


def breaches(manifest: Mapping[str, Requirement], marks: Mapping[str, Iterable[str]]) -> list[str]:
    """Every way in which the manifest and the marks disagree, one line each."""
    lines: list[str] = []
    for row, requirement in manifest.items():
        if requirement.state in MARKED and row not in marks:
            lines.append(f"{row} is {requirement.state.value}, but by no test: {requirement.sentence}")
        elif requirement.state not in MARKED and row in marks:
            lines.append(f"{row} is {requirement.state.value}, yet marked: {', '.join(sorted(set(marks[row])))}")
    unknown = sorted(set(marks) - set(manifest))
    lines.extend(f"{row} is not in the manifest: {', '.join(sorted(set(marks[row])))}" for row in unknown)
    return lines


def _is_test(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return node.name.startswith("test_")


def _marks(node: ast.AST) -> Iterator[ast.Call]:
    """Every `...mark.requirement(...)` in a piece of syntax, also inside `pytest.param(..., marks=...)`."""
    for child in ast.walk(node):
        match child:
            case ast.Call(
                func=ast.Attribute(attr="requirement", value=ast.Attribute(attr="mark") | ast.Name(id="mark"))
            ):
                yield child
            case _:
                pass


def _ids(mark: ast.Call, file: str) -> Iterator[str]:
    if not mark.args or mark.keywords:
        raise MarkError(f"{file}:{mark.lineno}: a requirement mark needs ids, and nothing else")
    for argument in mark.args:
        if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
            raise MarkError(f"{file}:{argument.lineno}: a requirement id must be a literal string")
        yield argument.value


def test_every_covered_row_has_a_test_and_every_marked_row_is_covered() -> None:
    marks: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        if "node_modules" not in path.parts:
            file = path.relative_to(TESTS.parent).as_posix()
            for row, tests in marked_rows(path.read_text("utf-8"), file).items():
                marks.setdefault(row, []).extend(tests)
    found = breaches(REQUIREMENTS, marks)
    assert not found, f"{len(found)} rows:\n" + "\n".join(found)


def test_no_row_of_any_source_is_missing() -> None:
    counts: dict[str, int] = {}
    for row in REQUIREMENTS:
        source = row.split("-")[0]
        counts[source] = counts.get(source, 0) + 1
    assert counts.keys() == ROW_COUNTS.keys()
    assert not {source: counts[source] for source, least in ROW_COUNTS.items() if counts[source] < least}


def test_every_row_says_what_and_every_uncovered_row_says_why() -> None:
    assert not [row for row, requirement in REQUIREMENTS.items() if not requirement.sentence.endswith(".")]
    assert not [
        row
        for row, requirement in REQUIREMENTS.items()
        if (requirement.state is State.COVERED) is not (requirement.note == "")
    ]


@pytest.mark.parametrize("state", MARKED)
def test_a_covered_or_begun_row_without_a_test_is_a_breach(state: State) -> None:
    manifest = {"X-1": Requirement("a sentence.", state)}
    assert breaches(manifest, {}) == [f"X-1 is {state.value}, but by no test: a sentence."]


@pytest.mark.parametrize("state", [State.PLANNED, State.NOT_OURS])
def test_a_marked_row_that_is_not_even_begun_is_a_breach(state: State) -> None:
    manifest = {"X-1": Requirement("a sentence.", state, "later")}
    assert breaches(manifest, {"X-1": ["a::test_b"]}) == [f"X-1 is {state.value}, yet marked: a::test_b"]


def test_a_mark_with_an_unknown_row_is_a_breach() -> None:
    assert breaches({}, {"X-9": ["a::test_b"]}) == ["X-9 is not in the manifest: a::test_b"]


def test_a_covered_row_with_a_test_is_no_breach() -> None:
    assert breaches({"X-1": Requirement("a sentence.", State.COVERED)}, {"X-1": ["a::test_b"]}) == []


def test_marks_are_read_from_plain_async_and_parametrized_tests() -> None:
    source = """
import pytest

@pytest.mark.requirement("X-1", "X-2")
def test_plain(): ...

@pytest.mark.anyio
@pytest.mark.requirement("X-2")
async def test_async(): ...

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.requirement("X-3"))])
def test_parametrized(n): ...
"""
    assert marked_rows(source, "f.py") == {
        "X-1": ["f.py::test_plain"],
        "X-2": ["f.py::test_plain", "f.py::test_async"],
        "X-3": ["f.py::test_parametrized"],
    }


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("@pytest.mark.requirement('X-1')\ndef helper(): ...", "decorates no test"),
        ("pytestmark = pytest.mark.requirement('X-1')", "decorates no test"),
        ("@pytest.mark.requirement(ROW)\ndef test_a(): ...", "literal"),
        ("@pytest.mark.requirement()\ndef test_a(): ...", "needs ids"),
        ("@pytest.mark.requirement(row='X-1')\ndef test_a(): ...", "needs ids"),
    ],
)
def test_a_mark_that_cannot_count_is_refused(source: str, complaint: str) -> None:
    with pytest.raises(MarkError, match=complaint):
        marked_rows(source, "f.py")
