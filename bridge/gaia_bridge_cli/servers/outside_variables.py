"""Variables from outside an entry: of containers (`docker run -e TOKEN`), and of files (`envFile`)."""

from __future__ import annotations

import os
import re
from io import StringIO
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gaia_bridge.config.expansion import as_text
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import expanded
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_desk.editors.installing import MAX_BYTES, text_of
from gaia_bridge_desk.editors.reading import Found
from gaia_bridge_desk.review.launch_lines import is_secret

_PROGRAMS: Final = frozenset({"docker", "podman", "nerdctl"})
_OPTIONS: Final = ("-e", "--env")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def with_container_variables(entry: JSON) -> tuple[JSON, list[str]]:
    """Return the entry of a container with the variables that its command line passes by name alone.

    A secret on the command line becomes such a variable, because everybody on the machine can read that line.

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
    """Return the option in front of a variable in its word, and the variable; `None` if the word has none."""
    if not isinstance(word, str):
        return "", None
    if before in _OPTIONS:
        return "", word
    if word.startswith("--env="):
        return "--env=", word.removeprefix("--env=")
    if re.match(r"-e[A-Za-z_]", word):
        return "-e", word[2:]
    return "", None


def with_variable_file(server: Found, folder: Path, *, own: bool = False) -> Found:
    """Return a server with the variables of the file that it names, uninterpolated; its own variables override them.

    Args:
        server: The server.
        folder: The folder in which relative paths begin.
        own: Whether the user names that file; else it has to lie in the folder.
    """
    if server.env_file is None:
        return server
    from dotenv import dotenv_values

    path = Path(folder, expanded(Path(server.env_file)))
    if not own and not os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), "")):
        note = f"its file of variables, {path}, is left out: it lies outside of {folder}"
        return replace(server, notes=(*server.notes, note))
    if not os.path.isfile(path):
        note = f"its file of variables, {path}, is not there"
        return replace(server, notes=(*server.notes, note))
    text = text_of(path, read_bytes(path, MAX_BYTES)[0])
    read = dotenv_values(stream=StringIO(text), interpolate=False)
    values = {key: as_text(value) for key, value in read.items() if value is not None}
    own_values = server.entry.get("env")
    env = values | (own_values if is_object(own_values) else {})
    return replace(server, entry={**server.entry, "env": env})
