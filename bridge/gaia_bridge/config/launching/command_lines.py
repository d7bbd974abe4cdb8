"""One command string as a list of arguments: split as a shell would, but never given to a shell."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array

_OPERATORS = ";|&<>`"
"""Characters that have a meaning for shells alone, outside of quotes."""

_REFERENCE: Final = re.compile(r"\$\{[^}'\"]*\}")
"""A reference, which stays in one word whatever is in it; with a quote in it, it is split like all other text."""

_PRIVATE_USE: Final = range(0xE000, 0xF900)

_WINDOWS: Final = os.name == "nt"


def split_command(command: str, *, windows: bool = _WINDOWS) -> list[str]:
    """Split a command such as `npx -y some-server "/my files"` into the program and its arguments.

    Args:
        command: The program and its arguments, quoted as for a POSIX shell. `$` and `~` stand for themselves, and
            `${...}` stays in one word.
        windows: Whether `\\` separates folders, and `'` is a letter; only `"` quotes then.

    Returns:
        At least one word: the program.

    Raises:
        ValueError: The command is empty, a quote is not closed, or it needs a shell; the message says which.
    """
    # The mark stands for a reference while the rest is split; no character of the command may be taken for it.
    mark = next(character for character in map(chr, _PRIVATE_USE) if character not in command)
    references: list[str] = _REFERENCE.findall(command)
    numbers = iter(range(len(references)))
    command = _REFERENCE.sub(lambda _: f"{mark}{next(numbers)}{mark}", command)
    operator = _shell_operator(command, windows=windows)
    if operator is not None:
        raise ValueError(
            f"the command needs a shell because of its {operator!r}, and is not given to one: name one program and its "
            "arguments, quote the character if it is part of an argument, or put the line into a script of its own"
        )
    lexer = shlex.shlex(command, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    if windows:
        lexer.escape, lexer.quotes = "", '"'
    try:
        arguments = list(lexer)
    except ValueError as error:
        raise ValueError(f"the command cannot be split into arguments: {str(error).lower()}") from None
    if not arguments:
        raise ValueError("the command is empty; expected a program and its arguments")
    kept = re.compile(f"{mark}([0-9]+){mark}")
    return [kept.sub(lambda match: references[int(match[1])], word) for word in arguments]


def launch_words(entry: JSON) -> list[str]:
    """Return the program of an entry and its arguments, as far as they are texts; references are not filled in.

    A command without `args` is split even if there is a program of that name; if it cannot be split, it is one word.
    """
    command: Any = entry.get("command")
    if not isinstance(command, str):
        return []
    args: Any = entry.get("args")
    if args is not None:
        return [command, *(arg for arg in args if isinstance(arg, str))] if is_array(args) else [command]
    try:
        return split_command(command)
    except ValueError:
        return [command]


def is_program(name: str, search: str | None = None, folder: str | None = None) -> bool:
    """Return whether there is a program of exactly that name, or a file at exactly that path.

    Args:
        name: The name or path as it would be launched.
        search: The `PATH` to search; our own if not given.
        folder: The folder of relative paths; the current folder if not given.
    """
    import shutil

    if "\0" in name:
        return False
    if os.path.dirname(name):
        return os.path.isfile(os.path.join(folder or "", name))
    return shutil.which(name, path=search) is not None


def _shell_operator(command: str, *, windows: bool) -> str | None:
    """Return the first operator of a shell that is not quoted; a backquote is one in double quotes too."""
    quote, quotes = "", '"' if windows else "'\""
    characters = iter(zip(command, f"{command[1:]} ", strict=False))
    for character, following in characters:
        if character == "\\" and quote != "'" and not windows:
            next(characters, None)
        elif character == quote:
            quote = ""
        elif not quote and character in quotes:
            quote = character
        elif quote != "'" and (character == "`" or character + following == "$("):
            return "$(" if character == "$" else character
        elif not quote and character in _OPERATORS:
            return character
    return None
