"""The parts of a docstring: the function's description, and its parameters'. Google style, NumPy style or reST."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

_ARGS_SECTION: Final = re.compile(
    r"^(?:Args|Arguments|Parameters|Params):[ \t]*\n((?:[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)*)", re.MULTILINE
)
_BEGINS_WITH_SECTION: Final = re.compile(r"(?:Args|Arguments|Parameters|Params):[ \t]*\n")
_ARGUMENT: Final = re.compile(r"^\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)$")
_NUMPY: Final = re.compile(r"^(?:Other )?Parameters[ \t]*\n-{3,}[ \t]*$", re.MULTILINE)
_NUMPY_SECTION: Final = re.compile(
    r"^(?:Other )?Parameters[ \t]*\n-{3,}[ \t]*\n(?s:.*?)(?=^\S.*\n-{3,}[ \t]*$|\Z)", re.MULTILINE
)
_REST_FIELDS: Final = re.compile(
    r"^:(?:param|parameter|arg|argument|key|keyword|type)\s[^:\n]+:.*(?:\n|\Z)(?:[ \t]+\S.*(?:\n|\Z))*", re.MULTILINE
)
_REST: Final = re.compile(r"^:(?:param|parameter|arg|argument|key|keyword)\s[^:\n]+:", re.MULTILINE)


class Docstring(Struct, frozen=True):
    """A docstring in parts."""

    description: str
    """The docstring without the section of parameters."""
    parameters: Mapping[str, str]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Docstring:
        """Read a function's docstring."""
        text = inspect.getdoc(function) or ""
        if text == object.__call__.__doc__:  # Python's own, where a class has a `__call__` without one
            text = ""
        if _BEGINS_WITH_SECTION.match(text):  # whose lines are indented no more then
            text = inspect.cleandoc("\n" + (function.__doc__ or text))
        return cls(*split_docstring(text))


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Take the section of parameters out of a docstring.

    Args:
        text: The docstring, dedented as `inspect.getdoc` returns it.

    Returns:
        The text without that section, and the section's descriptions by parameter name.
    """
    if section := _ARGS_SECTION.search(text):
        rest = text[: section.start()].rstrip() + "\n\n" + text[section.end() :].lstrip("\n")
        return rest.strip(), _argument_descriptions(inspect.cleandoc("\n" + section[1]))
    if _NUMPY.search(text) or _REST.search(text):
        return _parsed(text)
    return text.strip(), {}


def _parsed(text: str) -> tuple[str, dict[str, str]]:
    import docstring_parser  # few docstrings need it

    style = docstring_parser.DocstringStyle.NUMPYDOC if _NUMPY.search(text) else docstring_parser.DocstringStyle.REST
    try:
        parsed = docstring_parser.parse(text, style)
    except docstring_parser.ParseError:
        return text.strip(), {}
    described = {
        name.strip().lstrip("*"): " ".join((parameter.description or "").split())
        for parameter in parsed.params
        for name in parameter.arg_name.split(",")  # NumPy: `x, y : int`
    }
    return _without_parameters(text), described


def _without_parameters(text: str) -> str:
    """Remove the descriptions of parameters from a NumPy or reST docstring: a client reads all the rest."""
    return re.sub(r"\n{3,}", "\n\n", _REST_FIELDS.sub("", _NUMPY_SECTION.sub("", text))).strip()


def _argument_descriptions(section: str) -> dict[str, str]:
    descriptions: dict[str, str] = {}
    current = ""
    for line in section.splitlines():
        if argument := _ARGUMENT.match(line):
            current = argument[1]
            descriptions[current] = argument[2].strip()
        elif current and line[:1].isspace():
            descriptions[current] = f"{descriptions[current]} {line.strip()}".strip()
        elif line:
            current = ""
    return descriptions
