"""The definitions of a Python source file, computed from its syntax tree. Standard library only."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["complexity", "python_facts"]

_MAX_LISTED = 300
"""Functions, classes or imports of one file that are listed; all of them are counted."""
_MOST_COMPLEX = 10
_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
    ast.comprehension,
)

JSON = dict[str, Any]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = Function | ast.ClassDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Definition(NamedTuple):
    name: str
    """Dotted, with the classes and functions around it."""
    node: Scope
    is_method: bool
    is_public: bool
    """Whether a reader of the module can reach it: no underscore in front, and not inside of a function."""


def python_facts(source: bytes) -> JSON:
    """Describe a Python file.

    Returns:
        `syntax_error` (`None`, or `line`, `column`, `message`); `counts` of `functions`, `classes`, `imports`,
        `missing_docstrings` and `missing_type_hints`, and the lists of that name (at most 300 entries each; `truncated`
        says so); `most_complex`, the ten most complex functions. Only public names can miss something.
    """
    tree, error = _parse(source)
    definitions = sorted(_definitions(tree), key=lambda item: item.node.lineno)
    functions = [_function(item, item.node) for item in definitions if not isinstance(item.node, ast.ClassDef)]
    lists: dict[str, list[Any]] = {
        "functions": functions,
        "classes": [_class(item.name, item.node) for item in definitions if isinstance(item.node, ast.ClassDef)],
        "imports": [entry for node in ast.walk(tree) for entry in _imports(node)],
        "missing_docstrings": _undocumented(tree, definitions),
        "missing_type_hints": [item.name for item in definitions if item.is_public and not _is_typed(item)],
    }
    ranked = sorted(functions, key=lambda function: (-function["complexity"], function["line"]))
    return {
        "syntax_error": error,
        "counts": {name: len(items) for name, items in lists.items()},
        "most_complex": [{key: item[key] for key in ("name", "line", "complexity")} for item in ranked[:_MOST_COMPLEX]],
        **{name: items[:_MAX_LISTED] for name, items in lists.items()},
        "truncated": any(len(items) > _MAX_LISTED for items in lists.values()),
    }


def complexity(function: Function) -> int:
    """McCabe's cyclomatic complexity of a function's own body.

    One, plus one for each `if`, `elif`, conditional expression, loop, `except`, `case`, comprehension and its
    conditions, and for each further operand of `and` and `or`. Functions and classes inside count for themselves.
    """
    total = 1
    for node in _own_nodes(ast.Module(function.body, [])):  # not decorators and defaults, which run outside of it
        if isinstance(node, _BRANCHES):
            total += 1
        if isinstance(node, ast.comprehension):
            total += len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
    return total


def _parse(source: bytes) -> tuple[ast.Module, JSON | None]:
    """Return the syntax tree, or an empty one and the reason."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(source), None
    except SyntaxError as error:
        # Where it is about the file's encoding, the place is 0 or below.
        reason = {"line": max(1, error.lineno or 1), "column": max(1, error.offset or 1), "message": error.msg}
    except (ValueError, RecursionError, MemoryError) as error:
        reason = {"line": 1, "column": 1, "message": str(error) or "nested too deeply to be parsed"}
    return ast.Module([], []), reason


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes below `scope`, without those inside of functions and classes below it. Never recurses."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _definitions(tree: ast.Module) -> Iterator[_Definition]:
    waiting: list[tuple[str, bool, ast.AST]] = [("", True, tree)]
    while waiting:
        prefix, reachable, scope = waiting.pop()
        for node in _own_nodes(scope):
            if not isinstance(node, SCOPES):
                continue
            special = node.name.startswith("__") and node.name.endswith("__")
            public = reachable and (special or not node.name.startswith("_"))
            yield _Definition(f"{prefix}{node.name}", node, isinstance(scope, ast.ClassDef), public)
            waiting.append((f"{prefix}{node.name}.", public and isinstance(node, ast.ClassDef), node))


def _function(item: _Definition, node: Function) -> JSON:
    return {
        "name": item.name,
        "line": node.lineno,
        "end_line": node.end_lineno or node.lineno,
        "complexity": complexity(node),
        "parameters": len(_parameters(node)),
        "is_async": isinstance(node, ast.AsyncFunctionDef),
        "has_docstring": ast.get_docstring(node, clean=False) is not None,
        "has_type_hints": _is_typed(item),
    }


def _class(name: str, node: ast.ClassDef) -> JSON:
    return {
        "name": name,
        "line": node.lineno,
        "end_line": node.end_lineno or node.lineno,
        "bases": [_expression(base) for base in node.bases],
        "methods": sum(isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) for inner in node.body),
        "has_docstring": ast.get_docstring(node, clean=False) is not None,
    }


def _expression(node: ast.expr) -> str:
    try:
        return ast.unparse(node)[:100]
    except RecursionError:
        return "..."


def _imports(node: ast.AST) -> Iterator[JSON]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield {"module": alias.name, "names": [], "line": node.lineno}
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        yield {"module": module, "names": [alias.name for alias in node.names], "line": node.lineno}


def _parameters(node: Function) -> list[ast.arg]:
    arguments = node.args
    further = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *further]


def _undocumented(tree: ast.Module, definitions: list[_Definition]) -> list[str]:
    """Public names without a docstring in any of their definitions (setters and overloads share a name).

    The module itself is called "module".
    """
    missing = ["module"] if tree.body and ast.get_docstring(tree, clean=False) is None else []
    has_docstring: dict[str, bool] = {}
    for item in definitions:
        if item.is_public:
            documented = ast.get_docstring(item.node, clean=False) is not None
            has_docstring[item.name] = documented or has_docstring.get(item.name, False)
    return missing + [name for name, documented in has_docstring.items() if not documented]


def _is_typed(item: _Definition) -> bool:
    """Whether all parameters (but a method's first) and the result are annotated; `__init__` has no result."""
    node = item.node
    if isinstance(node, ast.ClassDef):
        return True
    static = any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod" for decorator in node.decorator_list
    )
    parameters = _parameters(node)[item.is_method and not static :]
    returns = node.returns is not None or node.name == "__init__"
    return returns and all(parameter.annotation is not None for parameter in parameters)
