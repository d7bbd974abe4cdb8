"""Where git keeps what it knows about a folder: found by looking, without running git."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gaia_agents.files import read_regular

__all__ = ["Repository", "find_repository", "read_small"]

_SMALL = 256 * 1024
"""Bytes of a `.gitignore`, or of git's one-line files; more is no such file."""


@dataclass(frozen=True, slots=True)
class Repository:
    """The places of one work tree."""

    top: Path
    """The folder that holds `.git`."""
    git_dir: Path
    """This work tree's own `HEAD` and `index`."""
    common_dir: Path
    """The folder with the parts that all work trees share: `refs`, `info/exclude`. Often the same as `git_dir`."""


def find_repository(folder: Path) -> Repository | None:
    """Return the repository that `folder` (absolute) is in, if any."""
    for top in (folder, *folder.parents):
        git_dir = _git_dir(top)
        if git_dir is not None:
            shared = read_small(git_dir / "commondir").strip()
            return Repository(top, git_dir, Path(os.path.normpath(git_dir / shared)) if shared else git_dir)
    return None


def read_small(path: Path) -> str:
    """Read the text of a small file; empty if it is missing, no regular file, or larger than it should be."""
    try:
        data = read_regular(str(path), _SMALL)
    except (OSError, ValueError):
        return ""
    return data.decode("utf-8-sig", "surrogateescape")


def _git_dir(top: Path) -> Path | None:
    git_dir = top / ".git"
    if git_dir.is_file():  # a linked work tree or a submodule: "gitdir: <path>"
        git_dir = top / read_small(git_dir).removeprefix("gitdir:").strip()
    return git_dir if os.path.lexists(git_dir / "HEAD") else None
