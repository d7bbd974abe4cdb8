"""Listing a workspace with a bound: so many files, so many seconds, and not for a client that has gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gaia_agents.workspace import Workspace, WorkspaceFile
from gaia_bridge.calls.request_context import RequestContext

__all__ = ["Listing", "list_files"]

MAX_FILES = 20_000
"""More than any project of source text; fewer than what would take minutes."""
MAX_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Listing:
    """Some or all files of a workspace."""

    files: tuple[WorkspaceFile, ...]
    complete: bool
    """Whether there are no others."""

    @property
    def paths(self) -> list[str]:
        """The paths, from the root."""
        return [file.path for file in self.files]


def list_files(
    workspace: Workspace,
    under: str = "",
    *,
    wanted: Callable[[WorkspaceFile], bool] = lambda file: True,
    request: RequestContext | None = None,
    limit: int = MAX_FILES,
) -> Listing:
    """List the files that are not ignored.

    Args:
        workspace: Where.
        under: A folder or file to start at.
        wanted: Which files to list.
        request: The request that asks for it.
        limit: How many files.

    Raises:
        PathError: There is no such place.
        RequestCancelledError: The request was cancelled.
    """
    end = time.monotonic() + MAX_SECONDS

    def check() -> None:
        if request is not None:
            request.raise_if_cancelled()
        if time.monotonic() > end:
            raise TimeoutError

    files: list[WorkspaceFile] = []
    try:
        for file in workspace.files(under, check):
            if not wanted(file):
                continue
            if len(files) == limit:
                return Listing(tuple(files), complete=False)
            files.append(file)
    except TimeoutError:
        return Listing(tuple(files), complete=False)
    return Listing(tuple(files), complete=True)
