"""What `analyze-code` says about files is counted, and right."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from gaia_agents.analysis import measure_text
from gaia_agents.files import Text, decode, lines_of
from gaia_agents.languages import language_of
from gaia_agents.python_facts import complexity, python_facts

SOURCE = b'''\
"""A module."""
import os, sys as system
from .near import *
from pkg.mod import a as b, c


def plain(x):
    return x


class Shape(Base, metaclass=Meta):
    """A shape."""

    def __init__(self, size: int):
        self.size = size

    async def area(self, *, unit: str = "m") -> float:
        """Its area."""
        def helper(): ...
        return 1.0

    @staticmethod
    def make(size) -> "Shape": ...

    def _hidden(self): ...
'''


def facts(source: bytes | str) -> Any:
    return python_facts(source.encode() if isinstance(source, str) else source)


def test_functions_classes_and_imports_are_listed_with_their_lines() -> None:
    found = facts(SOURCE)
    assert [(item["name"], item["line"]) for item in found["functions"]] == [
        ("plain", 7),
        ("Shape.__init__", 14),
        ("Shape.area", 17),
        ("Shape.area.helper", 19),
        ("Shape.make", 23),
        ("Shape._hidden", 25),
    ]
    assert found["functions"][2] == {
        "name": "Shape.area",
        "line": 17,
        "end_line": 20,
        "complexity": 1,
        "parameters": 2,
        "is_async": True,
        "has_docstring": True,
        "has_type_hints": True,
    }
    assert found["classes"] == [
        {"name": "Shape", "line": 11, "end_line": 25, "bases": ["Base"], "methods": 4, "has_docstring": True}
    ]
    assert found["imports"] == [
        {"module": "os", "names": [], "line": 2},
        {"module": "sys", "names": [], "line": 2},
        {"module": ".near", "names": ["*"], "line": 3},
        {"module": "pkg.mod", "names": ["a", "c"], "line": 4},
    ]


def test_only_what_others_can_reach_is_said_to_lack_something() -> None:
    found = facts(SOURCE)
    assert found["missing_docstrings"] == ["plain", "Shape.__init__", "Shape.make"]
    assert found["missing_type_hints"] == ["plain", "Shape.make"]
    assert facts("x = 1")["missing_docstrings"] == ["module"]
    assert facts("")["missing_docstrings"] == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("pass", 1),
        ("if a: pass", 2),
        ("if a: pass\n elif b: pass\n else: pass", 3),
        ("for x in y: pass\n else: pass", 2),
        ("while a and b or c: pass", 4),
        ("try: pass\n except A: pass\n except B: pass\n finally: pass", 3),
        ("return a if b else c", 2),
        ("return [x for x in y if x if z]", 4),
        ("match a:\n  case 1: pass\n  case _: pass", 3),
        ("def inner():\n  if a: pass", 1),
        ("class Inner:\n  x = 1 if a else 2", 1),
        ("with a, b: assert c", 1),
    ],
)
def test_complexity_counts_each_branch_of_the_functions_own_body(body: str, expected: int) -> None:
    function = ast.parse(f"def f():\n {body}").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert complexity(function) == expected


def test_what_runs_outside_of_a_function_does_not_make_it_complex() -> None:
    [function] = facts("@deco(1 if a else 2)\ndef f(x=1 if b else 2): pass\n")["functions"]
    assert function["complexity"] == 1


def test_setters_and_overloads_need_no_docstring_of_their_own() -> None:
    found = facts(
        '@overload\ndef f(a: int): ...\n@overload\ndef f(a: str): ...\ndef f(a):\n    """F."""\ndef g(): ...\n'
    )
    assert found["missing_docstrings"] == ["module", "g"]


def test_a_syntax_error_is_told_with_its_place() -> None:
    found = facts("x = 1\ndef broken(:\n")
    assert (found["syntax_error"]["line"], found["functions"]) == (2, [])
    assert "invalid syntax" in found["syntax_error"]["message"]


@pytest.mark.parametrize("source", [b"\xff\xfe = 1", b"# coding: nonsense\n", b"x = '\x00'", b"x = " + b"(" * 300])
def test_source_that_cannot_be_parsed_is_an_error_and_no_crash(source: bytes) -> None:
    assert facts(source)["syntax_error"]["message"]


def test_questionable_source_warns_nobody() -> None:
    assert facts(r"x = '\d'")["syntax_error"] is None


def test_long_lists_are_cut_and_counted() -> None:
    found = facts("\n".join(f"def f{number}(): ..." for number in range(350)) + "\ndef g(a):\n if a: pass\n")
    assert (len(found["functions"]), found["counts"]["functions"], found["truncated"]) == (300, 351, True)
    assert found["most_complex"][0] == {"name": "g", "line": 351, "complexity": 2}


def test_lines_are_counted_by_kind() -> None:
    report = measure_text("a.py", "# one\n\nx = 1  # TODO: two\r\n  # FIXME three\ny = 'TODO'\n", 60)
    assert report["lines"] == {"total": 5, "blank": 1, "comment": 2, "longest": 18}
    assert report["todos"] == 2


@pytest.mark.parametrize(
    ("path", "line", "todos"),
    [
        ("a.py", "todo = TODO", 0),
        ("a.py", "x # TODOS", 0),
        ("a.js", "x(); // HACK", 1),
        ("a.c", "/* XXX */", 1),
        ("a.sql", "-- TODO", 1),
        ("notes.md", "TODO: write", 1),
        ("a.unknown", "TODO", 1),
    ],
)
def test_marks_count_behind_a_comment_sign_of_the_language(path: str, line: str, todos: int) -> None:
    assert measure_text(path, line, len(line))["todos"] == todos


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.ini", "# one\n; two\nx = 1\n"), ("a.bat", "REM one\nrem two\n:: three\n"), ("a.c", "/* one */\n// two\n")],
)
def test_every_comment_sign_of_a_language_starts_a_comment_line(path: str, text: str) -> None:
    commented = [line for line in text.splitlines() if "=" not in line]
    assert measure_text(path, text, len(text))["lines"]["comment"] == len(commented)


def test_a_language_without_comments_has_no_comment_lines() -> None:
    assert measure_text("a.json", "{}", 2)["lines"]["comment"] is None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/a.py", "Python"),
        ("A.PY", "Python"),
        ("x/Dockerfile", "Dockerfile"),
        ("CMakeLists.txt", "CMake"),
        ("notes.txt", "Text"),
        ("LICENSE", "Other"),
        ("a.tsx", "TypeScript"),
        (".gitignore", "Other"),
    ],
)
def test_the_language_is_told_from_the_name(path: str, name: str) -> None:
    assert language_of(path).name == name


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", Text("", "utf-8")),
        ("é".encode(), Text("é", "utf-8")),
        (b"\xef\xbb\xbfa", Text("a", "utf-8-sig")),
        ("a\n".encode("utf-16"), Text("a\n", "utf-16")),
        (b"a\xffb", Text("a\ufffdb", "utf-8", lossy=True)),
        (b"\xff\xfea", Text("\ufffd", "utf-16", lossy=True)),
        (b"a\0b", None),
        (b"\x7fELF\0\0", None),
    ],
)
def test_text_is_told_from_binary_data(data: bytes, text: Text | None) -> None:
    assert decode(data) == text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\r\nb", ["a", "b"]),
        ("a\n\n", ["a", ""]),
        ("a\x0bb\u2028c", ["a\x0bb\u2028c"]),
    ],
)
def test_lines_are_those_of_an_editor(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines
