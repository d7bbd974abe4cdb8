"""URI templates (RFC 6570): matches URIs against a template, in linear time, and reads the values of its variables."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_VARIABLE: Final = re.compile(
    r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:[A-Za-z0-9_.]|%[0-9A-Fa-f]{2})*(?:\*|:[1-9]\d{0,3})?"
)
_MOST: Final = 20
"""The most expressions of one template: matching costs time for each of them, for each character of a URI."""
_SAMPLE: Final = "x"
_ENDS: Final = {"": "/?#", "+": "", "#": "", ".": "/?#", "/": "?#", ";": "/?#", "?": "#", "&": "#"}
"""The characters that end the expansion of an expression, by its operator."""
_FIRST: Final = {"": "", "+": "", "#": "#", ".": ".", "/": "/", ";": ";", "?": "?", "&": "&"}
"""The first character of the expansion, if any variable has a value, by operator."""
_BETWEEN: Final = {"": ",", "+": ",", "#": ",", ".": ".", "/": "/", ";": ";", "?": "&", "&": "&"}
_IS_NAMED: Final = frozenset(";?&")


class UriTemplateError(ValueError):
    """A text is not a valid URI template."""


class _Step(NamedTuple):
    """A part of a template: one character, or an expression."""

    first: str
    """The character; for an expression, the first character of its expansion, if the operator has one."""
    ends: str | None = None
    """The characters that end the expansion; `None` for a literal character."""


class UriTemplate:
    """A parsed URI template; a text that is none, or has too many expressions, raises `UriTemplateError`."""

    def __init__(self, text: str) -> None:
        self._steps: list[_Step] = []
        self._expressions: list[tuple[str, list[str]]] = []
        pattern: list[str] = []
        sample: list[str] = []
        place = 0
        for expression in _EXPRESSION.finditer(text):
            literal = text[place : expression.start()]
            self._add_literal(literal)
            operator, names = expression[1], expression[2].split(",")
            if not all(map(_VARIABLE.fullmatch, names)):
                raise UriTemplateError(f"{expression[0]} is no expression of a URI template")
            self._steps.append(_Step(_FIRST[operator], _ENDS[operator]))
            self._expressions.append((operator, names))
            pattern += [re.escape(literal), _pattern(operator)]
            sample += [literal, _expanded(operator, names)]
            place = expression.end()
        self._add_literal(text[place:])
        self._pattern = re.compile("".join((*pattern, re.escape(text[place:]))), re.DOTALL)
        self.sample = "".join((*sample, text[place:]))
        """A URI that matches the template."""
        if sum(step.ends is not None for step in self._steps) > _MOST:
            raise UriTemplateError(f"more than {_MOST} expressions in one URI template")

    @classmethod
    def parsed(cls, text: str) -> UriTemplate | None:
        """Return the parsed template; `None` for a text that is none, or has too many expressions."""
        try:
            return cls(text)
        except UriTemplateError:
            return None

    def _add_literal(self, text: str) -> None:
        if "{" in text or "}" in text:
            raise UriTemplateError("a brace stands alone")
        self._steps += map(_Step, text)

    def matches(self, uri: str) -> bool:
        # The set of states of a nondeterministic automaton: `2 * n` is before step n, `2 * n + 1` is within it.
        reached = self._skipping({0})
        for character in uri:
            reached = self._skipping(self._after(reached, character))
            if not reached:
                return False
        return 2 * len(self._steps) in reached

    @property
    def names(self) -> frozenset[str]:
        return frozenset(_plain_name(name) for _, names in self._expressions for name in names)

    def variables(self, uri: str) -> dict[str, str | list[str]] | None:
        """Read the decoded values of the variables that have one from a URI; `None` if it does not match.

        The value of a variable that is exploded (`{names*}`) is a list.
        """
        # The regular expression may backtrack, so it runs only on URIs that the linear automaton accepts.
        match = self._pattern.fullmatch(uri) if self.matches(uri) else None
        if match is None:
            return None
        values: dict[str, str | list[str]] = {}
        for (operator, names), expansion in zip(self._expressions, match.groups(), strict=True):
            if expansion:
                values |= _read(operator, names, expansion.removeprefix(_FIRST[operator]))
        return values

    def _after(self, reached: set[int], character: str) -> set[int]:
        following: set[int] = set()
        for place in reached:
            number, is_within = divmod(place, 2)
            if number == len(self._steps):
                continue
            first, ends = self._steps[number]
            if ends is None:
                if character == first:
                    following.add(place + 2)
            elif not is_within and first:
                if character == first:
                    following.add(place + 1)
            elif character not in ends:
                following.add(2 * number + 1)
        return following

    def _skipping(self, reached: set[int]) -> set[int]:
        """Add the states that are reached without a character: expressions may end, or have an empty expansion."""
        waiting = list(reached)
        while waiting:
            number = waiting.pop() // 2
            if number < len(self._steps) and self._steps[number].ends is not None and 2 * number + 2 not in reached:
                reached.add(2 * number + 2)
                waiting.append(2 * number + 2)
        return reached


def _expanded(operator: str, names: list[str]) -> str:
    values = [f"{_plain_name(name)}={_SAMPLE}" if operator in _IS_NAMED else _SAMPLE for name in names]
    return _FIRST[operator] + _BETWEEN[operator].join(values)


def _pattern(operator: str) -> str:
    """Return the regular expression for any expansion of an expression; `_read` splits it into variables."""
    some = f"[^{_ENDS[operator]}]" if _ENDS[operator] else "."
    first = re.escape(_FIRST[operator])
    return f"((?:{first}{some}*)?)" if first else f"({some}*)"


def _plain_name(name: str) -> str:
    return name.rstrip("*").partition(":")[0]


def _read(operator: str, names: list[str], expansion: str) -> dict[str, str | list[str]]:
    parts = expansion.split(_BETWEEN[operator])
    if operator in _IS_NAMED:
        return _read_named(names, parts)
    values: dict[str, str | list[str]] = {}
    for position, name in enumerate(names):
        if name.endswith("*"):  # the rest of them
            values[_plain_name(name)] = [unquote(part) for part in parts[position:]]
            break
        is_last = position == len(names) - 1
        rest = parts[position:] if is_last else parts[position : position + 1]
        if rest:
            values[_plain_name(name)] = unquote(_BETWEEN[operator].join(rest))
    return values


def _read_named(names: list[str], parts: list[str]) -> dict[str, str | list[str]]:
    exploded = {_plain_name(name): name.endswith("*") for name in names}
    values: dict[str, str | list[str]] = {}
    for part in parts:
        key, _, value = part.partition("=")
        name = unquote(key)
        if name not in exploded:
            continue
        if exploded[name]:
            values[name] = [*values.get(name, []), unquote(value)]
        else:
            values[name] = unquote(value)
    return values
