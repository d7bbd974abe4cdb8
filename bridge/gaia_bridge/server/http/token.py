"""The bearer token of `--auth`: one file, readable by its owner alone, made once and kept.

Editors read the token from their own configuration, so it must survive a restart. The file is published complete and
under its final name in one step: two bridges that start together end with the same token.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import re
import secrets
import stat
from pathlib import Path

from gaia_bridge.config.file_editor import make_private_folder
from gaia_bridge.config.paths import home_folder
from gaia_bridge.errors import ConfigError

TOKEN_BYTES = 32
"""256 bits from the system's generator: guessing is hopeless, so attempts need not be counted."""
MIN_LENGTH = 32
"""Characters that a token which somebody wrote by hand must have."""
MAX_LENGTH = 4096
"""Bytes that are read of the file: a token that cannot fit into a header is a mistake."""
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_POSIX = os.name == "posix"
_MADE_ANEW = "remove it, and a new one is made"


def load_or_create_token(path: Path | None = None) -> tuple[str, Path]:
    """Return the bearer token, made and stored on the first call; and its file (to be shown; the token never is).

    Args:
        path: The file; `~/.gaia/bridge-token` if not given.

    Raises:
        ConfigError: The file, or the folder it is in, is open to other users, or is no usable token file; or there is
            no home folder.
    """
    try:
        path = path or home_folder() / ".gaia" / "bridge-token"
    except RuntimeError:
        raise ConfigError("the token file", "there is no home folder to keep it in", "set HOME") from None
    try:
        try:
            return _read(path), path
        except FileNotFoundError:
            _create(path)
        return _read(path), path
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be used as the token file: {error.strerror}", "name another file, or remove it"
        ) from None


def token_proof(token: str, challenge: str, host: str) -> str:
    """Return the answer to a challenge that proves that we know the token, and from which nobody can derive it.

    Args:
        host: The `Host` that was asked: the answer is worth nothing at another address.
    """
    text = "\n".join(("gaia-bridge health", challenge, host.lower()))
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def _read(path: Path) -> str:
    """Return the token in the file; a file that others could write or read makes the token worthless."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise ConfigError(str(path), "a symbolic link; expected a file", _MADE_ANEW) from None
        raise
    try:
        _check_private(path, os.fstat(descriptor))
        content = os.read(descriptor, MAX_LENGTH).strip()
    finally:
        os.close(descriptor)
    if len(content) < MIN_LENGTH or not _TOKEN.fullmatch(content):
        raise ConfigError(
            str(path),
            f"holds no token: expected one line of at least {MIN_LENGTH} letters, digits or - . _ ~ + /",
            _MADE_ANEW,
        )
    return content.decode("ascii")


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(str(path), "not a regular file", _MADE_ANEW)
    if not _POSIX:
        return
    if status.st_uid != os.geteuid():
        raise ConfigError(str(path), f"belongs to user {status.st_uid}, not to you", "remove it, or name another file")
    if status.st_mode & 0o077:
        raise ConfigError(
            str(path),
            f"open to other users (mode {stat.S_IMODE(status.st_mode):04o}, expected 0600)",
            "others may know the token: remove the file, and a new one is made",
        )


def _create(path: Path) -> None:
    """Store a new token, unless another process was quicker."""
    import tempfile

    folder = path.parent
    make_private_folder(folder)
    mode = folder.stat().st_mode
    if _POSIX and mode & 0o022 and not mode & stat.S_ISVTX:
        raise ConfigError(
            str(folder),
            f"other users can put files there (mode {stat.S_IMODE(mode):04o}, expected 0700)",
            f"run: chmod 700 {folder}",
        )
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=folder)  # mode 0600, whatever the umask
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # unlike a rename, this never replaces what is there
    finally:
        os.unlink(temporary)
