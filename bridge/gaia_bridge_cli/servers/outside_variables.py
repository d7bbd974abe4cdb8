"""Files of variables that an entry of an editor names (`envFile`)."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

from msgspec.structs import replace

from gaia_bridge.config.expansion import as_text
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import expanded
from gaia_bridge.text.json_types import is_object
from gaia_bridge_desk.editors.installing import MAX_BYTES, text_of
from gaia_bridge_desk.editors.reading import Found


def with_variable_file(server: Found, folder: Path, *, own: bool = False) -> Found:
    """A server with the variables of the file that it names, as they stand there; those of its own count more.

    Args:
        server: The server.
        folder: Where relative paths begin.
        own: Whether the user says which file that is; else it has to lie in the folder.
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
