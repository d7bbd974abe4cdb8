"""Files of variables that an entry of an editor names (`envFile`)."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from msgspec.structs import replace

from gaia_bridge.cli.servers.pasted_entries import TAKEN
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import expanded
from gaia_bridge.editors.installing import MAX_BYTES, text_of
from gaia_bridge.editors.reading import Found
from gaia_bridge.protocol.json_types import is_object

__all__ = ["with_variable_file"]


def with_variable_file(server: Found, folder: Path) -> Found:
    """A server with the variables of the file that it names; those of its own count more.

    Args:
        server: The server.
        folder: Where relative paths begin.
    """
    if server.env_file is None:
        return server
    from dotenv import dotenv_values

    path = Path(folder, expanded(Path(server.env_file)))
    if not path.is_file():
        note = f"its file of variables, {path}, is not there"
        return replace(server, notes=(*server.notes, note))
    text = text_of(path, read_bytes(path, MAX_BYTES)[0])
    read = dotenv_values(stream=StringIO(text), interpolate=False)
    values = {key: value for key, value in read.items() if value is not None}
    taken = [key for key, value in values.items() if TAKEN.search(value)]
    notes = [
        f"{key} is left out: {path} has a text in it that would be read from your files or keyring here; if you want "
        f"that, say it yourself: --env '{key}=...'"
        for key in taken
    ]
    own = server.entry.get("env")
    env = {key: value for key, value in values.items() if key not in taken} | (own if is_object(own) else {})
    return replace(server, entry={**server.entry, "env": env}, notes=(*server.notes, *notes))
