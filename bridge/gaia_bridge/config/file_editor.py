"""Changes a file in one step, one process at a time: readers see the old or the new content.

The new content goes to a temporary file beside the old one, which it replaces when it is safely on the disk. The lock
is another file beside it, because each change replaces the file itself. The system releases the lock when its
holder dies, so nothing has to be cleaned up.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gaia_bridge.config.file_reader import MAX_BYTES, JsonFile, json_file, read_bytes
from gaia_bridge.errors import ConfigError

LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait for another process that edits the same file; an edit takes milliseconds."""

_POLL: Final = 0.01
"""Seconds between two looks at the lock."""

_POSIX: Final = os.name == "posix"
_UNCHANGED: Final = "the file is as it was"

_NO_LOCKS: Final = frozenset(
    getattr(errno, name) for name in ("ENOLCK", "ENOSYS", "EOPNOTSUPP", "EINVAL", "EIO") if hasattr(errno, name)
)
"""Errors of file systems that lock no files, now or at all."""
_LOCKLESS: Final = "file systems of a network may have no locks: have HOME name a folder of this machine"


def edit_json(path: Path, change: Callable[[JsonFile | None], str | None]) -> bool:
    """Change a JSON file of ours, as `edit_file` does. A new file can be read by its owner alone.

    Args:
        path: The file. If it does not exist, it is created, and so are missing folders.
        change: Gets the file's content, `None` if there is no file; returns the new text, or `None` for no change.

    Raises:
        ConfigError: The file cannot be read or written, is no JSON, or was locked for too long. It is then unchanged.
    """

    def changed(content: bytes | None, status: os.stat_result | None) -> bytes | None:
        text = change(None if content is None or status is None else json_file(_target(path), content, status))
        return None if text is None else text.encode("utf-8")

    return edit_file(path, changed)


def edit_file(
    path: Path,
    change: Callable[[bytes | None, os.stat_result | None], bytes | None],
    *,
    limit: int = MAX_BYTES,
    shared: bool = False,
    lock: Path | None = None,
) -> bool:
    """Change a file, and keep every other process of ours from it meanwhile.

    A symbolic link stays, and its target is changed. An existing file keeps its owner and mode. The file is read
    again under the lock, so that no change by others is lost.

    Args:
        path: The file. If it does not exist, it is created, and so are missing folders.
        change: Gets the file's content and its status, both `None` if there is no file; returns the new
            content, or `None` for no change.
        limit: Bytes that it may have.
        shared: Whether others may read a new file, and enter new folders, as far as the user's umask allows; if
            not, they are for their owner alone.
        lock: The file that is locked; one beside the file if not given.

    Returns:
        Whether the file was changed.

    Raises:
        ConfigError: The file cannot be read or written, or was locked for too long. It is then unchanged.
    """
    target = _target(path)
    try:
        if shared:
            target.parent.mkdir(parents=True, exist_ok=True)
        else:
            make_private_folder(target.parent)
        with _locked(target, lock or target.parent / f".{target.name}.lock"):
            _remove_leftovers(target)
            return _edit(target, change, limit, shared)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be saved: {error.strerror or error}", _UNCHANGED) from None


def make_private_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing, for this user alone.

    Raises:
        OSError: A folder cannot be created.
    """
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)


def _target(path: Path) -> Path:
    """Return the file itself: the target of a link, or the path.

    Raises:
        ConfigError: The link leads nowhere, or to itself.
    """
    if not os.path.islink(path):
        return path
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        raise ConfigError(str(path), "is a link to a file that does not exist", "remove the link") from None
    except OSError as error:
        raise ConfigError(str(path), f"is a link that cannot be followed: {error.strerror}") from None


def _edit(
    target: Path,
    change: Callable[[bytes | None, os.stat_result | None], bytes | None],
    limit: int,
    shared: bool,
) -> bool:
    content, status = read_bytes(target, limit) if os.path.lexists(target) else (None, None)
    if status is not None and _POSIX and os.geteuid() not in (0, status.st_uid):
        raise ConfigError(str(target), f"belongs to user {status.st_uid}, not to you")
    data = change(content, status)
    if data is None:
        return False
    if len(data) > limit:
        raise ConfigError(str(target), f"would become larger than {limit:,} bytes", _UNCHANGED)
    _replace(target, data, status, shared)
    return True


def _replace(target: Path, data: bytes, old: os.stat_result | None, shared: bool) -> None:
    import tempfile

    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)  # mode 0600
    try:
        try:
            if old is not None:
                _keep_access(descriptor, old)
            elif shared and _POSIX:
                os.fchmod(descriptor, 0o666 & ~_umask())
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def _umask() -> int:
    """Return the user's umask; the system returns it only when a process sets another."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _keep_access(descriptor: int, old: os.stat_result) -> None:
    """Give the new file the owner and mode of the old one; where that is not allowed, no one gains access."""
    if not _POSIX:
        return
    mode, new = stat.S_IMODE(old.st_mode) & 0o777, os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            mode &= ~stat.S_IRWXG  # the group is another one
    os.fchmod(descriptor, mode)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = os.write(descriptor, rest)
        if not written:
            raise OSError(errno.EIO, "nothing more can be written")
        rest = rest[written:]


def _sync_folder(folder: Path) -> None:
    """Write the new name to the disk too. The file has its new content already, so this cannot fail the change."""
    if not _POSIX:
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote. Only for the holder of the lock."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.tmp")
    with os.scandir(target.parent) as entries:
        names = [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    for name in names:
        with suppress(OSError):
            os.unlink(name)


@contextmanager
def _locked(target: Path, path: Path) -> Generator[None]:
    """Keep other processes and threads of ours from a file, by locking another file.

    Raises:
        ConfigError: Another process has held the lock for too long.
    """
    # Reading a configuration does not need it, and it takes longer to import than a configuration to read.
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=LOCK_TIMEOUT, mode=0o600)
    try:
        lock.acquire(poll_interval=_POLL)
    except Timeout:
        problem = f"{_holder(path)} has been changing it for {LOCK_TIMEOUT:g} seconds"
        raise ConfigError(str(target), problem, _UNCHANGED) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        problem = f"cannot be saved: {path} cannot be locked: {error.strerror}"
        raise ConfigError(str(target), problem, f"{_UNCHANGED}; {_LOCKLESS}") from None
    try:
        if type(lock) is FileLock:  # where files cannot be locked, filelock uses the file's existence and content
            _sign(path)
        yield
    finally:
        lock.release()


def _sign(path: Path) -> None:
    """Write our process id into the lock file, for the error messages of those who wait. Nothing depends on it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0))
        try:
            if _POSIX and os.geteuid() == 0:  # the folder's owner must be able to lock it next time
                folder = path.parent.stat()
                os.fchown(descriptor, folder.st_uid, folder.st_gid)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        finally:
            os.close(descriptor)


def _holder(path: Path) -> str:
    with suppress(ConfigError, ValueError):
        return f"process {int(read_bytes(path, 32)[0])}"
    return "another process"
