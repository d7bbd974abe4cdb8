"""Checks entries that other people wrote: of a registry, a pasted text, a project's file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

from gaia_bridge.config.expansion import HARMLESS, references_in, texts_in
from gaia_bridge.config.launching.command_lines import launch_words
from gaia_bridge.config.launching.variables import reason_of
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.redaction import redacted
from gaia_bridge_desk.review.launch_lines import launch_warnings

NPX_OPTIONS: Final = {
    **dict.fromkeys(("-p", "--package"), True),
    **dict.fromkeys(("-q", "--quiet", "--silent", "-y", "--yes"), False),
    **dict.fromkeys(("--prefer-offline", "--prefer-online", "--ignore-scripts"), False),
}
UVX_OPTIONS: Final = {
    **dict.fromkeys(("--from", "--with", "--python", "-p", "--prerelease", "--python-preference"), True),
    **dict.fromkeys(
        ("--quiet", "-q", "--isolated", "--no-cache", "-n", "--refresh", "--no-progress", "--offline"), False
    ),
}
"""Options that change neither where a package comes from nor what is run, and whether each has a value."""

_OPTIONS: Final = {("npx",): NPX_OPTIONS, ("uvx",): UVX_OPTIONS, ("uv", "tool", "run"): UVX_OPTIONS}

_VARIABLE: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-.*)?", re.DOTALL)


def refused_text(text: str) -> str | None:
    """Return why a text of another person must not be used; `None` if it may be.

    Args:
        text: A name, an argument or a value that another person wrote.
    """
    if "${" in text:
        return (
            f"{text[:100]!r}, which would be filled in from your variables, files or keyring; if you want that, "
            "add the server by hand: gaia-bridge add NAME COMMAND"
        )
    return None if text.isprintable() else f"{text[:100]!r}, with characters that cannot be seen"


def refused_variable(name: str) -> str | None:
    """Return why another person must not set a variable; `None` if that is allowed.

    Args:
        name: The variable, which the program sees.
    """
    reason = reason_of(name)
    return None if reason is None else f"{name}, which {reason}; if you want that, say --env '{name}=VALUE' yourself"


def doubts(entry: JSON) -> list[str]:
    """Return the points to check before an entry of another person is accepted: its program, and the data it gets.

    Args:
        entry: The entry, in our form.
    """
    return list(dict.fromkeys([*launch_warnings(entry), *questions(entry)]))


def questions(entry: JSON) -> list[str]:
    """Return the doubts that need a question before an entry is tried: its command or address does not show them.

    Args:
        entry: The entry, in our form.
    """
    env = entry.get("env")
    variables = (f"{name} {reason}" for name in (sorted(env) if is_object(env) else ()) if (reason := reason_of(name)))
    return [*variables, *_odd_options(launch_words(entry)), *_handed_over(entry)]


def _odd_options(words: Sequence[str]) -> Iterator[str]:
    """Yield the unknown options before a package: they may make a runner fetch or run something else."""
    programs = (os.path.basename(words[0]), *words[1:]) if words else ()
    for runner, allowed in _OPTIONS.items():
        skip = programs[: len(runner)] != runner
        for word in words[len(runner) :] if not skip else ():
            option, equals, _ = word.partition("=")
            if skip or not word.startswith("-"):
                if not skip:
                    break
                skip = False
            elif option not in allowed:
                yield f"{' '.join(runner)} is told {option}, which may fetch or run something else"
            else:
                skip = allowed[option] and not equals


def _handed_over(entry: JSON) -> Iterator[str]:
    """Yield the user's variables and files that an entry hands over, and to whom."""
    to = entry.get("url") or entry.get("openapi") or entry.get("command")
    shown = redacted(str(to).partition("?")[0])
    references = [reference for text in texts_in(entry) for reference in references_in(text)]
    names = dict.fromkeys(match[1] for reference in references if (match := _VARIABLE.fullmatch(reference)))
    files = [reference for reference in references if not _VARIABLE.fullmatch(reference)]
    inherited = entry.get("inherit_env")
    if inherited is True:
        yield f"all of your variables go to {shown}"
    names |= dict.fromkeys(map(str, inherited)) if is_array(inherited) else {}
    names = {name: None for name in names if name not in HARMLESS}
    if names:
        yield f"your {', '.join(names)} {'goes' if len(names) == 1 else 'go'} to {shown}"
    if files:
        yield f"what {', '.join(dict.fromkeys(files))} holds goes to {shown}"
