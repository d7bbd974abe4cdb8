"""Checks the user's own files in `~/.gaia`: whether they can be written, and no other user can read or change them.

Also checks the files of `gaia-bridge up --at-login`, whose program has to exist, and the system's limits: free space
on the disks of its folders, and the number of files that may be open at once.
"""

from __future__ import annotations

import os
import plistlib
import resource
import shlex
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final
from xml.parsers.expat import ExpatError

from gaia_bridge.config.file_reader import writable_by_others
from gaia_bridge.config.paths import default_servers_path, default_trust_path, expanded
from gaia_bridge.constants import MIB
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import is_array, is_object
from gaia_bridge_daemon.front.place import runtime_path
from gaia_bridge_desk.doctor.checks import Finding, Kind, Level, Repair, Subject
from gaia_bridge_desk.doctor.repairing import OF_OTHERS, narrow
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
"""Characters of such a file; ours have some hundreds."""


def gone_at_login(at: Surroundings) -> Iterator[Finding]:
    """Yield a finding for each file of `up --at-login` whose program is missing.

    Args:
        at: The surroundings of the examination.
    """
    for path in _files(at):
        words = _command_line(path)
        if words and os.path.isabs(words[0]) and not os.access(words[0], os.X_OK):
            options = words[words.index(_UP) + 1 :] if _UP in words else []
            remedy = shlex.join(["gaia-bridge", _UP, "--at-login", *options])
            yield GONE_AT_LOGIN.finding(f"{path} starts {words[0]}, which is not there", str(path), remedy)


def _files(at: Surroundings) -> list[Path]:
    """Return the files of `up --at-login` that are ours, judged by their names."""
    if at.platform == "darwin":
        return sorted(expanded(Path("~/Library/LaunchAgents")).glob("gaia-bridge*.plist"))
    configured = at.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(configured) if os.path.isabs(configured) else expanded(Path("~/.config"))
    return sorted((folder / "systemd" / "user").glob("gaia-bridge*.service"))


def _command_line(path: Path) -> list[str]:
    """Return the command line in a file; an empty list if none can be read."""
    try:
        with open(path, "rb") as file:
            content = file.read(_LONGEST)
        if path.suffix == ".plist":
            document: object = plistlib.loads(content)
            words: object = document.get("ProgramArguments") if is_object(document) else None
            return [str(word) for word in words] if is_array(words) else []
        lines = content.decode("utf-8").splitlines()
        line = next((line for line in lines if line.startswith(_STARTS)), "")
        return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix(_STARTS))]
    except (OSError, ValueError, plistlib.InvalidFileException, ExpatError):
        return []


_FINE = Kind("file.fine", Level.OK, "the user's own files are as they should be", "nobody else can read or change them")
_NO_HOME = Kind(
    "file.no-home",
    Level.ERROR,
    "there is no home folder",
    "there is no place for the configuration, approvals and logins",
    "make it, or set HOME to one that is there",
)
_UNWRITABLE = Kind(
    "file.unwritable",
    Level.ERROR,
    "a folder of the user's own files cannot be written",
    "servers cannot be added or approved, logins and tokens not kept",
    "make it yours and writable: chmod u+rwx, or chown",
)
_SECRET_OPEN = Kind(
    "file.secret-open",
    Level.ERROR,
    "others can read a file with secrets",
    "whoever reads it can use your tokens and logins",
    "chmod go-rwx the file, and renew what is in it if the machine has other users",
    is_repairable=True,
)
_CHANGEABLE = Kind(
    "file.changeable",
    Level.ERROR,
    "others can change a file that says what is started",
    "another user could have a program of theirs run as you; the bridge refuses such approvals",
    "chmod go-w the file",
    is_repairable=True,
)
_NOT_YOURS = Kind(
    "file.not-yours",
    Level.ERROR,
    "a file of the user's own belongs to somebody else",
    "that user can change what is started; it often comes of a command with sudo",
    "chown it to yourself",
)

_FOLDER: Final = Path("~/.gaia")
_SECRET_FOLDERS: Final = ("secrets", "oauth", "backups")
_TOKEN: Final = "bridge-token"
_MOST: Final = 5_000
"""The most files of one folder that are examined."""


def _check(at: Surroundings) -> list[Finding]:
    try:
        folder = expanded(_FOLDER)
    except ConfigError as error:
        return [_NO_HOME.finding(str(error))]
    if not folder.parent.is_dir():
        return [_NO_HOME.finding(f"the home folder {folder.parent} is not there", str(folder.parent))]
    if not os.path.lexists(folder):
        if os.access(folder.parent, os.W_OK | os.X_OK):
            return [_FINE.finding(f"{folder} is created when it is needed", str(folder))]
        return [_UNWRITABLE.finding(f"{folder} is not there, and cannot be made", str(folder))]
    findings = [*_of_folder(folder)]
    if not findings:
        for path in _with_secrets(folder):
            findings += _of_secret(path)
        for path in dict.fromkeys([default_servers_path(), default_trust_path(), *_configured(at)]):
            findings += _of_launch_lines(path)
    return findings or [_FINE.finding(f"{folder} and what is in it are yours alone", str(folder))]


