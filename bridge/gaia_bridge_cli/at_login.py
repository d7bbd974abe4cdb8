"""`gaia-bridge up --at-login`: makes the system start the bridge for all editors when its user logs in."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import printable
from gaia_bridge_cli.output import NobodyToAskError
from gaia_bridge_daemon.front.place import Scope

_LABEL: Final = "gaia-bridge"
_RELOAD_SECONDS: Final = 10.0
"""Seconds for systemd to read its files again."""

_KEPT: Final = ("PATH", "LANG", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
"""Variables without which servers that start here do not start at login, beside those for proxies; none is a secret."""

_UNIT: Final = """\
# Written by `gaia-bridge up --at-login`; with --remove, it is removed again.
[Unit]
Description=MCP servers for all editors (gaia-bridge)

[Service]
# It is a process of its own, which fronts of editors replace when there is a newer version.
Type=oneshot
RemainAfterExit=yes
WorkingDirectory={folder}
{environment}
ExecStart={up}
ExecStop={down}

[Install]
WantedBy=default.target
"""


class AtLogin(Struct, frozen=True):
    """The file that makes the system start a bridge, and the link that enables it."""

    path: Path
    text: str
    link: Path | None
    """A link to the file that has to exist as well: `systemctl --user enable` makes the same."""


def at_login(scope: Scope, system: str = sys.platform) -> AtLogin:
    """Return the file for a bridge.

    Args:
        scope: The scope of the bridge.
        system: The system, as `sys.platform` names it.

    Raises:
        ConfigError: The system has no such files, or a path cannot be written in one.
    """
    name = _LABEL if scope.name == "default" else f"{_LABEL}-{scope.name}"
    up, down = ([sys.executable, "-P", "-m", "gaia_bridge", command, *scope.words] for command in ("up", "down"))
    folder = scope.folder or os.path.expanduser("~")
    from gaia_bridge.config.launching.child_environment import proxies_without_users  # for this alone

    kept = {key: os.environ[key] for key in _KEPT if os.environ.get(key)} | proxies_without_users(os.environ)
    for text in (*up, folder, *kept.values()):
        if not text.isprintable():
            raise ConfigError("--at-login", f"{printable(text)!r} cannot be written in such a file", "rename it")
    if system == "darwin":
        return AtLogin(Path.home() / "Library" / "LaunchAgents" / f"{name}.plist", _plist(name, up, folder, kept), None)
    if system.startswith("linux"):
        folder_of_units = Path(_config_folder()) / "systemd" / "user"
        unit = f"{name}.service"
        text = _UNIT.format(
            folder=folder.replace("%", "%%"),
            environment="\n".join(f"Environment={_quoted(f'{key}={value}')}" for key, value in kept.items()),
            up=_command(up),
            down=_command(down),
        )
        return AtLogin(folder_of_units / unit, text, folder_of_units / "default.target.wants" / unit)
    problem = f"there is no way known to start programs at login on {system}"
    raise ConfigError("--at-login", problem, "have your system run `gaia-bridge up`")


def changes(wanted: AtLogin) -> str:
    """Return the changes that `install` would make, to be shown; empty if there are none."""
    try:
        old = wanted.path.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return f"{wanted.path}:\n\n{wanted.text}"
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(wanted.path), f"cannot be read: {error}") from None
    new = wanted.text.splitlines(keepends=True)
    difference = "".join(difflib.unified_diff(old, new, str(wanted.path), "as it would be"))
    if not difference and wanted.link is not None and not wanted.link.is_symlink():
        return f"{wanted.link}: a link to {wanted.path}\n"
    return difference


def install(wanted: AtLogin) -> None:
    """Write the file; it counts from the next login on.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        wanted.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = wanted.path.with_name(f".{wanted.path.name}.new")
        temporary.write_text(wanted.text, encoding="utf-8")
        temporary.replace(wanted.path)
        if wanted.link is not None:
            wanted.link.parent.mkdir(exist_ok=True)
            with suppress(FileExistsError):
                wanted.link.symlink_to(wanted.path)
    except OSError as error:
        raise ConfigError(str(error.filename or wanted.path), f"cannot be written: {error.strerror}") from None
    _reload(wanted)


def remove(wanted: AtLogin) -> bool:
    """Undo `install`; return whether there was anything to undo.

    Raises:
        ConfigError: The file cannot be removed.
    """
    is_removed = False
    for path in (wanted.link, wanted.path):
        try:
            if path is not None:
                path.unlink()
                is_removed = True
        except FileNotFoundError:
            pass
        except OSError as error:
            raise ConfigError(str(path), f"cannot be removed: {error.strerror}") from None
    if is_removed:
        _reload(wanted)
    return is_removed


def agreed(difference: str, yes: bool, asks: bool) -> bool:
    """Show the changes, and ask for consent; return whether the user agrees.

    Args:
        difference: The changes.
        yes: Whether the user has agreed on the command line.
        asks: Whether there is a terminal to ask on.

    Raises:
        click.UsageError: There is no terminal to ask on.
    """
    for line in difference.splitlines():
        click.echo(printable(line, None), err=True)
    if yes:
        return True
    if not asks:
        raise NobodyToAskError("there is no terminal to ask on; --yes writes it without asking")
    return click.confirm("Write this?", default=False, err=True)


def _plist(name: str, words: Sequence[str], folder: str, environment: dict[str, str]) -> str:
    import plistlib

    properties = {
        "Label": name,
        "ProgramArguments": list(words),
        "RunAtLoad": True,
        "WorkingDirectory": folder,
        "EnvironmentVariables": environment,
        "AbandonProcessGroup": True,  # the bridge goes on when the command that starts it has ended
    }
    return plistlib.dumps(properties, sort_keys=False).decode()


def _command(words: Sequence[str]) -> str:
    return " ".join(_quoted(word.replace("$", "$$")) for word in words)


def _quoted(word: str) -> str:
    """Quote a word as systemd reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _config_folder() -> str:
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    return folder if os.path.isabs(folder) else os.path.expanduser("~/.config")


def _reload(wanted: AtLogin) -> None:
    """Make systemd read its files again, where it runs; it does so at the next login in any case."""
    if wanted.link is None:
        return
    with suppress(OSError, subprocess.SubprocessError):
        command = ["systemctl", "--user", "daemon-reload"]
        subprocess.run(command, capture_output=True, timeout=_RELOAD_SECONDS, check=False)
