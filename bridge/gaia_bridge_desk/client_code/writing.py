"""Names, literals and docstrings of Python, made of texts that may be any."""

from __future__ import annotations

import builtins
import keyword
import re
import textwrap
import unicodedata
from collections.abc import Iterable

_WIDTH = 110
"""Characters of a line of a docstring, without what it is indented by."""

_LONGEST_NAME = 60

_BUILTINS = frozenset(dir(builtins))


class Names:
    """Names of one scope, each given once.

    Args:
        reserved: Those that are never given.
        builtins_too: Whether the names of built-in functions and types are never given either.
    """

    def __init__(self, reserved: Iterable[str] = (), *, builtins_too: bool = True) -> None:
        self._reserved = frozenset((*reserved, *(_BUILTINS if builtins_too else ())))
        self._taken = set(self._reserved)
        self._numbers: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        """A name that is like the one that is wanted."""
        name = f"{wanted}_" if keyword.iskeyword(wanted) or wanted in self._reserved else wanted
        base = name.rstrip("_")
        number = self._numbers.get(base, 2)  # lower ones are taken; to try them all again takes quadratic time
        while name in self._taken:
            name = f"{base}_{number}"
            number += 1
        self._numbers[base] = number
        self._taken.add(name)
        return name


def _words(text: str) -> list[str]:
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text[: _LONGEST_NAME * 4])
    return [word for word in re.split(r"[^A-Za-z0-9]+", split) if word]


def snake_case(text: str, otherwise: str) -> str:
    """A name for a function; begins with `otherwise` where the text begins with no letter."""
    words = _words(text)
    if not words or words[0][0].isdigit():
        words = [otherwise, *words]
    return "_".join(words).lower()[:_LONGEST_NAME].rstrip("_")


def pascal_case(text: str, otherwise: str) -> str:
    """A name for a class; begins with `otherwise` where the text begins with no letter."""
    words = _words(text)
    if not words or words[0][0].isdigit():
        words = [otherwise, *words]
    return "".join(word[0].upper() + word[1:] for word in words)[:_LONGEST_NAME]


def parameter_name(text: str) -> str:
    """A name for a parameter: the text itself if it can be one."""
    name = text.strip("_")[:_LONGEST_NAME].rstrip("_")
    # Python reads names in form NFKC: others would be one name where they are two here.
    if not name.isidentifier() or unicodedata.normalize("NFKC", name) != name:
        name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:_LONGEST_NAME].rstrip("_")
    if not name:
        return "value"
    name = f"value_{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) else name


def literal(text: str) -> str:
    """A text as a literal, with the quotes that formatters choose."""
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + _escaped(text).replace(quote, f"\\{quote}") + quote


def docstring(text: str, indent: str) -> list[str]:
    """The lines of a docstring, indented.

    Args:
        text: What it says, in lines.
        indent: What stands before each line.
    """
    lines: list[str] = []
    for line in text.expandtabs(4).strip().splitlines():
        inner = line[: len(line) - len(line.lstrip())]
        wrapped = textwrap.wrap(
            line.strip(), max(_WIDTH - len(inner), 20), break_long_words=False, break_on_hyphens=False
        )
        lines += [inner + piece for piece in wrapped] or [""]
    escaped = [_escaped(line).rstrip() for line in lines] or [""]
    for place, line in enumerate(escaped):
        if '"""' in line or (line.endswith('"') and place == len(escaped) - 1):
            escaped[place] = line.replace('"', r"\"")
    escaped[0] = f'"""{escaped[0].lstrip()}'
    if len(escaped) == 1:
        escaped[0] += '"""'
    else:
        escaped.append('"""')
    return [f"{indent}{line}" if line else "" for line in escaped]


def _escaped(text: str) -> str:
    """Text with what is not seen, and backslashes, as escapes."""
    return "".join(
        "\\\\" if c == "\\" else c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in text
    )
