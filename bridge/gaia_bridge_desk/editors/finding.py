"""Where editors keep their files on this machine, which of them are here, and where our own program is."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from gaia_bridge.config.paths import current_folder, expanded, home_folder
from gaia_bridge.errors import ConfigError
from gaia_bridge_desk.editors.table import EDITORS, Editor, FilePlace, FileScope

_MAC = "darwin"
_USUAL_NAMES = frozenset({"config.toml", "mcp.json", "settings.json"})
"""Names that are too common to identify a file without its folder."""


def editor_called(name: str) -> Editor | None:
    """Return the editor of that name, in any spelling (`VS Code`, `vscode`)."""
    wanted = _plain(name)
    return next((editor for editor in EDITORS if wanted in (_plain(editor.name), _plain(editor.title))), None)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def file_of(place: FilePlace, environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """Return the path at which a file is, or would be.

    Args:
        place: The place of the file.
        environ: The environment; that of this process if not given.
        platform: The system, as `sys.platform` has it.

    Raises:
        ConfigError: There is no home folder, or no current one.
    """
    folder = _folder_of(place, os.environ if environ is None else environ, platform)
    candidates = [folder / name for name in place.names]
    return next((path for path in candidates if os.path.lexists(path)), candidates[0])


def place_of(path: Path) -> tuple[Editor, FilePlace, bool] | None:
    """Return the editor that a file belongs to, by its name and folder; `None` if any program may own the file.

    Args:
        path: The file.

    Returns:
        The editor, which of its files it is or is like, and whether it is the very file that the editor reads here.
    """
    path = Path(os.path.abspath(path))
    places = [(editor, place) for editor in EDITORS for place in editor.places]
    for editor, place in places:
        if file_of(place) == path:
            return editor, place, True
    for editor, place in places:
        folder = place.folder.rpartition("/")[2]
        if path.name in place.names and (path.name not in _USUAL_NAMES or path.parent.name == folder):
            return editor, place, False
    return None


def usual_place(editor: Editor, scope: FileScope | None) -> FilePlace | None:
    """Return the file to use where no scope is given: the user's, or the remote one on a machine that is used from
    another one.

    Args:
        editor: The editor.
        scope: The scope that was given, if any.
    """
    if scope is not None:
        return next((place for place in editor.places if place.scope is scope), None)
    here = next((place for place in editor.places if place.scope is FileScope.USER), None)
    remote = next((place for place in editor.places if place.scope is FileScope.REMOTE), None)
    if here is not None and remote is not None and _is_there(remote) and not _is_there(here):
        return remote
    return next(iter(editor.places), None)


def is_here(editor: Editor) -> bool:
    """Return whether an editor is installed for this user, judged by its files and commands."""
    own = (place for place in editor.places if place.scope is not FileScope.WORKSPACE)
    return any(map(_is_there, own)) or any(shutil.which(program) for program in editor.programs)


def own_program() -> list[str]:
    """Return our program by its whole path, as an editor without the `PATH` of a terminal needs it."""
    name = "gaia-bridge"
    for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        if os.access(path := os.path.join(folder, name), os.X_OK):
            return [path]
    return [sys.executable, "-P", "-m", "gaia_bridge"]  # -P: else a folder of that name would be imported


def _is_there(place: FilePlace) -> bool:
    file = file_of(place)
    return file.exists() or (file.parent != home_folder() and file.parent.is_dir())


def _folder_of(place: FilePlace, environ: Mapping[str, str], platform: str) -> Path:
    if place.variable is not None and (folder := environ.get(place.variable)):
        return Path(folder).absolute()
    root, _, rest = place.folder.partition("/")
    return _roots(root, environ, platform) / rest


def _roots(root: str, environ: Mapping[str, str], platform: str) -> Path:
    match root:
        case ".":
            return current_folder()
        case "~":
            return expanded(Path("~"))
        case "{support}" if platform == _MAC:
            return expanded(Path("~/Library/Application Support"))
        case "{support}" | "{config}":
            return _of_variable(environ, "XDG_CONFIG_HOME", "~/.config")
        case "{data}":
            return _of_variable(environ, "XDG_DATA_HOME", "~/.local/share")
        case _:
            raise ConfigError(root, "is no place that is known")


def _of_variable(environ: Mapping[str, str], name: str, usual: str) -> Path:
    folder = environ.get(name, "")
    return Path(folder) if os.path.isabs(folder) else expanded(Path(usual))