def _of_folder(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield _UNWRITABLE.finding(f"{folder} is no folder", str(folder), f"move it away: mv {folder} {folder}.old")
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield _UNWRITABLE.finding(f"{folder} cannot be written", str(folder), f"chmod u+rwx {shlex.quote(str(folder))}")
    else:
        yield from _of_launch_lines(folder)


def _with_secrets(folder: Path) -> Iterator[Path]:
    """Yield the files that hold secrets, or may."""
    yield folder / _TOKEN
    for name in _SECRET_FOLDERS:
        try:
            with os.scandir(folder / name) as entries:
                # `zip` with a range stops at the limit, without listing the rest.
                paths = [Path(each.path) for each, _ in zip(entries, range(_MOST), strict=False)]
        except OSError:  # most have no such folder
            continue
        yield from sorted(paths)


def _configured(at: Surroundings) -> list[Path]:
    """Return the files of servers that are in use, those of a project included."""
    return [layer.path for layer in at.servers.layers]


def _of_secret(path: Path) -> Iterator[Finding]:
    about = _about(path)
    if about is None or not stat.S_ISREG(about.st_mode):
        return
    if about.st_uid != os.getuid():
        yield _NOT_YOURS.finding(f"{path} belongs to user {about.st_uid}", str(path), _chown_command(path))
    elif about.st_mode & 0o077:
        command = f"chmod go-rwx {shlex.quote(str(path))}"
        repair = None if path.is_symlink() else Repair(command, partial(narrow, path, OF_OTHERS))
        yield _SECRET_OPEN.finding(f"{path} has the mode {stat.S_IMODE(about.st_mode):04o}", str(path), command, repair)


def _of_launch_lines(path: Path) -> Iterator[Finding]:
    about = _about(path)
    if about is None or writable_by_others(about) is None:
        return
    if about.st_uid != os.getuid():
        yield _NOT_YOURS.finding(f"{path} belongs to user {about.st_uid}", str(path), _chown_command(path))
        return
    mode = stat.S_IMODE(about.st_mode)
    command = f"chmod go-w {shlex.quote(str(path))}"
    repair = None if path.is_symlink() else Repair(command, partial(narrow, path, 0o022))
    yield _CHANGEABLE.finding(f"{path} has the mode {mode:04o}", str(path), command, repair)


def _about(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _chown_command(path: Path) -> str:
    return f"sudo chown $USER {shlex.quote(str(path))}"


FILES = Subject("Files", (_FINE, _NO_HOME, _UNWRITABLE, _SECRET_OPEN, _CHANGEABLE, _NOT_YOURS), _check)


_ENOUGH = Kind(
    "resource.fine", Level.OK, "there is enough room and there are enough open files", "bridge and servers need both"
)
_DISK_FULL = Kind(
    "resource.disk-full",
    Level.ERROR,
    "the disk of a folder of the bridge is full",
    "no bridge may be able to start, and configuration, logins and logs cannot be written",
    "remove what is not needed from that disk",
)
_FEW_FILES = Kind(
    "resource.few-files",
    Level.WARNING,
    "few files may be open at once",
    "each server and each client takes some: with many, the bridge can start no more, or does not start at all",
    "raise the limit where editors are started: ulimit -n 1024",
)


def _check_resources(at: Surroundings) -> list[Finding]:
    findings = [*_of_disks(at), *_of_open_files(at)]
    return findings or [_ENOUGH.finding("the disks of the bridge's folders have room, and enough files may be open")]


def _of_disks(at: Surroundings) -> Iterator[Finding]:
    folders = [runtime_path(at.environ)]
    try:
        folders.append(str(expanded(_FOLDER)))
    except ConfigError:  # there is no home folder, which the subject of files reports
        pass
    seen: set[int] = set()
    for folder in folders:
        there = _existing(folder)
        try:
            device, disk = os.stat(there).st_dev, os.statvfs(there)
        except OSError:  # the folder is not accessible, which its own check reports
            continue
        free = disk.f_bavail * disk.f_frsize
        has_no_names = bool(disk.f_files) and not disk.f_favail
        if device not in seen and (free < at.limits.free_bytes or has_no_names):
            what = "can hold no more files" if has_no_names else f"has {free / MIB:.1f} MiB left"
            yield _DISK_FULL.finding(f"the disk of {folder} {what}", folder)
        seen.add(device)


def _existing(folder: str) -> str:
    """Return a folder, or the nearest existing one above it."""
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def _of_open_files(at: Surroundings) -> Iterator[Finding]:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < at.limits.open_files:
        yield _FEW_FILES.finding(f"{allowed} files may be open at once; expected {at.limits.open_files} at least")


RESOURCES = Subject("Resources", (_ENOUGH, _DISK_FULL, _FEW_FILES), _check_resources)
