"""Writes bundles: no existing file is overwritten unasked, and no file is left half-written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import printable


def differences(folder: Path, files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield how the files in a folder differ from those to be written, a line for each file.

    Args:
        folder: The folder.
        files: Path in it to content.
    """
    for name, content in files.items():
        path = folder / name
        if not path.is_file():
            yield f"{name} is missing"
        elif path.read_bytes() != content:
            yield f"{name} is another one"


def written(folder: Path, files: Mapping[str, bytes], *, force: bool) -> list[str]:
    """Write the files that are missing or differ.

    Args:
        folder: The folder; created if missing.
        files: Path in it to content.
        force: Whether files that differ are overwritten. Others in the folder stay.

    Returns:
        The names of the files written.

    Raises:
        ConfigError: A file differs, and `force` is not given; or a file cannot be written.
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
    """Write a file completely or not at all."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        hidden.write_bytes(content)
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)
