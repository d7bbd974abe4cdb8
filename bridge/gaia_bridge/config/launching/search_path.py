"""The search for the programs of servers: an editor that the desktop starts hands on a short `PATH`.

The `PATH` of a terminal is stored whenever one puts something into a configuration (`install`, `add`, `import`,
`up`), and used wherever the bridge is started later. Beside that, programs are found in the folders of installers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.config.paths import expanded
from gaia_bridge.errors import ConfigError

REMEMBERED: Final = "~/.gaia/path"
"""The file with the `PATH` of the latest terminal."""

_MAX_BYTES: Final = 64 * 1024
"""Bytes of that file; the system allows about as much."""

_USUAL: Final = (
    *("~/.local/bin", "~/bin", "~/.cargo/bin", "~/.volta/bin", "~/.bun/bin", "~/.deno/bin", "~/.npm-global/bin"),
    *("~/.local/share/fnm/aliases/default/bin", "~/.local/share/mise/shims", "~/.asdf/shims", "~/.local/share/pnpm"),
    *("~/Library/pnpm", "~/.nodenv/shims", "~/.pyenv/shims", "~/.rd/bin", "~/.docker/bin"),
    *("/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin", "/usr/local/bin", "/opt/local/bin", "/snap/bin"),
    *("/usr/bin", "/bin", "/Applications/Docker.app/Contents/Resources/bin"),
)
"""The folders of uv, Node.js, Docker and their version managers, those in the home folder first."""

_NVM: Final = "~/.nvm/versions/node"
"""The parent of one folder for each version; their names are not fixed."""


def search_path(environ: Mapping[str, str]) -> str:
    """Return the folders in which programs of servers are searched, in the form of `PATH`.

    The `PATH` of this process comes first, unless the stored one has all of its folders and more: then that one does.
    Existing folders of installers come last.
    """
    own, remembered = list(filter(None, environ.get("PATH", "").split(os.pathsep))), _remembered()
    ordered = remembered if set(own) <= set(remembered) else own
    further = dict.fromkeys(folder for folder in (*remembered, *usual_folders()) if folder not in ordered)
    return os.pathsep.join((*ordered, *further))


def usual_folders() -> Iterator[str]:
    """Yield the folders of installers that exist."""
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
    return absolute_folders(content.decode(errors="surrogateescape").rstrip("\n"))


def absolute_folders(path: str) -> list[str]:
    """Return the absolute folders of a `PATH`; relative ones depend on the current folder, and are left out."""
    return [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
