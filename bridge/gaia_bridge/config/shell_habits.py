"""What people write in an entry as they would for a shell: one line in place of a list, and `$VAR`.

    {"command": "uvx mcp-server-time"}                    is split, as there are no `args` and no program of that name
    {"command": "$HOME/bin/server"}                       is refused: only `${HOME}` is filled in
    {"command": "server", "args": ["$HOME/data"]}         is passed on as it is, with a warning

`$VAR` is not filled in because `$` is a character of passwords, of regular expressions and of scripts (`sh -c`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gaia_bridge.config.expansion import Expander, without_references
from gaia_bridge.config.launching.command_lines import is_program, split_command
from gaia_bridge.config.problems import EntryError
from gaia_bridge.text.json_types import JSON, is_array, is_object

_BLANK: Final = re.compile(r"\s")

_BARE: Final = re.compile(r"(?<![^/\\:;=,])\$([A-Za-z_][A-Za-z0-9_]*)(?![^/\\:;,])")
"""A variable of a shell as a whole part of a path, of a list of paths, or after `=`; not a `$` inside of a word."""

_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "fish", "cmd", "powershell", "pwsh"})
"""What fills in `$VAR` itself."""


def with_arguments(entry: JSON, expander: Expander) -> JSON:
    """The entry with `args` of its own, if its command has blanks and no `args` beside it.

    It stays as it is if there is a program of exactly that name or path, or if its first word is the path of a program
    that is not there: then the blank is more likely a part of the path.

    Args:
        entry: An entry, its references not filled in.
        expander: Fills them in.

    Raises:
        EntryError: The command cannot be split, or a reference in it leads nowhere.
    """
    command = entry.get("command")
    if entry.get("args") is not None or not isinstance(command, str) or not command.strip():
        return entry
    if not _BLANK.search(command):
        return entry
    cwd: Any = entry.get("cwd")
    env: Any = entry.get("env")
    folder = expander.path("'cwd'", cwd) if isinstance(cwd, str) else None
    search: Any = env.get("PATH") if is_object(env) else None
    search = expander.path("'PATH' in 'env'", search) if isinstance(search, str) else None
    if is_program(expander.path("'command'", command), search, folder):
        return entry
    try:
        program, *arguments = split_command(command)
    except ValueError as error:
        raise EntryError(f"{error}; or write 'args' beside it, which keep 'command' whole") from None
    launched = expander.path("'command'", program)
    if os.path.dirname(launched) and not is_program(launched, search, folder):
        return entry
    return {**entry, "command": program, "args": arguments}


def refuse_bare_variables(entry: JSON) -> None:
    """Refuse `$VAR` where no shell sees it and it can mean nothing else.

    Args:
        entry: An entry, its references not filled in.

    Raises:
        EntryError: `command` or `cwd` has one, and there is no such file; names it.
    """
    for key in ("command", "cwd"):
        text = entry.get(key)
        if not isinstance(text, str) or (found := _BARE.search(without_references(text))) is None:
            continue
        if "\0" in text or not os.path.exists(text):
            raise EntryError(f"{key!r} has ${found[1]}, which is not filled in; write ${{{found[1]}}}")


def bare_variable_warnings(entry: JSON, environ: Mapping[str, str]) -> Iterator[str]:
    """Where `$VAR` was probably meant to be filled in: it is passed on as it is.

    Args:
        entry: An entry, its references not filled in.
        environ: Only variables of these are named: what else has a `$` may be a secret.
    """
    args, env, command = entry.get("args"), entry.get("env"), entry.get("command")
    texts: list[tuple[str, Any]] = []
    if is_array(args) and not (isinstance(command, str) and os.path.basename(command) in _SHELLS):
        texts += [(f"item {number} of 'args'", arg) for number, arg in enumerate(args, 1)]
    if is_object(env):
        texts += [(f"{name!r} in 'env'", value) for name, value in env.items()]
    for place, text in texts:
        names = _BARE.findall(without_references(text)) if isinstance(text, str) else ()
        if (name := next((name for name in names if name in environ), None)) is not None:
            yield f"{place} has ${name}, which is passed on as it is; to have it filled in, write ${{{name}}}"
