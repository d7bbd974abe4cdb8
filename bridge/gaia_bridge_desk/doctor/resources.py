"""What the system gives to the bridge: room on the disks of its folders, and files that may be open at once."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gaia_bridge.config.paths import expanded
from gaia_bridge.constants import MIB
from gaia_bridge.errors import ConfigError
from gaia_bridge_daemon.front.place import runtime_path
from gaia_bridge_desk.doctor.checks import Subject
from gaia_bridge_desk.doctor.findings import Finding, Kind, Level
from gaia_bridge_desk.doctor.surroundings import Surroundings

_FINE = Kind(
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

_FOLDER: Final = Path("~/.gaia")


def _check(at: Surroundings) -> list[Finding]:
    found = [*_of_disks(at), *_of_open_files(at)]
    return found or [_FINE.found("the disks of the bridge's folders have room, and enough files may be open")]


def _of_disks(at: Surroundings) -> Iterator[Finding]:
    folders = [runtime_path(at.environ)]
    try:
        folders.append(str(expanded(_FOLDER)))
    except ConfigError:  # there is no home, which is told of the files
        pass
    seen: set[int] = set()
    for folder in folders:
        there = _existing(folder)
        try:
            device, disk = os.stat(there).st_dev, os.statvfs(there)
        except OSError:  # it is not ours to look at, which is told of the folder itself
            continue
        free = disk.f_bavail * disk.f_frsize
        has_no_names = bool(disk.f_files) and not disk.f_favail
        if device not in seen and (free < at.limits.free_bytes or has_no_names):
            what = "can hold no more files" if has_no_names else f"has {free / MIB:.1f} MiB left"
            yield _DISK_FULL.found(f"the disk of {folder} {what}", folder)
        seen.add(device)


def _existing(folder: str) -> str:
    """A folder, or the nearest one above it that is there."""
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def _of_open_files(at: Surroundings) -> Iterator[Finding]:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < at.limits.open_files:
        yield _FEW_FILES.found(f"{allowed} files may be open at once; expected {at.limits.open_files} at least")


RESOURCES = Subject("Resources", (_FINE, _DISK_FULL, _FEW_FILES), _check)
