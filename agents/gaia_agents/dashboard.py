"""The figures behind `project://dashboard`, and a cheap check whether they may have changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from gaia_agents.git import Git, GitError
from gaia_agents.listing import list_files
from gaia_agents.repository import find_repository
from gaia_agents.summary import measure
from gaia_agents.workspace import Workspace
from gaia_bridge.calls.request_context import RequestContext
from gaia_bridge.text.json_types import JSON

__all__ = ["dashboard", "fingerprint"]

_LARGEST = 10
_MAX_MEASURED = 5_000
"""Files that are opened for lines and marks; the others are only counted."""
_GIT_FILES = ("FETCH_HEAD", "HEAD", "index", "packed-refs")
_MAX_REFS = 2_000


def dashboard(workspace: Workspace, git: Git, request: RequestContext | None) -> JSON:
    """Compute the figures of the project.

    Args:
        workspace: Its files.
        git: Its history.
        request: The request that asks for it.

    Raises:
        ToolError: The helper process crashed.
        RequestCancelledError: The request was cancelled.
    """
    listing = list_files(workspace, request=request)
    summary = measure(workspace, listing.files[:_MAX_MEASURED], syntax=False, request=request)
    largest = sorted(listing.files, key=lambda file: (-file.size, file.path))[:_LARGEST]
    return {
        "project": workspace.root.name,
        "computed_at": _now().isoformat(timespec="seconds"),
        "git": _git_figures(git),
        "files": {
            "count": len(listing.files),
            "bytes": sum(file.size for file in listing.files),
            "largest": [{"path": file.path, "bytes": file.size} for file in largest],
            "complete": listing.complete,
        },
        "text": {
            "files": len(summary.reports),
            "lines": summary.lines("total"),
            "todos": summary.todos,
            "languages": summary.languages(),
            "complete": listing.complete and summary.complete and len(listing.files) <= _MAX_MEASURED,
        },
    }


def fingerprint(workspace: Workspace) -> bytes:
    """Return a digest that differs whenever the figures may: sizes and times of all files, git's own among them.

    Nothing is opened and no process started.
    """
    digest = hashlib.blake2b(digest_size=16)
    for file in list_files(workspace).files:
        digest.update(f"{file.path}\0{file.size}\0{file.modified_ns}\0".encode())
    repository = find_repository(workspace.root)
    if repository is not None:
        names = [repository.git_dir / name for name in _GIT_FILES]
        for path in (*names, repository.common_dir / "packed-refs", *_below(repository.common_dir / "refs")):
            try:
                status = path.lstat()
            except OSError:
                continue
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return digest.digest()


def _git_figures(git: Git) -> JSON:
    try:
        status = git.status()
        today = _now().replace(hour=0, minute=0, second=0, microsecond=0)
        monday = today - timedelta(days=today.weekday())
        return {
            "available": True,
            "branch": status.branch,
            "commit": status.commit,
            "upstream": status.upstream,
            "ahead": status.ahead,
            "behind": status.behind,
            "clean": status.clean,
            "staged": len(status.staged),
            "modified": len(status.modified),
            "untracked": len(status.untracked),
            "conflicted": len(status.conflicted),
            "commits_today": _commits_since(git, today) if status.commit else 0,
            "commits_this_week": _commits_since(git, monday) if status.commit else 0,
        }
    except GitError as error:
        return {"available": False, "message": str(error)}


def _commits_since(git: Git, start: datetime) -> int:
    return int(git.run("rev-list", "--count", f"--since={start.isoformat()}", "HEAD", "--"))


def _below(folder: Path) -> Iterator[Path]:
    """Files below a folder, so many and no more."""
    count = 0
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            count += 1
            if count > _MAX_REFS:
                return
            yield Path(parent, name)


def _now() -> datetime:
    return datetime.now().astimezone()
