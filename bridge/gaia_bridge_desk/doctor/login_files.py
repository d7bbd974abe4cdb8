"""What `gaia-bridge up --at-login` wrote for systemd or launchd: whether the program in it is still there."""

from __future__ import annotations

import os
import plistlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gaia_bridge.config.paths import expanded
from gaia_bridge.text.json_types import is_array, is_object
from gaia_bridge_desk.doctor.findings import Finding, Kind, Level
from gaia_bridge_desk.doctor.surroundings import Surroundings

GONE_AT_LOGIN: Final = Kind(
    "daemon.at-login-gone",
    Level.WARNING,
    "what starts the bridge at login names a program that is not there",
    "nothing is started at login: the installation that wrote it was moved or removed",
    "gaia-bridge up --at-login writes it anew; with --remove, it is removed",
)

_STARTS: Final = "ExecStart="
_UP: Final = "up"
_LONGEST: Final = 65_536
"""Characters of such a file; those that we write have some hundreds."""


def gone_at_login(at: Surroundings) -> Iterator[Finding]:
    """The files whose program is gone.

    Args:
        at: Where.
    """
    for path in _files(at):
        words = _command_line(path)
        if words and os.path.isabs(words[0]) and not os.access(words[0], os.X_OK):
            options = words[words.index(_UP) + 1 :] if _UP in words else []
            remedy = shlex.join(["gaia-bridge", _UP, "--at-login", *options])
            yield GONE_AT_LOGIN.found(f"{path} starts {words[0]}, which is not there", str(path), remedy)


def _files(at: Surroundings) -> list[Path]:
    """The files that are ours, by their names."""
    if at.platform == "darwin":
        return sorted(expanded(Path("~/Library/LaunchAgents")).glob("gaia-bridge*.plist"))
    told = at.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(told) if os.path.isabs(told) else expanded(Path("~/.config"))
    return sorted((folder / "systemd" / "user").glob("gaia-bridge*.service"))


def _command_line(path: Path) -> list[str]:
    """The command line of a file; nothing if it has none that can be read."""
    try:
        with open(path, "rb") as file:
            content = file.read(_LONGEST)
        if path.suffix == ".plist":
            document: object = plistlib.loads(content)
            found: object = document.get("ProgramArguments") if is_object(document) else None
            return [str(word) for word in found] if is_array(found) else []
        lines = content.decode("utf-8").splitlines()
        line = next((line for line in lines if line.startswith(_STARTS)), "")
        return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix(_STARTS))]
    except (OSError, ValueError, plistlib.InvalidFileException):
        return []
