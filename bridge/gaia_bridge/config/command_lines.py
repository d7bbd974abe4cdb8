"""One command string as a list of arguments: split as a shell would, but never given to a shell. Pure."""

from __future__ import annotations

import shlex

__all__ = ["split_command"]

_OPERATORS = ";|&<>`"
"""What only a shell can do something about, outside of quotes."""


def split_command(command: str) -> list[str]:
    """Split a command such as `npx -y some-server "/my files"` into the program and its arguments.

    Args:
        command: The program and its arguments, quoted as for a POSIX shell. `$` and `~` stand for themselves.

    Returns:
        At least the program.

    Raises:
        ValueError: It is empty, a quote is not closed, or it needs a shell; says which.
    """
    operator = _shell_operator(command)
    if operator is not None:
        raise ValueError(
            f"the command needs a shell because of its {operator!r}, and is not given to one: name one program and its "
            "arguments, quote the character if it is part of an argument, or put the line into a script of its own"
        )
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"the command cannot be split into arguments: {str(error).lower()}") from None
    if not arguments:
        raise ValueError("the command is empty; expected a program and its arguments")
    return arguments


def _shell_operator(command: str) -> str | None:
    """The first operator of a shell that is not quoted; a backquote means something in double quotes too."""
    quote = ""
    characters = iter(zip(command, f"{command[1:]} ", strict=False))
    for character, following in characters:
        if character == "\\" and quote != "'":
            next(characters, None)
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif quote != "'" and (character == "`" or character + following == "$("):
            return "$(" if character == "$" else character
        elif not quote and character in _OPERATORS:
            return character
    return None
