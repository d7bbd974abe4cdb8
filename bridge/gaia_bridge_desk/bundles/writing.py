"""Writes bundles: nothing that is there is written over unasked, and nothing is left half-written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import printable


def differences(folder: Path, files: Mapping[str, bytes]) -> Iterator[str]:
    """What is otherwise in a folder than it would be written, a line for each file.

    Args:
        folder: Where.
        files: Path in it to content.
    """
    for name, content in files.items():
        path = folder / name
        if not path.is_file():
            yield f"{name} is missing"
        elif path.read_bytes() != content:
            yield f"{name} is another one"


def written(folder: Path, files: Mapping[str, bytes], *, force: bool) -> list[str]:
    """Write what is not there as it is to be.

    Args:
        folder: Where; it is made if it is not there.
        files: Path in it to content.
        force: Whether files that are otherwise are written over. Others in the folder stay.

    Returns:
        What was written.

    Raises:
        ConfigError: A file is there that is otherwise, and `force` is not given; or it cannot be written.
    """
    wanted = [name for name, content in files.items() if _content(folder / name) != content]
    taken = [name for name in wanted if os.path.lexists(folder / name)]
    if taken and not force:
        shown = ", ".join(printable(name) for name in taken[:3]) + (" ..." if taken[3:] else "")
        raise ConfigError(printable(str(folder)), f"there are other files already: {shown}", "--force writes over them")
    for name in wanted:
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, files[name])
        except OSError as error:
            raise ConfigError(printable(str(path)), f"cannot be written: {error.strerror}") from None
    return wanted


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _write(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        hidden.write_bytes(content)
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)
