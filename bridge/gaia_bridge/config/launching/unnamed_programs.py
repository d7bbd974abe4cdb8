"""Whether a launch line can run a program that none of its words names: then no look at the words is enough."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from gaia_bridge.config.launching.launchers import program_name

_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "npx", "npm"})
"""Programs that take a line for a shell, after `-c` or `--call`."""

_LINE: Final = re.compile(r"-[A-Za-z]*c.*|--call(?:=.*)?|--command(?:=.*)?", re.DOTALL)

_OTHER_SHELLS: Final = frozenset({"cmd", "powershell", "pwsh"})
"""Shells whose lines are not looked into."""

_FILLED_IN: Final = re.compile(r"[$`*?\[{~!]")
"""What a shell makes other words of."""

_SEEKERS: Final = frozenset({"eval", "find", "fd", "xargs", "parallel", "entr", "watchexec"})
"""Programs that run what they find."""

_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")
_OTHER: Final = re.compile(r"(?:node|nodejs|deno|bun|perl|ruby|php|lua|rscript|osascript)[\d.]*")

_PYTHON_CODE: Final = re.compile(r"-[bBdEhiIOPqRsSuvx]*c.*", re.DOTALL)
_OTHER_CODE: Final = re.compile(r"-(?!r\W)[A-Za-z0-9]?[eErRp].*|--(?:eval|print|run)\b.*|eval", re.DOTALL)
"""Options that are followed by code, or have it glued to them; `-r ./x.js` names a file."""

_WITH_VALUE: Final = re.compile(r"-[XWCIr]|--[a-z-]+")
"""Options after which a word may be their value."""


def reason_for_whole_folder(words: Sequence[str]) -> str:
    """Why a line can run more than its words name; empty if it cannot.

    Args:
        words: The program and its arguments; a line for a shell is one of them.
    """
    for number, word in enumerate(words):
        if reason := _reason(word, words[number + 1 :]) or _of_line(word):
            return reason
    return ""


def _reason(word: str, rest: Sequence[str]) -> str:
    """Why a program can run more than the words after it name."""
    program = program_name(word)
    if program in _SEEKERS:
        return f"{program} runs what it finds"
    if program in _OTHER_SHELLS:
        return f"{program} runs a line that is not looked into"
    if program in _SHELLS and any(map(_LINE.fullmatch, rest)) and any(map(_FILLED_IN.search, rest)):
        return f"{program} fills in parts of its line"
    for interpreter, code in ((_PYTHON, _PYTHON_CODE), (_OTHER, _OTHER_CODE)):
        if interpreter.fullmatch(program) and any(map(code.fullmatch, _options(rest))):
            return f"{program} runs code that stands in the line"
    return ""


def _of_line(word: str) -> str:
    """The same of a line that is one word, for a shell or for a program that splits it."""
    if not re.search(r"[\s;|&()<>]", word):
        return ""
    try:
        inner = list(shlex.shlex(word, posix=True, punctuation_chars=True))
    except ValueError:
        inner = word.split()
    return reason_for_whole_folder(inner) if inner != [word] else ""


def _options(words: Sequence[str]) -> list[str]:
    """The words before the first that is neither an option nor its value: `eval` of `deno eval` counts as one."""
    found: list[str] = []
    before = ""
    for word in words:
        if not word.startswith("-") and word != "eval" and not _WITH_VALUE.fullmatch(before):
            break
        found.append(word)
        before = word
    return found
