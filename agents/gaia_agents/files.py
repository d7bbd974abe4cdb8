"""Reading files that anybody may have put there, and writing them whole: regular files only, of limited size.

Standard library only, and little of it: the helper process imports this too (see `gaia_agents.isolation`).
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import stat
from collections.abc import Generator
from typing import NamedTuple

__all__ = [
    "FileTooLargeError",
    "NotARegularFileError",
    "Text",
    "decode",
    "folder_of",
    "lines_of",
    "read_below",
    "read_regular",
    "write_regular",
]

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Never follow a link in the last component; never wait for the other end of a pipe."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
_SNIFFED_BYTES = 8_000
"""Where a NUL byte makes a file binary: what git looks at."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""How file systems say that they have no hard links."""


class NotARegularFileError(OSError):
    """A folder, pipe, socket or device where a file was expected."""


class FileTooLargeError(OSError):
    """More bytes than the reader allows."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size:,} bytes; at most {limit:,} are read")
        self.size = size
        self.limit = limit


def read_regular(path: str, limit: int, *, folder: int | None = None) -> bytes:
    """Read a whole file.

    Args:
        path: The file, relative to `folder`.
        limit: Bytes that it may have.
        folder: File descriptor of a folder; the current one by default.

    Raises:
        NotARegularFileError: It is something else.
        FileTooLargeError: It has more bytes.
        OSError: It is missing, a link, or not readable.
    """
    descriptor = os.open(path, _FLAGS, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotARegularFileError("not a regular file")
        if status.st_size > limit:
            raise FileTooLargeError(status.st_size, limit)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise FileTooLargeError(len(data), limit)
    return data


def read_below(root: str, path: str, limit: int) -> bytes:
    """Read a whole file below a folder, following no link on the way.

    Args:
        root: The folder.
        path: The file, from `root`, with `/`.
        limit: Bytes that it may have.

    Raises:
        OSError: As `read_regular`, or something on the way is no folder.
    """
    with folder_of(root, path) as folder:
        return read_regular(path.rpartition("/")[2], limit, folder=folder)


@contextlib.contextmanager
def folder_of(root: str, path: str, *, create: bool = False) -> Generator[int, None, None]:
    """Open the folder that holds `path`, one component at a time and following no link, as a file descriptor.

    Args:
        root: The folder to start at.
        path: A path from `root`, with `/`.
        create: Whether to make what is missing.

    Raises:
        OSError: Something on the way is missing, or no folder.
    """
    folder = os.open(root, _FOLDER_FLAGS)
    try:
        for part in path.split("/")[:-1]:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


class Text(NamedTuple):
    """The text of a file."""

    value: str
    encoding: str
    """`utf-8`, `utf-8-sig` or `utf-16`."""
    lossy: bool = False
    """Whether bytes that are no valid text were replaced by U+FFFD."""


def decode(data: bytes) -> Text | None:
    """Return the text in `data`, or `None` if it is binary: a NUL near its beginning and no UTF-16 byte order mark."""
    encoding = "utf-8"
    if data.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in data[:_SNIFFED_BYTES]:
        return None
    try:
        return Text(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        return Text(data.decode(encoding, "replace"), encoding, lossy=True)


def lines_of(text: str) -> list[str]:
    """Return the lines of `text` as an editor numbers them: ended by LF or CRLF, which are left out."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def write_regular(folder: int, name: str, data: bytes, *, overwrite: bool) -> bool:
    """Write a file in one step: others see the old content or the new, never a part.

    Args:
        folder: File descriptor of the folder.
        name: The file's name in it.
        data: The whole content.
        overwrite: Whether an existing regular file may be replaced; it keeps its permissions.

    Returns:
        Whether the file is new.

    Raises:
        FileExistsError: It exists, and `overwrite` is not set.
        OSError: It cannot be written.
    """
    mode = _mode_of(folder, name)
    if mode is not None and not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    temporary = f".{os.urandom(8).hex()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
        if mode is None and _link(folder, temporary, name):
            return True
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return mode is None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def _link(folder: int, temporary: str, name: str) -> bool:
    """Give the new file its name unless somebody was faster; false where the file system has no hard links."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def _mode_of(folder: int, name: str) -> int | None:
    """Return the permissions of an existing regular file; `None` if there is nothing."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "something that is no regular file is there", name)
    return stat.S_IMODE(status.st_mode)
