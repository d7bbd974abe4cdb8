"""What stands for the folder of a plugin, where an editor has left it as it is.

VS Code up to 1.139 fills `${PLUGIN_ROOT}` in for no plugin of the open form (https://github.com/microsoft/vscode/issues/335006).
The specification wants the folder to be in the environment as well, and to be the current one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gaia_bridge.errors import ConfigError

_MARKS: Final = {
    "${PLUGIN_ROOT}": ("PLUGIN_ROOT", "plugin.json"),
    "${CLAUDE_PLUGIN_ROOT}": ("CLAUDE_PLUGIN_ROOT", ".claude-plugin/plugin.json"),
}
"""What stands for the folder, with the variable that has it, and the file that tells it."""


def in_plugin(path: str, environ: Mapping[str, str] | None = None, folder: Path | None = None) -> str:
    """A path, with the folder of the plugin filled in where an editor has not.

    Args:
        path: The path of an agent or a configuration, as it came.
        environ: The environment; that of this process if not given.
        folder: The current folder; that of this process if not given.

    Raises:
        ConfigError: Nothing says where the plugin is.
    """
    mark = next((mark for mark in _MARKS if path.startswith(mark)), None)
    if mark is None:
        return path
    variable, manifest = _MARKS[mark]
    rest = path.removeprefix(mark)
    root = (os.environ if environ is None else environ).get(variable, "")
    if root and not root.startswith("$"):
        return root + rest
    here = Path.cwd() if folder is None else folder
    if (here / manifest).is_file():
        return f"{here}{rest}"
    problem = f"the editor has not filled in {mark}, and says nowhere else where the plugin is"
    hint = "make the plugin with gaia-bridge bundle plugin --form claude, which it fills in"
    raise ConfigError(path, problem, hint)
