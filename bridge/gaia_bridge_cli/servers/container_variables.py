"""Variables of containers: `docker run -e TOKEN` hands on what docker itself sees, and so has to be given. Pure."""

from __future__ import annotations

import os
import re
from typing import Final

from gaia_bridge.config.launching.launch_lines import is_secret
from gaia_bridge.text.json_types import JSON, is_array, is_object

_PROGRAMS: Final = frozenset({"docker", "podman", "nerdctl"})
_OPTIONS: Final = ("-e", "--env")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def with_container_variables(entry: JSON) -> tuple[JSON, list[str]]:
    """The entry of a container with the variables that its command line hands on by name alone.

    A secret that stands on the command line becomes one of them, because everybody on the machine can read that line.

    Args:
        entry: The entry.

    Returns:
        The entry, and the variables that it now refers to.
    """
    command, args, env = entry.get("command"), entry.get("args"), entry.get("env")
    if not isinstance(command, str) or os.path.basename(command) not in _PROGRAMS or not is_array(args):
        return entry, []
    env = dict(env) if is_object(env) else {}
    words, named = [*args], list[str]()
    for number, word in enumerate(words):
        option, text = _variable(word, words[number - 1] if number else "")
        if text is None:
            continue
        name, equals, value = text.partition("=")
        if not _NAME.fullmatch(name):
            continue
        if equals and is_secret(name, value):
            env[name], words[number] = value, f"{option}{name}"
        elif not equals and name not in env and entry.get("inherit_env") is not True:
            env[name] = f"${{env:{name}}}"
            named.append(name)
    return ({**entry, "args": words, "env": env}, named) if env else (entry, [])


def _variable(word: object, before: object) -> tuple[str, str | None]:
    """What stands before a variable in its word, and the variable; `None` if it is none."""
    if not isinstance(word, str):
        return "", None
    if before in _OPTIONS:
        return "", word
    if word.startswith("--env="):
        return "--env=", word.removeprefix("--env=")
    if re.match(r"-e[A-Za-z_]", word):
        return "-e", word[2:]
    return "", None
