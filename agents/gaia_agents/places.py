"""The folder that an agent works in: always the same, or that of the window whose request it works for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes, urlsplit

from gaia_agents.base import current_request
from gaia_agents.workspace import WORKSPACE_VARIABLE, Workspace, home_in, open_workspace
from gaia_bridge.calls.request_context import RequestContext
from gaia_bridge.errors import AnswerError, ClientCapabilityError, ToolError

__all__ = ["OnePlace", "Places", "WindowPlaces", "folder_told", "places_of"]

_KEPT: Final = 64
"""Folders that are remembered; one that is forgotten is opened again."""

OwnFiles = Callable[[], Collection[Path]]


class Places(Protocol):
    """Where an agent works."""

    fixed: Workspace | None
    """The folder, where it is always the same."""

    def workspace(self) -> Workspace:
        """Return the folder for the request that is being worked on.

        Raises:
            ToolError: It is not known.
        """
        ...


class OnePlace:
    """One folder, whoever asks: implements `Places`.

    Args:
        root: The folder; as `open_workspace` has it.
        own_files: Tells what the bridge itself loads.

    Raises:
        ConfigError: It is no folder.
    """

    def __init__(self, root: Path | str | None, own_files: OwnFiles) -> None:
        self._only = open_workspace(root, own_files)
        self.fixed: Workspace | None = self._only

    def workspace(self) -> Workspace:
        """Return the folder."""
        return self._only


class WindowPlaces:
    """The folder that is open in the window that asks, which no other window's requests reach: implements `Places`.

    A window says which it is when it declares roots that are folders here, and else by the folder that its program was
    started in. Both are believed of programs of this user alone, which can read these folders anyway.

    Args:
        own_files: Tells what the bridge itself loads.
    """

    fixed: Workspace | None = None

    def __init__(self, own_files: OwnFiles) -> None:
        self._own_files = own_files
        self._opened: dict[Path, Workspace] = {}
        self._lock = threading.Lock()

    def workspace(self) -> Workspace:
        """Return the folder of the window.

        Raises:
            ToolError: It has none that could be worked in.
        """
        request = current_request()
        started = None if request is None else request.client_folder
        if request is None or started is None:
            raise ToolError(
                "which folder to work in is not known: only of editors that start gaia-bridge connect is it known; "
                "have yours do so (gaia-bridge install), or serve a folder by itself (gaia-bridge serve, started there)"
            )
        given = _roots(request)
        folder = next((folder for text in given or [started] if (folder := _usable(text)) is not None), None)
        if folder is None:
            folders = ", ".join(map(repr, given)) if given else f"none; it was started in {started!r}"
            raise ToolError(
                f"this window has no folder to work in (it has {folders:.300}): open the folder of a project in it; "
                "the home folder, with all that is private in it, is none"
            )
        return self._at(folder)

    def _at(self, folder: Path) -> Workspace:
        with self._lock:  # tools run in threads
            workspace = self._opened.pop(folder, None) or open_workspace(folder, self._own_files)
            self._opened[folder] = workspace
            if len(self._opened) > _KEPT:
                del self._opened[next(iter(self._opened))]
        return workspace


def places_of(root: Path | str | None, own_files: OwnFiles, *, in_windows: bool) -> Places:
    """Choose where an agent works.

    Args:
        root: Its folder.
        own_files: Tells what the bridge itself loads.
        in_windows: Whether it works in the folder of each window instead, unless `GAIA_WORKSPACE` names one for all.
    """
    if in_windows and root is None and not os.environ.get(WORKSPACE_VARIABLE):
        return WindowPlaces(own_files)
    return OnePlace(root, own_files)


def folder_told(places: Places) -> str:
    """Describe where an agent works."""
    fixed = places.fixed
    return "the folder that is open in your window" if fixed is None else f"the folder {fixed.root.name!r}"


def _roots(request: RequestContext) -> list[str]:
    """Return the folders that are open in the window, as far as it says."""
    if request.hops or not request.has_capability("roots"):  # behind another bridge may be anybody
        return []
    try:
        listed = request.list_roots()
    except (AnswerError, ClientCapabilityError) as error:
        raise ToolError(f"the editor did not tell which folders are open in it: {error}") from None
    paths = (_path_of(root["uri"]) for root in listed)
    return [path for path in paths if path is not None]


def _path_of(uri: str) -> str | None:
    """Return the path of a `file` URI of this machine; `None` for all else."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # its host is none
        return None
    here = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return os.fsdecode(unquote_to_bytes(parts.path)) if here else None


def _usable(text: str) -> Path | None:
    """Return the folder, if it is one that an agent may work in; else `None`."""
    if not os.path.isabs(text) or "\0" in text:
        return None
    folder = Path(os.path.realpath(text))
    return folder if folder.is_dir() and home_in(folder) is None else None
