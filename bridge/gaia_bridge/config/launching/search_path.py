"""Where the programs of servers are looked for: an editor that the desktop starts hands on a short `PATH`.

What a terminal finds is remembered whenever one puts something into a configuration (`install`, `add`, `import`,
`up`), and found wherever the bridge is started later. Beside that, programs are found where their installers put them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gaia_bridge.config.file_editor import edit_file
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import expanded
from gaia_bridge.errors import ConfigError

REMEMBERED: Final = "~/.gaia/path"
"""The file with the `PATH` of the latest terminal."""

_MAX_BYTES: Final = 64 * 1024
"""Of that file; the system takes about as much."""

_USUAL: Final = (
    *("~/.local/bin", "~/bin", "~/.cargo/bin", "~/.volta/bin", "~/.bun/bin", "~/.deno/bin", "~/.npm-global/bin"),
    *("~/.local/share/fnm/aliases/default/bin", "~/.local/share/mise/shims", "~/.asdf/shims", "~/.local/share/pnpm"),
    *("~/Library/pnpm", "~/.nodenv/shims", "~/.pyenv/shims", "~/.rd/bin", "~/.docker/bin"),
    *("/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin", "/usr/local/bin", "/opt/local/bin", "/snap/bin"),
    *("/usr/bin", "/bin", "/Applications/Docker.app/Contents/Resources/bin"),
)
"""Where uv, Node.js, Docker and their version managers put programs, in the home folder first."""

_NVM: Final = "~/.nvm/versions/node"
"""A folder for each version, none of which has a fixed name."""


def search_path(environ: Mapping[str, str]) -> str:
    """The folders in which the programs of servers are looked for, as `PATH` has them.

    What this process has comes first, unless a terminal had all of that and more: then it is as it was there. Of what
    installers use, only what is there comes last.

    Args:
        environ: Our own environment.
    """
    own, remembered = list(filter(None, environ.get("PATH", "").split(os.pathsep))), _remembered()
    ordered = remembered if set(own) <= set(remembered) else own
    further = dict.fromkeys(folder for folder in (*remembered, *usual_folders()) if folder not in ordered)
    return os.pathsep.join((*ordered, *further))


def remember_search_path(environ: Mapping[str, str]) -> bool:
    """Keep the `PATH` of a terminal for bridges that are started without one.

    The folder of an active virtual environment is left out: its programs are for whoever activated it.

    Args:
        environ: The environment of a command that somebody typed.

    Returns:
        Whether it was another one before.
    """
    active = active_folders(environ)
    folders = [folder for folder in _folders(environ.get("PATH", "")) if folder not in active]
    with suppress(ConfigError):  # without a home folder, there are the usual folders
        content = f"{os.pathsep.join(folders)}\n".encode(errors="surrogateescape")
        path = expanded(Path(REMEMBERED))
        return edit_file(path, lambda before, _status: None if _says_as_much(before, folders) else content)
    return False


def active_folders(environ: Mapping[str, str]) -> set[str]:
    """The folders of programs that only an active virtual environment has on the `PATH`.

    Args:
        environ: The environment of a command that somebody typed.
    """
    return {os.path.join(environ[name], "bin") for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)}


def _says_as_much(before: bytes | None, folders: list[str]) -> bool:
    """Whether what is remembered has all of these folders: then it is the same, or of a terminal that has more."""
    known = [] if before is None else _folders(before.decode(errors="surrogateescape").rstrip("\n"))
    return known == folders or set(folders) < set(known)


def usual_folders() -> Iterator[str]:
    """The folders of installers that are there."""
    for name in _USUAL:
        with suppress(ConfigError):
            if (folder := expanded(Path(name))).is_dir():
                yield str(folder)
    with suppress(ConfigError, OSError):
        versions = sorted(os.listdir(expanded(Path(_NVM))), key=_number, reverse=True)
        yield from (str(expanded(Path(_NVM, version, "bin"))) for version in versions)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _remembered() -> list[str]:
    try:
        content, _ = read_bytes(expanded(Path(REMEMBERED)), _MAX_BYTES)
    except ConfigError:
        return []
    return _folders(content.decode(errors="surrogateescape").rstrip("\n"))


def _folders(path: str) -> list[str]:
    """The folders of a `PATH`; one that depends on the current folder is none."""
    return [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
